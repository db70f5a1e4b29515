//! The errors of a turn.

use std::time::Duration;

use crate::agent::quota::QuotaParked;
use crate::agent::transcript::TranscriptError;
use crate::agent::transcript::hygiene::HygieneError;
use crate::error::{Explain, KERNEL_LOG_HINT, Kind, is_of_disk};
use crate::id::{AgentId, ModelRef, SessionKey};
use crate::provider::ProviderError;
use crate::runtime::{PauseReason, RuntimeError};

/// The error that ended a turn. Everything that the turn did before it is committed, and the session can go on.
#[derive(Debug, thiserror::Error)]
pub enum TurnError {
    #[error("there is no agent {0}")]
    UnknownAgent(AgentId),
    /// The session belongs to another agent.
    #[error("session {session} does not belong to agent {agent}")]
    WrongAgent {
        /// The agent of the request.
        agent: AgentId,
        session: SessionKey,
    },
    /// The operation exists only for agents on another runtime.
    #[error("agent {agent} runs on {runtime}, and this is only for agents that run on native")]
    WrongRuntime {
        agent: AgentId,
        /// The agent's runtime.
        runtime: String,
    },
    /// The program that runs the agent's turns did not finish this one.
    #[error(transparent)]
    Runtime(RuntimeError),
    /// Neither the agent nor the defaults name a model.
    #[error("agent {0} has no model")]
    NoModel(AgentId),
    /// The input is empty or does not end with a user's message.
    #[error("the input of a turn must end with a user's message")]
    NoInput,
    /// The client's results are not those of the calls that are pending.
    #[error("the results can't be taken: {0}")]
    NotPending(String),
    /// The client demands a call, and the model made none.
    #[error("the model answered without a call of a tool, although tool_choice demands one")]
    NoCall,
    #[error("there is no session {0}")]
    NoSession(SessionKey),
    #[error("session {0} is closed")]
    Closed(SessionKey),
    #[error("another turn of session {0} is running")]
    Busy(SessionKey),
    /// The input alone is larger than the model's context. Clients recognise this error by its first words, which are
    /// OpenAI's.
    #[error(
        "This model's maximum context length is {window} tokens. However, the input has about {tokens} tokens, and {room} are \
         left for it beside the prompt, the tools and the answer ({model})"
    )]
    TooLong {
        /// Estimated tokens of the input.
        tokens: u64,
        /// The model's context window in tokens.
        window: u64,
        /// Tokens left for the input after the prompt, the tools and the answer.
        room: u64,
        model: ModelRef,
    },
    /// The provider says that the request is larger than the model's context, even after flock made all the room it
    /// could.
    #[error(
        "This model's maximum context length is {window} tokens. However, the request does not fit into it ({error})"
    )]
    Overflow {
        /// The model's context window in tokens: as the provider stated it, otherwise as known of the model.
        window: u64,
        /// The provider's error.
        error: ProviderError,
    },
    #[error(transparent)]
    Provider(#[from] ProviderError),
    /// The conversation could not be made acceptable to the model.
    #[error(transparent)]
    Hygiene(#[from] HygieneError),
    /// The turn needed more model calls than its limit.
    #[error("the turn reached its limit of {0} steps")]
    Steps(u32),
    /// The turn took longer than its limit.
    #[error("the turn reached its limit of {} seconds", .0.as_secs())]
    TimedOut(Duration),
    /// The model made the same call with the same result too often in a row.
    #[error(
        "the turn was ended because it called {tool} with the same arguments and the same result {times} times in a row"
    )]
    Looping {
        tool: String,
        /// Number of repetitions in a row.
        times: u32,
    },
    /// The agent may make no model call at the moment, for instance because its budget is used up.
    #[error(transparent)]
    Paused(#[from] PauseReason),
    /// The quota of every model that could answer is used up. The turn can go on later.
    #[error(transparent)]
    Parked(#[from] QuotaParked),
    /// The caller cancelled the turn.
    #[error("the turn was cancelled")]
    Cancelled,
    /// A tool failed in a way that no result can express.
    #[error("the tool {name} can't go on")]
    Tool {
        name: String,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error(transparent)]
    Prompt(#[from] crate::agent::prompt::PromptError),
    #[error(transparent)]
    Store(#[from] crate::store::StoreError),
    #[error(transparent)]
    Transcript(#[from] TranscriptError),
}

impl From<RuntimeError> for TurnError {
    /// Maps a paused runtime to [`TurnError::Paused`], so that the same condition looks the same on every runtime.
    fn from(error: RuntimeError) -> Self {
        match error {
            RuntimeError::Paused { why, .. } => Self::Paused(why),
            error => Self::Runtime(error),
        }
    }
}

impl TurnError {
    /// Returns `true` if the transcript could not be written because the disk, the quota or the file size limit is
    /// exhausted, or the file system is read-only.
    #[must_use]
    pub(crate) fn is_out_of_space(&self) -> bool {
        // These errors pass once a person makes room, raises a limit or remounts the file system for writing.
        use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
        let Self::Transcript(TranscriptError { source, .. }) = self else { return false };
        matches!(source.kind(), StorageFull | QuotaExceeded | FileTooLarge | ReadOnlyFilesystem)
    }
}

impl Explain for TurnError {
    fn kind(&self) -> Kind {
        match self {
            Self::NoInput
            | Self::NotPending(_)
            | Self::WrongAgent { .. }
            | Self::UnknownAgent(_)
            | Self::TooLong { .. } => Kind::Usage,
            Self::Busy(_) => Kind::Conflict,
            Self::Store(error) => error.kind(),
            Self::Hygiene(error) => error.kind(),
            Self::Runtime(error) => error.kind(),
            _ => Kind::Failed,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::UnknownAgent(_) => Some("flock list".to_owned()),
            Self::NoModel(_) => {
                Some("flock config set agents.defaults.model.primary PROVIDER/MODEL".to_owned())
            }
            Self::NoSession(_) => Some("flock session list".to_owned()),
            Self::Provider(error) => error.hint(),
            Self::Parked(parked) => Some(format!("flock resume --credential {}", parked.name)),
            Self::Store(error) => error.hint(),
            Self::Hygiene(error) => error.hint(),
            Self::Runtime(error) => error.hint(),
            // flock can't explain a failing disk, so it points to the kernel's log.
            Self::Transcript(TranscriptError { source, .. }) if is_of_disk(source) => {
                Some(KERNEL_LOG_HINT.to_owned())
            }
            _ => None,
        }
    }

    fn may_pass(&self) -> bool {
        match self {
            Self::Store(error) => error.may_pass(),
            Self::Transcript(TranscriptError { source, .. }) => is_of_disk(source) || self.is_out_of_space(),
            _ => false,
        }
    }
}
