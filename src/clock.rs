//! Time as flock stores it: milliseconds since the Unix epoch.
//!
//! Policy takes `now` as a parameter; only the effects at the edge call [`unix_ms`].

use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since the Unix epoch. A clock before 1970 reads as 0.
#[must_use]
pub fn unix_ms() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
