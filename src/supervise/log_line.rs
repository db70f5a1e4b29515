//! One line of a log, taken apart.

use serde::{Deserialize, Serialize};

/// The level of a log line, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

/// A line of a log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct LogLine {
    /// The time in the form of ISO 8601. Lines of OpenClaw and of panics may have none.
    pub at: Option<String>,
    pub level: Option<LogLevel>,
    pub text: String,
}

impl LogLine {
    /// Takes a line apart.
    pub(crate) fn parse(line: &str) -> Self {
        // The gateway's lines begin with a time. Others may have another form.
        let (at, rest) = match line.split_once(' ') {
            Some((first, rest)) if first.parse::<jiff::Timestamp>().is_ok() => {
                (Some(first.to_owned()), rest.trim_start())
            }
            _ => (None, line),
        };
        let found = rest.split_once(' ').and_then(|(word, text)| Some((LogLevel::of(word)?, text)));
        match found {
            Some((level, text)) => Self { at, level: Some(level), text: text.to_owned() },
            None => Self { at, level: None, text: rest.to_owned() },
        }
    }
}

impl LogLevel {
    /// Returns the level that a line names, as in `WARN`.
    fn of(word: &str) -> Option<Self> {
        Some(match word {
            "ERROR" => Self::Error,
            "WARN" => Self::Warn,
            "INFO" => Self::Info,
            "DEBUG" => Self::Debug,
            "TRACE" => Self::Trace,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_and_level_of_a_line_are_parsed() {
        let full = LogLine::parse("2026-11-21T22:27:03.809944Z  INFO flock::gateway: it listens port=1");
        assert_eq!(full.at.as_deref(), Some("2026-11-21T22:27:03.809944Z"));
        assert_eq!(full.level, Some(LogLevel::Info));
        assert_eq!(full.text, "flock::gateway: it listens port=1");
        let bare = LogLine::parse("thread 'x' panicked");
        assert_eq!(bare, LogLine { at: None, level: None, text: "thread 'x' panicked".to_owned() });
    }
}
