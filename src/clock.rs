//! Time as flock stores it: milliseconds since the Unix epoch.
//!
//! Code that decides takes `now` as a parameter, so that it can be tested. Only code that acts calls [`unix_ms`].

use std::time::{SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// Milliseconds by which the clock of another gateway may differ from this one's without harm. The clocks of a group may be
/// five minutes apart, and one minute more is for what happens meanwhile.
pub(crate) const MAX_DIFFERENCE: i64 = 6 * 60_000;

/// Returns the present time in milliseconds since the Unix epoch, or 0 if the clock shows a time before 1970.
#[must_use]
pub fn unix_ms() -> i64 {
    // No wall clock is trusted to be right: a wrong one gives a wrong time, never a panic.
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// Returns the time since this machine was started, in milliseconds. This clock is never set, and goes on while the machine is
/// suspended.
#[must_use]
pub(crate) fn boot_ms() -> i64 {
    use nix::time::{ClockId, clock_gettime};
    // It fails only for a clock that the kernel does not have, and this one is older than all that flock runs on.
    clock_gettime(ClockId::CLOCK_BOOTTIME).map_or(0, |time| time.tv_sec() * 1000 + time.tv_nsec() / 1_000_000)
}

/// Returns a time, given in Unix milliseconds, in this machine's time zone, as in `2026-02-28 09:30:00`.
#[must_use]
pub fn local(at: i64) -> String {
    let time = Timestamp::from_millisecond(at).unwrap_or_default().to_zoned(TimeZone::system());
    time.strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// Returns the last Unix millisecond of a second in this machine's time zone, as [`local`] shows it. `None` if the time is too
/// far away.
#[must_use]
pub(crate) fn end_of_local_second(time: DateTime) -> Option<i64> {
    Some(time.to_zoned(TimeZone::system()).ok()?.timestamp().as_second().checked_add(1)? * 1000 - 1)
}

/// Returns the day of a time, given in Unix milliseconds, in this machine's time zone, as in `2026-02-28`.
#[must_use]
pub(crate) fn local_day(at: i64) -> String {
    Timestamp::from_millisecond(at).unwrap_or_default().to_zoned(TimeZone::system()).date().to_string()
}

/// Returns a time, given in Unix milliseconds, in this machine's time zone, as a part of a file's name, as in
/// `2026-02-28-093000`.
#[must_use]
pub(crate) fn file_time(at: i64) -> String {
    let time = Timestamp::from_millisecond(at).unwrap_or_default().to_zoned(TimeZone::system());
    time.strftime("%Y-%m-%d-%H%M%S").to_string()
}

/// Returns a time, given in Unix milliseconds, for readers in any place, as in `2026-02-28 09:30 UTC`.
#[must_use]
pub(crate) fn utc(at: i64) -> String {
    Timestamp::from_millisecond(at).unwrap_or_default().strftime("%Y-%m-%d %H:%M UTC").to_string()
}

/// Returns the processor time of this thread. A test can set a limit on it that does not depend on how busy the machine
/// is.
#[cfg(test)]
pub(crate) fn thread_cpu_time() -> std::time::Duration {
    use nix::sys::resource::{UsageWho, getrusage};
    let spent = getrusage(UsageWho::RUSAGE_THREAD).unwrap();
    [spent.user_time(), spent.system_time()]
        .map(|time| {
            std::time::Duration::from_micros(
                u64::try_from(time.tv_sec() * 1_000_000 + time.tv_usec()).unwrap(),
            )
        })
        .into_iter()
        .sum()
}
