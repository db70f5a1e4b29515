//! Errors of a helper and of the connection to it.

use std::time::Duration;

use super::message::{self, Refusal, Reply};
use crate::error::Explain;
use crate::id::AgentId;
use crate::sandbox::SandboxError;

/// An error of a helper or of the connection to it.
#[derive(Debug, thiserror::Error)]
pub enum HelperError {
    /// The connection is lost. A new one may work.
    #[error("the helper is lost: {0}")]
    Lost(String),
    /// The helper did not answer within this time.
    #[error("the helper did not answer within {} s", .0.as_secs())]
    Silent(Duration),
    /// The helper belongs to another version of flock and speaks this protocol version.
    #[error("the helper speaks protocol {0}, not {version}", version = message::VERSION)]
    Version(u32),
    /// The helper could not start the command or refused to.
    #[error("{0}")]
    Refused(String),
    /// There is no background job of this number.
    #[error("there is no job {0}")]
    NoJob(u32),
    /// The named part of a request exceeds a limit of the protocol.
    #[error("{0} is too long")]
    TooLarge(&'static str),
    /// The sandbox is frozen. The helper carries out the request when it is thawed.
    #[error("the helper is frozen")]
    Frozen,
    /// The helper's answer does not fit the request.
    #[error("the helper's answer does not match the request")]
    Unexpected,
}

impl Explain for HelperError {}

impl HelperError {
    /// Converts a reply that reports a failure. `job` is the number of the job in the request.
    pub(super) fn refused(reply: &Reply, job: u32) -> Self {
        match reply {
            Reply::Refused { why: Refusal::NoJob, .. } => Self::NoJob(job),
            Reply::Refused { why: Refusal::Failed, text, .. } => {
                Self::Refused(String::from_utf8_lossy(text).into_owned())
            }
            _ => Self::Unexpected,
        }
    }

    /// Returns `true` if a new connection could succeed.
    #[must_use]
    pub(crate) fn is_lost(&self) -> bool {
        matches!(self, Self::Lost(_) | Self::Silent(_) | Self::Version(_) | Self::Unexpected)
    }

    /// Converts the error into one of an agent's sandbox.
    #[must_use]
    pub fn of(self, agent: &AgentId) -> SandboxError {
        match self {
            Self::NoJob(id) => SandboxError::NoJob(id),
            Self::Refused(reason) => SandboxError::NotStarted { reason },
            Self::Frozen => SandboxError::Frozen(agent.clone()),
            Self::TooLarge(_) => SandboxError::NotStarted { reason: self.to_string() },
            Self::Lost(_) | Self::Silent(_) | Self::Version(_) | Self::Unexpected => {
                SandboxError::Lost { agent: agent.clone(), reason: self.to_string() }
            }
        }
    }
}
