//! When a crashed process may be started again: backoff, the crash-loop breaker, and what of both is
//! remembered on disk. Pure: times are given, in milliseconds.

use serde::{Deserialize, Serialize};

/// The limits supervision works with. Times in milliseconds.
#[derive(Clone, Debug)]
pub struct Limits {
    /// For making ready what it needs.
    pub ready: i64,
    /// From spawned to healthy.
    pub start: i64,
    /// Healthy for so long, and earlier crashes are forgotten.
    pub stable: i64,
    /// The wait after a first crash; it doubles with each further one.
    pub backoff: i64,
    /// The longest wait.
    pub backoff_cap: i64,
    /// The wait after an end that something has to pass for.
    pub pause: i64,
    /// So many crashes within [`Limits::window`] open the breaker.
    pub crashes: usize,
    /// See [`Limits::crashes`].
    pub window: i64,
    /// From the request to stop to the kill.
    pub grace: i64,
    /// So many unanswered health checks in a row count as a crash.
    pub misses: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            ready: 60_000,
            start: 60_000,
            stable: 60_000,
            backoff: 100,
            backoff_cap: 30_000,
            pause: 5_000,
            crashes: 5,
            window: 120_000,
            // The gateway's own limits for turns and containers to end stay below this.
            grace: 45_000,
            misses: 3,
        }
    }
}

/// What is remembered of crashes, also over the supervisor's own death.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Memory {
    /// When the process crashed, oldest first; only what still counts.
    pub crashes: Vec<i64>,
    /// When the breaker opened, if it is open.
    pub opened_at: Option<i64>,
    /// Why the process ended last.
    pub reason: Option<String>,
}

impl Memory {
    /// Whether there is nothing to remember.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether nothing is started until a person says so.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        self.opened_at.is_some()
    }

    /// Counts a crash. Gives the time at which to start again, or `None` when the breaker is open.
    pub fn crash(&mut self, limits: &Limits, now: i64, reason: String) -> Option<i64> {
        // A clock that was set back must not make crashes count for ever, nor one from the future.
        self.crashes.retain(|at| (now - limits.window..=now).contains(at));
        self.crashes.push(now);
        self.reason = Some(reason);
        if self.crashes.len() >= limits.crashes {
            self.opened_at = Some(now);
            return None;
        }
        let doublings = u32::try_from(self.crashes.len() - 1).unwrap_or(u32::MAX).min(30);
        Some(now + limits.backoff.saturating_mul(1 << doublings).min(limits.backoff_cap))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_cap_and_then_the_breaker_opens() {
        let limits = Limits { crashes: 12, backoff: 100, backoff_cap: 3_000, ..Limits::default() };
        let mut memory = Memory::default();
        let waits: Vec<Option<i64>> =
            (0..12).map(|at| memory.crash(&limits, at, "x".to_owned()).map(|until| until - at)).collect();
        let expected = [100, 200, 400, 800, 1600, 3000, 3000, 3000, 3000, 3000, 3000]
            .map(Some)
            .into_iter()
            .chain([None]);
        assert_eq!(waits, expected.collect::<Vec<_>>());
        assert!(memory.is_open());
    }

    #[test]
    fn crashes_outside_the_window_do_not_count() {
        let limits = Limits { crashes: 3, window: 1_000, ..Limits::default() };
        let mut memory = Memory::default();
        for at in (0..100).map(|step| step * 501) {
            assert!(memory.crash(&limits, at, "x".to_owned()).is_some(), "at {at}");
        }
        assert!(memory.crash(&limits, 99 * 501 + 1, "x".to_owned()).is_none());
        let mut memory = Memory { crashes: vec![5_000_000; 10], ..Memory::default() };
        assert!(memory.crash(&limits, 0, "x".to_owned()).is_some(), "a crash of the future");
    }

    #[test]
    fn memory_survives_unknown_and_missing_keys() {
        let memory: Memory = serde_json::from_str(r#"{"openedAt":7,"later":1}"#).unwrap();
        assert!(memory.is_open());
        let text = serde_json::to_string(&memory).unwrap();
        assert_eq!(serde_json::from_str::<Memory>(&text).unwrap(), memory);
    }
}
