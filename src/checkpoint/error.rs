//! Errors of checkpoints.

use std::io;
use std::path::{Path, PathBuf};

use crate::agent::transcript::TranscriptError;
use crate::blob::BlobError;
use crate::config::ConfigError;
use crate::error::{Explain, Kind};
use crate::home::HomeError;
use crate::home::beneath::BeneathError;
use crate::home::free_space::RESERVE;
use crate::home::write_fence::CutOff;
use crate::id::{AgentId, ChannelId, IdError};
use crate::sandbox::SandboxError;
use crate::sandbox::workspace_files::WorkspaceError;
use crate::store::StoreError;

/// A failed operation on an agent's checkpoints.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// A file or a lock of the home failed.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// A file of the workspace failed.
    #[error(transparent)]
    Workspace(#[from] BeneathError),
    /// Another gateway may have taken over from this one, so nothing more is written.
    #[error(transparent)]
    CutOff(#[from] CutOff),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A transcript could not be read or written.
    #[error(transparent)]
    Transcript(#[from] TranscriptError),
    /// The store of blobs failed.
    #[error(transparent)]
    Blob(#[from] BlobError),
    /// Another process copies checkpoints of this agent, or brings one here.
    #[error("another process copies the checkpoints of {0}")]
    Copying(AgentId),
    /// The store of blobs has no checkpoint of this agent, or not the one with this number.
    #[error("{place} has no checkpoint{} of {agent}", number.map(|number| format!(" {number}")).unwrap_or_default())]
    NotStored { place: String, agent: AgentId, number: Option<u64> },
    /// A system call failed.
    #[error("failed to {verb} {}", path.display())]
    Io {
        /// The operation, as in `read`.
        verb: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// A stored content is not there or is damaged.
    #[error("the checkpoint's content {} is missing or damaged", path.display())]
    Missing {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The workspace is larger than the limits of a checkpoint.
    #[error("no checkpoint of the files of {agent}: {limit}")]
    Limit {
        agent: AgentId,
        /// The exceeded limit, as in `the workspace has more than 5 GiB`.
        limit: String,
    },
    /// The disk of the workspace has too little room for the files that are restored.
    #[error(
        "the disk of {} has {} MiB free, and restoring the files of {agent} needs up to {} MiB, with {} MiB that stay free: \
         free some space there",
        folder.display(),
        free >> 20,
        needed.div_ceil(1 << 20),
        RESERVE >> 20
    )]
    NoRoom {
        agent: AgentId,
        folder: PathBuf,
        /// In bytes, with those that stay free.
        needed: u64,
        /// In bytes.
        free: u64,
    },
    /// A rewind has begun and could not be completed.
    #[error("the rewind of {agent} has begun and is not finished; it goes on before the agent's next turn")]
    Interrupted {
        agent: AgentId,
        #[source]
        source: Box<Self>,
    },
    /// There is no checkpoint with this number.
    #[error("{agent} has no checkpoint {number}")]
    Unknown { agent: AgentId, number: u64 },
    /// There is no checkpoint at all.
    #[error("{0} has no checkpoint")]
    None(AgentId),
    /// The last rewind of the agent was undone already, or there was none.
    #[error("there is no rewind of {0} to undo")]
    NothingToUndo(AgentId),
    /// The checkpoint has no files, because they could not be kept.
    #[error("checkpoint {number} of {agent} has no files: {reason}")]
    WithoutFiles { agent: AgentId, number: u64, reason: String },
    /// A turn of the agent runs. For one of another gateway: or did so meanwhile, or a rewind is open.
    #[error("{0} is in the middle of a turn")]
    Busy(AgentId),
    /// The workspace was to be given up with an engine that does not have it any more. Nothing was begun.
    #[error("the workspace of {0} is on this machine")]
    NotLost(AgentId),
    /// Another gateway of the group has the agent, or is about to. Nothing was begun.
    #[error("{}", whereabouts(agent, gateway.as_deref()))]
    Elsewhere {
        agent: AgentId,
        /// The gateway that has it, for people.
        gateway: Option<String>,
    },
    /// The agent's sandbox could not be stopped, so its programs may still write.
    #[error("the sandbox of {agent} could not be stopped: {reason}")]
    Sandbox { agent: AgentId, reason: String },
    /// The store no longer has the packages of a checkpoint.
    #[error(
        "the packages that {agent} had at checkpoint {checkpoint}, generation {profile} of its profile, are removed from \
         the store"
    )]
    PackagesGone { agent: AgentId, checkpoint: u64, profile: u32 },
    /// The package store could not be asked or changed.
    #[error("the packages of {agent} can't be set back: {reason}")]
    Packages { agent: AgentId, reason: String },
    /// The files or the conversation changed after the plan was shown.
    #[error("the workspace or the conversations of {0} have changed since the plan was shown")]
    Changed(AgentId),
    /// Somebody else than the agent has changed files that the rewind would change back.
    #[error("{count} files of {agent} were changed outside its turns, and a rewind does not touch them")]
    Foreign { agent: AgentId, count: usize },
    /// Files or sessions of an agent with this id exist.
    #[error("files or sessions of a removed agent {0} still exist")]
    Taken(AgentId),
    /// A channel with this id exists.
    #[error("there is a channel {0} already")]
    ChannelTaken(ChannelId),
    /// No member of the channel is an agent that can be copied.
    #[error("#{0} has no agent that can be copied")]
    NoTeam(ChannelId),
    /// The name of a copy is not an id.
    #[error("a copy can't be named: {0}")]
    Name(#[from] IdError),
    /// The home would have too many agents.
    #[error("the home would have {wanted} agents, and the setting maxAgents allows {limit}")]
    TooMany { wanted: usize, limit: usize },
    /// The configuration could not be changed.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The operation was stopped.
    #[error("stopped")]
    Stopped,
}

impl CheckpointError {
    /// Returns the error of a rewind that was written down and is interrupted by this one.
    pub(super) fn interrupting(self, agent: &AgentId) -> Self {
        Self::Interrupted { agent: agent.clone(), source: Box::new(self) }
    }

    /// Returns a function that adds the operation and the path to an error.
    pub(super) fn io(verb: &'static str, path: &Path) -> impl Fn(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { verb, path: path.clone(), source }
    }
}

/// Says where an agent is that is not at this gateway.
fn whereabouts(agent: &AgentId, gateway: Option<&str>) -> String {
    match gateway {
        Some(gateway) => format!("the gateway {gateway} has {agent}"),
        None => format!("another gateway has {agent}, or is about to take it"),
    }
}

/// Returns the reason why the sandbox that has a workspace on another machine is not ready.
fn unready(error: &BeneathError) -> Option<&SandboxError> {
    let BeneathError::Unreachable { source, .. } = error else { return None };
    match source.downcast_ref::<WorkspaceError>()? {
        WorkspaceError::Sandbox { source, .. } => Some(source),
        WorkspaceError::Folder(_) => None,
    }
}

impl Explain for CheckpointError {
    fn kind(&self) -> Kind {
        match self {
            Self::Home(error) => error.kind(),
            Self::Store(error) => error.kind(),
            Self::Blob(error) => error.kind(),
            Self::NotStored { .. }
            | Self::Unknown { .. }
            | Self::None(_)
            | Self::NothingToUndo(_)
            | Self::WithoutFiles { .. }
            | Self::NoTeam(_)
            | Self::Name(_) => Kind::Usage,
            Self::Busy(_)
            | Self::NotLost(_)
            | Self::Elsewhere { .. }
            | Self::Copying(_)
            | Self::Changed(_)
            | Self::Foreign { .. }
            | Self::PackagesGone { .. }
            | Self::Taken(_)
            | Self::ChannelTaken(_)
            | Self::TooMany { .. } => Kind::Conflict,
            Self::Config(error) => error.kind(),
            Self::Interrupted { source, .. } => source.kind(),
            Self::Workspace(error) => unready(error).map_or(Kind::Failed, SandboxError::kind),
            _ => Kind::Failed,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Home(error) => error.hint(),
            Self::Store(error) => error.hint(),
            Self::Blob(error) => error.hint(),
            Self::Copying(agent) | Self::NotStored { agent, .. } => {
                Some(format!("flock storage list {agent}"))
            }
            Self::Config(error) => error.hint(),
            Self::Taken(agent) => Some(format!("flock remove {agent} --purge")),
            Self::Unknown { agent, .. } | Self::NothingToUndo(agent) | Self::WithoutFiles { agent, .. } => {
                Some(format!("flock checkpoints {agent}"))
            }
            Self::None(agent) => Some(format!("flock checkpoint {agent}")),
            Self::Limit { .. } => {
                Some("flock config set plugins.entries.flock.config.checkpoints.bytes BYTES".to_owned())
            }
            Self::NoRoom { folder, .. } => Some(format!("df -h {}", folder.display())),
            Self::Busy(_) | Self::Elsewhere { .. } => Some("flock status".to_owned()),
            // Whoever looks completes it first.
            Self::Interrupted { agent, source } => {
                source.hint().or_else(|| Some(format!("flock checkpoint {agent}")))
            }
            Self::Workspace(BeneathError::Elsewhere { engine, .. }) => {
                Some(format!("flock engine drain {engine}"))
            }
            Self::Workspace(error @ BeneathError::Unreachable { .. }) => {
                let hint = unready(error).and_then(SandboxError::hint);
                hint.or_else(|| Some("flock engine list".to_owned()))
            }
            Self::ChannelTaken(_) | Self::NoTeam(_) => Some("flock channel list".to_owned()),
            Self::TooMany { wanted, .. } => {
                Some(format!("flock config set plugins.entries.flock.config.maxAgents {wanted}"))
            }
            Self::Changed(agent) => Some(format!("flock rewind {agent}")),
            Self::Foreign { agent, .. } => Some(format!("flock rewind {agent} --keep-others")),
            Self::PackagesGone { agent, .. } | Self::Packages { agent, .. } => {
                Some(format!("flock rewind {agent} --without-packages"))
            }
            Self::Sandbox { .. } | Self::Missing { .. } => Some("flock doctor".to_owned()),
            _ => None,
        }
    }
}
