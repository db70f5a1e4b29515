//! Why a helper did not do what it was asked.

use std::time::Duration;

use super::message::{self, Refusal, Reply};
use crate::error::Explain;
use crate::id::AgentId;
use crate::sandbox::SandboxError;

/// Why a helper did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum HelperError {
    /// The connection is gone; a new one may do.
    #[error("the helper is lost: {0}")]
    Lost(String),
    /// It did not say hello.
    #[error("the helper did not answer within {} s", .0.as_secs())]
    Silent(Duration),
    /// It is of another flock.
    #[error("the helper speaks protocol {0}, not {version}", version = message::VERSION)]
    Version(u32),
    /// It could not start the command, or will not.
    #[error("{0}")]
    Refused(String),
    /// No such background job.
    #[error("there is no job {0}")]
    NoJob(u32),
    /// More than the protocol carries.
    #[error("{0} is too long")]
    TooLarge(&'static str),
    /// Its sandbox is frozen: it does what it was told when that is thawed.
    #[error("the helper is frozen")]
    Frozen,
    /// It answered something else than what was asked.
    #[error("the helper gave an answer that does not fit the question")]
    Unexpected,
}

impl Explain for HelperError {}

impl HelperError {
    /// What a reply says that is no success. `job` is the one that was asked about.
    pub(super) fn refused(reply: &Reply, job: u32) -> Self {
        match reply {
            Reply::Refused { why: Refusal::NoJob, .. } => Self::NoJob(job),
            Reply::Refused { why: Refusal::Failed, text, .. } => {
                Self::Refused(String::from_utf8_lossy(text).into_owned())
            }
            _ => Self::Unexpected,
        }
    }

    /// Whether another connection could do better.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        matches!(self, Self::Lost(_) | Self::Silent(_) | Self::Version(_) | Self::Unexpected)
    }

    /// The same for the caller of an agent's sandbox.
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
