//! Reads the time until a provider accepts the next request: `retry-after-ms`, and `retry-after` in seconds or as a
//! date.

use std::time::{Duration, SystemTime};

use reqwest::header::HeaderMap;

/// Returns the wait that these headers ask for.
pub(crate) fn of(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    // The header in milliseconds is more exact, so it comes first.
    if let Some(wait) = text("retry-after-ms").and_then(|text| parse_duration(text, 1_000.0)) {
        return Some(wait);
    }
    let text = text("retry-after")?;
    parse_duration(text, 1.0).or_else(|| parse_date(text, now))
}

fn parse_duration(text: &str, per_second: f64) -> Option<Duration> {
    let number = text.parse::<f64>().ok().filter(|number| *number >= 0.0)?;
    Duration::try_from_secs_f64(number / per_second).ok()
}

fn parse_date(text: &str, now: SystemTime) -> Option<Duration> {
    let date = jiff::fmt::rfc2822::parse(text).ok()?;
    let date = SystemTime::from(date.timestamp());
    // A date in the past means that the provider accepts requests now.
    Some(date.duration_since(now).unwrap_or(Duration::ZERO))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_milliseconds_and_dates() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_445_412_480); // 2015-10-21 07:28:00
        let of = |entries: &[(&'static str, &str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in entries {
                headers.insert(*name, value.parse().unwrap());
            }
            super::of(&headers, now).map(|wait| wait.as_millis())
        };
        assert_eq!(of(&[("retry-after", "2")]), Some(2_000));
        assert_eq!(of(&[("retry-after", "0.5")]), Some(500));
        assert_eq!(of(&[("retry-after", "9"), ("retry-after-ms", "250")]), Some(250));
        assert_eq!(of(&[("retry-after", "Wed, 21 Oct 2015 07:28:30 GMT")]), Some(30_000));
        assert_eq!(of(&[("retry-after", "Wed, 21 Oct 2015 07:00:00 GMT")]), Some(0));
        for bad in ["soon", "-1", "NaN", "1e999", ""] {
            assert_eq!(of(&[("retry-after", bad)]), None, "{bad}");
        }
        assert_eq!(of(&[]), None);
    }
}
