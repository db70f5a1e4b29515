//! What goes into a turn and what comes out of it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::command::Command;
use super::inbox::Inbox;
use super::oversight::Paused;
use super::provenance::Provenance;
use super::transcript::hygiene::HygieneError;
use crate::error::{Explain, KERNEL_LOG, Kind, is_of_disk};
use crate::id::{AgentId, ModelRef, SessionKey, TurnId};
use crate::provider::{AnswerFormat, Block, Message, ProviderError, Role, Usage};
use crate::runtime::RuntimeError;

/// One run of a session.
#[derive(Clone)]
pub struct TurnRequest {
    /// Whose turn it is; must be the session's agent.
    pub agent: AgentId,
    /// The session. It is made if it does not exist.
    pub session: SessionKey,
    /// The turn's id, new for each turn.
    pub turn: TurnId,
    /// What is new: for most sessions one user message, for an ephemeral one its whole conversation. The
    /// last message is a user's.
    pub input: Vec<Message>,
    /// System text of a client: shown to the model as untrusted context of the input, never as the system
    /// prompt.
    pub context: Vec<String>,
    /// What flock itself says of the input, such as who gets the answer: shown beside it under flock's own mark.
    pub guidance: Vec<String>,
    /// Where the input came from; stored with its last message.
    pub provenance: Option<Provenance>,
    /// What a person wants done with the session instead of having it answered. Only who knows that a person
    /// wrote the input may set it.
    pub command: Option<Command>,
    /// What comes while the turn runs; without one nothing does.
    pub inbox: Option<Arc<dyn Inbox>>,
    /// The form that the final text must have. Models that can be held to it are; whoever asks checks the rest.
    pub format: Option<AnswerFormat>,
}

impl std::fmt::Debug for TurnRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
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
    /// Whether there is something to answer.
    pub(super) fn has_input(&self) -> bool {
        let says = |block: &Block| match block {
            Block::Text { text, .. } => !text.trim().is_empty(),
            Block::Image { .. } => true,
            _ => false,
        };
        self.input.last().is_some_and(|last| last.role == Role::User && last.content.iter().any(says))
    }
}

/// What a turn tells while it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TurnEvent {
    /// The input is committed in the transcript.
    Began,
    /// More of the answer's text. Text before a tool call is told too, and is not part of the outcome's.
    TextDelta(String),
    /// More of the model's thinking.
    ThinkingDelta(String),
    /// A tool call begins.
    ToolStarted {
        /// The call's id, unique in the turn.
        call_id: String,
        /// The tool's name, as the model wrote it.
        name: String,
        /// The beginning of its arguments, on one line.
        arguments_preview: String,
    },
    /// A tool call has ended and its result is committed.
    ToolEnded {
        /// The call's id.
        call_id: String,
        /// The tool's name.
        name: String,
        /// Whether the model was given an error.
        is_error: bool,
        /// How long it ran.
        took: Duration,
    },
    /// The model did not answer, before any text of its answer was told; it is asked again.
    Retrying {
        /// Which attempt comes next, from 2.
        attempt: u32,
        /// How long flock waits before it.
        after: Duration,
        /// Why the last one failed.
        reason: String,
    },
    /// The text that was told since the last tool call is no part of the answer: it was cut off, and another was begun.
    /// No more text is told until the next tool call; the outcome has the whole answer.
    TextReplaced,
    /// Something a person should know.
    Notice(String),
}

impl TurnEvent {
    /// Whether the turn has done something by then that it would do again if it were asked again.
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

/// Why a turn ended well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The model had said all.
    End,
    /// The answer reached the model's limit and is cut.
    Length,
    /// The provider withheld the answer.
    Refusal,
}

/// A turn that ended well; all of it is committed.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnOutcome {
    /// The final text. May be empty where the model had nothing to say.
    pub text: String,
    /// Why it ended.
    pub stop: Stop,
    /// Tokens of all its model calls.
    pub usage: Usage,
    /// The model that answered.
    pub model: ModelRef,
    /// How many model calls it took.
    pub steps: u32,
}

/// Why a turn did not end well. Whatever it had done until then is committed, and the session can go on.
#[derive(Debug, thiserror::Error)]
pub enum TurnError {
    /// There is no such agent.
    #[error("there is no agent {0}")]
    UnknownAgent(AgentId),
    /// The session is another agent's.
    #[error("session {session} is not one of agent {agent}")]
    WrongAgent {
        /// The agent that was asked.
        agent: AgentId,
        /// The session that was named.
        session: SessionKey,
    },
    /// The agent's runtime is not one that can do this.
    #[error("agent {agent} runs on {runtime}, and this is only for agents that run on native")]
    WrongRuntime {
        /// Which agent.
        agent: AgentId,
        /// Its runtime.
        runtime: String,
    },
    /// The program that runs the agent's turns did not run this one to its end.
    #[error(transparent)]
    Runtime(RuntimeError),
    /// Neither the agent nor the defaults name a model.
    #[error("agent {0} has no model")]
    NoModel(AgentId),
    /// The input does not end with a user's message, or is empty.
    #[error("the input of a turn must end with a user's message")]
    NoInput,
    /// There is no such session.
    #[error("there is no session {0}")]
    NoSession(SessionKey),
    /// The session is closed.
    #[error("session {0} is closed")]
    Closed(SessionKey),
    /// Another turn of the session runs.
    #[error("another turn of session {0} is running")]
    Busy(SessionKey),
    /// The input alone is larger than the model's context. Clients know that by the first words, which are OpenAI's.
    #[error(
        "This model's maximum context length is {window} tokens. However, the input has about {tokens} tokens, and {room} are \
         left for it beside the prompt, the tools and the answer ({model})"
    )]
    TooLong {
        /// Estimated.
        tokens: u64,
        /// What the model takes altogether.
        window: u64,
        /// What the model has room for besides the prompt, the tools and its answer.
        room: u64,
        /// Which model.
        model: ModelRef,
    },
    /// The provider says that the request is larger than the model's context, also with all the room that could be made.
    #[error(
        "This model's maximum context length is {window} tokens. However, the request does not fit into it ({error})"
    )]
    Overflow {
        /// What the model takes: as the provider said, else as is known of the model.
        window: u64,
        /// What the provider said.
        error: ProviderError,
    },
    /// The model did not answer.
    #[error(transparent)]
    Provider(#[from] ProviderError),
    /// The conversation could not be made ready for the model.
    #[error(transparent)]
    Hygiene(#[from] HygieneError),
    /// The turn took more model calls than it may.
    #[error("the turn reached its limit of {0} steps")]
    Steps(u32),
    /// The turn took longer than it may.
    #[error("the turn reached its limit of {} seconds", .0.as_secs())]
    TimedOut(Duration),
    /// The model called the same tool with the same arguments and got the same result too often in a row.
    #[error(
        "the turn was ended because it called {tool} with the same arguments and the same result {times} times in a row"
    )]
    Looping {
        /// The tool.
        tool: String,
        /// How often in a row.
        times: u32,
    },
    /// The agent may make no model call for now.
    #[error(transparent)]
    Paused(#[from] Paused),
    /// The caller ended it.
    #[error("the turn was cancelled")]
    Cancelled,
    /// A tool can't go on at all.
    #[error("the tool {name} can't go on")]
    Tool {
        /// Which.
        name: String,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The system prompt could not be put together.
    #[error(transparent)]
    Prompt(#[from] super::prompt::PromptError),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] crate::store::StoreError),
    /// A transcript could not be read or written.
    #[error("failed to {what} the transcript {}", path.display())]
    Transcript {
        /// As in `append to`.
        what: &'static str,
        /// Which file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

impl From<RuntimeError> for TurnError {
    /// A turn that may not go on for now is one, whoever runs it.
    fn from(error: RuntimeError) -> Self {
        match error {
            RuntimeError::Paused { why, .. } => Self::Paused(Paused(why)),
            error => Self::Runtime(error),
        }
    }
}

impl TurnError {
    /// Whether there was no room for the transcript.
    #[must_use]
    pub fn lacks_room(&self) -> bool {
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
            Self::Transcript { source, .. } if is_of_disk(source) => Some(KERNEL_LOG.to_owned()),
            _ => None,
        }
    }

    fn may_pass(&self) -> bool {
        match self {
            Self::Store(error) => error.may_pass(),
            Self::Transcript { source, .. } => is_of_disk(source) || self.lacks_room(),
            _ => false,
        }
    }
}
