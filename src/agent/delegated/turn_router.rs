//! Routes what a program's models ask of flock, such as tool calls and reports of other calls, to the turn that runs in
//! that conversation. Without such a turn, [`super::outside_turn`] handles it.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;

use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::call_tracker::CallTracker;
use crate::agent::call_result::CallResult;
use crate::id::{AgentId, SessionKey};
use crate::provider::Block;
use crate::runtime::ToolEvent;
use crate::sync::lock;
use crate::tool::{Attachment, ProgressSink};

/// The most events that wait for one turn.
const MAX_QUEUED_EVENTS: usize = 64;
/// The most conversations without a turn whose calls are remembered.
const MAX_OUTSIDE: usize = 64;
/// The most sessions without budget that are remembered. A forgotten one only starts one more turn in vain.
const MAX_SHORTFALLS: usize = 512;

/// The sender of an event, in the program's terms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramSource {
    pub agent: AgentId,
    /// The program's id of the conversation.
    pub conversation: String,
}

/// A call of one of flock's tools.
#[derive(Clone, Debug)]
pub struct IncomingCall {
    /// The call's id, unique within one answer of the model.
    pub id: String,
    pub tool: String,
    /// The arguments as the model wrote them.
    pub arguments: Value,
    /// Cancelled when nobody waits for the result any more.
    pub cancel: CancellationToken,
    /// The recipient of the call's progress.
    pub progress: Option<ProgressSink>,
}

/// The result of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCallResponse {
    /// Text and images.
    pub content: Vec<Block>,
    /// Parts in place of single blocks, in the order of these.
    pub attachments: Vec<Attachment>,
    /// `true` if the result is an error that the model reads.
    pub is_error: bool,
    /// `true` if there is no result, because the call's turn or time was over. The text says so.
    pub is_lost: bool,
}

impl ToolCallResponse {
    /// Returns the result of a call that has ended.
    pub(super) fn ended(result: CallResult) -> Self {
        let CallResult { content, is_error, attachments } = result;
        Self { content, attachments, is_error, is_lost: false }
    }

    /// Returns the answer to a call that has no result.
    pub(crate) fn lost(text: &str) -> Self {
        Self { content: vec![Block::text(text)], attachments: Vec::new(), is_error: true, is_lost: true }
    }
}

/// A program's report.
#[derive(Clone, Debug, PartialEq)]
pub enum ProgramReport {
    /// An event of one of its own tool calls.
    Tool(ToolEvent),
    /// The program's agent has ended in this conversation: no call is running any more.
    Over,
}

/// An event for a turn.
pub(super) enum Inbound {
    Call(IncomingCall, oneshot::Sender<ToolCallResponse>),
    Report(ProgramReport),
}

/// The turns that programs are running, by conversation.
#[derive(Default)]
pub(in crate::agent) struct TurnRouter {
    turns: Mutex<HashMap<String, RegisteredTurn>>,
    outside: Mutex<HashMap<String, CallTracker>>,
    /// Calls that ended the last turn of their session because the budget had no room for them, as tokens of the
    /// request and of the answer.
    short: Mutex<HashMap<SessionKey, (u64, u64)>>,
    /// The agents whose program did not report the last awaited end of a call. Some versions of programs report none.
    /// One entry per agent, because each may run on another program, and no agent should change what others wait for.
    without_ends: Mutex<HashSet<AgentId>>,
}

struct RegisteredTurn {
    agent: AgentId,
    sender: mpsc::Sender<Inbound>,
}

impl TurnRouter {
    /// Registers a turn for this conversation until the returned guard is dropped.
    pub(super) fn register(&self, source: &ProgramSource) -> (TurnRegistration<'_>, mpsc::Receiver<Inbound>) {
        // Bounded: a program that sends faster than the turn works has to wait.
        let (sender, inbound) = mpsc::channel(MAX_QUEUED_EVENTS);
        let turn = RegisteredTurn { agent: source.agent.clone(), sender };
        lock(&self.turns).insert(source.conversation.clone(), turn);
        (TurnRegistration { router: self, conversation: source.conversation.clone() }, inbound)
    }

    /// Returns the channel of the turn that runs in this conversation, if it is this agent's. Programs may write the
    /// conversation's id in lower case.
    pub(super) fn turn(&self, source: &ProgramSource) -> Option<mpsc::Sender<Inbound>> {
        let turns = lock(&self.turns);
        let turn = turns.get(&source.conversation)?;
        // A conversation's id must not be enough: the caller also has to be the turn's agent.
        (turn.agent == source.agent).then(|| turn.sender.clone())
    }

    /// Returns `true` if it is worth waiting for a report of a call's end from this agent's program.
    pub(super) fn reports_call_ends(&self, agent: &AgentId) -> bool {
        !lock(&self.without_ends).contains(agent)
    }

    /// Records that this agent's program reported the end of a call, or did not report it in time.
    pub(super) fn set_end_reported(&self, agent: &AgentId, reported: bool) {
        let mut without_ends = lock(&self.without_ends);
        if reported {
            without_ends.remove(agent);
        } else {
            without_ends.insert(agent.clone());
        }
    }

    /// Records a call that ended a turn of this session because the budget had no room for it. `None` clears the record
    /// when a turn begins.
    pub(super) fn set_shortfall(&self, session: &SessionKey, call: Option<(u64, u64)>) {
        let mut short = lock(&self.short);
        let Some(call) = call else {
            short.remove(session);
            return;
        };
        // Forgetting all is simple and rare. A forgotten session only starts one more turn in vain.
        if short.len() >= MAX_SHORTFALLS {
            short.clear();
        }
        short.insert(session.clone(), call);
    }

    /// Returns the call that ended the session's last turn because the budget had no room for it.
    pub(super) fn shortfall(&self, session: &SessionKey) -> Option<(u64, u64)> {
        lock(&self.short).get(session).copied()
    }

    /// Runs `work` on the calls of a conversation without a turn.
    pub(super) fn outside<T>(&self, source: &ProgramSource, work: impl FnOnce(&mut CallTracker) -> T) -> T {
        let mut outside = lock(&self.outside);
        // Emptied when it is full: at worst, a running call loses its beginning, and its end is still reported.
        if outside.len() >= MAX_OUTSIDE && !outside.contains_key(&source.conversation) {
            outside.clear();
        }
        work(outside.entry(source.conversation.clone()).or_default())
    }
}

/// A registered turn. Dropping it removes the registration.
pub(super) struct TurnRegistration<'r> {
    router: &'r TurnRouter,
    conversation: String,
}

impl Drop for TurnRegistration<'_> {
    fn drop(&mut self) {
        lock(&self.router.turns).remove(&self.conversation);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_reports_no_ends_is_known_for_its_own_agent_alone() {
        let router = TurnRouter::default();
        let [coder, tester] = ["coder", "tester"].map(|id| id.parse::<AgentId>().unwrap());
        router.set_end_reported(&coder, false);
        assert!(!router.reports_call_ends(&coder) && router.reports_call_ends(&tester));
        router.set_end_reported(&tester, true);
        assert!(!router.reports_call_ends(&coder), "another agent's program says nothing about this one");
        router.set_end_reported(&coder, true);
        assert!(router.reports_call_ends(&coder));
    }
}
