//! Decides when a request that a collector did not take is sent again. Pure.

use std::time::Duration;

/// Wait after the first failure. It doubles with each further one.
const FIRST: Duration = Duration::from_secs(1);
/// Longest wait, unless the collector asks for a longer one.
const LONGEST: Duration = Duration::from_secs(30);
/// Time after which a request is given up.
pub(super) const DEADLINE: Duration = Duration::from_secs(300);

/// Returns the wait before the next attempt, or `None` if the request is given up.
///
/// `spent` is the time since the first attempt, and `chance` a random number from 0 to 1, so that several gateways do
/// not come back at the same moment.
pub(super) fn next(failures: u32, asked: Option<Duration>, spent: Duration, chance: f64) -> Option<Duration> {
    let backoff = FIRST.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(LONGEST);
    let backoff = backoff.mul_f64(0.5 + chance.clamp(0.0, 1.0) / 2.0);
    // Never earlier than the collector asks for.
    let wait = asked.map_or(backoff, |asked| asked.max(backoff));
    (spent.saturating_add(wait) <= DEADLINE).then_some(wait)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn waits_double_and_end_with_the_deadline() {
        let waits: Vec<u64> = (1..9)
            .filter_map(|failures| next(failures, None, Duration::ZERO, 1.0))
            .map(|wait| wait.as_secs())
            .collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 30, 30, 30]);
        assert_eq!(next(1, None, Duration::ZERO, 0.0), Some(SECOND / 2));
        assert_eq!(next(1, None, DEADLINE, 1.0), None);
        assert_eq!(next(u32::MAX, None, Duration::ZERO, 1.0), Some(LONGEST));
    }

    #[test]
    fn the_collectors_own_wait_is_kept() {
        assert_eq!(next(1, Some(SECOND * 90), Duration::ZERO, 1.0), Some(SECOND * 90));
        // One that is longer than the request may take gives it up at once.
        assert_eq!(next(1, Some(SECOND * 600), Duration::ZERO, 1.0), None);
        assert_eq!(next(4, Some(Duration::ZERO), Duration::ZERO, 1.0), Some(SECOND * 8));
    }
}
