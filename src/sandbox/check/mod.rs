//! Checks of a delivered tree. Each command runs in a throw-away sandbox that has the specification of the agent's and
//! nothing of its state: a workspace with just the tree, a user of its own, no network, no relay, no tools. The container
//! is removed when the command has ended, and also if this process dies.
//!
//! Each command gets a sandbox and a workspace of its own. The delivered code runs in every check, so what one check
//! leaves behind must not decide about the next one.

mod container;
mod errand;
mod error;
mod files;
mod leftovers;
mod run;
mod setup;
mod specification;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::provider::BoxFuture;
use crate::sandbox::{CommandExit, Output};

pub(crate) use errand::{Errand, ErrandReport};
pub use error::CheckError;
pub use run::DockerChecks;
pub use specification::CheckSandbox;

/// Folder below the workspace that is the home of a check's user. A setup step that installs for its user installs there.
pub const HOME_FOLDER: &str = ".flock-home";

/// The part of flock that runs checks. Tests replace it.
pub trait CheckRunner: Send + Sync {
    /// Runs the setup step and then each command, and reports how they ended. A command that fails is no error.
    ///
    /// # Errors
    ///
    /// Fails if a sandbox can't be made, is not confined or is lost, and if the tree can't be read or written.
    fn run<'a>(
        &'a self,
        plan: &'a CheckPlan,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<CheckReport, CheckError>>;
}

/// One file of a delivered tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeFile {
    /// The path below the tree. It has no `..`, and no file of the tree lies above it.
    pub path: PathBuf,
    pub kind: TreeFileKind,
    /// The hash of the content in git.
    pub id: String,
}

/// The kinds of files in a tree, which are those of git.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TreeFileKind {
    File,
    Executable,
    /// A symbolic link. Its content is the target.
    Link,
    /// The place of another repository. It becomes an empty folder.
    Submodule,
}

/// A tree that can be written into a folder.
pub trait TreeSource: Send + Sync {
    /// Returns the hash of the tree in git.
    fn id(&self) -> &str;

    /// Returns its files, sorted by path.
    fn files(&self) -> &[TreeFile];

    /// Reads the content of a file, or the target of a link.
    fn read(&self, file: &TreeFile) -> std::io::Result<Vec<u8>>;
}

/// A file that is written for the commands beside the tree, or in place of one of its files. The setup step does not see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtraFile {
    /// The path below the tree. No folder or link of the tree may be there.
    pub path: PathBuf,
    pub content: Vec<u8>,
}

/// A setup step, which runs before the checks and may reach some hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetupStep {
    /// The text that `sh -c` runs.
    pub command: String,
    /// The hosts that it may reach, `HOST[:PORT]`.
    pub egress: Vec<String>,
    /// The files of the tree that it reads. It sees no others. Empty means all of them.
    pub inputs: Vec<String>,
}

/// The limits of one run of checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckLimits {
    /// Time for the setup step.
    pub setup: Duration,
    /// Time for each command.
    pub each: Duration,
    /// Time for all commands together.
    pub all: Duration,
    /// Bytes of output to keep of each command, half from the start and half from the end.
    pub output: usize,
}

/// The tree to check and the way to check it.
pub struct CheckPlan {
    pub tree: Arc<dyn TreeSource>,
    pub sandbox: CheckSandbox,
    pub setup: Option<SetupStep>,
    /// The texts that `sh -c` runs, one after the other.
    pub commands: Vec<String>,
    pub limits: CheckLimits,
    /// Files to write beside the tree or in place of its files.
    pub extra: Vec<ExtraFile>,
    /// Files of the tree that no command has a reason to change. Each command's report names those that it changed.
    pub watched: Vec<PathBuf>,
}

/// The result of a run of checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckReport {
    /// The id of the image.
    pub image: String,
    /// Time of the last probe in Unix milliseconds.
    pub probed_at: i64,
    /// The setup step, if there is one. If it failed, no command ran.
    pub setup: Option<SetupReport>,
    /// One report for each command, in order.
    pub runs: Vec<CommandReport>,
}

/// The result of a setup step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetupReport {
    /// The hash of everything that it reads.
    pub key: String,
    /// The SHA-256 of the archive of its result. Empty if it failed.
    pub result: String,
    /// `true` if the result of an earlier run was used.
    pub cached: bool,
    pub run: CommandReport,
}

/// The result of one command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandReport {
    pub command: String,
    pub end: CheckEnd,
    pub took: Duration,
    /// The SHA-256 of the whole output.
    pub digest: String,
    /// The kept part of the output.
    pub output: Output,
    /// The watched files that are not as they were before.
    pub changed: Vec<PathBuf>,
}

/// The way a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckEnd {
    /// It ended by itself with this exit code.
    Exited(i32),
    /// It reached its time limit, or that of all commands.
    TimedOut,
    /// The caller cancelled it.
    Cancelled,
    /// It was not started, because the setup step failed or no time was left.
    NotRun,
}

impl CheckEnd {
    /// Returns `true` if the command succeeded.
    #[must_use]
    pub fn is_success(self) -> bool {
        self == Self::Exited(0)
    }
}

impl From<CommandExit> for CheckEnd {
    fn from(end: CommandExit) -> Self {
        match end {
            CommandExit::Exited(code) => Self::Exited(code),
            // A shell reports a killed command in this way, and so does the engine.
            CommandExit::Signalled(signal) => Self::Exited(128 + signal),
            CommandExit::TimedOut => Self::TimedOut,
            CommandExit::Cancelled => Self::Cancelled,
        }
    }
}
