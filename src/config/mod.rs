//! `config.json`: OpenClaw's format, with flock's own keys below `plugins.entries.flock.config`.
//!
//! [`model`] is the typed view that everything reads, and [`parse`] makes it from the JSON document. Changes are made
//! to the document itself, so that unknown keys and their order survive.

mod agent_list;
pub mod agents;
pub(crate) mod assign;
mod blocks;
pub(crate) mod bridges;
pub mod budgets;
mod choices;
pub(crate) mod cluster;
pub mod docker;
pub mod edit;
mod engine_address;
pub mod engines;
pub mod file;
pub(crate) mod hidden;
pub mod ignored;
pub(crate) mod ineffective;
mod key_line;
pub mod live;
pub(crate) mod mcp_package;
pub(crate) mod mcp_servers;
pub mod model;
pub(crate) mod oidc;
mod origins;
pub mod parse;
mod parse_agent;
pub(crate) mod path;
pub mod policy;
pub mod projects;
mod providers;
pub(crate) mod relocate;
pub(crate) mod restore;
pub mod secret;
pub mod setting;
pub(crate) mod shared;
pub mod starter;
mod storage;
mod stored_keys;
mod telemetry;
mod tool_lists;
pub(crate) mod unassign;
mod view;

use std::path::PathBuf;

use crate::error::{Explain, Kind};
use crate::home::HomeError;
use crate::id::{AgentId, IdError, McpServerName};

pub use agent_list::AgentList;
pub(crate) use budgets::Allowance;
pub use budgets::Budgets;
pub use cluster::{ClusterAddress, ClusterSettings};
pub(crate) use edit::preview;
pub use edit::{complete, edit};
pub use engine_address::{EngineAddress, SshAddress, TlsAddress};
pub use file::read;
pub use live::Live;
pub use mcp_package::{McpPackage, PackageSource};
pub use mcp_servers::{McpRemote, McpServer};
pub use model::{
    Agent, Api, ApprovalSettings, Autonomy, BlobSettings, Bridge, ChannelReaders, CheckpointSettings,
    Compaction, Config, DecidingBridges, DockerSettings, Effort, EgressApprover, EngineSettings,
    KeptGenerations, Network, OidcSettings, OtlpSettings, PlatformName, Retention, Role, S3Settings,
    SandboxMode, SkillsMode, TrustedOrigin,
};
pub(crate) use model::{ModelCost, OpenClawSettings};
pub use policy::CommandPolicy;
pub use projects::{Project, Review};
pub(crate) use providers::is_aws_region;

/// The reasons why the configuration cannot be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file is not JSON.
    #[error("{} is not valid JSON: line {line}, column {column}: {message}", path.display())]
    Syntax {
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// Counted from 1.
        column: usize,
        message: String,
        /// The newest backup that is a usable configuration.
        backup: Option<PathBuf>,
    },
    /// The file is JSON, but not a valid configuration.
    #[error("{}{}: {at} {message}", path.display(), line.map(|line| format!(", line {line}")).unwrap_or_default())]
    Shape {
        path: PathBuf,
        /// The line, from 1, of the key, or of the object that should hold it.
        line: Option<usize>,
        /// Path of the key, as in `agents.list[0].model`.
        at: String,
        /// Continues a sentence that begins with the key, as in `must be a list`.
        message: String,
        /// The newest backup that is a usable configuration.
        backup: Option<PathBuf>,
    },
    /// A change that would have made the configuration invalid. It was not written.
    #[error("the change would make {at} invalid: it {message}")]
    Refused {
        /// Path of the key.
        at: String,
        /// Continues a sentence that begins with the key, as in `is not a list`.
        message: String,
    },
    /// A path that leads nowhere in the document.
    #[error("{path} can't be set: {why}")]
    Blocked { path: String, why: String },
    /// A change that would have added settings that flock does not read. The text has a line for each.
    #[error("{0}")]
    Ignored(String),
    /// A literal key that no secret can hold.
    #[error("{text}")]
    NoPlaceForKey { text: String, hint: String },
    /// The home goes back to an earlier generation meanwhile.
    #[error("the configuration can't be changed while a rollback is in progress")]
    RollingBack,
    /// The file differs from the one that a person was shown.
    #[error("the configuration has changed since it was shown")]
    Changed,
    #[error("there is no backup {0:?} of the configuration")]
    NoBackup(String),
    /// A backup that is no valid configuration.
    #[error("the backup {name} can't be used: {why}")]
    UnusableBackup { name: String, why: String },
    /// An agent with this id exists already.
    #[error("agent {0} exists already")]
    Exists(AgentId),
    #[error("there is no agent {0}")]
    Unknown(AgentId),
    /// An MCP server with this name exists already.
    #[error("the MCP server {0} exists already")]
    McpServerExists(McpServerName),
    #[error("there is no MCP server {0}")]
    NoMcpServer(McpServerName),
    #[error(transparent)]
    Id(#[from] IdError),
    #[error(transparent)]
    Home(#[from] HomeError),
}

impl Config {
    /// Returns the agent with this id.
    ///
    /// # Errors
    ///
    /// Returns [`ConfigError::Unknown`] if there is none.
    pub(crate) fn require_agent(&self, id: &AgentId) -> Result<&Agent, ConfigError> {
        self.agent(id).ok_or_else(|| ConfigError::Unknown(id.clone()))
    }
}

impl Explain for ConfigError {
    fn kind(&self) -> Kind {
        match self {
            Self::Exists(_)
            | Self::McpServerExists(_)
            | Self::Changed
            | Self::RollingBack
            | Self::UnusableBackup { .. } => Kind::Conflict,
            Self::Refused { .. } | Self::Blocked { .. } | Self::Ignored(_) | Self::NoPlaceForKey { .. } => {
                Kind::Usage
            }
            Self::Syntax { .. }
            | Self::Shape { .. }
            | Self::Unknown(_)
            | Self::NoMcpServer(_)
            | Self::NoBackup(_) => Kind::Failed,
            Self::Id(error) => error.kind(),
            Self::Home(error) => error.kind(),
        }
    }

    fn hint(&self) -> Option<String> {
        // The best help is a backup that works. Without one, the check names everything that is wrong.
        match self {
            Self::Syntax { path, backup: Some(backup), .. }
            | Self::Shape { path, backup: Some(backup), .. } => {
                Some(format!("cp {} {}", backup.display(), path.display()))
            }
            Self::Syntax { .. } | Self::Shape { .. } => Some("flock config validate".to_owned()),
            Self::Refused { .. } | Self::Blocked { .. } | Self::Changed => {
                Some("flock config get".to_owned())
            }
            Self::RollingBack => Some("flock generations".to_owned()),
            Self::Ignored(_) => Some("flock config get plugins.entries.flock.config".to_owned()),
            Self::NoPlaceForKey { hint, .. } => Some(hint.clone()),
            Self::NoBackup(_) | Self::UnusableBackup { .. } => Some("flock config validate".to_owned()),
            Self::Exists(_) | Self::Unknown(_) => Some("flock list".to_owned()),
            Self::McpServerExists(_) | Self::NoMcpServer(_) => Some("flock mcp list".to_owned()),
            Self::Id(error) => error.hint(),
            Self::Home(error) => error.hint(),
        }
    }
}
