//! The wait before the next attempt.

use std::time::Duration;

use super::platform::PlatformError;
use crate::clock::unix_ms;

const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);

/// Returns the wait after this many failed attempts. It doubles up to a minute. `share`, from 0 to 1, takes off up
/// to a quarter, so that many bridges do not come back at the same moment.
pub(crate) fn wait(failed: u32, share: f64) -> Duration {
    let doubled = FIRST.saturating_mul(2_u32.saturating_pow(failed.saturating_sub(1)));
    doubled.min(LONGEST).mul_f64(1.0 - share.clamp(0.0, 1.0) / 4.0)
}

/// Returns the time of the next attempt after a failure, in Unix milliseconds.
pub(super) fn until(error: &PlatformError, attempts: u32) -> i64 {
    let wait = match error {
        PlatformError::RateLimited(wait) => *wait,
        _ => wait(attempts.saturating_add(1), rand::random()),
    };
    unix_ms().saturating_add(i64::try_from(wait.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_doubles_up_to_a_minute() {
        let seconds = |failed| wait(failed, 0.0).as_secs();
        assert_eq!([0, 1, 2, 3, 9, 10, 4_000_000].map(seconds), [1, 1, 2, 4, 60, 60, 60]);
        assert_eq!(wait(1, 1.0), Duration::from_millis(750));
    }
}
