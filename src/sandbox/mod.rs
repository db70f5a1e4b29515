//! The place where an agent's commands run. [`Sandbox`] is the interface between flock and a container engine. Docker
//! is the only engine behind it today, and no caller depends on which engine it is.

pub(crate) mod advisory;
pub(crate) mod binds;
pub mod containers;
pub mod docker;
pub mod egress;
pub mod engine;
pub mod exec;
mod explain;
pub mod helper;
pub mod image;
pub(crate) mod inspect;
mod listing;
pub mod mount;
pub mod names;
pub(crate) mod probe;
pub mod program_mounts;
pub mod seccomp;
pub(crate) mod spec;
#[cfg(test)]
pub(crate) mod testing;
pub(crate) mod usage;
pub mod volumes;
pub mod workspace;

use std::path::PathBuf;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::id::AgentId;
use crate::provider::BoxFuture;

pub use helper::message::{CommandExit, JobRequest, Output};

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
    /// The whole standard input, which is closed after these bytes.
    pub input: bytes::Bytes,
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

    /// Removes the agent's sandbox. It is not an error if there is none.
    fn remove<'a>(&'a self, agent: &'a AgentId) -> BoxFuture<'a, Result<(), SandboxError>>;

    /// Freezes the agent's sandbox: its processes are suspended, and new calls fail with [`SandboxError::Frozen`] until
    /// [`Sandbox::resume`]. A missing sandbox is not created while the agent is frozen.
    ///
    /// The freeze is remembered by this process only. A caller that wants it to outlive a restart has to repeat it.
    fn pause<'a>(&'a self, agent: &'a AgentId) -> BoxFuture<'a, Result<(), SandboxError>>;

    /// Thaws the agent's sandbox, and its processes continue. A command whose time limit passed while it was frozen is
    /// ended.
    fn resume<'a>(&'a self, agent: &'a AgentId) -> BoxFuture<'a, Result<(), SandboxError>>;
}

/// An error of a sandbox or of its engine.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The agent's configuration turns the sandbox off.
    #[error("agent {0} has no sandbox: its sandbox.mode is \"off\"")]
    Off(AgentId),
    /// No engine answers, or it does not answer in time.
    #[error("the Docker engine at {endpoint} does not answer")]
    Unavailable {
        /// The address that was tried, such as `unix:///var/run/docker.sock`.
        endpoint: String,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The engine's socket refuses the user that runs flock.
    #[error("the Docker engine at {endpoint} refuses this user")]
    Denied {
        /// The address that was tried.
        endpoint: String,
    },
    /// An image is missing and could not be pulled or built.
    #[error("the image {image} is not there")]
    NoImage { image: String },
    /// The engine does not know the OCI runtime that the agent's configuration names.
    #[error("the Docker engine has no runtime {runtime:?}, which is configured for agent {agent}")]
    NoRuntime {
        agent: AgentId,
        /// The runtime's name in `sandbox.docker.runtime`.
        runtime: String,
    },
    /// The sandbox is not confined as its specification demands, so nothing may run in it.
    #[error("the sandbox of {agent} is not confined: {finding}")]
    NotConfined {
        agent: AgentId,
        /// The difference that the inspection found, or the way out that the probe found.
        finding: String,
    },
    /// The configuration or an approval asks for something that no sandbox may have.
    #[error("the sandbox of {agent} may not have {what}")]
    Refused {
        agent: AgentId,
        /// The refused thing, for example `a bind of /var/run/docker.sock`.
        what: String,
        /// `true` if an approval granted it, `false` if the configuration asks for it.
        granted: bool,
    },
    /// The configuration has no agent of this id.
    #[error("there is no agent {0}")]
    Unknown(AgentId),
    /// A container has the expected name but was not made by this home. It is left alone.
    #[error("the container {name} is not of this home")]
    Foreign { name: String },
    /// The agent has no background job of this number.
    #[error("there is no job {0}")]
    NoJob(u32),
    /// The background job ended because its container was replaced by a new one.
    #[error("job {id} ({command}) has ended: its sandbox was made anew, with changed settings")]
    JobEnded {
        id: u32,
        /// The shell text of the job.
        command: String,
    },
    #[error("failed to start the command: {reason}")]
    NotStarted {
        /// The reason, for example `can't enter the folder "/workspace/x"`.
        reason: String,
    },
    /// The agent is frozen, so nothing runs until it is thawed.
    #[error("the sandbox of {0} is frozen")]
    Frozen(AgentId),
    /// The helper inside the sandbox broke the protocol or closed its streams.
    #[error("the sandbox of {agent} stopped answering: {reason}")]
    Lost {
        agent: AgentId,
        /// A description of the broken frame or of the lost connection.
        reason: String,
    },
    #[error("failed to prepare {}", path.display())]
    Host {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("Docker failed to {what}")]
    Engine {
        /// The attempted action, for example `create flock-sbx-coder`. It completes "Docker failed to …".
        what: String,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}
