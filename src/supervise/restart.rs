//! Restarts of a crashed process: backoff, the circuit breaker for crash loops, and what is stored about both. Pure:
//! the time is passed in, in milliseconds.

use serde::{Deserialize, Serialize};

/// The limits of supervision. Times are in milliseconds.
#[derive(Clone, Debug)]
pub struct SupervisionLimits {
    /// The time for preparing a start.
    pub ready: i64,
    /// The time from the start of the process until it is healthy.
    pub start: i64,
    /// The healthy time after which earlier crashes are forgotten.
    pub stable: i64,
    /// The delay after a first crash, which doubles with each further one.
    pub backoff: i64,
    /// The longest delay.
    pub backoff_cap: i64,
    /// The delay after an end that has an outside cause, which has to pass.
    pub pause: i64,
    /// The delay after an end because another process has taken over, which doubles with each further one, up to
    /// [`SupervisionLimits::backoff_cap`].
    pub replaced: i64,
    /// The number of crashes within [`SupervisionLimits::window`] that opens the circuit breaker.
    pub crashes: usize,
    /// The time in which [`SupervisionLimits::crashes`] are counted.
    pub window: i64,
    /// The time from the request to stop until the kill.
    pub grace: i64,
    /// The number of unanswered health checks in a row that counts as a crash.
    pub misses: u32,
}

impl Default for SupervisionLimits {
    fn default() -> Self {
        Self {
            ready: 60_000,
            start: 60_000,
            stable: 60_000,
            backoff: 100,
            backoff_cap: 30_000,
            pause: 5_000,
            replaced: 1_000,
            crashes: 5,
            window: 120_000,
            // The gateway's own time limits for ending turns and containers must stay below this.
            grace: 45_000,
            misses: 3,
        }
    }
}

impl SupervisionLimits {
    /// Returns the delay before the restart of a process that was replaced, after `earlier` such ends in a row. It has a
    /// limit and no breaker: the process has done nothing wrong, and two that replace each other must not do so without
    /// a pause.
    #[must_use]
    pub(crate) fn replacement_delay(&self, earlier: u32) -> i64 {
        doubled(self.replaced, earlier, self.backoff_cap)
    }
}

/// Returns a delay that doubles with each time, up to a cap.
fn doubled(delay: i64, times: u32, cap: i64) -> i64 {
    delay.saturating_mul(1 << times.min(30)).min(cap)
}

/// The stored crash history of a process, which survives the supervisor.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct CrashHistory {
    /// Unix milliseconds of the crashes that still count, oldest first.
    pub crashes: Vec<i64>,
    /// Unix milliseconds at which the circuit breaker opened; `None` while it is closed.
    pub opened_at: Option<i64>,
    /// The reason of the last crash.
    pub reason: Option<String>,
}

impl CrashHistory {
    /// Returns `true` if there is nothing to store.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns `true` if the breaker is open: nothing is started until a person asks for it.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        self.opened_at.is_some()
    }

    /// Records a crash. Returns the time of the next start, or `None` if the breaker is open now.
    pub fn record_crash(&mut self, limits: &SupervisionLimits, now: i64, reason: String) -> Option<i64> {
        // If the clock was set back, crashes from the future must not count forever.
        self.crashes.retain(|at| (now - limits.window..=now).contains(at));
        self.crashes.push(now);
        self.reason = Some(reason);
        if self.crashes.len() >= limits.crashes {
            self.opened_at = Some(now);
            return None;
        }
        let earlier = u32::try_from(self.crashes.len() - 1).unwrap_or(u32::MAX);
        Some(now + doubled(limits.backoff, earlier, limits.backoff_cap))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_cap_and_then_the_breaker_opens() {
        let limits = SupervisionLimits {
            crashes: 12,
            backoff: 100,
            backoff_cap: 3_000,
            ..SupervisionLimits::default()
        };
        let mut memory = CrashHistory::default();
        let waits: Vec<Option<i64>> = (0..12)
            .map(|at| memory.record_crash(&limits, at, "x".to_owned()).map(|until| until - at))
            .collect();
        let expected = [100, 200, 400, 800, 1600, 3000, 3000, 3000, 3000, 3000, 3000]
            .map(Some)
            .into_iter()
            .chain([None]);
        assert_eq!(waits, expected.collect::<Vec<_>>());
        assert!(memory.is_open());
    }

    #[test]
    fn a_replaced_process_waits_longer_each_time_up_to_the_cap() {
        let limits =
            SupervisionLimits { replaced: 1_000, backoff_cap: 30_000, ..SupervisionLimits::default() };
        let delays = [0, 1, 2, 3, 4, 5, 6, 1_000, u32::MAX].map(|earlier| limits.replacement_delay(earlier));
        let capped = 30_000;
        assert_eq!(delays, [1_000, 2_000, 4_000, 8_000, 16_000, capped, capped, capped, capped]);
    }

    #[test]
    fn crashes_outside_the_window_do_not_count() {
        let limits = SupervisionLimits { crashes: 3, window: 1_000, ..SupervisionLimits::default() };
        let mut memory = CrashHistory::default();
        for at in (0..100).map(|step| step * 501) {
            assert!(memory.record_crash(&limits, at, "x".to_owned()).is_some(), "at {at}");
        }
        assert!(memory.record_crash(&limits, 99 * 501 + 1, "x".to_owned()).is_none());
        let mut memory = CrashHistory { crashes: vec![5_000_000; 10], ..CrashHistory::default() };
        assert!(memory.record_crash(&limits, 0, "x".to_owned()).is_some(), "a crash of the future");
    }

    #[test]
    fn unknown_and_missing_keys_are_accepted() {
        let memory: CrashHistory = serde_json::from_str(r#"{"openedAt":7,"later":1}"#).unwrap();
        assert!(memory.is_open());
        let text = serde_json::to_string(&memory).unwrap();
        assert_eq!(serde_json::from_str::<CrashHistory>(&text).unwrap(), memory);
    }
}
