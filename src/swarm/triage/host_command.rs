//! Runs a command on the host itself, after a person approved exactly this command.

use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::Command;
use tokio_util::sync::CancellationToken;

use super::execution::Execution;
use super::request::TIMEOUT;
use crate::install::step;
use crate::sandbox::helper::output_buffer::OutputBuffer;
use crate::sync::lock;
use crate::tool::safe_text;

/// Maximum number of bytes of output that are kept.
const MAX_OUTPUT: usize = 30 * 1024;
/// Time in which output may still arrive after the command ended and its process group was killed.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// Runs `sh -c command` in the folder and with the environment of its execution. The process group is killed when the
/// command ends, when its time is over, when it is cancelled, when the future is dropped, and when flock ends. Returns
/// exit code and output as one text.
///
/// # Errors
///
/// Returns the reason and the output as text if the command did not start, was stopped, ran out of time, or ended with
/// another code than 0.
pub async fn run(
    command: &str,
    execution: &Execution,
    timeout: Option<u32>,
    cancel: &CancellationToken,
) -> Result<String, String> {
    let limit = Duration::from_secs(timeout.unwrap_or(TIMEOUT).into());
    let (shell, args) = step::watched("/bin/sh".into(), vec!["-c".into(), command.into()]);
    let mut child = Command::new(shell)
        .args(args)
        .current_dir(&execution.cwd)
        .env_clear()
        .envs(&execution.env)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("the command could not be started: {error}"))?;
    // The watcher in the group reads the other end and kills the group when this end closes.
    let _tether = child.stdin.take();
    let group = ProcessGroup(child.id().and_then(|pid| i32::try_from(pid).ok()));
    let kept = Arc::new(Mutex::new(OutputBuffer::new(MAX_OUTPUT)));
    let readers = [
        child.stdout.take().map(|stream| tokio::spawn(read_output(stream, kept.clone()))),
        child.stderr.take().map(|stream| tokio::spawn(read_output(stream, kept.clone()))),
    ];
    let ended = cancel.run_until_cancelled(tokio::time::timeout(limit, child.wait())).await;
    // Processes that the command left in the background were not approved.
    drop(group);
    let drained = async {
        for reader in readers.into_iter().flatten() {
            // A reader that failed has kept what it read before.
            let _ = reader.await;
        }
    };
    // A process that left the group may hold the pipes open, so the wait for the rest is bounded.
    let _ = tokio::time::timeout(DRAIN_TIMEOUT, drained).await;
    let output = lock(&kept).all();
    let text = safe_text::output(&output, MAX_OUTPUT);
    match ended {
        Some(Ok(Ok(status))) if status.success() => Ok(format!("exit code 0\n{text}")),
        Some(Ok(Ok(status))) => Err(format!("{status}\n{text}")),
        Some(Ok(Err(error))) => Err(format!("its end is unknown: {error}\n{text}")),
        None => Err(format!("stopped: an agent was frozen, or the gateway stopped\n{text}")),
        Some(Err(_)) => Err(format!("killed after {} seconds\n{text}", limit.as_secs())),
    }
}

/// A process group that is killed on drop. The watcher stays in the group until then. Without it, the group's number
/// could belong to another group as soon as the command has ended and was waited for.
struct ProcessGroup(Option<i32>);

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // Fails if the group has ended by itself.
            let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
        }
    }
}

async fn read_output(mut stream: impl AsyncRead + Unpin, kept: Arc<Mutex<OutputBuffer>>) {
    let mut piece = vec![0; 16 * 1024];
    while let Ok(length @ 1..) = stream.read(&mut piece).await {
        lock(&kept).push(&piece[..length]);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn execution(folder: &Path) -> Execution {
        let home = crate::home::Home::new(folder.to_owned(), None);
        Execution { cwd: folder.to_string_lossy().into_owned(), ..Execution::new(&home, "r-1") }
    }

    #[tokio::test]
    async fn a_command_gets_only_the_named_environment() {
        let folder = tempfile::tempdir().unwrap();
        let never = CancellationToken::new();
        let execution = execution(folder.path());
        let said = run("env | cut -d= -f1 | sort; pwd; exit 0", &execution, None, &never).await.unwrap();
        let shells_own = ["PWD", "OLDPWD", "SHLVL", "_"];
        for name in said.lines().filter(|line| !line.contains(['/', ' '])) {
            assert!(execution.env.contains_key(name) || shells_own.contains(&name), "{name}");
        }
        assert!(said.contains(&*folder.path().canonicalize().unwrap().to_string_lossy()), "{said}");
    }

    #[tokio::test]
    async fn its_group_has_another_member_until_it_is_killed() {
        let folder = tempfile::tempdir().unwrap();
        let never = CancellationToken::new();
        // Builtins only, because a program that the shell starts is a member of the group, too.
        let script = "for stat in /proc/[0-9]*/stat; do
            read -r pid name state parent group rest < $stat || continue
            [ \"$group\" = $$ ] && [ \"$pid\" != $$ ] && echo watched
        done 2> /dev/null
        read -r line || echo no input";
        let said = run(script, &execution(folder.path()), None, &never).await.unwrap();
        assert_eq!(said, "exit code 0\nwatched\nno input\n");
    }

    #[tokio::test]
    async fn background_processes_are_killed_and_output_is_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let never = CancellationToken::new();
        let execution = execution(folder.path());
        let script = "sleep 1000 & echo $!; yes x | head -c 1000000";
        let said = run(script, &execution, None, &never).await.unwrap();
        assert!(said.len() < MAX_OUTPUT + 200, "{}", said.len());
        let pid: i32 = said.lines().nth(1).unwrap().parse().unwrap();
        let gone = || crate::process::ProcessId::of(pid).is_none();
        while !gone() {
            tokio::task::yield_now().await;
        }
        let late = run("echo begun; sleep 1000", &execution, Some(1), &never).await.unwrap_err();
        assert!(late.starts_with("killed after 1 seconds\nbegun"), "{late}");
        let wrong = run("echo no >&2; exit 3", &execution, None, &never).await.unwrap_err();
        assert!(wrong.contains('3') && wrong.contains("no"), "{wrong}");
    }
}
