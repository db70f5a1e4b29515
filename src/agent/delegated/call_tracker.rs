//! Records the tool calls that a program reports: those that are running, and those that were already reported. Pure.

use std::collections::{HashSet, VecDeque};

use serde_json::Value;
use tokio::time::Instant;

use crate::provider::message::ToolCall;

/// The most calls running at once. A program that reports more is not believed.
const MAX_OPEN: usize = 128;
/// Number of ended calls that are remembered, so that a repeated report counts once.
const MAX_ENDED: usize = 512;

/// A running call.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct UnfinishedCall {
    /// The call's id in the program's terms.
    pub(super) id: String,
    /// The call's name in flock's own records, unique within its turn.
    pub(super) name: String,
    pub(super) tool: String,
    pub(super) arguments: Value,
    pub(super) since: Instant,
}

impl UnfinishedCall {
    /// Creates a call that begins now.
    pub(super) fn new(id: String, name: String, tool: String, arguments: Value) -> Self {
        Self { id, name, tool, arguments, since: Instant::now() }
    }

    pub(super) fn as_call(&self) -> ToolCall<'_> {
        ToolCall { id: &self.name, name: &self.tool, arguments: &self.arguments }
    }
}

/// The calls of one conversation.
#[derive(Debug, Default)]
pub(super) struct CallTracker {
    open: Vec<UnfinishedCall>,
    ended: VecDeque<String>,
    known: HashSet<String>,
}

impl CallTracker {
    /// Records that a call begins. Returns `false` if that is already known, or too many calls are running.
    ///
    /// A call with the id of an ended one is a new call: some model servers number the calls of each answer from the
    /// start.
    pub(super) fn begin(&mut self, open: UnfinishedCall) -> bool {
        // A program could otherwise fill the memory with calls that never end.
        if self.open.len() >= MAX_OPEN || self.is_open(&open.id) {
            return false;
        }
        // The id may end a second time now, so its first end is forgotten.
        if self.known.remove(&open.id) {
            self.ended.retain(|id| *id != open.id);
        }
        self.open.push(open);
        true
    }

    /// Returns `true` if the call is running.
    pub(super) fn is_open(&self, id: &str) -> bool {
        self.open.iter().any(|open| open.id == id)
    }

    /// Returns `true` if any call is running.
    pub(super) fn has_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Records that a call has ended and returns the call, if it was running. Returns `Err` if the end is already
    /// known.
    pub(super) fn end(&mut self, id: &str) -> Result<Option<UnfinishedCall>, ()> {
        if let Some(at) = self.open.iter().position(|open| open.id == id) {
            self.remember(id);
            return Ok(Some(self.open.remove(at)));
        }
        if self.known.contains(id) {
            return Err(());
        }
        // An end without a beginning is remembered too, so that it is reported once.
        self.remember(id);
        Ok(None)
    }

    /// Marks all running calls as ended and returns them.
    pub(super) fn close(&mut self) -> Vec<UnfinishedCall> {
        let open = std::mem::take(&mut self.open);
        open.iter().for_each(|open| self.remember(&open.id));
        open
    }

    fn remember(&mut self, id: &str) {
        if self.known.insert(id.to_owned()) {
            self.ended.push_back(id.to_owned());
        }
        // Bounded: a repeated report of a call that ended long ago counts as a new one.
        if self.ended.len() > MAX_ENDED
            && let Some(oldest) = self.ended.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(id: &str) -> UnfinishedCall {
        UnfinishedCall::new(id.to_owned(), id.to_owned(), "exec".to_owned(), Value::Null)
    }

    #[test]
    fn each_call_begins_and_ends_once() {
        let mut ledger = CallTracker::default();
        assert!(ledger.begin(open("a")));
        assert!(!ledger.begin(open("a")), "told twice");
        assert!(ledger.begin(open("b")));
        assert_eq!(ledger.end("a").unwrap().unwrap().id, "a");
        assert!(ledger.end("a").is_err(), "told twice");
        assert_eq!(ledger.end("c"), Ok(None), "the beginning was not told");
        assert!(ledger.end("c").is_err());
        assert!(ledger.begin(open("a")), "another call with the same id");
        let left: Vec<String> = ledger.close().into_iter().map(|open| open.id).collect();
        assert_eq!(left, ["b", "a"]);
        assert!(ledger.end("b").is_err() && ledger.close().is_empty());
    }

    #[test]
    fn remembered_calls_are_bounded() {
        let mut ledger = CallTracker::default();
        for at in 0..5_000 {
            ledger.begin(open(&format!("open {at}")));
            assert!(ledger.end(&format!("ended {at}")).is_ok());
        }
        assert_eq!(ledger.open.len(), MAX_OPEN);
        assert!(ledger.ended.len() <= MAX_ENDED && ledger.known.len() <= MAX_ENDED);
    }
}
