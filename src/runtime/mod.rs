//! Programs that run an agent's turns in place of the native loop.
//!
//! Such a program is given only what is new in a session. It keeps the conversation before it, and makes its model
//! calls itself. flock keeps everything around a turn: who may begin one, the budget, the record, and the delivery of
//! the final text. `agent::delegated` does that. A [`Runtime`] only runs one turn and reports what happens.

mod error;
pub(crate) mod model_problem;
pub(crate) mod openclaw;
mod pause;
pub mod program;
mod program_event;
pub(crate) mod prompt;
pub(crate) mod trace;

use std::sync::Arc;
use std::time::Duration;

pub use error::RuntimeError;
pub use pause::PauseReason;
pub use program_event::ProgramEvent;
use serde_json::Value;

use crate::config::Effort;
use crate::id::{AgentId, ModelRef, SessionKey, TurnId};
use crate::provider::{BoxFuture, Message, StopReason, Usage};

/// Name of flock's own loop, which is not a [`Runtime`].
pub(crate) const NATIVE: &str = "native";

/// One turn that a program is to run.
#[derive(Clone, Debug)]
pub struct RuntimeRequest {
    pub agent: AgentId,
    pub session: SessionKey,
    pub turn: TurnId,
    pub model: ModelRef,
    /// The amount of thinking. `None` leaves it to the program.
    pub effort: Option<Effort>,
    /// The name of the session's conversation. A program begins a new conversation when this name changes.
    pub conversation: String,
    /// Text about the agent and its environment, in addition to what the program knows itself. May be empty.
    pub system: String,
    /// The new messages. The last one is a user's.
    pub messages: Vec<Message>,
    /// The earlier messages of the session, for a program that has to begin a new conversation, in the form that
    /// [`prompt::compose`] takes. Empty if there are none, or if the runtime does not want them.
    pub recent: String,
    /// The messages since the turn that [`Runtime::knows`] returned, for a program that continues its conversation.
    /// Usually empty. `None` if the program has no turn of the session, or if the session's record no longer has that
    /// turn.
    pub missed: Option<String>,
}

/// An event of a running turn.
#[derive(Clone, Debug, PartialEq)]
pub enum RuntimeEvent {
    /// More of the answer's text.
    Text(String),
    /// The whole text of the answer so far. It replaces the text of earlier events.
    Replaced(String),
    /// A call of one of flock's tools. The text of the answer begins after it.
    FlockTool,
    /// More thinking.
    Thinking(String),
    /// A call of one of the program's own tools.
    Tool(ToolEvent),
    /// The tokens of the turn so far.
    Usage(Usage),
    /// A line for the log of the agent's actions. It contains nothing that could control a terminal.
    Trace(String),
}

/// A program's report about a call of one of its own tools.
#[derive(Clone, Debug, PartialEq)]
pub enum ToolEvent {
    /// The call begins.
    Began {
        /// The call's id, unique in the conversation.
        call: String,
        tool: String,
        arguments: Value,
    },
    /// The call has ended.
    Ended {
        /// The call's id.
        call: String,
        tool: String,
        /// The result as text.
        result: String,
        /// The reason of a failure.
        error: Option<String>,
        /// Duration of the call, if the program reports it.
        took: Option<Duration>,
    },
}

/// The result of a turn that ended well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuntimeReply {
    /// The reason why the answer ended.
    pub stop: StopReason,
    /// Tokens of all model calls of the turn. `None` if the program does not count them.
    pub usage: Option<Usage>,
}

/// The callback for events. It is called in order, from one task.
pub type RuntimeEventSink<'a> = &'a mut (dyn FnMut(RuntimeEvent) + Send);

/// A program that runs turns.
pub trait Runtime: Send + Sync {
    /// Returns the name in an agent's `runtime` setting.
    fn name(&self) -> &str;

    /// Returns `true` if each of its model calls passes through flock, which charges it. Otherwise flock charges the
    /// turn as one call.
    fn is_metered(&self, _order: &RuntimeRequest) -> bool {
        false
    }

    /// Returns `true` if it needs the earlier messages in [`RuntimeRequest::recent`], because its program may have to begin a
    /// new conversation. Such a runtime reports all actions of its program as [`RuntimeEvent::Trace`], except calls of flock's
    /// tools.
    fn wants_recent(&self) -> bool {
        false
    }

    /// Returns the last turn of the session that is in its program's conversation, if that conversation still has this
    /// name. Another program may have run later turns, and a turn may have failed before the program received it.
    /// Called only if [`Runtime::wants_recent`] returns `true`.
    ///
    /// # Errors
    ///
    /// Returns an error if the record of the program's conversations cannot be read.
    fn knows<'a>(
        &'a self,
        _session: &'a SessionKey,
        _conversation: &'a str,
    ) -> BoxFuture<'a, Result<Option<TurnId>, RuntimeError>> {
        Box::pin(async { Ok(None) })
    }

    /// Runs one turn to its end. The caller sets the time limit. Dropping the future ends the turn, and everything that
    /// was started for it is told to end.
    ///
    /// # Errors
    ///
    /// Returns the [`RuntimeError`] with which the turn ended. Text that was reported before is then not an answer.
    fn run<'a>(
        &'a self,
        order: &'a RuntimeRequest,
        tell: RuntimeEventSink<'a>,
    ) -> BoxFuture<'a, Result<RuntimeReply, RuntimeError>>;
}

/// The runtimes of a gateway besides its own loop.
#[derive(Clone, Default)]
pub struct Runtimes {
    listed: Vec<Arc<dyn Runtime>>,
    described: Option<Describer>,
}

/// A function that makes the runtime that a name describes.
pub type Describer = Arc<dyn Fn(&str) -> Option<Arc<dyn Runtime>> + Send + Sync>;

impl Runtimes {
    #[must_use]
    pub fn new(listed: Vec<Arc<dyn Runtime>>) -> Self {
        Self { listed, described: None }
    }

    /// Adds the runtimes that are in no list, because their names describe them.
    #[must_use]
    pub fn with_described(mut self, described: Describer) -> Self {
        self.described = Some(described);
        self
    }

    /// Returns the names of the runtimes that are listed.
    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        self.listed.iter().map(|runtime| runtime.name()).collect()
    }

    /// Returns the runtime with this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Arc<dyn Runtime>> {
        let listed = self.listed.iter().find(|runtime| runtime.name() == name).cloned();
        listed.or_else(|| self.described.as_ref()?(name))
    }
}
