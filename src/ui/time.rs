//! Times for people.

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// A time (Unix milliseconds) in this machine's zone, as `2026-02-28 09:30:00`.
#[must_use]
pub fn local(at: i64) -> String {
    let time = Timestamp::from_millisecond(at).unwrap_or_default().to_zoned(TimeZone::system());
    time.strftime("%Y-%m-%d %H:%M:%S").to_string()
}
