//! Running one command of an install, with its output in the build log.
//!
//! The command leads a process group, and a watcher in that group holds one end of a pipe whose other end only flock
//! has: when flock is gone, by Ctrl-C or by `kill -9`, the watcher reads the pipe's end and kills the group. So no
//! build lives on without anybody who waits for it. When the command ends, flock kills what it left of the group.

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

use super::{Event, InstallError};
use crate::home::log::Log;

/// What is run.
#[derive(Clone, Debug)]
pub struct Run<'a> {
    /// For people, as in `npm run build`.
    pub title: &'a str,
    /// The program.
    pub program: &'a Path,
    /// Its arguments.
    pub args: &'a [String],
    /// Where it runs.
    pub folder: &'a Path,
    /// All of its environment.
    pub env: &'a [(OsString, OsString)],
    /// How long it may take.
    pub limit: Duration,
    /// The file of the log, to be named in an error.
    pub log: PathBuf,
}

/// Starts the watcher in the background and becomes the command. Its standard input is flock's end of the pipe; the
/// command itself gets none.
const WITH_WATCHER: &str =
    "exec 3<&0 </dev/null; (read -r gone <&3; kill -9 0) >/dev/null 2>&1 & exec 3<&-; exec \"$@\"";

/// Runs it to its end. What it writes goes to `log`, its lines to `events`. The result is what it wrote last.
///
/// # Errors
///
/// [`InstallError::Step`] with its last lines, if it can't be started, fails, or takes too long.
pub fn run(run: &Run<'_>, log: &mut Log, events: &dyn Fn(Event<'_>)) -> Result<Vec<String>, InstallError> {
    // A log that can't be written must not end a build.
    let _ = log.append(format!("$ {}\n", run.title).as_bytes());
    let fail = |how: String, own: bool, tail: Vec<String>| InstallError::Step {
        command: run.title.to_owned(),
        how,
        own: own && !tail.iter().any(|line| is_of_the_machine(line)),
        tail,
        log: run.log.clone(),
    };
    let mut running =
        spawn(run).map_err(|error| fail(format!("can't be started: {error}"), false, Vec::new()))?;
    let mut tail = VecDeque::with_capacity(TAIL);
    let ended = follow(&mut running, run.limit, &mut |line| {
        let _ = log.append(format!("{line}\n").as_bytes());
        if tail.len() == TAIL {
            tail.pop_front();
        }
        events(Event::Line(line));
        tail.push_back(line.to_owned());
    });
    let tail: Vec<String> = tail.into();
    let (how, own) = match ended {
        Some(status) if status.success() => return Ok(tail),
        Some(status) => (ending(status), status.code().is_some_and(is_an_answer)),
        None => (format!("took longer than {} minutes", run.limit.as_secs() / 60), false),
    };
    let _ = log.append(format!("{} {how}\n", run.title).as_bytes());
    Err(fail(how, own, tail))
}

/// Whether an exit code is what the command says. A shell says with the others that something could not be started, or
/// was ended by a signal.
const fn is_an_answer(code: i32) -> bool {
    matches!(code, 1..=125)
}

/// Whether it says that the disk or the memory is full.
fn is_of_the_machine(line: &str) -> bool {
    let words =
        ["ENOSPC", "No space left on device", "ENOMEM", "Cannot allocate memory", "heap out of memory"];
    words.iter().any(|word| line.contains(word))
}

/// The same command for who starts it otherwise. Its standard input has to be a pipe whose other end only flock has, and
/// it has to lead a process group.
#[must_use]
pub fn watched(program: PathBuf, args: Vec<OsString>) -> (PathBuf, Vec<OsString>) {
    let before = ["-c", WITH_WATCHER, "sh"].map(OsString::from);
    (SHELL.into(), before.into_iter().chain([program.into_os_string()]).chain(args).collect())
}

/// A command that runs, with its watcher.
struct Running {
    group: Pid,
    news: Receiver<News>,
    // Its end is the end of the group.
    _tether: Option<std::process::ChildStdin>,
}

impl Drop for Running {
    fn drop(&mut self) {
        // The watcher is in the group until now, so the group's number can't be anybody else's.
        let _ = killpg(self.group, Signal::SIGKILL);
    }
}

enum News {
    Line(String),
    Silent,
    Ended(ExitStatus),
}

/// Of bounded length: a command that says more than can be written down waits, instead of filling flock's memory.
fn channel() -> (SyncSender<News>, Receiver<News>) {
    mpsc::sync_channel(AHEAD)
}

fn spawn(run: &Run<'_>) -> io::Result<Running> {
    let (reader, writer) = io::pipe()?;
    let mut child = Command::new(SHELL)
        .arg("-c")
        .arg(WITH_WATCHER)
        .arg("sh")
        .arg(run.program)
        .args(run.args)
        .env_clear()
        .envs(run.env.iter().map(|(name, value)| (name, value)))
        .current_dir(run.folder)
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(writer.try_clone()?)
        .stderr(writer)
        .spawn()?;
    let group = Pid::from_raw(i32::try_from(child.id()).map_err(io::Error::other)?);
    let tether = child.stdin.take();
    let (tell, news) = channel();
    let running = Running { group, news, _tether: tether };
    let told = tell.clone();
    std::thread::Builder::new().name("build output".to_owned()).spawn(move || read_lines(reader, &told))?;
    std::thread::Builder::new().name("build end".to_owned()).spawn(move || {
        if let Ok(status) = child.wait() {
            // Nobody listens any more after a time-out.
            let _ = tell.send(News::Ended(status));
        }
    })?;
    Ok(running)
}

/// Hands on every line until the command has ended and its output with it; `None` if the time is over first.
fn follow(running: &mut Running, limit: Duration, line: &mut dyn FnMut(&str)) -> Option<ExitStatus> {
    let mut until = Instant::now() + limit;
    let (mut ended, mut silent) = (None, false);
    while ended.is_none() || !silent {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            // Also where there is always one more line.
            break;
        }
        match running.news.recv_timeout(left) {
            Ok(News::Line(text)) => line(&text),
            Ok(News::Silent) => silent = true,
            Ok(News::Ended(status)) => {
                ended = Some(status);
                // What it left behind may hold the pipe for ever.
                until = until.min(Instant::now() + LAST_WORDS);
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
        }
    }
    ended
}

/// Lines of at most a bounded length; a longer one comes in pieces.
fn read_lines(reader: impl io::Read, tell: &SyncSender<News>) {
    let mut reader = BufReader::new(reader);
    let mut line = Vec::new();
    loop {
        line.clear();
        match reader.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => break,
            Ok(_) => {
                let text = String::from_utf8_lossy(&line);
                let text = text.trim_end_matches(['\n', '\r']);
                if tell.send(News::Line(text.to_owned())).is_err() {
                    break;
                }
            }
        }
    }
    let _ = tell.send(News::Silent);
}

fn ending(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with code {code}"),
        (None, Some(9)) => "was killed (often: the machine ran out of memory)".to_owned(),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

const SHELL: &str = "/bin/sh";
const TAIL: usize = 20;
const LONGEST_LINE: u64 = 4096;
/// How many lines may wait to be written down.
const AHEAD: usize = 1024;
const LAST_WORDS: Duration = Duration::from_secs(1);

#[cfg(test)]
#[path = "step_tests.rs"]
mod tests;
