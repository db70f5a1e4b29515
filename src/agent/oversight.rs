//! Who watches turns: the budget before and after each model call, the person that a tool call needs, the
//! audit of tool calls, and the brake that holds an agent between two steps.

use std::time::Duration;

use serde_json::Value;

use super::taken::Taken;
use crate::id::{AgentId, ModelRef, SessionKey, TurnId};
use crate::provider::BoxFuture;
use crate::sandbox::policy::Decision;
use crate::tool::CallContext;

/// Watches the turns of one engine.
pub trait Oversight: Send + Sync {
    /// Resolves when the agent may go on: when first polled, unless it is frozen. Awaited before each model call and
    /// each tool call. The time it takes does not count against the turn. Dropping it must have no effect.
    fn thawed<'a>(&'a self, agent: &'a AgentId) -> BoxFuture<'a, ()>;

    /// Sets aside what a model call may cost. It may wait; the turn can be stopped meanwhile, and drops the
    /// future then: nothing may stay set aside without a [`Reservation`] having been given.
    ///
    /// # Errors
    ///
    /// Where there is no budget left; the turn ends with it.
    fn reserve<'a>(&'a self, call: &'a ModelCall) -> BoxFuture<'a, Result<Reservation, Paused>>;

    /// What the call really took; called exactly once for each reservation, also where the turn is dropped.
    /// Must not block.
    fn settle(&self, reservation: Reservation, taken: Taken);

    /// A person has to approve this call; it is not run. Gives what the model is told, such as that a
    /// request waits, and does not wait for the person: a turn can't be stopped meanwhile.
    ///
    /// # Errors
    ///
    /// Why nobody can be asked, for the model.
    fn ask<'a>(
        &'a self,
        context: &'a CallContext,
        tool: &'a str,
        arguments: &'a Value,
        reason: &'a str,
    ) -> BoxFuture<'a, Result<String, String>>;

    /// A tool call was decided and has ended. Awaited before the turn goes on, which can't be stopped
    /// meanwhile.
    fn called<'a>(&'a self, context: &'a CallContext, call: &'a CalledTool) -> BoxFuture<'a, ()>;
}

/// A model call that is about to be made. What asking again after a failure costs belongs to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelCall {
    /// Whose turn it is.
    pub agent: AgentId,
    /// The session.
    pub session: SessionKey,
    /// The turn.
    pub turn: TurnId,
    /// The model.
    pub model: ModelRef,
    /// Tokens of the request, estimated.
    pub input_estimate: u64,
    /// The most tokens of the answer.
    pub max_output: u64,
    /// Which model call of the turn this is, from 1.
    pub step: u32,
}

/// What was set aside for one model call. Not copied, so that it is settled once.
#[derive(Debug, PartialEq, Eq)]
pub struct Reservation {
    id: u64,
    seen: Seen,
}

/// Tokens of the text of a model call that flock itself saw, estimated: what a provider's word is held against.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Of the request, without what is no text: what a picture takes differs too much.
    pub input: u64,
    /// Of the answer. What a provider thought and did not show is not in it.
    pub output: u64,
}

impl Reservation {
    /// A reservation that its maker knows by this number.
    #[must_use]
    pub const fn new(id: u64) -> Self {
        Self { id, seen: Seen { input: 0, output: 0 } }
    }

    /// The same, for a call of which this was seen.
    #[must_use]
    pub const fn with_seen(self, seen: Seen) -> Self {
        Self { seen, ..self }
    }

    /// The number.
    #[must_use]
    pub const fn id(&self) -> u64 {
        self.id
    }

    /// What was seen of the call.
    #[must_use]
    pub const fn seen(&self) -> Seen {
        self.seen
    }
}

/// Why a turn may not go on for now, for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Paused(pub String);

/// Why an agent may make no call where its budgets can't be read.
const UNKNOWN: &str = "the budgets could not be looked at";

impl Paused {
    /// Nobody knows what is left: the database can't be read.
    #[must_use]
    pub fn unknown() -> Self {
        Self(UNKNOWN.to_owned())
    }

    /// Whether this is no pause: the same call may be made once the database can be read.
    #[must_use]
    pub fn is_unknown(why: &str) -> bool {
        why == UNKNOWN
    }
}

/// A tool call that has ended, or was not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CalledTool {
    /// The call's id, unique in the turn.
    pub call_id: String,
    /// The tool's name, as the model wrote it but for its length and characters.
    pub name: String,
    /// What the policy said; what could not be tried at all counts as denied.
    pub decision: Decision,
    /// Whether the model was given an error. So is one whose outcome nobody knows.
    pub is_error: bool,
    /// How long it ran.
    pub took: Duration,
    /// The beginning of the arguments, on one line.
    pub preview: String,
    /// SHA-256 of the arguments as JSON without spaces, in hex.
    pub arguments_sha256: String,
    /// Of a call that another program decided, ran and reported: what it said of it. The decision is then not flock's.
    pub reported: Option<Reported>,
}

/// What another program says of a call of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reported {
    /// The program, as in an agent's `runtime`.
    pub by: String,
    /// Whether it said how the call ended.
    pub ended: bool,
}

/// Watches nothing: no budget, no brake, no audit, and nobody to ask.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unwatched;

impl Oversight for Unwatched {
    fn thawed<'a>(&'a self, _agent: &'a AgentId) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }

    fn reserve<'a>(&'a self, _call: &'a ModelCall) -> BoxFuture<'a, Result<Reservation, Paused>> {
        Box::pin(std::future::ready(Ok(Reservation::new(0))))
    }

    fn settle(&self, _reservation: Reservation, _taken: Taken) {}

    fn ask<'a>(
        &'a self,
        _context: &'a CallContext,
        _tool: &'a str,
        _arguments: &'a Value,
        reason: &'a str,
    ) -> BoxFuture<'a, Result<String, String>> {
        let answer = format!("not run: {reason}; there is no way here to ask a person");
        Box::pin(std::future::ready(Err(answer)))
    }

    fn called<'a>(&'a self, _context: &'a CallContext, _call: &'a CalledTool) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }
}
