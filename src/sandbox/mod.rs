//! Where an agent's commands run. [`Sandbox`] is the seam: Docker is behind it today, other engines later,
//! and no caller knows which.

pub mod advisory;
pub mod binds;
pub mod docker;
pub mod egress;
pub mod engine;
pub mod exec;
mod explain;
pub mod fitting;
pub mod helper;
pub mod image;
pub mod inspect;
mod listing;
pub mod mount;
pub mod names;
pub mod owned;
pub mod policy;
pub mod probe;
pub mod seccomp;
pub mod spec;
#[cfg(test)]
mod testing;
pub mod usage;
pub mod volumes;
pub mod workspace;

use std::path::PathBuf;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::id::AgentId;
use crate::provider::BoxFuture;

/// A command to run in an agent's sandbox.
#[derive(Clone, Debug, Default)]
pub struct Command {
    /// Run by `sh -c`.
    pub command: String,
    /// Below `/workspace`; `/workspace` itself where absent.
    pub workdir: Option<String>,
    /// On top of the sandbox's own environment.
    pub env: Vec<(String, String)>,
    /// How long it may run. Background jobs have no limit where absent; others get the caller's default.
    pub timeout: Option<Duration>,
    /// How much output is kept, in bytes: the first half and the last half.
    pub keep: usize,
}

/// Output of a command, bounded: what did not fit is counted, not kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// The first bytes of stdout and stderr, in the order they came.
    pub head: Vec<u8>,
    /// The last bytes, where more came than the head holds.
    pub tail: Vec<u8>,
    /// All bytes that came. `total - head - tail` were dropped between the two.
    pub total: u64,
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By itself, with this code.
    Exited(i32),
    /// By this signal.
    Signalled(i32),
    /// It ran out of time and was killed with all it had started.
    TimedOut,
    /// The caller gave up; it was killed with all it had started.
    Cancelled,
}

/// A command that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// How.
    pub end: End,
    /// What it printed.
    pub output: Output,
    /// How long it ran.
    pub took: Duration,
}

/// A background job of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Its id, unique in the sandbox as long as that lives.
    pub id: u32,
    /// What it runs.
    pub command: String,
    /// How it ended; `None` while it runs.
    pub end: Option<End>,
    /// Bytes it has printed.
    pub total: u64,
    /// How long it has run, or ran.
    pub took: Duration,
}

/// A program to run in an agent's sandbox for as long as it likes.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// On top of the sandbox's own environment.
    pub env: Vec<(String, String)>,
    /// Its standard input, which ends with it.
    pub input: bytes::Bytes,
}

/// A piece of what a program prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// To its standard output.
    Out(&'a [u8]),
    /// To its standard error.
    Err(&'a [u8]),
}

/// What can be done with background jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobRequest {
    /// All of them.
    List,
    /// One job and what it printed since the last poll.
    Poll(u32),
    /// One job and the output that is kept of it.
    Log(u32),
    /// Write to its standard input.
    Write(u32, Vec<u8>),
    /// End it and all it started.
    Kill(u32),
}

/// What came of a [`JobRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobReply {
    /// The jobs asked for; for `List` all of them, else one.
    pub jobs: Vec<Job>,
    /// Output, for `Poll` and `Log`.
    pub output: Output,
}

/// Where agents' commands run.
pub trait Sandbox: Send + Sync {
    /// Makes the agent's sandbox if it is not there, mends it if it differs from its specification, and
    /// returns once a probe inside has found it confined.
    fn ensure<'a>(&'a self, agent: &'a AgentId) -> BoxFuture<'a, Result<(), SandboxError>>;

    /// Runs a command to its end.
    fn run<'a>(
        &'a self,
        agent: &'a AgentId,
        command: Command,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Outcome, SandboxError>>;

    /// Starts a background job.
    fn spawn<'a>(&'a self, agent: &'a AgentId, command: Command) -> BoxFuture<'a, Result<Job, SandboxError>>;

    /// Asks about background jobs.
    fn jobs<'a>(
        &'a self,
        agent: &'a AgentId,
        request: JobRequest,
    ) -> BoxFuture<'a, Result<JobReply, SandboxError>>;

    /// Runs a program to its end, in `/workspace`, and gives its exit code. Dropping the future ends it with all it has
    /// started; another run of the same agent waits for that.
    fn attend<'a>(
        &'a self,
        _agent: &'a AgentId,
        _run: &'a Run,
        _heard: &'a mut (dyn FnMut(Piece<'_>) + Send),
    ) -> BoxFuture<'a, Result<i32, SandboxError>> {
        let reason = "this kind of sandbox runs no agent programs".to_owned();
        Box::pin(async { Err(SandboxError::NotStarted { reason }) })
    }

    /// Removes the agent's sandbox; nothing to remove is fine.
    fn remove<'a>(&'a self, agent: &'a AgentId) -> BoxFuture<'a, Result<(), SandboxError>>;

    /// Freezes the agent's sandbox: what runs in it stands still, and new calls fail with
    /// [`SandboxError::Frozen`] until [`Sandbox::resume`]. A sandbox that is not there is not made meanwhile.
    /// It holds for this process; who wants more does it again after a restart.
    fn pause<'a>(&'a self, agent: &'a AgentId) -> BoxFuture<'a, Result<(), SandboxError>>;

    /// Thaws it: what stood still goes on. A command whose time ran out meanwhile is ended.
    fn resume<'a>(&'a self, agent: &'a AgentId) -> BoxFuture<'a, Result<(), SandboxError>>;

    /// Freezes all sandboxes at once, those of later agents too.
    fn pause_all(&self) -> BoxFuture<'_, Result<(), SandboxError>>;

    /// Thaws all, those that were frozen one by one too.
    fn resume_all(&self) -> BoxFuture<'_, Result<(), SandboxError>>;
}

/// Why a sandbox did not do its work.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The agent has no sandbox by its configuration.
    #[error("agent {0} has no sandbox: its sandbox.mode is \"off\"")]
    Off(AgentId),
    /// No engine answers.
    #[error("the Docker engine at {endpoint} does not answer")]
    Unavailable {
        /// Where it was looked for.
        endpoint: String,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The engine refuses this user.
    #[error("the Docker engine at {endpoint} refuses this user")]
    Denied {
        /// Where it is.
        endpoint: String,
    },
    /// An image is not there and can't be had.
    #[error("the image {image} is not there")]
    NoImage {
        /// Its name.
        image: String,
    },
    /// The engine does not know the runtime that was chosen.
    #[error("the Docker engine knows no runtime {runtime:?}, which agent {agent} is to be run by")]
    NoRuntime {
        /// Whose.
        agent: AgentId,
        /// Its name.
        runtime: String,
    },
    /// The sandbox is not as confined as it must be: it refuses to run anything.
    #[error("the sandbox of {agent} is not confined: {finding}")]
    NotConfined {
        /// Whose.
        agent: AgentId,
        /// What the inspection or the probe found.
        finding: String,
    },
    /// The configuration asks for what no sandbox may have.
    #[error("the sandbox of {agent} may not have {what}")]
    Refused {
        /// Whose.
        agent: AgentId,
        /// As in `a bind of /var/run/docker.sock`.
        what: String,
        /// Whether it is something that it asked for and was granted.
        granted: bool,
    },
    /// No such agent in the configuration.
    #[error("there is no agent {0}")]
    Unknown(AgentId),
    /// A container of the same name that this home did not make. It is left alone.
    #[error("the container {name} is not of this home")]
    Foreign {
        /// Its name.
        name: String,
    },
    /// No such background job.
    #[error("there is no job {0}")]
    NoJob(u32),
    /// A background job that ended with the container it ran in: another one had to be made.
    #[error("job {id} ({command}) has ended: its sandbox was made anew, with changed settings")]
    JobEnded {
        /// Its id.
        id: u32,
        /// What it ran.
        command: String,
    },
    /// A command could not be started.
    #[error("failed to start the command: {reason}")]
    NotStarted {
        /// As in `can't enter the folder "/workspace/x"`.
        reason: String,
    },
    /// The agent is frozen: nothing runs until it is thawed.
    #[error("the sandbox of {0} is frozen")]
    Frozen(AgentId),
    /// The helper inside broke the protocol or went away.
    #[error("the sandbox of {agent} stopped answering: {reason}")]
    Lost {
        /// Whose.
        agent: AgentId,
        /// What was seen.
        reason: String,
    },
    /// A folder or file of the host could not be prepared.
    #[error("failed to prepare {}", path.display())]
    Host {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The engine answered with an error.
    #[error("Docker failed to {what}")]
    Engine {
        /// As in `create flock-sbx-coder`.
        what: String,
        /// Its answer.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}
