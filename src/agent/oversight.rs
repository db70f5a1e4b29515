//! The interface to an observer of turns: the budget around each model call, approvals of tool calls, the audit of tool
//! calls, and the freeze that stops an agent between two steps.

use std::time::Duration;

use serde_json::Value;

use super::metering::CallUsage;
use super::quota::{CallPermit, QuotaParked, QuotaRefusal};
use crate::id::{AgentId, McpServerName, ModelRef, SessionKey, TurnId};
use crate::provider::{BoxFuture, Credential};
use crate::runtime::PauseReason;
use crate::store::CallSettlement;
use crate::tool::CallContext;
use crate::tool::policy::Decision;

/// Observes the turns of one engine.
pub trait Oversight: Send + Sync {
    /// Resolves when the agent may go on: at the first poll, unless the agent is frozen.
    ///
    /// Awaited before each model call and each tool call. The wait does not count against the turn's time. Dropping the
    /// future must have no effect.
    fn thawed<'a>(&'a self, agent: &'a AgentId) -> BoxFuture<'a, ()>;

    /// Reserves the cost of a model call.
    ///
    /// It may wait. If the turn is stopped meanwhile it drops the future, and nothing may stay reserved unless a
    /// [`Reservation`] was returned.
    ///
    /// # Errors
    ///
    /// Returns [`PauseReason`] if no budget is left. The turn ends with it.
    fn reserve<'a>(&'a self, call: &'a ModelCall) -> BoxFuture<'a, Result<Reservation, PauseReason>>;

    /// Settles a reservation with the call's real usage. For each reservation, either this or [`Self::settle_with_turn`] is
    /// called, exactly once, even if the turn is dropped. Must not block.
    fn settle(&self, reservation: Reservation, taken: CallUsage);

    /// Ends the reservation of the call that a turn ends with, in place of [`Self::settle`]. The caller has to write what this
    /// returns in the same change as the turn's end, however the turn ends. `None` if nothing is left to be written. Must not
    /// block.
    #[must_use]
    fn settle_with_turn(&self, reservation: Reservation, taken: CallUsage) -> Option<CallSettlement> {
        self.settle(reservation, taken);
        None
    }

    /// Decides if a model may be asked with a credential now, or its quota is used up.
    ///
    /// # Errors
    ///
    /// Returns [`QuotaParked`] if it may not. Another model may be asked, or the turn ends with it and goes on later.
    fn admit_call(&self, _credential: &Credential, _model: &ModelRef) -> Result<CallPermit, QuotaParked> {
        Ok(CallPermit::free())
    }

    /// Returns the error that [`Self::admit_call`] would return now.
    fn parked(&self, _credential: &Credential, _model: &ModelRef) -> Option<QuotaParked> {
        None
    }

    /// Reports a refusal that says that a quota is used up. The turn waits for this.
    fn quota_refused(&self, _refused: QuotaRefusal) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Requests a person's approval for a call, which is not run. Returns the text for the model, for instance that a
    /// request is pending.
    ///
    /// It must not wait for the person, because the turn can't be stopped meanwhile.
    ///
    /// # Errors
    ///
    /// Returns the reason, for the model, why nobody can be asked.
    fn ask<'a>(
        &'a self,
        context: &'a CallContext,
        tool: &'a str,
        arguments: &'a Value,
        reason: &'a str,
    ) -> BoxFuture<'a, Result<String, String>>;

    /// Reports a tool call that was decided and has ended. The turn waits for this and can't be stopped meanwhile.
    fn called<'a>(&'a self, context: &'a CallContext, call: &'a ToolCallRecord) -> BoxFuture<'a, ()>;
}

/// A model call that is about to be made. Retries after a failure belong to the same call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelCall {
    pub agent: AgentId,
    pub session: SessionKey,
    pub turn: TurnId,
    pub model: ModelRef,
    /// Estimated tokens of the request.
    pub input_estimate: u64,
    /// The most tokens of the answer.
    pub max_output: u64,
    /// Number of the model call within the turn, from 1. 0 if a server asked for it.
    pub step: u32,
    /// The MCP server that asked for the call (sampling).
    pub server: Option<McpServerName>,
}

/// The reservation of one model call. It is not `Clone`, so it can be settled only once.
#[derive(Debug, PartialEq, Eq)]
pub struct Reservation {
    id: u64,
    seen: TokenEstimate,
}

/// flock's own token estimate of a call's text, to check a provider's figures against.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenEstimate {
    /// Tokens of the request's text. Pictures are not counted, because their cost varies too much.
    pub input: u64,
    /// Tokens of the answer's text. Thinking that the provider did not show is not counted.
    pub output: u64,
}

impl Reservation {
    /// Creates a reservation with its maker's number.
    #[must_use]
    pub const fn new(id: u64) -> Self {
        Self { id, seen: TokenEstimate { input: 0, output: 0 } }
    }

    /// Returns the reservation with flock's own estimate of the call.
    #[must_use]
    pub(crate) const fn with_estimate(self, seen: TokenEstimate) -> Self {
        Self { seen, ..self }
    }

    #[must_use]
    pub const fn id(&self) -> u64 {
        self.id
    }

    /// Returns flock's own estimate of the call.
    #[must_use]
    pub const fn seen(&self) -> TokenEstimate {
        self.seen
    }
}

/// A tool call that has ended or was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCallRecord {
    /// The call's id, unique within the turn.
    pub call_id: String,
    /// The tool's name as the model wrote it, except for its length and characters.
    pub name: String,
    /// The policy's decision. A call that could not be tried at all counts as denied.
    pub decision: Decision,
    /// `true` if the model got an error. This includes a call whose outcome is unknown.
    pub is_error: bool,
    /// Running time of the call.
    pub took: Duration,
    /// The beginning of the arguments, on one line.
    pub preview: String,
    /// SHA-256 of the arguments as JSON without spaces, in hex.
    pub arguments_sha256: String,
    /// `true` if the tool is the client's: the call is handed to it, and its result comes with a later request.
    pub is_handed_out: bool,
    /// The report of another program that decided and ran the call itself. The decision is then not flock's.
    pub reported: Option<ProgramCallReport>,
}

/// Another program's report of a call of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramCallReport {
    /// The program, as in an agent's `runtime`.
    pub by: String,
    /// `true` if the program reported the call's end.
    pub ended: bool,
}

/// An oversight that does nothing: no budget, no freeze, no audit, and nobody to ask.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoOversight;

impl Oversight for NoOversight {
    fn thawed<'a>(&'a self, _agent: &'a AgentId) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }

    fn reserve<'a>(&'a self, _call: &'a ModelCall) -> BoxFuture<'a, Result<Reservation, PauseReason>> {
        Box::pin(std::future::ready(Ok(Reservation::new(0))))
    }

    fn settle(&self, _reservation: Reservation, _taken: CallUsage) {}

    fn ask<'a>(
        &'a self,
        _context: &'a CallContext,
        _tool: &'a str,
        _arguments: &'a Value,
        reason: &'a str,
    ) -> BoxFuture<'a, Result<String, String>> {
        let answer = format!("not run: {reason}; no person can be asked here");
        Box::pin(std::future::ready(Err(answer)))
    }

    fn called<'a>(&'a self, _context: &'a CallContext, _call: &'a ToolCallRecord) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }
}
