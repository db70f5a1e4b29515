//! The log messages of a tool call, for a caller that wants to read them.

use serde_json::Value;

/// The severity of a log message, as in syslog and in MCP. A later one is more severe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    Debug,
    Info,
    Notice,
    Warning,
    Error,
    Critical,
    Alert,
    Emergency,
}

impl LogLevel {
    /// All levels, the least severe first.
    pub const ALL: [Self; 8] = [
        Self::Debug,
        Self::Info,
        Self::Notice,
        Self::Warning,
        Self::Error,
        Self::Critical,
        Self::Alert,
        Self::Emergency,
    ];

    /// Returns the level's name in messages.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
            Self::Alert => "alert",
            Self::Emergency => "emergency",
        }
    }

    /// Returns the level of this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.as_str() == name)
    }
}

/// A log message of a running call.
#[derive(Clone, Debug, PartialEq)]
pub struct LogMessage {
    pub level: LogLevel,
    /// The part that wrote it.
    pub logger: String,
    /// A text or any other value, cleaned and cut.
    pub data: Value,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_have_the_names_and_the_order_of_syslog() {
        let names = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];
        assert_eq!(LogLevel::ALL.map(LogLevel::as_str), names);
        for pair in LogLevel::ALL.windows(2) {
            assert!(pair[0] < pair[1], "{pair:?}");
        }
        assert_eq!(LogLevel::parse("alert"), Some(LogLevel::Alert));
        for other in ["", "Info", "warn", "trace", "info "] {
            assert_eq!(LogLevel::parse(other), None, "{other}");
        }
    }
}
