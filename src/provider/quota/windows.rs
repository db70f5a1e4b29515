//! Reads the rate limit windows that providers name in the headers of a refusal.
//!
//! OpenAI and those that follow it write durations (`x-ratelimit-reset-requests: 6m0s`), Anthropic times
//! (`anthropic-ratelimit-tokens-reset: 2026-02-28T12:00:00Z`) and, for subscriptions, Unix seconds
//! (`anthropic-ratelimit-unified-5h-reset`), OpenRouter Unix milliseconds (`x-ratelimit-reset`).

use std::time::Duration;

use jiff::Timestamp;
use reqwest::header::HeaderMap;

use super::duration;

/// The beginning of the headers about a subscription's windows.
const UNIFIED: &str = "anthropic-ratelimit-unified-";
/// Numbers from here on are Unix milliseconds, and smaller ones from [`FIRST_EPOCH`] on are Unix seconds.
const FIRST_EPOCH_MS: f64 = 1e11;
const FIRST_EPOCH: f64 = 1e8;

/// Returns the time until the last of the windows that are used up begins anew.
///
/// A window with something left is not why the request was refused.
pub(in crate::provider) fn wait(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let windows = headers.keys().filter_map(|name| {
        let name = name.as_str();
        if !name.contains("ratelimit") || !name.contains("reset") {
            return None;
        }
        let is_used_up = if name.starts_with(UNIFIED) {
            text(&name.replace("reset", "status")) == Some("rejected")
        } else {
            let left = text(&name.replace("reset", "remaining")).map(str::parse::<f64>);
            left.is_none_or(|left| left.is_ok_and(|left| left <= 0.0))
        };
        is_used_up.then(|| text(name).and_then(|text| parse(text, now))).flatten()
    });
    windows.max()
}

/// Reads a time or a duration of any form.
fn parse(text: &str, now: Timestamp) -> Option<Duration> {
    let until = |at: Timestamp| Duration::try_from(at.duration_since(now)).unwrap_or(Duration::ZERO);
    if let Ok(number) = text.parse::<f64>() {
        return epoch(number).map(until).or_else(|| Duration::try_from_secs_f64(number).ok());
    }
    text.parse::<Timestamp>().ok().map(until).or_else(|| duration::leading(text))
}

/// Returns the time that a number means, or `None` if it is too small for one.
pub(super) fn epoch(number: f64) -> Option<Timestamp> {
    let seconds = if number >= FIRST_EPOCH_MS { number / 1_000.0 } else { number };
    if seconds < FIRST_EPOCH {
        return None;
    }
    let since = Duration::try_from_secs_f64(seconds).ok()?;
    Timestamp::from_duration(since.try_into().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_772_280_000; // 2026-02-28T12:00:00Z

    fn wait_of(entries: &[(&'static str, &str)]) -> Option<f64> {
        let mut headers = HeaderMap::new();
        for (name, value) in entries {
            headers.insert(*name, value.parse().unwrap());
        }
        wait(&headers, Timestamp::from_second(NOW).unwrap()).map(|wait| wait.as_secs_f64())
    }

    #[test]
    fn openai_windows_are_durations() {
        let both = [
            ("x-ratelimit-limit-requests", "60"),
            ("x-ratelimit-limit-tokens", "150000"),
            ("x-ratelimit-remaining-requests", "0"),
            ("x-ratelimit-remaining-tokens", "149984"),
            ("x-ratelimit-reset-requests", "6m0s"),
            ("x-ratelimit-reset-tokens", "24h0m0s"),
        ];
        assert_eq!(wait_of(&both), Some(360.0), "the window with tokens left does not count");
        assert_eq!(
            wait_of(&[("x-ratelimit-remaining-tokens", "0"), ("x-ratelimit-reset-tokens", "28ms")]),
            Some(0.028)
        );
        assert_eq!(
            wait_of(&[
                ("x-ratelimit-remaining-requests-day", "0"),
                ("x-ratelimit-reset-requests-day", "33011.382")
            ]),
            Some(33_011.382),
            "Cerebras names seconds"
        );
        assert_eq!(
            wait_of(&[("x-ratelimit-remaining-requests", "12"), ("x-ratelimit-reset-requests", "24h")]),
            None,
            "something is left"
        );
    }

    #[test]
    fn anthropic_windows_are_times() {
        let tokens = [
            ("anthropic-ratelimit-requests-remaining", "49"),
            ("anthropic-ratelimit-requests-reset", "2026-02-28T23:00:00Z"),
            ("anthropic-ratelimit-input-tokens-remaining", "0"),
            ("anthropic-ratelimit-input-tokens-reset", "2026-02-28T12:00:30Z"),
        ];
        assert_eq!(wait_of(&tokens), Some(30.0));
        let unified = [
            ("anthropic-ratelimit-unified-status", "rejected"),
            ("anthropic-ratelimit-unified-reset", "1772283600"),
            ("anthropic-ratelimit-unified-5h-status", "rejected"),
            ("anthropic-ratelimit-unified-5h-reset", "1772283600"),
            ("anthropic-ratelimit-unified-7d-status", "allowed_warning"),
            ("anthropic-ratelimit-unified-7d-reset", "1772800000"),
            ("anthropic-ratelimit-unified-representative-claim", "five_hour"),
            ("anthropic-ratelimit-unified-7d-utilization", "0.875"),
        ];
        assert_eq!(wait_of(&unified), Some(3_600.0));
        let allowed = [
            ("anthropic-ratelimit-unified-status", "allowed"),
            ("anthropic-ratelimit-unified-reset", "1772283600"),
        ];
        assert_eq!(wait_of(&allowed), None, "the account's own window is not used up");
    }

    #[test]
    fn other_providers_write_numbers() {
        assert_eq!(
            wait_of(&[("x-ratelimit-reset", "1772280090000")]),
            Some(90.0),
            "OpenRouter: milliseconds"
        );
        assert_eq!(
            wait_of(&[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1772280090")]),
            Some(90.0)
        );
        assert_eq!(wait_of(&[("ratelimit-remaining", "0"), ("ratelimit-reset", "45")]), Some(45.0));
        assert_eq!(wait_of(&[("x-ratelimit-reset", "1772270000")]), Some(0.0), "a time in the past is now");
        for odd in ["", "soon", "-5", "NaN", "inf", "1e400"] {
            assert_eq!(wait_of(&[("x-ratelimit-reset", odd)]), None, "{odd}");
        }
        assert_eq!(wait_of(&[("x-ratelimit-remaining", "none"), ("x-ratelimit-reset", "45")]), None);
        assert_eq!(wait_of(&[]), None);
    }
}
