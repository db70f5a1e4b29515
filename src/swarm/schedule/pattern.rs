//! Cron patterns. Everything that flock knows of the library `croner` is in this file.
//!
//! The library is asked only for local times of a calendar without a zone. Which moment a local time stands for is
//! decided in [`times`](super::times), so that the rules for summer time are flock's own.

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::civil::DateTime;

/// Maximum number of characters of a pattern.
const MAX_PATTERN: usize = 100;
/// The form of a pattern, for error messages.
pub(crate) const HELP: &str = "write minute, hour, day of the month, month and day of the week, as in \"0 9 * * 1-5\" for \
    9:00 from Monday to Friday, or @hourly, @daily, @weekly, @monthly or @yearly";

/// A cron pattern of five fields.
#[derive(Clone, Debug)]
pub(crate) struct CronPattern {
    cron: Cron,
    /// `true` if it goes on in each hour: its hour field begins with `*`.
    pub(crate) is_hourly: bool,
}

impl CronPattern {
    /// Reads a pattern.
    ///
    /// # Errors
    ///
    /// Returns a message for people if it is not a pattern.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let shown = crate::clean::summary(text, MAX_PATTERN);
        let wrong = |why: &str| format!("{shown:?} is not a cron pattern: {why}; {HELP}");
        if text.len() > MAX_PATTERN || !text.is_ascii() {
            return Err(wrong(&format!("it has at most {MAX_PATTERN} characters, all of them ASCII")));
        }
        let fields = text.split_whitespace().count();
        if fields != 5 && !text.trim_start().starts_with('@') {
            return Err(wrong(&format!("it has {fields} fields, not 5")));
        }
        let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build();
        let cron = parser.parse(text).map_err(|error| wrong(error.to_string().trim_end_matches('.')))?;
        // The library has replaced a nickname by its five fields.
        let mut fields = cron.as_str().split_whitespace().skip(1);
        let is_hourly = fields.next().is_some_and(|hour| hour.starts_with('*'));
        let mut days = fields.next().unwrap_or_default().split(',');
        // The library would take both together for LW alone.
        if days.clone().any(|day| day.eq_ignore_ascii_case("L"))
            && days.any(|day| day.eq_ignore_ascii_case("LW"))
        {
            return Err(wrong("it has both L and LW; make a schedule of each"));
        }
        Ok(Self { cron, is_hourly })
    }

    /// Returns the first local time after `from` that fits, or from `from` on if `inclusive`. Returns `None` if there is
    /// none.
    pub(crate) fn next(&self, from: DateTime, inclusive: bool) -> Option<DateTime> {
        self.cron.find_next_occurrence(&from, inclusive).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_five_fields_are_read() {
        for (text, is_hourly) in [
            ("0 9 * * 1-5", false),
            ("*/15 * * * *", true),
            ("30 */2 * * *", true),
            ("0 9,17 1 JAN-MAR MON", false),
            ("@hourly", true),
            ("@daily", false),
        ] {
            assert_eq!(CronPattern::parse(text).unwrap().is_hourly, is_hourly, "{text}");
        }
    }

    #[test]
    fn other_texts_are_refused_with_an_example() {
        for text in [
            "",
            "0 9 * *",
            "0 0 9 * * 1",
            "61 * * * *",
            "x 9 * * 1",
            "@reboot",
            "0 9 * * 1 2030",
            "é * * * *",
            "0 9 L,LW * *",
            "0 9 lw,1,l * *",
        ] {
            let error = CronPattern::parse(text).unwrap_err();
            assert!(error.contains("0 9 * * 1-5"), "{error}");
        }
        assert!(CronPattern::parse(&"1,".repeat(60)).unwrap_err().contains("at most 100"));
    }
}
