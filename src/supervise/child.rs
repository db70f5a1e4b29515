//! One process that runs under a supervisor.
//!
//! It leads a process group of its own, so a terminal's Ctrl-C never reaches it and everything it starts can
//! be ended with it. Who gets which signal: the request to stop (SIGTERM) goes to the process alone, which
//! stops its own children in order; when it has ended, for whatever reason, the rest of its group is killed.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{ChildStdin, Command, ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use super::mark::Mark;
use super::output::Output;
use super::state::Exit;
use crate::home::log::Log;
use crate::process::ProcessId;

/// What is run.
#[derive(Clone, Debug)]
pub struct Program {
    /// The program's file.
    pub file: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// All of its environment but the mark.
    pub env: Vec<(OsString, OsString)>,
}

/// A running process, or one that has ended and whose end has not been taken note of.
#[derive(Debug)]
pub struct Child {
    process: std::process::Child,
    id: ProcessId,
    output: Output,
    // Its end tells the process that the supervisor is gone: see `tether`.
    _tether: Option<ChildStdin>,
}

impl Child {
    /// Starts the program, with its output going to `log`.
    ///
    /// # Errors
    ///
    /// If it can't be started.
    pub fn spawn(program: &Program, mark: &Mark, log: Log) -> io::Result<Self> {
        let (reader, writer) = io::pipe()?;
        let mut process = Command::new(&program.file)
            .args(&program.args)
            .env_clear()
            .envs(program.env.iter().map(|(name, value)| (name, value)))
            .envs([mark.variable()])
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(writer.try_clone()?)
            .stderr(writer)
            .spawn()?;
        let pid = i32::try_from(process.id()).unwrap_or(0);
        // One that has ended already has no start time; nothing will ever match it, which is right.
        let id = ProcessId::of(pid).unwrap_or(ProcessId { pid, started: 0 });
        let tether = process.stdin.take();
        let output = Output::follow(reader, log)?;
        Ok(Self { process, id, output, _tether: tether })
    }

    /// Which process it is.
    #[must_use]
    pub const fn id(&self) -> ProcessId {
        self.id
    }

    /// Asks it to stop.
    pub fn terminate(&self) {
        // The pid is its own until its end is taken note of, also when it has ended already.
        let _ = kill(Pid::from_raw(self.id.pid), Signal::SIGTERM);
    }

    /// Ends it and all of its group.
    pub fn kill(&self) {
        let _ = killpg(Pid::from_raw(self.id.pid), Signal::SIGKILL);
    }

    /// How it ended, if it has. The rest of its group is killed first: as long as nobody has taken note of
    /// the end, the group's number can't belong to anybody else.
    ///
    /// # Errors
    ///
    /// If that can't be found out.
    pub fn ended(&mut self) -> io::Result<Option<Exit>> {
        if !self.has_ended()? {
            return Ok(None);
        }
        self.kill();
        self.process.wait().map(|status| Some(exit(status)))
    }

    /// What it said last that tells why it ended. Waits a moment for output that is still under way.
    pub async fn last_words(&mut self, tells: fn(&str) -> bool) -> Option<String> {
        // A process that left the group may hold the pipe for ever.
        let _ = tokio::time::timeout(Duration::from_millis(500), self.output.ended()).await;
        self.output.last_words(tells)
    }

    fn has_ended(&self) -> io::Result<bool> {
        use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        Ok(waitid(Id::Pid(Pid::from_raw(self.id.pid)), flags)? != WaitStatus::StillAlive)
    }
}

fn exit(status: ExitStatus) -> Exit {
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, Some(signal)) => Exit::Signal(signal),
        (None, None) => Exit::Code(-1),
    }
}
