//! Reads from the words of a provider or of an agent program that a quota is used up, and when it begins anew.
//!
//! Claude Code writes `You've hit your limit · resets 3pm (Europe/Berlin)`, Codex `You've hit your usage limit. … try
//! again at Aug 8th, 2026 12:30 PM.`, Gemini CLI `Your quota will reset after 2h13m20s.` The wordings change with each
//! version, so the time is looked for behind each of a few words. A text that names no time is no error.

use std::time::Duration;

use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _, Zoned};

use super::{QuotaSignal, duration, windows};

/// Words that say that a quota is used up.
const SIGNS: [&str; 20] = [
    "usage limit reached",
    "usage limit has been reached",
    "usage_limit_reached",
    "hour limit reached",
    "session limit reached",
    "daily limit reached",
    "weekly limit reached",
    "monthly limit reached",
    "opus limit reached",
    "sonnet limit reached",
    "limit will reset",
    "limits will reset",
    "quota will reset",
    "exhausted your capacity",
    "exhausted your daily quota",
    "exhausted your quota",
    "exceeded your current quota",
    "insufficient_quota",
    "reached the quota limit",
    "reached your quota limit",
];
/// Words before the name of a limit that was reached, as in `You've hit your weekly limit`.
const BEFORE_LIMIT: [&str; 2] = ["you've hit your ", "you've reached your "];
/// Limits of another kind, which no waiting mends.
const OTHER_LIMITS: [&str; 8] = ["context", "token", "output", "turn", "step", "spend", "budget", "length"];
/// Most bytes between those words and `limit`.
const MAX_LIMIT_NAME: usize = 40;
/// Words that stand before a time.
const BEFORE_TIME: [&str; 8] = [
    "resets ",
    "reset ",
    "try again ",
    "retry ",
    "available again ",
    "resume using this model ",
    "ends ",
    "renews ",
];
/// Words between those and the time.
const FILLERS: [&str; 5] = ["at ", "in ", "after ", "on ", "the "];
/// A time of day that is this little in the past means now, not tomorrow.
const GRACE_MINUTES: i64 = 10;
/// Most bytes of a text that are read.
const MAX_TEXT: usize = 4_096;

/// Returns what an agent program's last words say about a quota, or `None` if they speak of something else.
#[must_use]
pub fn signal(text: &str, now: &Zoned) -> Option<QuotaSignal> {
    says_used_up(text).then(|| QuotaSignal { wait: wait(text, now) })
}

/// Returns `true` if a text says that a quota is used up.
#[must_use]
pub fn says_used_up(text: &str) -> bool {
    let text = plain(text);
    let is_named = |start: usize| {
        let rest = &text[start..];
        let name = &rest[..rest.floor_char_boundary(MAX_LIMIT_NAME)];
        let name = name.find("limit").map(|end| &name[..end]);
        name.is_some_and(|name| !OTHER_LIMITS.iter().any(|other| name.contains(other)))
    };
    SIGNS.iter().any(|sign| text.contains(sign))
        || BEFORE_LIMIT
            .iter()
            .any(|words| text.match_indices(words).any(|(at, _)| is_named(at + words.len())))
}

/// Returns the time until the moment that a text names.
#[must_use]
pub fn wait(text: &str, now: &Zoned) -> Option<Duration> {
    let at = reset_at(text, now)?;
    Some(Duration::try_from(at.duration_since(now.timestamp())).unwrap_or(Duration::ZERO))
}

/// Returns the moment that a text names as the end of a limit. `now` also says in which zone a time of day is meant.
#[must_use]
pub fn reset_at(text: &str, now: &Zoned) -> Option<Timestamp> {
    let text = plain(text);
    // Older versions of Claude Code: `Claude AI usage limit reached|1751230800`.
    let stamp = text.split('|').skip(1).find_map(|part| {
        let digits = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
        windows::epoch(part[..digits].parse().ok()?)
    });
    stamp.or_else(|| {
        BEFORE_TIME.iter().find_map(|words| {
            text.match_indices(words).find_map(|(at, _)| moment(&text[at + words.len()..], now))
        })
    })
}

/// Returns a text in lower case, with the signs that people and programs write differently made alike.
fn plain(text: &str) -> String {
    let text = &text[..text.floor_char_boundary(MAX_TEXT)];
    let alike = |c: char| match c {
        '’' | '‘' => '\'',
        '·' | '∙' | '•' | '\u{a0}' | '\u{202f}' | '\n' | '\t' => ' ',
        c => c.to_ascii_lowercase(),
    };
    text.chars().map(alike).collect()
}

/// Reads a duration or a moment at the beginning of a text.
fn moment(text: &str, now: &Zoned) -> Option<Timestamp> {
    let mut text = text.trim_start();
    while let Some(rest) = FILLERS.iter().find_map(|filler| text.strip_prefix(filler)) {
        text = rest.trim_start();
    }
    if let Some(wait) = duration::leading(text) {
        return now.timestamp().checked_add(wait).ok();
    }
    let word = text.split([' ', '(', ')']).next().unwrap_or_default().trim_end_matches(['.', ',']);
    if let Ok(at) = word.to_ascii_uppercase().parse::<Timestamp>() {
        return Some(at);
    }
    let (date, rest) = match date(text) {
        Some((date, rest)) => (Some(date), rest),
        None => (None, text),
    };
    let (time, rest) = match clock(rest) {
        Some((time, rest)) => (Some(time), rest),
        None => (None, rest),
    };
    if date.is_none() && time.is_none() {
        return None;
    }
    let zone = zone(rest).unwrap_or_else(|| now.time_zone().clone());
    let here = now.with_time_zone(zone.clone());
    let of = |date: Date| date.to_datetime(time.unwrap_or_else(Time::midnight)).to_zoned(zone.clone()).ok();
    let Some(NamedDate { year, month, day }) = date else {
        // A time of day: the next one.
        let today = of(here.date())?;
        let is_over = today.timestamp() < now.timestamp().checked_sub(GRACE_MINUTES.minutes()).ok()?;
        let next = if is_over { of(here.date().tomorrow().ok()?)? } else { today };
        return Some(next.timestamp());
    };
    let dated = Date::new(year.unwrap_or_else(|| here.year()), month, day).ok()?;
    // `Jan 2` in December is in the next year.
    let is_past = year.is_none() && dated < here.date().checked_sub(7.days()).ok()?;
    let dated = if is_past { Date::new(here.year().checked_add(1)?, month, day).ok()? } else { dated };
    Some(of(dated)?.timestamp())
}

/// A date as it is written, perhaps without a year.
struct NamedDate {
    year: Option<i16>,
    month: i8,
    day: i8,
}

/// Reads `jul 31,`, `sep 15 at`, `aug 8th, 2026` or `9/23/2026` at the beginning of a text, and returns the rest too.
fn date(text: &str) -> Option<(NamedDate, &str)> {
    const MONTHS: [&str; 12] =
        ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
    if let Some((month, rest)) = number(text)
        && let Some((day, rest)) = rest.strip_prefix('/').and_then(number)
        && let Some((year, rest)) = rest.strip_prefix('/').and_then(number)
    {
        let (month, day) = (i8::try_from(month).ok()?, i8::try_from(day).ok()?);
        return Some((NamedDate { year: i16::try_from(year).ok(), month, day }, after_date(rest)));
    }
    let place = MONTHS.iter().position(|month| text.starts_with(month))?;
    let month = i8::try_from(place + 1).ok()?;
    let rest = text.trim_start_matches(|c: char| c.is_ascii_alphabetic() || c == '.').trim_start();
    let (day, rest) = number(rest)?;
    let rest = ["st", "nd", "rd", "th"].iter().find_map(|suffix| rest.strip_prefix(suffix)).unwrap_or(rest);
    let rest = rest.trim_start_matches([',', ' ']);
    let year = number(rest).filter(|(year, _)| *year >= 2_000);
    let (year, rest) = year.map_or((None, rest), |(year, rest)| (i16::try_from(year).ok(), rest));
    Some((NamedDate { year, month, day: i8::try_from(day).ok()? }, after_date(rest)))
}

fn after_date(rest: &str) -> &str {
    let rest = rest.trim_start_matches([',', ' ']);
    rest.strip_prefix("at ").unwrap_or(rest).trim_start()
}

/// Reads `3pm`, `9:30 am` or `15:30` at the beginning of a text, and returns the rest too.
fn clock(text: &str) -> Option<(Time, &str)> {
    let (hour, rest) = number(text)?;
    let (minute, rest) = match rest.strip_prefix(':').and_then(number) {
        Some((minute, rest)) => (Some(minute), rest),
        None => (None, rest),
    };
    let rest = rest.strip_prefix(':').and_then(number).map_or(rest, |(_, rest)| rest);
    let letters = rest.trim_start();
    let half = ["am", "a.m.", "pm", "p.m."].into_iter().find(|half| letters.starts_with(half));
    let (hour, rest) = match half {
        Some(half) if (1..=12).contains(&hour) => {
            (hour % 12 + if half.starts_with('p') { 12 } else { 0 }, &letters[half.len()..])
        }
        // A number alone is no time of day.
        None if minute.is_some() => (hour, rest),
        _ => return None,
    };
    let time = Time::new(i8::try_from(hour).ok()?, i8::try_from(minute.unwrap_or(0)).ok()?, 0, 0).ok()?;
    Some((time, rest))
}

/// Reads a zone behind a time: `(europe/berlin)`, `(utc)` or `utc`. `None` if there is none that this machine knows.
fn zone(rest: &str) -> Option<TimeZone> {
    let rest = rest.trim_start();
    let name = match rest.strip_prefix('(') {
        Some(inner) => inner.split(')').next()?.trim(),
        None => rest.split([' ', '.', ',']).next().filter(|word| matches!(*word, "utc" | "gmt"))?,
    };
    if matches!(name, "utc" | "gmt") {
        return Some(TimeZone::UTC);
    }
    TimeZone::get(name).ok()
}

/// Reads a number of a few digits at the beginning of a text.
fn number(text: &str) -> Option<(u16, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..end].parse().ok()?, &text[end..]))
}

#[cfg(test)]
#[path = "text_tests.rs"]
mod tests;
