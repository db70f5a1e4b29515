//! Time that never goes back. A machine's clock may be set; waits that were counted from a later hour would
//! then last for hours.

/// Turns the machine's time into one that only grows, and back.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Clock {
    /// How far the machine's clock was set back in all.
    lost: i64,
    last: Option<i64>,
}

impl Clock {
    /// The time, by the machine's.
    pub(super) fn read(&mut self, now: i64) -> i64 {
        let last = self.last.unwrap_or(now);
        self.lost = self.lost.max(last.saturating_sub(now));
        let time = now.saturating_add(self.lost).max(last);
        self.last = Some(time);
        time
    }

    /// A time to come, as the machine's clock says it.
    pub(super) const fn shown(self, time: i64) -> i64 {
        time.saturating_sub(self.lost)
    }

    /// A time of the machine's clock.
    pub(super) const fn taken(self, shown: i64) -> i64 {
        shown.saturating_add(self.lost)
    }
}
