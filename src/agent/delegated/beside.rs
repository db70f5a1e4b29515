//! The calls of flock's tools in one turn: which may begin, and which run side by side.
//!
//! A program may send several at once. Those that only look run side by side; one that changes something runs alone, as
//! in a turn of flock's own: when all before it have ended, and before all that came after it. So what a model posts and
//! writes happens in the order it came, and each call finds done what came before. All of them run within the turn's own
//! task, one step at a time: what is counted of them there is counted exactly.

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::desk::{Answered, Asked, Knock, Told};
use crate::agent::calls::Ended;
use crate::agent::turn::TurnError;
use crate::provider::BoxFuture;
use crate::sandbox::policy;

/// The most calls of one turn that run at once; others wait, in the order they came.
const AT_ONCE: usize = 16;

/// A call, and who waits for its answer.
pub(super) struct Waiting {
    pub(super) asked: Asked,
    pub(super) reply: oneshot::Sender<Answered>,
}

/// A call that has ended.
pub(super) struct Done {
    /// As flock's own records name it.
    pub(super) name: String,
    pub(super) call: Waiting,
    pub(super) started: Instant,
    pub(super) ended: Result<Ended, TurnError>,
}

/// What comes next in a turn, of what its models want of flock.
pub(super) enum Came {
    /// A call that may begin now.
    Call(Waiting),
    /// One that has ended.
    Done(Done),
    /// What the program tells of its own calls.
    Told(Told),
}

/// The calls of a turn.
pub(super) struct Beside<'c> {
    knocks: mpsc::Receiver<Knock>,
    /// The next one, where it can't begin yet; what came after it waits behind it.
    next: Option<Waiting>,
    under_way: FuturesUnordered<BoxFuture<'c, Done>>,
    /// Whether the one that is under way has to be alone.
    is_alone: bool,
    /// Ends all of them.
    over: CancellationToken,
}

impl<'c> Beside<'c> {
    pub(super) fn new(knocks: mpsc::Receiver<Knock>) -> Self {
        Self {
            knocks,
            next: None,
            under_way: FuturesUnordered::new(),
            is_alone: false,
            over: CancellationToken::new(),
        }
    }

    /// Waits for the next thing that comes; nothing is lost where this is dropped. `None` once nothing more can come,
    /// which is after [`Self::close`].
    pub(super) async fn come(&mut self) -> Option<Came> {
        loop {
            let next = self.next.take_if(|next| {
                let is_wanted = !next.asked.cancel.is_cancelled();
                !is_wanted || may_begin(&next.asked.tool, self.under_way.len(), self.is_alone)
            });
            match next {
                // Whoever asked has gone, and nothing has been run.
                Some(gone) if gone.asked.cancel.is_cancelled() => continue,
                Some(next) => return Some(Came::Call(next)),
                None => {}
            }
            let waits = self.next.as_ref().map(|next| next.asked.cancel.clone());
            tokio::select! {
                biased;
                Some(done) = self.under_way.next() => {
                    self.is_alone = false;
                    return Some(Came::Done(done));
                }
                Some(knock) = self.knocks.recv(), if waits.is_none() => match knock {
                    Knock::Call(asked, reply) => self.next = Some(Waiting { asked, reply }),
                    Knock::Told(told) => return Some(Came::Told(told)),
                },
                // Those behind it may be of the kind that can begin.
                Some(()) = gone(waits.as_ref()) => {}
                else => return None,
            }
        }
    }

    /// A call that has come begins.
    pub(super) fn begin(&mut self, tool: &str, work: BoxFuture<'c, Done>) {
        self.is_alone = !policy::runs_beside(tool);
        self.under_way.push(work);
    }

    /// Cancelled where the turn ends before its calls.
    pub(super) const fn over(&self) -> &CancellationToken {
        &self.over
    }

    /// From here on nothing more is taken.
    pub(super) fn close(&mut self) {
        self.knocks.close();
    }

    /// Ends those that are under way; the others are not begun. Gives each as it ends.
    pub(super) fn end(self) -> FuturesUnordered<BoxFuture<'c, Done>> {
        self.over.cancel();
        self.under_way
    }
}

/// Whether a call of this tool may begin now.
fn may_begin(tool: &str, under_way: usize, is_alone: bool) -> bool {
    under_way == 0 || !is_alone && under_way < AT_ONCE && policy::runs_beside(tool)
}

/// Waits until nobody wants a call any more; `None` where there is none.
async fn gone(waits: Option<&CancellationToken>) -> Option<()> {
    waits?.cancelled().await;
    Some(())
}

#[cfg(test)]
#[path = "beside_tests.rs"]
mod tests;
