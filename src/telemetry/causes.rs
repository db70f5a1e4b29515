//! The causes of turns that begin later: the spans of posts, tasks and messages, until their turns begin.
//!
//! They are kept in memory alone. After a restart, a turn for a message from before it is the first span of its trace.

use std::collections::{HashMap, VecDeque};

use super::context::TraceContext;
use crate::id::ChannelId;

/// Number of causes that are kept.
const MAX_CAUSES: usize = 4_096;

/// Something that a turn begins for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Cause {
    /// A post, by its channel and number.
    Post(ChannelId, u64),
    /// A task, by its id.
    Task(String),
    /// A message that waits for a session, by its id.
    Item(String),
}

/// The span of a cause, and the time at which it was noted in Unix nanoseconds.
pub(crate) type NotedCause = (TraceContext, u64);

/// The newest causes.
#[derive(Debug, Default)]
pub(super) struct Causes {
    known: HashMap<Cause, NotedCause>,
    order: VecDeque<Cause>,
}

impl Causes {
    /// Notes the span of a cause.
    pub(super) fn note(&mut self, cause: Cause, noted: NotedCause) {
        if self.known.insert(cause.clone(), noted).is_none() {
            self.order.push_back(cause);
        }
        if self.order.len() > MAX_CAUSES
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }

    /// Returns the span of a cause. It is kept, because a post may wake several agents.
    pub(super) fn find(&self, cause: &Cause) -> Option<NotedCause> {
        self.known.get(cause).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_causes_are_forgotten_first() {
        let mut causes = Causes::default();
        let of = |at: usize| Cause::Task(at.to_string());
        for at in 0..MAX_CAUSES + 10 {
            causes.note(of(at), (TraceContext::root(), 0));
            causes.note(of(at), (TraceContext::root(), 1));
        }
        assert_eq!(causes.known.len(), MAX_CAUSES);
        assert!(causes.find(&of(9)).is_none());
        assert_eq!(causes.find(&of(10)).unwrap().1, 1);
    }
}
