//! Runs one command of an installation, with its output in the build log.
//!
//! The command leads a process group. A watcher process in that group reads a pipe whose other end only flock holds.
//! When flock ends, by Ctrl-C or by `kill -9`, the watcher reads the end of the pipe and kills the group, so no build
//! continues unattended. When the command ends, flock kills the rest of the group.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use super::{InstallError, InstallEvent};
use crate::home::log::Log;

/// A command to run.
#[derive(Clone, Debug)]
pub(crate) struct StepCommand<'a> {
    /// The command for people, as in `npm run build`.
    pub title: &'a str,
    pub program: &'a Path,
    pub args: &'a [String],
    /// The working folder.
    pub folder: &'a Path,
    /// The complete environment.
    pub env: &'a [(OsString, OsString)],
    /// Time limit.
    pub limit: Duration,
    /// The log file that an error names.
    pub log: PathBuf,
}

/// Shell script that starts the watcher in the background and then becomes the command. Its standard input is flock's
/// end of the pipe. The command itself gets none.
const WITH_WATCHER: &str =
    "exec 3<&0 </dev/null; (read -r gone <&3; kill -9 0) >/dev/null 2>&1 & exec 3<&-; exec \"$@\"";

/// Runs a command to its end. The output goes to `log`, and each line to `events`. Returns the last lines.
///
/// # Errors
///
/// Returns [`InstallError::Step`] with the last lines if the command cannot be started, fails, or takes too long.
pub(crate) fn run(
    run: &StepCommand<'_>,
    log: &mut Log,
    events: &dyn Fn(InstallEvent<'_>),
) -> Result<Vec<String>, InstallError> {
    // A log that cannot be written must not end a build.
    let _ = log.append(format!("$ {}\n", run.title).as_bytes());
    let fail = |how: String, own: bool, tail: Vec<String>| InstallError::Step {
        command: run.title.to_owned(),
        how,
        own: own && !tail.iter().any(|line| is_machine_fault(line)),
        tail,
        log: run.log.clone(),
    };
    // A command that cannot be started says nothing about the built code.
    let mut running =
        spawn(run).map_err(|error| fail(format!("can't be started: {error}"), false, Vec::new()))?;
    let mut tail = VecDeque::with_capacity(TAIL_LINES);
    let ended = wait_for_end(&mut running, run.limit, &mut |line| {
        let _ = log.append(format!("{line}\n").as_bytes());
        if tail.len() == TAIL_LINES {
            tail.pop_front();
        }
        events(InstallEvent::Line(line));
        tail.push_back(line.to_owned());
    });
    let tail: Vec<String> = tail.into();
    let (how, own) = match ended {
        Some(status) if status.success() => return Ok(tail),
        Some(status) => (describe_exit(status), status.code().is_some_and(is_an_answer)),
        None => (format!("took longer than {} minutes", run.limit.as_secs() / 60), false),
    };
    let _ = log.append(format!("{} {how}\n", run.title).as_bytes());
    Err(fail(how, own, tail))
}

/// Returns `true` if an exit code comes from the command itself. A shell uses the higher ones for a command that could
/// not be started or was ended by a signal.
const fn is_an_answer(code: i32) -> bool {
    matches!(code, 1..=125)
}

/// Returns `true` if a line says that the disk or the memory is full.
fn is_machine_fault(line: &str) -> bool {
    let words =
        ["ENOSPC", "No space left on device", "ENOMEM", "Cannot allocate memory", "heap out of memory"];
    words.iter().any(|word| line.contains(word))
}

/// Returns the command with a watcher, for a caller that starts it itself. Its standard input must be a pipe whose
/// other end only flock holds, and it must lead a process group.
#[must_use]
pub(crate) fn watched(program: PathBuf, args: Vec<OsString>) -> (PathBuf, Vec<OsString>) {
    let before = ["-c", WITH_WATCHER, "sh"].map(OsString::from);
    (SHELL.into(), before.into_iter().chain([program.into_os_string()]).chain(args).collect())
}

/// A running command with its watcher.
struct RunningStep {
    _group: ProcessGroup,
    news: Receiver<StepEvent>,
    // Dropping it closes the pipe, which ends the group.
    _tether: Option<std::process::ChildStdin>,
}

/// A process group with a watcher. Dropping it kills every process in it.
pub(crate) struct ProcessGroup(Pid);

impl ProcessGroup {
    /// Returns the group of a child that was started as its leader.
    pub(crate) fn of(child: u32) -> io::Result<Self> {
        Ok(Self(Pid::from_raw(i32::try_from(child).map_err(io::Error::other)?)))
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        // The watcher is a member of the group until now, so the group's id cannot have been reused.
        let _ = killpg(self.0, Signal::SIGKILL);
    }
}

enum StepEvent {
    // A line of output.
    Line(String),
    // The output has ended.
    Silent,
    // The command has ended.
    Ended(ExitStatus),
}

/// Returns a channel of limited length. A command that writes faster than the log waits, instead of filling flock's
/// memory.
fn channel() -> (SyncSender<StepEvent>, Receiver<StepEvent>) {
    mpsc::sync_channel(QUEUED_LINES)
}

fn spawn(run: &StepCommand<'_>) -> io::Result<RunningStep> {
    // Both outputs share one pipe, so the log keeps the order of the lines.
    let (reader, writer) = io::pipe()?;
    let (shell, args) = watched(run.program.to_owned(), run.args.iter().map(OsString::from).collect());
    let mut child = Command::new(shell)
        .args(args)
        .env_clear()
        .envs(run.env.iter().map(|(name, value)| (name, value)))
        .current_dir(run.folder)
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(writer.try_clone()?)
        .stderr(writer)
        .spawn()?;
    let group = ProcessGroup::of(child.id())?;
    let tether = child.stdin.take();
    let (tell, news) = channel();
    let running = RunningStep { _group: group, news, _tether: tether };
    let told = tell.clone();
    std::thread::Builder::new().name("build output".to_owned()).spawn(move || read_lines(reader, &told))?;
    std::thread::Builder::new().name("build end".to_owned()).spawn(move || {
        if let Ok(status) = child.wait() {
            // After a timeout nobody receives this any more.
            let _ = tell.send(StepEvent::Ended(status));
        }
    })?;
    Ok(running)
}

/// Passes on every line until the command and its output have ended. Returns `None` if the time limit comes first.
fn wait_for_end(
    running: &mut RunningStep,
    limit: Duration,
    line: &mut dyn FnMut(&str),
) -> Option<ExitStatus> {
    let mut until = Instant::now() + limit;
    let (mut ended, mut silent) = (None, false);
    while ended.is_none() || !silent {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            // Checked here too, because a command may never stop writing lines.
            break;
        }
        match running.news.recv_timeout(left) {
            Ok(StepEvent::Line(text)) => line(&text),
            Ok(StepEvent::Silent) => silent = true,
            Ok(StepEvent::Ended(status)) => {
                ended = Some(status);
                // A background process of the command may keep the pipe open forever.
                until = until.min(Instant::now() + DRAIN_TIMEOUT);
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
        }
    }
    ended
}

/// Reads lines of limited length. A longer line is passed on in pieces.
fn read_lines(reader: impl io::Read, tell: &SyncSender<StepEvent>) {
    let mut reader = BufReader::new(reader);
    let mut line = Vec::new();
    loop {
        line.clear();
        match reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => break,
            Ok(_) => {
                let text = String::from_utf8_lossy(&line);
                let text = text.trim_end_matches(['\n', '\r']);
                if tell.send(StepEvent::Line(text.to_owned())).is_err() {
                    break;
                }
            }
        }
    }
    let _ = tell.send(StepEvent::Silent);
}

fn describe_exit(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with code {code}"),
        (None, Some(9)) => "was killed (often: the machine ran out of memory)".to_owned(),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

const SHELL: &str = "/bin/sh";
const TAIL_LINES: usize = 20;
const MAX_LINE: u64 = 4096;
/// Number of lines that may wait to be written.
const QUEUED_LINES: usize = 1024;
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

#[cfg(test)]
#[path = "step_tests.rs"]
mod tests;
