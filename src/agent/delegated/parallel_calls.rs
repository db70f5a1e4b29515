//! Schedules the calls of flock's tools within one turn: which call may begin, and which ones run in parallel.
//!
//! A program may send several calls at once. Calls that only read run in parallel. A call that changes something runs
//! alone, as in flock's own loop: after all calls before it have ended, and before any later call begins. So posts and
//! writes happen in the order they came, and each call sees the effects of those before it.
//!
//! All calls run within the turn's own task, one step at a time, so its counts of them stay exact.

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::turn_router::{Inbound, IncomingCall, ProgramReport, ToolCallResponse};
use crate::agent::tool_call::CallEnd;
use crate::agent::turn::TurnError;
use crate::provider::BoxFuture;
use crate::tool::policy;

/// The most calls of one turn that run in parallel. Others wait in order.
const MAX_PARALLEL: usize = 16;

/// A call, with the channel for its answer.
pub(super) struct QueuedCall {
    pub(super) asked: IncomingCall,
    pub(super) reply: oneshot::Sender<ToolCallResponse>,
}

/// A call that has ended.
pub(super) struct FinishedCall {
    /// The call's name in flock's own records.
    pub(super) name: String,
    pub(super) call: QueuedCall,
    pub(super) started: Instant,
    pub(super) ended: Result<CallEnd, TurnError>,
}

/// The next event of a turn that comes from its models.
pub(super) enum CallEvent {
    /// A call that may begin now.
    Call(QueuedCall),
    /// A call that has ended.
    Done(Box<FinishedCall>),
    /// A report of the program about its own calls.
    Report(ProgramReport),
}

/// The calls of a turn.
pub(super) struct ParallelCalls<'c> {
    inbound: mpsc::Receiver<Inbound>,
    /// The next call, if it can't begin yet. Later ones wait behind it.
    next: Option<QueuedCall>,
    under_way: FuturesUnordered<BoxFuture<'c, FinishedCall>>,
    /// Set while the running call has to run alone.
    is_alone: bool,
    /// Cancels all calls.
    over: CancellationToken,
}

impl<'c> ParallelCalls<'c> {
    pub(super) fn new(inbound: mpsc::Receiver<Inbound>) -> Self {
        Self {
            inbound,
            next: None,
            under_way: FuturesUnordered::new(),
            is_alone: false,
            over: CancellationToken::new(),
        }
    }

    /// Waits for the next event. Dropping the future loses nothing. Returns `None` once no more events can come, which
    /// is only after [`Self::close`].
    pub(super) async fn next(&mut self) -> Option<CallEvent> {
        loop {
            let next = self.next.take_if(|next| {
                let is_wanted = !next.asked.cancel.is_cancelled();
                !is_wanted || may_begin(&next.asked.tool, self.under_way.len(), self.is_alone)
            });
            match next {
                // The client gave up the call before it ran, so nothing needs to be undone.
                Some(gone) if gone.asked.cancel.is_cancelled() => continue,
                Some(next) => return Some(CallEvent::Call(next)),
                None => {}
            }
            let waits = self.next.as_ref().map(|next| next.asked.cancel.clone());
            tokio::select! {
                // Finished calls come first, because they may let the waiting one begin.
                biased;
                Some(done) = self.under_way.next() => {
                    self.is_alone = false;
                    return Some(CallEvent::Done(Box::new(done)));
                }
                // While a call waits, no further event is received: it would overtake that call.
                Some(event) = self.inbound.recv(), if waits.is_none() => match event {
                    Inbound::Call(asked, reply) => self.next = Some(QueuedCall { asked, reply }),
                    Inbound::Report(told) => return Some(CallEvent::Report(told)),
                },
                // Wakes up if the waiting call is cancelled: calls behind it may be able to begin.
                Some(()) = gone(waits.as_ref()) => {}
                else => return None,
            }
        }
    }

    /// Begins a call.
    pub(super) fn begin(&mut self, tool: &str, work: BoxFuture<'c, FinishedCall>) {
        self.is_alone = !policy::is_parallel(tool);
        self.under_way.push(work);
    }

    /// Returns the token that is cancelled if the turn ends before its calls.
    pub(super) const fn over(&self) -> &CancellationToken {
        &self.over
    }

    /// Stops accepting new calls.
    pub(super) fn close(&mut self) {
        self.inbound.close();
    }

    /// Cancels the running calls and drops the waiting ones. Returns the running ones, to wait for their end.
    pub(super) fn end(self) -> FuturesUnordered<BoxFuture<'c, FinishedCall>> {
        self.over.cancel();
        self.under_way
    }
}

/// Returns `true` if a call of this tool may begin now.
fn may_begin(tool: &str, under_way: usize, is_alone: bool) -> bool {
    under_way == 0 || !is_alone && under_way < MAX_PARALLEL && policy::is_parallel(tool)
}

/// Waits until the call is cancelled. Returns `None` at once if there is none.
async fn gone(waits: Option<&CancellationToken>) -> Option<()> {
    waits?.cancelled().await;
    Some(())
}

#[cfg(test)]
#[path = "parallel_calls_tests.rs"]
mod tests;
