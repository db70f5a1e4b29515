//! The circuit breaker of a provider that is down.

use super::{Backoff, ready_queue::ReadyQueue};
use crate::id::SessionKey;

/// An open circuit breaker. No turn of the provider's agents starts, except a probe from time to time that shows if the
/// provider is back.
#[derive(Clone, Debug)]
pub(super) struct Breaker {
    pub(super) opened_at: i64,
    pub(super) probe_at: i64,
    /// Number of failed probes.
    pub(super) failures: u32,
    /// The session whose turn is the current probe.
    pub(super) probe: Option<SessionKey>,
    /// The provider's agents that would run if it were up.
    pub(super) held: ReadyQueue,
}

impl Breaker {
    pub(super) fn open(now: i64, waits: Backoff) -> Self {
        Self {
            opened_at: now,
            probe_at: now.saturating_add(waits.after(1)),
            failures: 0,
            probe: None,
            held: ReadyQueue::default(),
        }
    }

    /// Opens for a quota that is used up until this time.
    pub(super) fn parked(now: i64, until: i64) -> Self {
        Self { opened_at: now, probe_at: until, failures: 0, probe: None, held: ReadyQueue::default() }
    }

    /// Records that the probe ended without showing that the provider is back.
    pub(super) fn probed(&mut self, is_down: bool, now: i64, waits: Backoff) {
        self.probe = None;
        // Only a failure of the provider counts. A probe that failed for another reason is repeated after the same
        // wait.
        self.failures = self.failures.saturating_add(u32::from(is_down));
        self.probe_at = now.saturating_add(waits.after(self.failures.saturating_add(1)));
    }
}
