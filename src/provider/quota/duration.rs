//! Durations as providers write them: `6m0s`, `28ms`, `2h13m20.5s`, `3 days 6 hours 57 minutes`.

use std::time::Duration;

/// Returns the duration at the beginning of a text. What follows it does not matter.
///
/// A number without a unit is no duration.
pub(super) fn leading(text: &str) -> Option<Duration> {
    let mut rest = text.trim_start();
    if rest.strip_prefix("less than a minute").is_some() {
        return Some(Duration::from_secs(60));
    }
    let (mut total, mut found) = (0.0_f64, false);
    loop {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let number = rest[..digits].trim_end_matches('.').parse::<f64>();
        let after = rest[digits..].trim_start();
        let letters = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let (Ok(number), Some(unit)) = (number, seconds(&after[..letters])) else { break };
        total += number * unit;
        found = true;
        rest = after[letters..].trim_start_matches([' ', ',']);
        rest = rest.strip_prefix("and ").unwrap_or(rest);
    }
    found.then(|| Duration::try_from_secs_f64(total).ok()).flatten()
}

/// Returns the seconds of a unit.
fn seconds(unit: &str) -> Option<f64> {
    Some(match unit {
        "ms" | "millisecond" | "milliseconds" => 0.001,
        "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
        "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
        "h" | "hr" | "hrs" | "hour" | "hours" => 3_600.0,
        "d" | "day" | "days" => 86_400.0,
        "w" | "week" | "weeks" => 604_800.0,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_of_all_forms_are_read() {
        for (text, seconds) in [
            ("6m0s", 360.0),
            ("1s", 1.0),
            ("28ms", 0.028),
            ("7m12.34s", 432.34),
            ("2h13m20.5s", 8_000.5),
            ("42h1m20s.", 151_280.0),
            ("34.074824224s.", 34.074_824_224),
            ("3 days 6 hours 57 minutes.", 284_220.0),
            ("2 hours and 5 minutes", 7_500.0),
            ("1 day, 2 hours", 93_600.0),
            ("less than a minute.", 60.0),
            ("5 minutes or ask your admin", 300.0),
        ] {
            assert_eq!(leading(text).map(|found| found.as_secs_f64()), Some(seconds), "{text}");
        }
        for text in ["", "soon", "3", "3pm", "3:28 PM", "notaduration", "-5m", "1e9 fortnights", "."] {
            assert_eq!(leading(text), None, "{text}");
        }
        let endless = format!("{}w", "9".repeat(400));
        assert_eq!(leading(&endless), None);
    }
}
