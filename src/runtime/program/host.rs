//! Runs programs on this machine itself, if a person chose that: as the user who runs flock, in the agent's workspace.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::Stdio;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;

use super::PROGRAMS;
use crate::env::{self, TURN};
use crate::id::AgentId;
use crate::process::subreaper::{self, OrphanCounts, SubreaperReport};
use crate::process::{ProcessId, table};
use crate::sandbox::{OutputChunk, ProgramCommand};

/// Variables of flock's own environment that a program gets besides its own variables: the user, language and time, and
/// access to the network. API keys of providers are left out, because the program asks its models through flock or with
/// its own login.
const PASSED_VARIABLES: [&str; 14] = [
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "PATH",
    "LANG",
    "TZ",
    "TMPDIR",
    "XDG_RUNTIME_DIR",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    "DBUS_SESSION_BUS_ADDRESS",
];

/// Returns `true` if programs on the host run as root.
#[must_use]
pub fn is_root() -> bool {
    nix::unistd::getuid().is_root()
}

/// Returns the command that moves an agent's turns back into its sandbox.
#[must_use]
pub fn off(agent: &AgentId) -> String {
    format!("flock config unset plugins.entries.flock.config.gatewayAgents[{agent}].onHost")
}

/// Returns the environment of a program on the host, without the program's own variables.
#[must_use]
pub fn environment() -> Vec<(OsString, OsString)> {
    let passes = |name: &OsString| name.to_str().is_some_and(is_passed);
    let mut passed: Vec<_> = env::inherited().filter(|(name, _)| passes(name)).collect();
    // The requests to flock's relay and tools must not go through a proxy, which would see their tokens.
    for name in ["NO_PROXY", "no_proxy"] {
        let known = passed.iter_mut().find(|(known, _)| known == name);
        match known {
            Some((_, hosts)) if hosts.is_empty() => hosts.push(NO_PROXY_HOSTS),
            Some((_, hosts)) => {
                hosts.push(",");
                hosts.push(NO_PROXY_HOSTS);
            }
            None => passed.push((name.into(), NO_PROXY_HOSTS.into())),
        }
    }
    passed
}

fn is_passed(name: &str) -> bool {
    PASSED_VARIABLES.contains(&name)
        || env::NETWORK_VARS.contains(&name)
        || name.starts_with("LC_")
        || PROGRAMS.iter().any(|program| program.facts().variables.contains(&name))
}

/// The end of a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunExit {
    /// The exit code, or 128 plus the signal.
    pub code: i32,
    /// The processes that the program left running.
    pub left: OrphanCounts,
}

/// Runs a program to its end, and ends the processes that it leaves. Dropping the future kills the program and
/// everything it has started. `flock` is flock's own program, which runs as the keeper. `home` is the digest of the
/// home for which the program runs.
///
/// # Errors
///
/// Returns an error if the program cannot be started, or its output cannot be read.
pub async fn attend(
    run: &ProgramCommand,
    folder: &Path,
    home: &str,
    flock: &Path,
    heard: &mut (dyn FnMut(OutputChunk<'_>) + Send),
) -> io::Result<RunExit> {
    // The mark is in the environment of every process of the turn. It finds those that left the process tree.
    let mark = format!("{home}.{:016x}", rand::random::<u64>());
    let (own, keepers) = UnixStream::pair()?;
    own.set_nonblocking(true)?;
    let (mut told, mut hand) = tokio::net::UnixStream::from_std(own)?.into_split();
    let mut command = Command::new(flock);
    command.arg0("flock").args(["hold", "--turn", &mark, "--"]).args(&run.command);
    command.current_dir(folder).env_clear().envs(environment());
    command.envs(run.env.iter().map(|(name, value)| (name, value)));
    command.stdin(OwnedFd::from(keepers)).stdout(Stdio::piped()).stderr(Stdio::piped());
    // Ctrl-C in the terminal from which flock was started must not reach the program.
    command.process_group(0);
    // From here on, dropping this function's future ends everything that was started.
    let mut tree = ProcessTree { keeper: None, mark: Some(format!("{}={mark}", TURN.name)) };
    let mut child = command.spawn()?;
    tree.keeper = child.id().and_then(|pid| ProcessId::of(i32::try_from(pid).ok()?));
    // The command holds the keeper's end of the socket. While it is open, the end of the keeper would not be noticed.
    drop(command);
    let (Some(mut out), Some(mut err)) = (child.stdout.take(), child.stderr.take()) else {
        return Err(io::ErrorKind::BrokenPipe.into());
    };
    enlarge_pipe(&out);
    let feed = async {
        // If the keeper has ended, its report says why.
        let _ = hand.write_all(&subreaper::encode_input(&run.input)).await;
        // The sending side stays open for the whole run: its end tells the keeper to give up.
        std::future::pending::<()>().await;
    };
    let read = async {
        let (mut out_bytes, mut err_bytes) = (vec![0; READ_BUFFER], vec![0; READ_BUFFER]);
        let (mut out_open, mut err_open) = (true, true);
        while out_open || err_open {
            tokio::select! {
                read = out.read(&mut out_bytes), if out_open => match read? {
                    0 => out_open = false,
                    read => heard(OutputChunk::Out(&out_bytes[..read])),
                },
                read = err.read(&mut err_bytes), if err_open => match read? {
                    0 => err_open = false,
                    read => heard(OutputChunk::Err(&err_bytes[..read])),
                },
            }
        }
        Ok::<(), io::Error>(())
    };
    let ended = async {
        let status = child.wait().await;
        // A process that the keeper could not end may hold the streams open.
        tokio::time::sleep(DRAIN_TIMEOUT).await;
        status
    };
    let status = tokio::select! {
        status = ended => status?,
        () = feed => child.wait().await?,
        read = read => { read?; child.wait().await? }
    };
    tree.keeper = None;
    let mut report = String::new();
    (&mut told).take(MAX_REPORT).read_to_string(&mut report).await?;
    let left = match SubreaperReport::read(&report) {
        Some(SubreaperReport::Unstarted(number)) => return Err(io::Error::from_raw_os_error(number)),
        Some(SubreaperReport::Left(left)) => {
            tree.mark = None;
            left
        }
        // Somebody has killed the keeper. The processes with the mark are found and ended.
        None => OrphanCounts::default(),
    };
    Ok(RunExit { code: status.code().or_else(|| Some(128 + status.signal()?)).unwrap_or(-1), left })
}

/// Ends the processes that programs of this home left on the host after both flock and the keeper were killed.
pub fn sweep(home: &str) {
    let mark = format!("{}={home}.", TURN.name);
    table::end(|| table::find_by_env(|variable| variable.starts_with(mark.as_bytes())));
}

/// All processes that a program has started. Dropping this kills them. The keeper then ends by itself.
struct ProcessTree {
    keeper: Option<ProcessId>,
    mark: Option<String>,
}

impl Drop for ProcessTree {
    fn drop(&mut self) {
        let Some(mark) = &self.mark else { return };
        table::end(|| {
            // Both searches are needed: by descent while the keeper lives, and by the mark in the environment.
            let held = self.keeper.map(|keeper| table::below(keeper, subreaper::is_supervisor));
            let mut found = held.unwrap_or_default();
            found.extend(table::find_by_env(|variable| variable == mark.as_bytes()));
            found
        });
    }
}

/// Enlarges the pipe of the program's output to the largest size that every user may choose. Gemini CLI exits without a
/// message while its pipe still holds output. If the size cannot be changed, the pipe stays as it is.
fn enlarge_pipe(pipe: &impl std::os::fd::AsFd) {
    const LARGEST: i32 = 1 << 20;
    let _ = nix::fcntl::fcntl(pipe, nix::fcntl::FcntlArg::F_SETPIPE_SZ(LARGEST));
}

/// Hosts that are never asked through a proxy.
const NO_PROXY_HOSTS: &str = "127.0.0.1,localhost";
/// Bytes that are read at once.
const READ_BUFFER: usize = 16 * 1024;
/// Time for which the streams of an ended process are still read.
const DRAIN_TIMEOUT: std::time::Duration = std::time::Duration::from_millis(300);
/// Most bytes of a keeper's report.
const MAX_REPORT: u64 = 256;

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt as _;
    use std::time::Duration;

    use super::*;

    fn sleeper(home: &str) -> std::process::Child {
        let mut command = std::process::Command::new("sleep");
        command.arg("4714").env(TURN.name, format!("{home}.0123")).process_group(0).spawn().unwrap()
    }

    #[tokio::test]
    async fn the_output_pipe_is_enlarged() {
        let mut command = Command::new("head");
        command.args(["-c", "900000", "/dev/zero"]).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        enlarge_pipe(child.stdout.as_ref().unwrap());
        // `wait` closes only the input.
        let status = tokio::time::timeout(Duration::from_secs(20), child.wait()).await.unwrap().unwrap();
        assert!(status.success(), "{status}");
    }

    #[tokio::test]
    async fn only_orphans_of_this_home_are_killed() {
        let (own, other) =
            (format!("{:016x}", rand::random::<u64>()), format!("{:016x}", rand::random::<u64>()));
        let (mut left, mut stays) = (sleeper(&own), sleeper(&other));
        let has_begun = |child: &std::process::Child| {
            fs_err::read(format!("/proc/{}/cmdline", child.id())).is_ok_and(|line| line.starts_with(b"sleep"))
        };
        let begun = async {
            while !has_begun(&left) || !has_begun(&stays) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), begun).await.unwrap();
        sweep(&own);
        left.wait().unwrap();
        assert!(ProcessId::of(i32::try_from(stays.id()).unwrap()).is_some());
        stays.kill().unwrap();
        stays.wait().unwrap();
    }

    #[test]
    fn keys_and_redirecting_variables_are_not_passed_on() {
        for name in [
            "ANTHROPIC_API_KEY",
            "OPENAI_API_KEY",
            "GEMINI_API_KEY",
            "ANTHROPIC_AUTH_TOKEN",
            "ANTHROPIC_BASE_URL",
            "CLAUDE_CODE_OAUTH_TOKEN",
            "NODE_OPTIONS",
            "LD_PRELOAD",
            "FLOCK_HOME",
        ] {
            assert!(!is_passed(name), "{name}");
        }
        assert!(
            is_passed("PATH")
                && PROGRAMS.iter().flat_map(|one| one.facts().variables).all(|name| is_passed(name))
        );
    }
}
