//! Checks what a person or an agent wants a schedule to be. Everything that can be wrong is said with what is accepted.

use jiff::Timestamp;
use jiff::civil::DateTime;
use serde::{Deserialize, Serialize};

use super::event;
use super::times::{self, Times};
use crate::store::{MissedPolicy, Timing};

/// Maximum size of a schedule's text in bytes.
pub(crate) const MAX_TEXT: usize = 16 << 10;
/// The smallest and the largest distance of an interval.
pub(crate) const MINUTE_MS: i64 = 60_000;
const MAX_PERIOD_MS: i64 = 366 * 24 * 60 * MINUTE_MS;
/// The furthest time of a single run.
const MAX_AHEAD_MS: i64 = 5 * MAX_PERIOD_MS;

/// A schedule that somebody wants, as it is written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ScheduleWish {
    /// A channel or an agent, such as `dev`, `#dev` or `@coder`.
    pub(crate) to: String,
    pub(crate) text: String,
    /// Its name. Without it, it is named after the recipient.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    /// A cron pattern.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cron: Option<String>,
    /// An interval, such as `90m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) every: Option<String>,
    /// A single time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) at: Option<String>,
    /// The name of an event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) after: Option<String>,
    /// The time zone of the pattern or the time. Without it, the machine's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tz: Option<String>,
    /// The policy for missed times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) missed: Option<MissedPolicy>,
    /// Tokens that it may use in a day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tokens: Option<u64>,
    /// Millionths of a dollar that it may cost in a day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cost_micros: Option<u64>,
    /// Name of the person, for the audit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) by: Option<String>,
}

/// Returns the times that somebody wants.
///
/// # Errors
///
/// Returns a message for people that names the wrong part and gives an example.
pub(crate) fn timing(wish: &ScheduleWish, now: i64) -> Result<Timing, String> {
    let given = [&wish.cron, &wish.every, &wish.at, &wish.after];
    if given.iter().filter(|part| part.is_some()).count() != 1 {
        return Err("say once when it runs: by a cron pattern as in \"0 9 * * 1-5\", by an interval, by a time, or after \
                    an event"
            .to_owned());
    }
    if wish.tz.is_some() && wish.cron.is_none() && wish.at.is_none() {
        return Err("a time zone goes only with a cron pattern or a single time".to_owned());
    }
    let zone = wish.tz.clone().unwrap_or_else(times::own_zone);
    if let Some(pattern) = &wish.cron {
        let pattern = pattern.split_whitespace().collect::<Vec<_>>().join(" ");
        let timing = Timing::Cron { pattern, zone };
        // A pattern such as that for February 30 has no time at all.
        return match Times::of(&timing)?.next_after(now) {
            Some(_) => Ok(timing),
            None => Err("the cron pattern fits no time in the next twelve years".to_owned()),
        };
    }
    if let Some(text) = &wish.every {
        return Ok(Timing::Every { from: now, period: period(text)? });
    }
    if let Some(text) = &wish.at {
        let at = single(text, &zone)?;
        if at <= now {
            return Err(format!("{text:?} has passed"));
        }
        if at - now > MAX_AHEAD_MS {
            return Err(format!("{text:?} is more than five years ahead"));
        }
        return Ok(Timing::At(at));
    }
    let name = wish.after.as_deref().unwrap_or_default();
    if !event::NAMES.contains(&name) {
        let names = event::NAMES.join(", ");
        return Err(format!(
            "there is no event {:?} to run after; there are {names}",
            crate::clean::summary(name, 40)
        ));
    }
    Ok(Timing::After(name.to_owned()))
}

/// Reads an interval such as `90m`, `2h` or `1d12h`.
fn period(text: &str) -> Result<i64, String> {
    let shown = crate::clean::summary(text, 40);
    let wrong = || {
        format!(
            "{shown:?} is not an interval: write minutes, hours, days or weeks, as in 90m, 2h, 1d or 1d12h"
        )
    };
    let mut sum: i64 = 0;
    let mut digits = String::new();
    for c in text.trim().chars() {
        if c.is_ascii_digit() {
            digits.push(c);
            continue;
        }
        let unit = match c {
            'm' => MINUTE_MS,
            'h' => 60 * MINUTE_MS,
            'd' => 24 * 60 * MINUTE_MS,
            'w' => 7 * 24 * 60 * MINUTE_MS,
            _ => return Err(wrong()),
        };
        let number: i64 = digits.parse().map_err(|_| wrong())?;
        sum = number.checked_mul(unit).and_then(|more| sum.checked_add(more)).ok_or_else(wrong)?;
        digits.clear();
    }
    if !digits.is_empty() || text.trim().is_empty() {
        return Err(wrong());
    }
    if !(MINUTE_MS..=MAX_PERIOD_MS).contains(&sum) {
        return Err(format!("an interval has at least 1m and at most 366d, {shown:?} does not"));
    }
    Ok(sum)
}

/// Reads a single time: with an offset, or a local time in a zone.
fn single(text: &str, zone: &str) -> Result<i64, String> {
    let text = text.trim();
    if let Ok(moment) = text.parse::<Timestamp>() {
        return Ok(moment.as_millisecond());
    }
    let zone = times::find_zone(zone)?;
    text.parse::<DateTime>().ok().and_then(|local| times::moment(local, &zone)).ok_or_else(|| {
        format!(
            "{:?} is not a time: write it as in 2026-12-01T09:00, in the time zone of the schedule, or with an offset, as \
             in 2026-12-01T09:00:00+01:00",
            crate::clean::summary(text, 40)
        )
    })
}

/// Checks a text.
///
/// # Errors
///
/// Returns a message for people if it is empty or too long.
pub(crate) fn text(text: &str) -> Result<(), String> {
    if text.trim().is_empty() {
        return Err("the text of a schedule is empty".to_owned());
    }
    if text.len() > MAX_TEXT {
        return Err(format!(
            "the text of a schedule has {} bytes, at most {MAX_TEXT} are possible",
            text.len()
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(wish: &ScheduleWish) -> Result<Timing, String> {
        timing(wish, 1_700_000_000_000)
    }

    fn some(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[test]
    fn intervals_times_and_events_are_read() {
        let every = |text| read(&ScheduleWish { every: some(text), ..ScheduleWish::default() });
        let minutes = |count: i64| Ok(Timing::Every { from: 1_700_000_000_000, period: count * MINUTE_MS });
        assert_eq!(every("90m"), minutes(90));
        assert_eq!(every("1d12h"), minutes(36 * 60));
        assert_eq!(every("1w"), minutes(7 * 24 * 60));
        let at = |text, tz| read(&ScheduleWish { at: some(text), tz: some(tz), ..ScheduleWish::default() });
        assert_eq!(at("2023-12-01T09:00", "Europe/Berlin"), at("2023-12-01T08:00:00Z", "UTC"));
        assert_eq!(at("2023-12-01 09:00", "UTC"), at("2023-12-01T10:00:00+01:00", "UTC"));
        let after = read(&ScheduleWish { after: some("task.completed"), ..ScheduleWish::default() });
        assert_eq!(after, Ok(Timing::After("task.completed".to_owned())));
    }

    #[test]
    fn what_is_wrong_is_said_with_an_example() {
        let every = |text: &str| ScheduleWish { every: some(text), ..ScheduleWish::default() };
        let at = |text: &str| ScheduleWish { at: some(text), ..ScheduleWish::default() };
        for (wish, said) in [
            (ScheduleWish::default(), "0 9 * * 1-5"),
            (ScheduleWish { at: some("2030-01-01T00:00"), ..every("1h") }, "0 9 * * 1-5"),
            (every("30s"), "1d12h"),
            (every("5"), "1d12h"),
            (every(""), "1d12h"),
            (every("0m"), "at least 1m"),
            (every("53w"), "at most 366d"),
            (every("99999999999999999999m"), "1d12h"),
            (at("tomorrow"), "2026-12-01T09:00"),
            (at("2023-11-14T00:00:00Z"), "has passed"),
            (at("2050-01-01T00:00:00Z"), "five years"),
            (ScheduleWish { after: some("turn.started"), ..ScheduleWish::default() }, "task.completed"),
            (ScheduleWish { cron: some("0 0 30 2 *"), ..ScheduleWish::default() }, "twelve years"),
            (
                ScheduleWish { cron: some("0 9 * * *"), tz: some("Mars/Base"), ..ScheduleWish::default() },
                "Europe/Berlin",
            ),
            (ScheduleWish { tz: some("UTC"), ..every("1h") }, "time zone"),
        ] {
            let error = read(&wish).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
        assert!(text(" \n").is_err() && text(&"x".repeat(MAX_TEXT + 1)).is_err() && text("x").is_ok());
    }
}
