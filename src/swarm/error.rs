//! The error type of operations on the team.

use crate::error::{Explain, Kind};
use crate::home::HomeError;
use crate::id::{AgentId, ChannelId, HookName, ScheduleName};
use crate::store::StoreError;
use crate::tool::ToolError;

/// A failure of an operation on the team.
#[derive(Debug, thiserror::Error)]
pub enum SwarmError {
    /// The channel does not exist.
    #[error("there is no channel {0}")]
    NoChannel(ChannelId),
    /// A channel with this id exists, perhaps in other letter case.
    #[error("channel {0} exists already")]
    ChannelExists(ChannelId),
    /// The channel is archived and can only be read.
    #[error("channel {0} is archived: it can only be read")]
    Archived(ChannelId),
    /// The agent does not exist.
    #[error("there is no agent {0}")]
    NoAgent(AgentId),
    /// An argument is invalid. The text says why.
    #[error("{0}")]
    Invalid(String),
    /// A token with this name exists.
    #[error("there is a token {0} already")]
    TokenExists(String),
    /// No token has this name, or it was revoked.
    #[error("there is no token {0} that could be revoked")]
    NoToken(String),
    /// Nobody has this name, or the person was removed.
    #[error("there is no person {0}")]
    NoPerson(String),
    /// The schedule does not exist.
    #[error("there is no schedule {0}")]
    NoSchedule(ScheduleName),
    /// A schedule with this name exists.
    #[error("there is a schedule {0} already")]
    ScheduleExists(ScheduleName),
    /// The webhook does not exist.
    #[error("there is no webhook {0}")]
    NoHook(HookName),
    /// A webhook with this name exists.
    #[error("there is a webhook {0} already")]
    HookExists(HookName),
    /// There is no such bridge or link. The text says what is missing.
    #[error("{0}")]
    NoBridge(String),
    /// A client sent two different requests with the same idempotency key.
    #[error("another request was sent under this idempotency key in the last 24 hours")]
    KeyReused,
    /// A rule forbids the operation. The text says which.
    #[error("{0}")]
    Refused(String),
    /// A database operation failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file of the home can't be read or written.
    #[error(transparent)]
    Home(#[from] HomeError),
}

impl Explain for SwarmError {
    fn kind(&self) -> Kind {
        match self {
            Self::ChannelExists(_) | Self::TokenExists(_) | Self::ScheduleExists(_) | Self::HookExists(_) => {
                Kind::Conflict
            }
            // Usage errors are the caller's to fix. The others depend on the team's state.
            Self::Invalid(_) | Self::KeyReused => Kind::Usage,
            Self::NoToken(_)
            | Self::NoPerson(_)
            | Self::NoBridge(_)
            | Self::NoSchedule(_)
            | Self::NoHook(_)
            | Self::NoChannel(_)
            | Self::Archived(_)
            | Self::NoAgent(_)
            | Self::Refused(_) => Kind::Failed,
            Self::Store(error) => error.kind(),
            Self::Home(error) => error.kind(),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::NoChannel(_) => Some("flock channel list".to_owned()),
            Self::ChannelExists(id) => Some(format!("flock channel read {id}")),
            Self::Archived(id) => Some(format!("flock channel reopen {id}")),
            Self::NoAgent(_) => Some("flock list".to_owned()),
            Self::TokenExists(name) => Some(format!("flock token revoke {name}")),
            Self::NoToken(_) => Some("flock token list".to_owned()),
            Self::NoPerson(_) => Some("flock person list".to_owned()),
            Self::NoSchedule(_) => Some("flock schedule list".to_owned()),
            Self::ScheduleExists(name) => Some(format!("flock schedule show {name}")),
            Self::NoHook(_) => Some("flock hook list".to_owned()),
            Self::HookExists(name) => Some(format!("flock hook show {name}")),
            Self::NoBridge(_) => Some("flock bridge list".to_owned()),
            Self::Invalid(_) | Self::KeyReused | Self::Refused(_) => None,
            Self::Store(error) => error.hint(),
            Self::Home(error) => error.hint(),
        }
    }

    fn may_pass(&self) -> bool {
        // Only a fault of the storage can pass by itself.
        matches!(self, Self::Store(error) if error.may_pass())
    }
}

impl From<SwarmError> for ToolError {
    /// Returns the text for a model. It never contains internal details.
    fn from(error: SwarmError) -> Self {
        match error {
            SwarmError::Store(error) => {
                // The details are internal, so they go to the log only.
                tracing::error!(error = crate::error::chain(&error), "a tool could not use the database");
                Self::model("the team's database can't be used now; try again later")
            }
            SwarmError::Home(error) => {
                tracing::error!(
                    error = crate::error::chain(&error),
                    "a tool could not use a file of the home"
                );
                Self::model("a file of flock can't be used now; try again later")
            }
            other => Self::model(other.to_string()),
        }
    }
}
