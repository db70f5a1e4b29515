//! The times of a schedule, as moments. Pure functions of their arguments.
//!
//! Rules for a day on which the clocks change:
//!
//! - A local time that does not exist stands for the moment of the change. If several do not exist, there is one run.
//! - A local time that exists twice stands for its first moment.
//! - A pattern whose hour field begins with `*` goes on as time passes: it also runs in the repeated hour, and nothing
//!   stands for the times that do not exist.
//! - An interval (`every`) is measured in elapsed time, so a change of the clocks does not concern it.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};

use super::pattern::CronPattern;
use crate::store::Timing;

/// The name that stands for the zone of the machine.
pub(crate) const SYSTEM_ZONE: &str = "system";
/// The years after which the search for the next time of a pattern ends. February 29 comes every eight years at the
/// latest.
const MAX_YEARS: i64 = 12;

/// The times of a schedule, ready to be computed.
#[derive(Clone, Debug)]
pub(crate) enum Times {
    Local(Box<LocalTimes>),
    Every {
        from: i64,
        period: i64,
    },
    At(i64),
    /// It has no times of its own.
    Never,
}

/// The local times of a cron pattern in a zone.
#[derive(Clone, Debug)]
pub(crate) struct LocalTimes {
    pub(crate) pattern: CronPattern,
    pub(crate) zone: TimeZone,
}

impl Times {
    /// Returns the times of a schedule.
    ///
    /// # Errors
    ///
    /// Returns a message for people if the pattern can't be read or the machine does not know the zone.
    pub(crate) fn of(timing: &Timing) -> Result<Self, String> {
        Ok(match timing {
            Timing::Cron { pattern, zone } => Self::Local(Box::new(LocalTimes {
                pattern: CronPattern::parse(pattern)?,
                zone: find_zone(zone)?,
            })),
            Timing::Every { from, period } => Self::Every { from: *from, period: *period },
            Timing::At(at) => Self::At(*at),
            Timing::After(_) => Self::Never,
        })
    }

    /// Returns the first time after this one, in Unix milliseconds.
    pub(crate) fn next_after(&self, at: i64) -> Option<i64> {
        match self {
            Self::Local(local) => local.next_after(at),
            Self::Every { from, period } => {
                let passed = at.saturating_sub(*from).div_euclid((*period).max(1)) + 1;
                from.checked_add(passed.max(1).checked_mul(*period)?)
            }
            Self::At(time) => (at < *time).then_some(*time),
            Self::Never => None,
        }
    }
}

impl LocalTimes {
    /// Returns the first time after this one, in Unix milliseconds.
    ///
    /// Between two changes of the clocks, local time is the time of the world plus an offset. So the search goes through
    /// these stretches one by one.
    fn next_after(&self, at: i64) -> Option<i64> {
        // Patterns have whole minutes, so the rest of a second makes no difference.
        let mut at = Timestamp::from_second(at.div_euclid(1000)).ok()?;
        let last = at.as_second().saturating_add(MAX_YEARS * 366 * 86_400);
        let mut inclusive = false;
        while at.as_second() < last {
            let offset = self.zone.to_offset(at);
            let end = self.zone.following(at).next().map(|change| change.timestamp());
            if let Some(found) = self.in_stretch(at, offset, inclusive)?
                && end.is_none_or(|end| found < end)
            {
                return Some(found.as_millisecond());
            }
            let end = end?;
            if !self.pattern.is_hourly && self.is_in_gap(end, offset, self.zone.to_offset(end)) {
                return Some(end.as_millisecond());
            }
            (at, inclusive) = (end, true);
        }
        None
    }

    /// Returns the first time after `at` if the offset stayed as it is. The outer `None` ends the search.
    fn in_stretch(&self, at: Timestamp, offset: Offset, inclusive: bool) -> Option<Option<Timestamp>> {
        let mut from = (offset.to_datetime(at), inclusive);
        if !self.pattern.is_hourly
            && let Some(fresh) = self.end_of_repetition(at, offset)
            && from.0 < fresh
        {
            from = (fresh, true);
        }
        Some(offset.to_timestamp(self.pattern.next(from.0, from.1)?).ok())
    }

    /// Returns the local time up to which the stretch that contains `at` repeats local times of the one before it.
    fn end_of_repetition(&self, at: Timestamp, offset: Offset) -> Option<DateTime> {
        // The search for a change before a moment leaves out the moment itself.
        let second = jiff::SignedDuration::from_secs(1);
        let begin = self.zone.preceding(at.checked_add(second).ok()?).next()?.timestamp();
        let before = self.zone.to_offset(begin.checked_sub(second).ok()?);
        (before > offset).then(|| before.to_datetime(begin))
    }

    /// Returns `true` if a local time of the pattern is left out by the change at this moment.
    fn is_in_gap(&self, change: Timestamp, before: Offset, after: Offset) -> bool {
        let (first, end) = (before.to_datetime(change), after.to_datetime(change));
        first < end && self.pattern.next(first, true).is_some_and(|found| found < end)
    }
}

/// Returns the zone of this name. `system` is the machine's.
///
/// # Errors
///
/// Returns a message for people if the machine does not know it.
pub(crate) fn find_zone(name: &str) -> Result<TimeZone, String> {
    if name == SYSTEM_ZONE {
        return Ok(TimeZone::system());
    }
    let is_name = name.len() <= 64
        && !name.is_empty()
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '/' | '_' | '-' | '+'));
    is_name.then(|| TimeZone::get(name).ok()).flatten().ok_or_else(|| {
        format!(
            "this machine knows no time zone {:?}: write a name of the time zone database, as in Europe/Berlin or UTC",
            crate::clean::summary(name, 64)
        )
    })
}

/// Returns the name of the machine's zone. It is [`SYSTEM_ZONE`] if the zone has no name of the database.
pub(crate) fn own_zone() -> String {
    TimeZone::system().iana_name().unwrap_or(SYSTEM_ZONE).to_owned()
}

/// Returns the moment of a local time in a zone, by the rules of this module.
pub(crate) fn moment(local: DateTime, zone: &TimeZone) -> Option<i64> {
    use jiff::tz::AmbiguousOffset;
    let found = match zone.to_ambiguous_timestamp(local).offset() {
        AmbiguousOffset::Unambiguous { offset } => offset.to_timestamp(local).ok()?,
        AmbiguousOffset::Fold { before, .. } => before.to_timestamp(local).ok()?,
        // With the offset from before the change, the time is after it.
        AmbiguousOffset::Gap { before, .. } => {
            zone.preceding(before.to_timestamp(local).ok()?).next()?.timestamp()
        }
    };
    Some(found.as_millisecond())
}

#[cfg(test)]
#[path = "times_tests.rs"]
mod tests;
