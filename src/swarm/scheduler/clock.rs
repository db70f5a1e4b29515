//! A clock that never goes back. The machine's clock may be set back, and a deadline computed before that would then be
//! hours away.

/// Converts the machine's time to a time that only grows, and back.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MonotonicClock {
    /// The total by which the machine's clock was set back, in milliseconds.
    lost: i64,
    last: Option<i64>,
}

impl MonotonicClock {
    /// Returns the monotonic time for a machine time.
    pub(super) fn read(&mut self, now: i64) -> i64 {
        let last = self.last.unwrap_or(now);
        self.lost = self.lost.max(last.saturating_sub(now));
        let time = now.saturating_add(self.lost).max(last);
        self.last = Some(time);
        time
    }

    /// Converts a monotonic time to the machine's clock.
    pub(super) const fn shown(self, time: i64) -> i64 {
        time.saturating_sub(self.lost)
    }

    /// Converts a time of the machine's clock to monotonic time.
    pub(super) const fn taken(self, shown: i64) -> i64 {
        shown.saturating_add(self.lost)
    }
}
