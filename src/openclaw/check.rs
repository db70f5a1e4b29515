//! Asks an installed OpenClaw whether it accepts a configuration. Newer versions have a command for that. Older ones
//! report a bad configuration when they are asked for any setting.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use serde::Deserialize;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::Command;

use super::OpenClawError;
use super::derive::ProviderKey;
use super::process::{self, Folders};
use crate::install::step::{self, ProcessGroup};
use crate::process::ProcessId;

/// An installed OpenClaw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OpenClawProgram {
    pub node: PathBuf,
    /// The entry script, `openclaw.mjs`.
    pub entry: PathBuf,
    /// For example `2026.2.9`.
    pub version: String,
}

impl OpenClawProgram {
    /// Returns the name of the version's folder, which identifies the build. Two commits may have the same version.
    #[must_use]
    pub(crate) fn build(&self) -> String {
        let folder = self.entry.parent().and_then(Path::file_name);
        folder.unwrap_or_default().to_string_lossy().into_owned()
    }
}

/// Time limit for one check. A version that was just installed compiles itself first.
const CHECK_TIMEOUT: Duration = Duration::from_secs(180);
/// Maximum number of problems that are reported.
const MAX_PROBLEMS: usize = 5;
/// Maximum number of bytes that are kept of each of stdout and stderr.
const MAX_OUTPUT: u64 = 1 << 20;
/// Time to wait for the outputs to close after the group was killed. A process that left the group may still hold them.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// Checks that the program accepts the configuration in `file`. It runs on a new, empty state folder that is removed
/// afterwards.
///
/// # Errors
///
/// Returns [`OpenClawError::Invalid`] with the reported problems if the program rejects the configuration. Returns
/// [`OpenClawError::Unchecked`] if it can't be started, does not finish within 180 seconds, or fails without naming a
/// problem.
pub(crate) async fn check(
    program: &OpenClawProgram,
    file: &Path,
    keys: &[ProviderKey],
) -> Result<(), OpenClawError> {
    let unchecked = |reason: String| OpenClawError::Unchecked { version: program.version.clone(), reason };
    let folder = file.parent().unwrap_or(Path::new("/"));
    // A check that was killed could not remove its own files.
    remove_stale(folder);
    let state = tempfile::Builder::new()
        .prefix(&name(STATE_PREFIX))
        .tempdir_in(folder)
        .map_err(|error| unchecked(error.to_string()))?;
    let validates = super::schema::ConfigSchema::of(&program.version).validates;
    let args: &[&str] =
        if validates { &["config", "validate", "--json"] } else { &["config", "get", "gateway.mode"] };
    let args = [program.entry.clone().into()].into_iter().chain(args.iter().map(OsString::from));
    // The wrapper kills the whole process group when its stdin closes, so nothing outlives flock.
    let (shell, args) = step::watched(program.node.clone(), args.collect());
    let mut command = Command::new(shell);
    command
        .args(args)
        .env_clear()
        .envs(process::own(program, Folders { config: file, state: state.path() }))
        .envs(process::placeholder_environment("not-the-token", keys))
        .current_dir(state.path());
    let ended = tokio::time::timeout(CHECK_TIMEOUT, run(command)).await;
    let (status, said) = match ended {
        Ok(Ok(ended)) => ended,
        Ok(Err(error)) => return Err(unchecked(format!("{}: {error}", program.node.display()))),
        Err(_) => return Err(unchecked(format!("no answer within {} seconds", CHECK_TIMEOUT.as_secs()))),
    };
    if status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&said);
    let problems = problems(&said);
    if problems.is_empty() {
        let last = said.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("it said nothing");
        return Err(unchecked(format!("{status}: {last}")));
    }
    Err(OpenClawError::Invalid { version: program.version.clone(), problems })
}

/// Runs the command to its end and returns its status and what it wrote, stdout before stderr. Every process that it
/// started is killed when it ends, when the future is dropped, or when flock ends.
async fn run(mut command: Command) -> io::Result<(ExitStatus, Vec<u8>)> {
    command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.kill_on_drop(true).spawn()?;
    // The watcher in the group reads the other end and kills the group when this end closes.
    let _tether = child.stdin.take();
    let group = child.id().map(ProcessGroup::of).transpose()?;
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let (mut said, mut complained) = (Vec::new(), Vec::new());
    let status = {
        let mut heard =
            pin!(async { tokio::join!(read_capped(out, &mut said), read_capped(err, &mut complained)) });
        let mut silent = false;
        let status = loop {
            // Reading goes on while the program runs: a full pipe would block it.
            tokio::select! {
                status = child.wait() => break status?,
                _ = &mut heard, if !silent => silent = true,
            }
        };
        // Kill the group before waiting for the outputs: processes that the program left behind keep them open.
        drop(group);
        if !silent {
            let _ = tokio::time::timeout(DRAIN_TIMEOUT, heard).await;
        }
        status
    };
    said.append(&mut complained);
    Ok((status, said))
}

/// Reads to the end of the stream and keeps the first [`MAX_OUTPUT`] bytes.
async fn read_capped(from: Option<impl AsyncRead + Unpin>, into: &mut Vec<u8>) {
    let Some(mut from) = from else { return };
    let _ = (&mut from).take(MAX_OUTPUT).read_to_end(into).await;
    // The rest is read and dropped, so that the writer never blocks on a full pipe.
    let _ = tokio::io::copy(&mut from, &mut tokio::io::sink()).await;
}

/// Prefix of the files that hold a configuration to be checked.
pub(crate) const CANDIDATE_PREFIX: &str = "candidate-";
/// Prefix of the temporary state folders.
const STATE_PREFIX: &str = ".asked-";

/// Returns a name prefix that contains the current process's id and start time, so that a sweep can tell which files
/// belong to a dead process.
#[must_use]
pub(crate) fn name(kind: &str) -> String {
    let ProcessId { pid, started } = ProcessId::current();
    format!("{kind}{pid}.{started}-")
}

/// Removes the files and folders that killed checks left in `folder`.
fn remove_stale(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let Some(rest) = [CANDIDATE_PREFIX, STATE_PREFIX].iter().find_map(|kind| name.strip_prefix(kind))
        else {
            continue;
        };
        let asker = rest.split_once('-').and_then(|(who, _)| who.replace('.', " ").parse::<ProcessId>().ok());
        if asker.is_none_or(ProcessId::is_alive) {
            continue;
        }
        let path = entry.path();
        // Best effort: what can't be removed now is tried again at the next check.
        let _ = if name.starts_with(STATE_PREFIX) {
            fs_err::remove_dir_all(path)
        } else {
            fs_err::remove_file(path)
        };
    }
}

/// Extracts the problems, each with its place, from the program's output. They come as a JSON report or as lines that
/// begin with "- ".
fn problems(said: &str) -> Vec<String> {
    #[derive(Deserialize)]
    struct Report {
        #[serde(default)]
        issues: Vec<Issue>,
    }
    #[derive(Deserialize)]
    struct Issue {
        #[serde(default)]
        path: String,
        #[serde(default)]
        message: String,
    }
    let report = said.find('{').and_then(|start| {
        // Text before and after the report is allowed: the program also prints warnings and hints.
        let mut values = serde_json::Deserializer::from_str(&said[start..]).into_iter::<Report>();
        values.next()?.ok()
    });
    let mut found: Vec<String> = match report {
        Some(report) => report.issues.iter().map(|one| format!("{}: {}", one.path, one.message)).collect(),
        None => Vec::new(),
    };
    if found.is_empty() {
        // Some versions print the message once as an escaped string, and the same problems again as plain lines.
        let lines = said.replace("\\n", "\n");
        // Some lines are framed with box characters.
        let lines = lines.lines().map(|line| line.trim_matches(|c: char| c.is_whitespace() || c == '│'));
        for problem in lines.filter_map(|line| line.strip_prefix("- ")) {
            if problem.contains(": ") && !found.iter().any(|known| known == problem) {
                found.push(problem.to_owned());
            }
        }
    }
    found.truncate(MAX_PROBLEMS);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let (shell, args) = step::watched("/bin/sh".into(), vec!["-c".into(), script.into()]);
        let mut command = Command::new(shell);
        command.args(args);
        command
    }

    #[tokio::test]
    async fn leftover_processes_are_killed_and_output_is_bounded() {
        let (status, said) = run(shell("sleep 1000 & echo $!; echo wrong >&2; exit 3")).await.unwrap();
        let said = String::from_utf8(said).unwrap();
        let (pid, rest) = said.split_once('\n').unwrap();
        assert_eq!((status.code(), rest), (Some(3), "wrong\n"));
        let left = ProcessId::of(pid.parse().unwrap());
        let end = std::time::Instant::now() + Duration::from_secs(20);
        while left.is_some_and(ProcessId::is_alive) {
            assert!(std::time::Instant::now() < end, "{pid} still runs");
            tokio::task::yield_now().await;
        }
        let (status, said) = run(shell("head -c 3000000 /dev/zero; echo last >&2")).await.unwrap();
        assert!(status.success());
        assert_eq!(u64::try_from(said.len()).unwrap(), MAX_OUTPUT + 5);
    }

    #[test]
    fn files_of_dead_checks_are_removed_and_others_kept() {
        let dir = tempfile::tempdir().unwrap();
        let me = ProcessId::current();
        let dead = format!("{}.{}", me.pid, me.started + 1);
        std::fs::create_dir_all(dir.path().join(format!(".asked-{dead}-x/inner"))).unwrap();
        std::fs::create_dir(dir.path().join(format!("{}x", name(STATE_PREFIX)))).unwrap();
        for file in [
            format!("candidate-{dead}-x.json"),
            format!("{}x.json", name(CANDIDATE_PREFIX)),
            "candidate-x".into(),
        ] {
            std::fs::write(dir.path().join(file), "{}").unwrap();
        }
        remove_stale(dir.path());
        let entries = std::fs::read_dir(dir.path()).unwrap();
        let mut left: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        left.sort();
        let mine = [
            format!("{}x", name(STATE_PREFIX)),
            format!("{}x.json", name(CANDIDATE_PREFIX)),
            "candidate-x".into(),
        ];
        let mut mine = mine.to_vec();
        mine.sort();
        assert_eq!(left, mine);
    }

    #[test]
    fn problems_are_parsed_from_reports_and_framed_text() {
        let report = r#"a warning
{"ok": false, "valid": false, "issues": [{"path": "gateway", "message": "Unrecognized key: \"x\""}]}
Run: something"#;
        assert_eq!(problems(report), ["gateway: Unrecognized key: \"x\""]);
        let framed = "Invalid config at /x.json:\\n- gateway: Unrecognized key: \"x\"\n│  - gateway.x   │\n\
            Config invalid\nProblem:\n  - gateway: Unrecognized key: \"x\"\n  - tools: bad\n";
        assert_eq!(problems(framed), ["gateway: Unrecognized key: \"x\"", "tools: bad"]);
        assert!(problems("TypeError: {x} is not a function\n").is_empty());
        assert!(problems("").is_empty());
    }
}
