//! The logs of the gateway, OpenClaw and the supervisor, with a filter.

use askama::Template;
use serde::Deserialize;

use super::Tab;
use crate::dashboard::layout::{Layout, NavItem};
use crate::dashboard::{Api, ApiFailure, Page, Viewer, fetch, query};

/// The logs that can be chosen.
const LOGS: [&str; 3] = ["gateway", "openclaw", "supervisor"];
/// The levels that can be chosen, the worst first.
const LEVELS: [&str; 5] = ["error", "warn", "info", "debug", "trace"];
/// The numbers of lines that can be chosen.
const LIMITS: [&str; 3] = ["200", "500", "1000"];

#[derive(Deserialize)]
struct Log {
    lines: Vec<Line>,
}

#[derive(Deserialize)]
struct Line {
    at: Option<String>,
    level: Option<String>,
    text: String,
}

#[derive(Template)]
#[template(path = "machine_logs.html")]
struct LogsPage {
    layout: Layout,
    tab: Tab,
    logs: [&'static str; 3],
    levels: [&'static str; 5],
    limits: [&'static str; 3],
    log: &'static str,
    /// Empty if all levels are shown.
    level: &'static str,
    limit: &'static str,
    text: String,
    lines: Vec<Line>,
    /// The address of this page with its filter.
    address: String,
}

/// Returns the page. `?log=&level=&text=&limit=` in its query choose the lines.
pub(crate) async fn page(viewer: &Viewer, api: &dyn Api, query: &str) -> Result<Page, ApiFailure> {
    let log = chosen(query, "log", &LOGS).unwrap_or(LOGS[0]);
    let level = chosen(query, "level", &LEVELS).unwrap_or_default();
    let limit = chosen(query, "limit", &LIMITS).unwrap_or(LIMITS[0]);
    let text = query::value(query, "text").unwrap_or_default();
    let mut wanted = format!("log={log}&limit={limit}&text={}", query::encoded(&text));
    if !level.is_empty() {
        wanted.push_str("&level=");
        wanted.push_str(level);
    }
    let found: Log = fetch(api, &format!("/api/logs?{wanted}")).await?;
    Page::of(&LogsPage {
        layout: Layout::new(viewer, Some(NavItem::Machine), viewer.texts().logs),
        tab: Tab::Logs,
        logs: LOGS,
        levels: LEVELS,
        limits: LIMITS,
        log,
        level,
        limit,
        text,
        lines: found.lines,
        address: format!("/dashboard/machine/logs?{wanted}"),
    })
}

/// Returns the choice that a query names, if it is one of these.
fn chosen(query: &str, name: &str, choices: &[&'static str]) -> Option<&'static str> {
    let value = query::value(query, name)?;
    choices.iter().find(|choice| **choice == value).copied()
}
