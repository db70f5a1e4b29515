//! `GET /api/logs`: the newest lines of a log, as `flock logs` shows them.

use std::sync::Arc;

use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::JsonResult;
use crate::clean;
use crate::gateway::error::ApiError;
use crate::gateway::extract::Query;
use crate::gateway::state::Gateway;
use crate::supervise::SUPERVISOR;
use crate::supervise::log_follower::LogFollower;
use crate::supervise::log_line::{LogLevel, LogLine};
use crate::supervise::unit::{GATEWAY, OPENCLAW};

/// Most lines in one answer.
const MAX_LINES: usize = 1_000;
/// Lines in an answer if the query names no number.
const DEFAULT_LINES: usize = 200;
/// Number of the newest lines that are searched for a filter.
const MAX_SEARCHED: usize = 50_000;

/// A log of the home.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogName {
    #[default]
    Gateway,
    Openclaw,
    Supervisor,
}

/// The query parameters.
#[derive(Debug, Deserialize)]
pub(crate) struct LogQuery {
    #[serde(default)]
    log: LogName,
    limit: Option<usize>,
    /// Only lines of this level or a worse one.
    level: Option<LogLevel>,
    /// Only lines with this text, in letters of any case.
    text: Option<String>,
}

/// The lines that are wanted.
struct LineFilter {
    level: Option<LogLevel>,
    /// In small letters.
    text: Option<String>,
}

impl LineFilter {
    const fn is_open(&self) -> bool {
        self.level.is_none() && self.text.is_none()
    }

    fn accepts(&self, line: &LogLine) -> bool {
        let is_bad_enough = self.level.is_none_or(|level| line.level.is_some_and(|own| own <= level));
        is_bad_enough && self.text.as_ref().is_none_or(|text| line.text.to_lowercase().contains(text))
    }
}

/// Returns the newest lines of a log that fit the query, oldest first.
pub(crate) async fn list(State(gateway): State<Arc<Gateway>>, Query(asked): Query<LogQuery>) -> JsonResult {
    let path = gateway.home().log(match asked.log {
        LogName::Gateway => GATEWAY,
        LogName::Openclaw => OPENCLAW,
        LogName::Supervisor => SUPERVISOR,
    });
    let limit = asked.limit.unwrap_or(DEFAULT_LINES).clamp(1, MAX_LINES);
    let text = asked.text.filter(|text| !text.is_empty()).map(|text| text.to_lowercase());
    let filter = LineFilter { level: asked.level, text };
    // A log may have tens of megabytes, which are read and searched beside the other requests.
    let read = tokio::task::spawn_blocking(move || {
        let count = if filter.is_open() { limit } else { MAX_SEARCHED };
        let (_, lines) = LogFollower::at_end(&path, count)?;
        std::io::Result::Ok(newest(&lines, &filter, limit))
    });
    let lines = read.await.map_err(ApiError::internal)?.map_err(ApiError::internal)?;
    Ok(axum::Json(json!({"log": asked.log, "lines": lines})))
}

/// Returns the last lines that a filter accepts. Agents and tools may have written parts of them, so what can't be seen
/// is spelled out.
fn newest(lines: &[String], filter: &LineFilter, limit: usize) -> Vec<LogLine> {
    let accepted = lines.iter().rev().map(|line| LogLine::parse(line)).filter(|line| filter.accepts(line));
    let mut found: Vec<LogLine> = accepted.take(limit).collect();
    found.reverse();
    for line in &mut found {
        line.text = clean::inline(&line.text).into_owned();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_lines_that_fit_are_returned_and_cleaned() {
        let lines: Vec<String> = [
            "2026-11-21T22:27:03Z ERROR flock: Disk full",
            "2026-11-21T22:27:04Z  INFO flock: fine",
            "2026-11-21T22:27:05Z  WARN flock: disk \u{1b}[2Jslow",
            "thread 'x' panicked: disk",
        ]
        .map(str::to_owned)
        .to_vec();
        let texts = |level, text: Option<&str>, limit| -> Vec<String> {
            let filter = LineFilter { level, text: text.map(str::to_owned) };
            newest(&lines, &filter, limit).into_iter().map(|line| line.text).collect()
        };
        assert_eq!(texts(None, None, 1), ["thread 'x' panicked: disk"]);
        let bad = ["flock: Disk full", "flock: disk \\u{1b}[2Jslow"];
        assert_eq!(texts(Some(LogLevel::Warn), None, 9), bad);
        assert_eq!(texts(Some(LogLevel::Warn), Some("disk"), 1), bad[1..]);
        assert_eq!(texts(Some(LogLevel::Error), Some("disk"), 9), bad[..1]);
        assert_eq!(texts(None, Some("panicked"), 9), ["thread 'x' panicked: disk"]);
        assert!(texts(None, Some("nowhere"), 9).is_empty());
    }
}
