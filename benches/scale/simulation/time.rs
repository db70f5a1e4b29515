//! The simulated time: it passes as the machine's does, and the time in which nothing happens is skipped.

use std::time::{Duration, Instant};

use flock::clock::unix_ms;

pub struct Clock {
    began: Instant,
    /// The time at the beginning, in Unix milliseconds.
    base: i64,
    skipped: i64,
}

impl Clock {
    pub fn start() -> Self {
        Self { began: Instant::now(), base: unix_ms(), skipped: 0 }
    }

    /// Returns the simulated time in Unix milliseconds.
    pub fn now(&self) -> i64 {
        self.base + self.skipped + i64::try_from(self.began.elapsed().as_millis()).unwrap()
    }

    /// Skips the time until `at`.
    pub fn skip_to(&mut self, at: i64) {
        self.skipped += (at - self.now()).max(0);
    }

    /// Returns the time that passes until `at` if nothing is skipped.
    pub fn until(&self, at: i64) -> Duration {
        Duration::from_millis(u64::try_from(at - self.now()).unwrap_or(0))
    }

    /// Returns the simulated time since the beginning.
    pub fn passed(&self) -> Duration {
        Duration::from_millis(u64::try_from(self.now() - self.base).unwrap_or(0))
    }

    /// Returns the real time since the beginning.
    pub fn worked(&self) -> Duration {
        self.began.elapsed()
    }
}
