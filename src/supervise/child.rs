//! A supervised child process.
//!
//! The child leads its own process group. A terminal's Ctrl-C therefore never reaches it, and everything that it starts
//! in the group can be killed with it. The request to stop (SIGTERM) goes to the child alone, which stops its own
//! children in order. When the child has ended, for any reason, the rest of its group is killed.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{ChildStdin, Command, ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use super::env_marker::EnvMarker;
use super::output::ProcessOutput;
use super::state::Exit;
use crate::home::log::Log;
use crate::process::ProcessId;

/// The command that a supervisor runs.
#[derive(Clone, Debug)]
pub struct ChildCommand {
    pub file: PathBuf,
    pub args: Vec<OsString>,
    /// The complete environment, without the mark that identifies supervised processes.
    pub env: Vec<(OsString, OsString)>,
}

/// A child process that runs, or that has ended and was not waited for yet.
#[derive(Debug)]
pub struct Child {
    process: std::process::Child,
    id: ProcessId,
    output: ProcessOutput,
    // When this pipe closes, the child knows that the supervisor is gone: see `parent_watch`.
    _parent_pipe: Option<ChildStdin>,
}

impl Child {
    /// Starts the program with its output going to `log`.
    ///
    /// # Errors
    ///
    /// Returns an error if the pipe or the process can't be created.
    pub fn spawn(program: &ChildCommand, mark: &EnvMarker, log: Log) -> io::Result<Self> {
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
        // If it has ended already, it has no start time. Then no process matches this id, which is correct.
        let id = ProcessId::of(pid).unwrap_or(ProcessId { pid, started: 0 });
        let parent_pipe = process.stdin.take();
        let output = ProcessOutput::follow(reader, log)?;
        Ok(Self { process, id, output, _parent_pipe: parent_pipe })
    }

    /// Returns the identity of the process.
    #[must_use]
    pub const fn id(&self) -> ProcessId {
        self.id
    }

    /// Asks the child to stop, with SIGTERM.
    pub(crate) fn terminate(&self) {
        // The pid can't belong to another process yet, because nobody has waited for the child.
        let _ = kill(Pid::from_raw(self.id.pid), Signal::SIGTERM);
    }

    /// Kills the child and its whole process group.
    pub fn kill(&self) {
        let _ = killpg(Pid::from_raw(self.id.pid), Signal::SIGKILL);
    }

    /// Returns the exit status if the child has ended.
    ///
    /// The rest of its group is killed before the child is waited for: until then, the number of the group can't be
    /// reused.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel does not report the state of the child.
    pub fn ended(&mut self) -> io::Result<Option<Exit>> {
        if !self.has_ended()? {
            return Ok(None);
        }
        self.kill();
        self.process.wait().map(|status| Some(process_exit(status)))
    }

    /// Returns the last line of its output that explains its end, as `tells` judges. Waits briefly for output that is
    /// still in the pipe.
    pub(crate) async fn last_words(&mut self, tells: fn(&str) -> bool) -> Option<String> {
        // A process that left the group may hold the pipe open forever.
        let _ = tokio::time::timeout(Duration::from_millis(500), self.output.ended()).await;
        self.output.last_words(tells)
    }

    fn has_ended(&self) -> io::Result<bool> {
        use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
        // WNOWAIT leaves the child as a zombie, so its group can still be killed by number.
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        Ok(waitid(Id::Pid(Pid::from_raw(self.id.pid)), flags)? != WaitStatus::StillAlive)
    }
}

fn process_exit(status: ExitStatus) -> Exit {
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, Some(signal)) => Exit::Signal(signal),
        // Neither a code nor a signal: this does not happen for a process that has ended.
        (None, None) => Exit::Code(-1),
    }
}
