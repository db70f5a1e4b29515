//! One session in the scheduler: its undelivered messages and where it waits.

use super::{Backoff, Priority, Urgency};

/// The most urgent priority and time of a session's undelivered messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PendingMessages {
    pub(super) priority: Priority,
    pub(super) urgency: Urgency,
}

impl PendingMessages {
    fn with(self, other: Self) -> Self {
        Self { priority: self.priority.min(other.priority), urgency: self.urgency.min(other.urgency) }
    }
}

/// The place where a session waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum WaitState {
    /// The session does not wait.
    #[default]
    Nowhere,
    /// For the end of its backoff.
    Retry,
    /// For its agent's next tick.
    Plain,
    /// For a slot.
    Queued {
        /// The current priority. A plain message rises with time.
        level: Priority,
        /// The session's number in the queue.
        order: u64,
    },
}

/// A session that runs or has undelivered messages.
#[derive(Clone, Debug, Default)]
pub(super) struct Session {
    pub(super) is_running: bool,
    /// Undelivered messages for which no turn was started.
    pub(super) unseen: Option<PendingMessages>,
    /// The messages for which the running turn was started.
    pub(super) taken: Option<PendingMessages>,
    /// The provider that the running turn uses.
    pub(super) provider: Option<String>,
    /// Number of consecutive turns that failed or did not begin.
    pub(super) failures: u32,
    pub(super) retry_at: Option<i64>,
    pub(super) spot: WaitState,
}

impl Session {
    /// Adds undelivered messages. Returns `true` if that changes the priority or urgency.
    pub(super) fn add(&mut self, work: PendingMessages) -> bool {
        let before = self.unseen;
        self.unseen = Some(before.map_or(work, |before| before.with(work)));
        self.unseen != before
    }

    /// Delays the next attempt, longer with each failure.
    pub(super) fn back_off(&mut self, now: i64, waits: Backoff) {
        self.failures = self.failures.saturating_add(1);
        self.retry_at = Some(now.saturating_add(waits.after(self.failures)));
    }

    /// Marks the messages for which the turn was started as undelivered again.
    pub(super) fn give_back(&mut self) {
        if let Some(taken) = self.taken.take() {
            self.add(taken);
        }
    }
}
