//! One session as the scheduler sees it: what is undelivered for it, and where it waits.

use super::{Backoff, Priority, Urgency};

/// How what is undelivered shall be seen: by the most urgent of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Work {
    pub(super) priority: Priority,
    pub(super) urgency: Urgency,
}

impl Work {
    fn with(self, other: Self) -> Self {
        Self { priority: self.priority.min(other.priority), urgency: self.urgency.min(other.urgency) }
    }
}

/// Where a session waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Spot {
    /// It does not.
    #[default]
    Nowhere,
    /// Until it is tried again.
    Retry,
    /// For its agent's next tick.
    Plain,
    /// For a place.
    Queued {
        /// As what; a plain message rises with time.
        level: Priority,
        /// Its number in the line.
        order: u64,
    },
}

/// One session that runs or has something undelivered.
#[derive(Clone, Debug, Default)]
pub(super) struct Session {
    pub(super) is_running: bool,
    /// What no turn was started for.
    pub(super) unseen: Option<Work>,
    /// What the running turn was started for.
    pub(super) taken: Option<Work>,
    /// Whom the running turn asks.
    pub(super) provider: Option<String>,
    /// Turns in a row that failed or did not begin.
    pub(super) failures: u32,
    pub(super) retry_at: Option<i64>,
    pub(super) spot: Spot,
}

impl Session {
    /// Adds something undelivered; gives whether that changes how it shall be seen.
    pub(super) fn add(&mut self, work: Work) -> bool {
        let before = self.unseen;
        self.unseen = Some(before.map_or(work, |before| before.with(work)));
        self.unseen != before
    }

    /// It is not tried again for a while.
    pub(super) fn back_off(&mut self, now: i64, waits: Backoff) {
        self.failures = self.failures.saturating_add(1);
        self.retry_at = Some(now.saturating_add(waits.after(self.failures)));
    }

    /// What the turn was started for is undelivered again.
    pub(super) fn give_back(&mut self) {
        if let Some(taken) = self.taken.take() {
            self.add(taken);
        }
    }
}
