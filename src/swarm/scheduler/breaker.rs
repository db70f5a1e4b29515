//! What is known of a provider that is down.

use super::{Backoff, lanes::Lanes};
use crate::id::SessionKey;

/// Nothing of the provider's agents is started but, from time to time, one turn that shows whether it is
/// back.
#[derive(Clone, Debug)]
pub(super) struct Breaker {
    pub(super) opened_at: i64,
    pub(super) probe_at: i64,
    /// Probes that failed.
    pub(super) failures: u32,
    /// The turn that probes.
    pub(super) probe: Option<SessionKey>,
    /// The provider's agents that would run.
    pub(super) held: Lanes,
}

impl Breaker {
    pub(super) fn open(now: i64, waits: Backoff) -> Self {
        Self {
            opened_at: now,
            probe_at: now.saturating_add(waits.after(1)),
            failures: 0,
            probe: None,
            held: Lanes::default(),
        }
    }

    /// The turn was the probe and did not show that the provider is back.
    pub(super) fn probed(&mut self, is_down: bool, now: i64, waits: Backoff) {
        self.probe = None;
        self.failures = self.failures.saturating_add(u32::from(is_down));
        self.probe_at = now.saturating_add(waits.after(self.failures.saturating_add(1)));
    }
}
