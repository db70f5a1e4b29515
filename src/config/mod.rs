//! `config.json`: OpenClaw's format, with flock's own keys below `plugins.entries.flock.config`.
//!
//! [`model`] is the typed view everything reads, [`parse`] makes it from the document. Editing works on the
//! JSON document, so that unknown keys and their order survive.

pub mod agents;
pub mod budgets;
pub mod edit;
pub mod file;
pub mod live;
pub mod model;
pub mod parse;
mod place;
pub mod policy;
pub mod relocate;
pub mod secret;
pub mod setting;
pub mod starter;
pub mod unread;
pub mod unused;

use std::path::PathBuf;

use crate::error::{Explain, Kind};
use crate::home::HomeError;
use crate::id::{AgentId, IdError};

pub use budgets::{Allowance, Budgets};
pub use edit::{complete, edit};
pub use file::read;
pub use live::Live;
pub use model::{
    Agent, Api, Autonomy, ChannelReaders, Compaction, Config, DockerSettings, Effort, EgressAsk, ModelCost,
    Network, OpenClawSettings, Retention, Role, SandboxMode, SkillsMode,
};
pub use policy::CommandPolicy;

/// Why the configuration can't be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// It is not JSON.
    #[error("{} is not valid JSON: line {line}, column {column}: {message}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
        /// What is wrong there.
        message: String,
        /// The newest backup that can be read.
        backup: Option<PathBuf>,
    },
    /// It is JSON, but not a configuration.
    #[error("{}{}: {at} {message}", path.display(), line.map(|line| format!(", line {line}")).unwrap_or_default())]
    Shape {
        /// The file.
        path: PathBuf,
        /// The line, from 1, of the key or of what should hold it.
        line: Option<usize>,
        /// The key, as in `agents.list[0].model`.
        at: String,
        /// What is wrong with it.
        message: String,
        /// The newest backup that can be read.
        backup: Option<PathBuf>,
    },
    /// A change would have made it unusable; it was not written.
    #[error("the change would make {at} invalid: it {message}")]
    Refused {
        /// The key.
        at: String,
        /// What would be wrong with it.
        message: String,
    },
    /// There is such an agent already.
    #[error("agent {0} exists already")]
    Exists(AgentId),
    /// There is no such agent.
    #[error("there is no agent {0}")]
    Unknown(AgentId),
    /// An id is not one.
    #[error(transparent)]
    Id(#[from] IdError),
    /// The home failed.
    #[error(transparent)]
    Home(#[from] HomeError),
}

impl Explain for ConfigError {
    fn kind(&self) -> Kind {
        match self {
            Self::Exists(_) => Kind::Conflict,
            Self::Refused { .. } => Kind::Usage,
            Self::Syntax { .. } | Self::Shape { .. } | Self::Unknown(_) => Kind::Failed,
            Self::Id(error) => error.kind(),
            Self::Home(error) => error.kind(),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Syntax { path, backup: Some(backup), .. }
            | Self::Shape { path, backup: Some(backup), .. } => {
                Some(format!("cp {} {}", backup.display(), path.display()))
            }
            Self::Syntax { .. } | Self::Shape { .. } => Some("flock config validate".to_owned()),
            Self::Refused { .. } => Some("flock config get".to_owned()),
            Self::Exists(_) | Self::Unknown(_) => Some("flock list".to_owned()),
            Self::Id(error) => error.hint(),
            Self::Home(error) => error.hint(),
        }
    }
}
