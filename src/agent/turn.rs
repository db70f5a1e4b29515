//! The input and the outcome of a turn, and the events in between.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::command::Command;
use super::inbox::Inbox;
use super::oversight::PauseReason;
use super::provenance::Provenance;
use super::transcript::hygiene::HygieneError;
use crate::error::{Explain, KERNEL_LOG_HINT, Kind, is_of_disk};
use crate::id::{AgentId, ModelRef, SessionKey, TurnId};
use crate::provider::{AnswerFormat, Block, Message, ProviderError, Role, Usage};
use crate::runtime::RuntimeError;

/// A request to run one turn of a session.
#[derive(Clone)]
pub struct TurnRequest {
    /// The agent, which must be the session's own.
    pub agent: AgentId,
    /// The session, which is created if it does not exist.
    pub session: SessionKey,
    /// The turn's id, which must be new.
    pub turn: TurnId,
    /// The new messages: for most sessions one user message, for an ephemeral session its whole conversation. The last
    /// message must be a user's.
    pub input: Vec<Message>,
    /// A client's system text. The model reads it as untrusted context beside the input, never as the system prompt.
    pub context: Vec<String>,
    /// flock's own remarks on the input, such as who gets the answer. The model reads them beside the input, under
    /// flock's own mark.
    pub guidance: Vec<String>,
    /// The origin of the input, stored with its last message.
    pub provenance: Option<Provenance>,
    /// A command for the session, which is carried out instead of answering the input. Set it only if a person is known
    /// to have written the input.
    pub command: Option<Command>,
    /// The source of messages that arrive while the turn runs. Without one, nothing is delivered in between.
    pub inbox: Option<Arc<dyn Inbox>>,
    /// The form that the final text must have. Models that support it are held to it; the caller checks the rest.
    pub format: Option<AnswerFormat>,
}

impl std::fmt::Debug for TurnRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Not all fields: the inbox can't be printed.
        f.debug_struct("TurnRequest")
            .field("session", &self.session)
            .field("turn", &self.turn)
            .field("input", &self.input)
            .field("context", &self.context)
            .field("guidance", &self.guidance)
            .field("provenance", &self.provenance)
            .field("command", &self.command)
            .finish_non_exhaustive()
    }
}

impl TurnRequest {
    /// Returns `true` if the last message is a user's and has text or a picture.
    pub(super) fn has_input(&self) -> bool {
        let says = |block: &Block| match block {
            Block::Text { text, .. } => !text.trim().is_empty(),
            Block::Image { .. } => true,
            _ => false,
        };
        // Only the last message is looked at: the ones before it are the conversation of an ephemeral session.
        self.input.last().is_some_and(|last| last.role == Role::User && last.content.iter().any(says))
    }
}

/// An event of a running turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TurnEvent {
    /// The input is committed to the transcript.
    Began,
    /// A piece of the answer's text. Text before a tool call is sent too, but is not part of the outcome's text.
    TextDelta(String),
    /// A piece of the model's thinking.
    ThinkingDelta(String),
    ToolStarted {
        /// The call's id, unique within the turn.
        call_id: String,
        /// The tool's name as the model wrote it.
        name: String,
        /// The beginning of the arguments, on one line.
        arguments_preview: String,
    },
    /// A tool call has ended and its result is committed.
    ToolEnded {
        call_id: String,
        name: String,
        /// `true` if the model got an error as the result.
        is_error: bool,
        /// Running time of the call.
        took: Duration,
    },
    /// The model failed before any text of its answer was sent, and is asked again.
    Retrying {
        /// Number of the next attempt, from 2.
        attempt: u32,
        /// Wait before the next attempt.
        after: Duration,
        /// The last attempt's error.
        reason: String,
    },
    /// The text since the last tool call is no part of the answer: it was cut off, and another answer was begun. No
    /// more text is sent until the next tool call; the outcome has the whole answer.
    TextReplaced,
    /// A remark for a person.
    Notice(String),
}

impl TurnEvent {
    /// Returns `true` if the event proves work that running the turn again would repeat.
    #[must_use]
    pub const fn is_work(&self) -> bool {
        match self {
            Self::Began
            | Self::TextDelta(_)
            | Self::TextReplaced
            | Self::ToolStarted { .. }
            | Self::ToolEnded { .. } => true,
            Self::ThinkingDelta(_) | Self::Retrying { .. } | Self::Notice(_) => false,
        }
    }
}

/// The reason of a successful end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnStop {
    /// The model finished its answer.
    End,
    /// The answer reached the model's output limit and is cut off.
    Length,
    /// The provider withheld the answer.
    Refusal,
}

/// A successful turn. All of it is committed.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnOutcome {
    /// The final text. Empty if the model had nothing to say.
    pub text: String,
    pub stop: TurnStop,
    /// Token usage of all model calls of the turn.
    pub usage: Usage,
    /// The model that gave the final answer.
    pub model: ModelRef,
    /// Number of model calls.
    pub steps: u32,
}

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
    Prompt(#[from] super::prompt::PromptError),
    #[error(transparent)]
    Store(#[from] crate::store::StoreError),
    #[error("failed to {what} the transcript {}", path.display())]
    Transcript {
        /// The operation as a verb phrase, as in `append to`.
        what: &'static str,
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
}

impl From<RuntimeError> for TurnError {
    /// Maps a paused runtime to [`TurnError::Paused`], so that the same condition looks the same on every runtime.
    fn from(error: RuntimeError) -> Self {
        match error {
            RuntimeError::Paused { why, .. } => Self::Paused(PauseReason(why)),
            error => Self::Runtime(error),
        }
    }
}

impl TurnError {
    /// Returns `true` if the transcript could not be written because the disk, the quota or the file size limit is
    /// exhausted, or the file system is read-only.
    #[must_use]
    pub fn is_out_of_space(&self) -> bool {
        // These errors pass once a person makes room, raises a limit or remounts the file system for writing.
        use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
        let Self::Transcript { source, .. } = self else { return false };
        matches!(source.kind(), StorageFull | QuotaExceeded | FileTooLarge | ReadOnlyFilesystem)
    }
}

impl Explain for TurnError {
    fn kind(&self) -> Kind {
        match self {
            Self::NoInput | Self::WrongAgent { .. } | Self::UnknownAgent(_) | Self::TooLong { .. } => {
                Kind::Usage
            }
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
            Self::Store(error) => error.hint(),
            Self::Hygiene(error) => error.hint(),
            Self::Runtime(error) => error.hint(),
            // flock can't explain a failing disk, so it points to the kernel's log.
            Self::Transcript { source, .. } if is_of_disk(source) => Some(KERNEL_LOG_HINT.to_owned()),
            _ => None,
        }
    }

    fn may_pass(&self) -> bool {
        match self {
            Self::Store(error) => error.may_pass(),
            Self::Transcript { source, .. } => is_of_disk(source) || self.is_out_of_space(),
            _ => false,
        }
    }
}
