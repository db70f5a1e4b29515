//! Programs that run an agent's turns in the native loop's place.
//!
//! What such a program is given is what is new in a session; the conversation before it, and the calls of its
//! model, are its own affair. Everything around a turn stays flock's: who may begin one, the budget, the record, what
//! becomes of the final text. `agent::delegated` has that; a [`Runtime`] only carries one turn out and tells what
//! happens meanwhile.

pub mod cli;
mod error;
pub mod openclaw;
pub mod prompt;
mod said;
pub mod trace;

use std::sync::Arc;
use std::time::Duration;

pub use error::RuntimeError;
pub use said::Said;
use serde_json::Value;

use crate::config::Effort;
use crate::id::{AgentId, ModelRef, SessionKey, TurnId};
use crate::provider::{BoxFuture, Message, StopReason, Usage};

/// The runtime that is flock's own loop; it is none of these.
pub const NATIVE: &str = "native";

/// One turn that a program is to run.
#[derive(Clone, Debug)]
pub struct Order {
    /// Whose.
    pub agent: AgentId,
    /// In which session.
    pub session: SessionKey,
    /// The turn.
    pub turn: TurnId,
    /// The agent's model.
    pub model: ModelRef,
    /// How much it is to think; `None` leaves it to the program.
    pub effort: Option<Effort>,
    /// What the program is to know the session's conversation by: another name begins another conversation.
    pub conversation: String,
    /// What is to be told of the agent and its place, beside what the program knows itself; may be empty.
    pub system: String,
    /// What is new; the last one is a user's.
    pub messages: Vec<Message>,
    /// What was said in the session before, for a program that has to begin its conversation anew: what
    /// [`prompt::compose`] takes. Empty where nothing was, or where the runtime does not want it.
    pub recent: String,
    /// The same of what was said since the turn that [`Runtime::knows`], for a program that goes on: most times nothing.
    /// `None` where the program has no turn of the session, or the session's record has not that turn any more.
    pub missed: Option<String>,
}

/// What a turn tells while it runs.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// More of the answer's text.
    Text(String),
    /// The answer's text is this so far, whatever was told of it before.
    Anew(String),
    /// The answer's text begins after this: a call of one of flock's tools.
    FlockTool,
    /// More thinking.
    Thinking(String),
    /// A tool of the program's own.
    Tool(ToolEvent),
    /// What the turn has taken so far.
    Usage(Usage),
    /// A line for the log of what the agent did, without what could harm a terminal.
    Trace(String),
}

/// What a program says of a call of one of its own tools.
#[derive(Clone, Debug, PartialEq)]
pub enum ToolEvent {
    /// It begins.
    Began {
        /// The call's id, unique in the conversation.
        call: String,
        /// The tool.
        tool: String,
        /// Its arguments.
        arguments: Value,
    },
    /// It has ended.
    Ended {
        /// The call's id.
        call: String,
        /// The tool.
        tool: String,
        /// What it gave, as text.
        result: String,
        /// Why it failed, if it did.
        error: Option<String>,
        /// How long it ran, where the program says so.
        took: Option<Duration>,
    },
}

/// A turn that ended well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Why the answer ended.
    pub stop: StopReason,
    /// Tokens of all its model calls; `None` where the program does not count them.
    pub usage: Option<Usage>,
}

/// Where events go; called in order, from one task.
pub type Tell<'a> = &'a mut (dyn FnMut(Event) + Send);

/// A program that runs turns.
pub trait Runtime: Send + Sync {
    /// As in an agent's `runtime`.
    fn name(&self) -> &'static str;

    /// Whether each of its model calls passes flock, which charges it; else a turn is charged as one.
    fn is_metered(&self, _order: &Order) -> bool {
        false
    }

    /// Whether it is to be told in [`Order::recent`] what was said before, because its program may have to begin anew.
    /// Such a one tells [`Event::Trace`] of all that its program does, but for calls of flock's tools.
    fn wants_recent(&self) -> bool {
        false
    }

    /// The last turn of the session that its program's conversation has, if that is still the one of this name: another
    /// program may have run turns since, and one may have failed before the program had it. Asked where it wants to be
    /// told what was said before.
    ///
    /// # Errors
    ///
    /// Where it can't be found out.
    fn knows(&self, _session: &SessionKey, _conversation: &str) -> Result<Option<TurnId>, RuntimeError> {
        Ok(None)
    }

    /// Runs one turn to its end. How long that may take is the caller's affair. Dropping the future ends the turn:
    /// whatever was started for it is told to end.
    ///
    /// # Errors
    ///
    /// As [`RuntimeError`] says. What had been told before is no answer.
    fn run<'a>(&'a self, order: &'a Order, tell: Tell<'a>) -> BoxFuture<'a, Result<Reply, RuntimeError>>;
}

/// The runtimes that a gateway has besides its own loop.
#[derive(Clone, Default)]
pub struct Runtimes(Vec<Arc<dyn Runtime>>);

impl Runtimes {
    /// These.
    #[must_use]
    pub fn new(runtimes: Vec<Arc<dyn Runtime>>) -> Self {
        Self(runtimes)
    }

    /// What they are called.
    #[must_use]
    pub fn names(&self) -> Vec<&'static str> {
        self.0.iter().map(|runtime| runtime.name()).collect()
    }

    /// The one with this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Runtime>> {
        self.0.iter().find(|runtime| runtime.name() == name)
    }
}
