//! The place where an agent's commands run. [`Sandbox`] is the interface between flock and the container engines behind
//! it. No caller depends on which engine an agent is placed on.

pub(crate) mod advisory;
pub(crate) mod binds;
pub mod check;
pub mod containers;
pub(crate) mod disk_room;
pub mod docker;
pub mod egress;
pub mod engine;
pub(crate) mod engine_check;
mod engine_claim;
pub(crate) mod engine_route;
pub mod engines;
mod error;
pub mod exec;
pub mod helper;
pub mod image;
pub(crate) mod inspect;
pub mod kubernetes;
mod listing;
pub(crate) mod load;
mod making;
pub mod mount;
pub mod names;
pub mod placed_sandbox;
pub mod placement;
mod podman;
pub(crate) mod probe;
pub mod program_mounts;
pub mod project_mount;
pub mod seccomp;
pub(crate) mod spec;
pub mod ssh_tunnel;
#[cfg(test)]
#[path = "../../tests/unit/sandbox.rs"]
pub(crate) mod testing;
pub(crate) mod usage;
pub mod volumes;
mod work_left;
pub mod workspace;
mod workspace_archive;
pub mod workspace_files;
pub(crate) mod workspace_volume;

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::id::{AgentId, EngineName};
use crate::provider::BoxFuture;
use engines::PlannedMove;
use workspace_files::RemoteFiles;

pub use error::SandboxError;
pub use helper::message::{CommandExit, JobRequest, Output};

/// A function that returns `true` if an agent's sandbox has to be frozen.
pub(crate) type FreezeCheck = Arc<dyn Fn(&AgentId) -> bool + Send + Sync>;

/// A command to run in an agent's sandbox.
#[derive(Clone, Debug, Default)]
pub struct Command {
    /// The text that `sh -c` runs.
    pub command: String,
    /// A path below `/workspace`. `None` means `/workspace` itself.
    pub workdir: Option<String>,
    /// Variables added to the sandbox's own environment.
    pub env: Vec<(String, String)>,
    /// The time limit. With `None` a background job has no limit, and any other command gets the caller's default.
    pub timeout: Option<Duration>,
    /// The number of output bytes to keep: half of them from the start of the output, half from its end.
    pub keep: usize,
}

impl Command {
    /// Returns the working folder, which is below `root` unless it is absolute.
    pub(crate) fn folder(&self, root: &str) -> String {
        match self.workdir.as_deref() {
            None | Some("") => root.to_owned(),
            Some(absolute) if absolute.starts_with('/') => absolute.to_owned(),
            Some(relative) => format!("{root}/{relative}"),
        }
    }
}

/// A command that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandOutcome {
    pub end: CommandExit,
    pub output: Output,
    /// The running time.
    pub took: Duration,
}

/// A background job of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackgroundJob {
    /// The job's number, unique during the lifetime of the sandbox.
    pub id: u32,
    /// The shell text of the job.
    pub command: String,
    /// The way the job ended, or `None` while it runs.
    pub end: Option<CommandExit>,
    /// The number of bytes printed so far.
    pub total: u64,
    /// The running time so far, or the total running time of a job that has ended.
    pub took: Duration,
}

/// A program to run in an agent's sandbox without a time limit.
#[derive(Clone, Debug, Default)]
pub struct ProgramCommand {
    pub command: Vec<String>,
    /// Variables added to the sandbox's own environment.
    pub env: Vec<(String, String)>,
    /// The standard input. It is closed after these bytes, unless there is a feed.
    pub input: bytes::Bytes,
    /// More of the standard input, given while the program runs.
    pub feed: Option<ProgramFeed>,
}

/// The rest of a program's standard input, as it is given. The input is closed when the giving end is dropped.
#[derive(Clone, Debug)]
pub struct ProgramFeed(Arc<tokio::sync::Mutex<tokio::sync::mpsc::UnboundedReceiver<bytes::Bytes>>>);

impl ProgramFeed {
    /// Makes a feed, with the end that gives.
    #[must_use]
    pub fn new() -> (tokio::sync::mpsc::UnboundedSender<bytes::Bytes>, Self) {
        let (give, receive) = tokio::sync::mpsc::unbounded_channel();
        (give, Self(Arc::new(tokio::sync::Mutex::new(receive))))
    }

    /// Returns the next bytes, or `None` at the end.
    pub(crate) async fn next(&self) -> Option<bytes::Bytes> {
        self.0.lock().await.recv().await
    }
}

/// A chunk of a program's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputChunk<'a> {
    /// A chunk of standard output.
    Out(&'a [u8]),
    /// A chunk of standard error.
    Err(&'a [u8]),
}

/// The reply to a [`JobRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobReply {
    /// All jobs for `List`, otherwise the one job of the request.
    pub jobs: Vec<BackgroundJob>,
    /// The output for `Poll` and `Log`, otherwise empty.
    pub output: Output,
}

/// The outcome of moving a sandbox to another engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Relocation {
    /// The agent is on this engine now.
    Done(EngineName),
    /// The sandbox stays for now, for this reason.
    Waits(String),
}

/// The container engine's side of running agents' commands.
pub trait Sandbox: Send + Sync {
    /// Makes sure that the agent's sandbox exists, matches its specification and is confined.
    ///
    /// The sandbox is created if it is missing and repaired if it differs from its specification. The future resolves
    /// after a probe inside the sandbox has found it confined.
    fn ensure<'a>(&'a self, agent: &'a AgentId) -> BoxFuture<'a, Result<(), SandboxError>>;

    /// Runs a command and waits for its end.
    fn run<'a>(
        &'a self,
        agent: &'a AgentId,
        command: Command,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<CommandOutcome, SandboxError>>;

    fn spawn<'a>(
        &'a self,
        agent: &'a AgentId,
        command: Command,
    ) -> BoxFuture<'a, Result<BackgroundJob, SandboxError>>;

    /// Lists, reads, writes to or kills background jobs.
    fn jobs<'a>(
        &'a self,
        agent: &'a AgentId,
        request: JobRequest,
    ) -> BoxFuture<'a, Result<JobReply, SandboxError>>;

    /// Runs a program in `/workspace`, waits for its end and returns its exit code. Dropping the future kills the
    /// program and every process it started. The next run of the same agent waits until they are gone.
    fn attend<'a>(
        &'a self,
        _agent: &'a AgentId,
        _run: &'a ProgramCommand,
        _heard: &'a mut (dyn FnMut(OutputChunk<'_>) + Send),
    ) -> BoxFuture<'a, Result<i32, SandboxError>> {
        let reason = "this kind of sandbox runs no agent programs".to_owned();
        Box::pin(async { Err(SandboxError::NotStarted { reason }) })
    }

    /// Returns the access to a workspace that lies beside the sandbox on another machine. If `starts` is set, a sandbox that
    /// is missing is created first. `None` if the workspace is a folder of this machine, or the sandbox does not run.
    fn remote_files<'a>(
        &'a self,
        _agent: &'a AgentId,
        _starts: bool,
    ) -> BoxFuture<'a, Result<Option<RemoteFiles>, SandboxError>> {
        Box::pin(async { Ok(None) })
    }

    /// Removes the agent's sandbox. It is not an error if there is none.
    fn remove<'a>(&'a self, agent: &'a AgentId) -> BoxFuture<'a, Result<(), SandboxError>>;

    /// Moves the agent's sandbox to another engine, if nothing runs in it. Its workspace stays where it is.
    fn relocate<'a>(&'a self, planned: &'a PlannedMove) -> BoxFuture<'a, Result<Relocation, SandboxError>> {
        Box::pin(
            async move { Ok(Relocation::Waits(format!("{} has no sandbox that can move", planned.agent))) },
        )
    }

    /// Freezes the agent's sandbox: its processes are suspended, and new calls fail with [`SandboxError::Frozen`] until
    /// [`Sandbox::resume`]. A missing sandbox is not created while the agent is frozen.
    ///
    /// The freeze is remembered by this process only. A caller that wants it to outlive a restart has to repeat it.
    fn pause<'a>(&'a self, agent: &'a AgentId) -> BoxFuture<'a, Result<(), SandboxError>>;

    /// Thaws the agent's sandbox, and its processes continue. A command whose time limit passed while it was frozen is
    /// ended.
    fn resume<'a>(&'a self, agent: &'a AgentId) -> BoxFuture<'a, Result<(), SandboxError>>;
}
