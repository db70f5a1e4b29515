//! The input and the outcome of a turn, and the events in between.

mod conversation;
mod error;
mod model_call;
mod state;
mod turn_loop;

use std::sync::Arc;
use std::time::Duration;

use crate::agent::client_tools::{ClientCall, ClientTools};
use crate::agent::command::Command;
use crate::agent::inbox::Inbox;
use crate::agent::provenance::Provenance;
use crate::id::{AgentId, ModelRef, SessionKey, TurnId};
use crate::provider::{AnswerFormat, Block, Message, Role, Usage};

pub use error::TurnError;
pub(super) use state::{EventSink, TurnScope};
pub(super) use turn_loop::{FinalAnswer, PlannedRequest, TurnLoop};

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
    /// message must be a user's, or the result of a call of a client's tool. Empty if the client has only the results of
    /// pending calls.
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
    /// The tools that the client brings, and its results of the calls that are pending in the session.
    pub client: ClientTools,
    /// The form that the final text must have. Models that support it are held to it; the caller checks the rest.
    pub format: Option<AnswerFormat>,
}

impl TurnRequest {
    /// Creates a request with new messages for the session's own agent, and nothing beside them.
    #[must_use]
    pub fn new(session: SessionKey, turn: TurnId, input: Vec<Message>) -> Self {
        Self {
            agent: session.agent().clone(),
            session,
            turn,
            input,
            context: Vec::new(),
            guidance: Vec::new(),
            provenance: None,
            command: None,
            inbox: None,
            client: ClientTools::default(),
            format: None,
        }
    }

    /// Returns `true` if the last message is a user's and has text or a picture, or if the client brings results.
    pub(super) fn has_input(&self) -> bool {
        if !self.client.results.is_empty() && self.input.is_empty() {
            return true;
        }
        let says = |block: &Block| match block {
            Block::Text { text, .. } => !text.trim().is_empty(),
            Block::Image { .. } => true,
            _ => false,
        };
        // Only the last message is looked at: the ones before it are the conversation of an ephemeral session.
        self.input.last().is_some_and(|last| match last.role {
            Role::User => last.content.iter().any(says),
            Role::Tool => true,
            Role::Assistant => false,
        })
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
    pub(crate) const fn is_work(&self) -> bool {
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
    /// The model called tools of the client. The session's next turn begins with their results.
    ToolCalls,
}

/// A successful turn. All of it is committed.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnOutcome {
    /// The final text. Empty if the model had nothing to say.
    pub text: String,
    pub stop: TurnStop,
    /// The calls that are handed to the client.
    pub calls: Vec<ClientCall>,
    /// Token usage of all model calls of the turn.
    pub usage: Usage,
    /// The model that gave the final answer.
    pub model: ModelRef,
    /// Number of model calls.
    pub steps: u32,
}
