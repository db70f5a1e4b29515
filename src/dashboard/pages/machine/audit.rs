//! The audit: its rows with a filter, and the check of its hash chain.

use askama::Template;
use serde::Deserialize;

use super::Tab;
use crate::clean;
use crate::dashboard::format::{Moment, count};
use crate::dashboard::layout::{Layout, NavItem};
use crate::dashboard::{Api, ApiFailure, Page, Viewer, fetch, query};

/// Rows on one page.
const ROWS: usize = 50;
/// The levels that can be chosen.
const LEVELS: [&str; 3] = ["GREEN", "YELLOW", "RED"];

#[derive(Deserialize)]
struct Audit {
    rows: Vec<AuditRow>,
}

#[derive(Deserialize)]
struct AuditRow {
    id: i64,
    at: i64,
    actor: String,
    action: String,
    subject: String,
    level: String,
    detail: String,
}

#[derive(Deserialize)]
struct Verification {
    rows: u64,
    broken: Option<Fault>,
    at: i64,
}

#[derive(Deserialize)]
struct Fault {
    id: i64,
    reason: String,
}

#[derive(Template)]
#[template(path = "machine_audit.html")]
struct AuditPage {
    layout: Layout,
    tab: Tab,
    actor: String,
    action: String,
    /// Empty if all levels are shown.
    level: &'static str,
    levels: [&'static str; 3],
    rows: Vec<AuditView>,
    /// The address of the page with the rows before these, if there may be any.
    earlier: Option<String>,
    verified: Option<VerifiedView>,
    failure: Option<ApiFailure>,
}

struct AuditView {
    id: i64,
    at: Moment,
    actor: String,
    action: String,
    subject: String,
    level: String,
    detail: String,
}

struct VerifiedView {
    at: Moment,
    rows: String,
    fault: Option<Fault>,
}

/// Returns the page. `?agent=&action=&level=&before=` in its query choose the rows, and `?verify=1` checks the chain.
pub(crate) async fn page(viewer: &Viewer, api: &dyn Api, query: &str) -> Result<Page, ApiFailure> {
    let actor = query::value(query, "agent").unwrap_or_default().trim().to_owned();
    let action = query::value(query, "action").unwrap_or_default().trim().to_owned();
    let level = query::value(query, "level").unwrap_or_default();
    let level = LEVELS.into_iter().find(|known| *known == level).unwrap_or_default();
    let before: Option<i64> = query::value(query, "before").and_then(|before| before.parse().ok());
    let mut wanted = String::new();
    for (name, value) in [("agent", actor.as_str()), ("action", &action), ("level", level)] {
        if !value.is_empty() {
            wanted.extend(["&", name, "=", query::encoded(value).as_str()]);
        }
    }
    let from = before.map(|before| format!("&before={before}")).unwrap_or_default();
    let found: Audit = fetch(api, &format!("/api/audit?limit={ROWS}{wanted}{from}")).await?;
    let (verified, failure) = match query::value(query, "verify") {
        Some(_) => match fetch::<Verification>(api, "/api/audit/verify").await {
            Ok(found) => (Some(found), None),
            Err(failure) => (None, Some(failure)),
        },
        None => (None, None),
    };
    let last = found.rows.last().map(|row| row.id).filter(|_| found.rows.len() == ROWS);
    // What agents wrote may hold anything, so what can't be seen is spelled out.
    let rows = found.rows.iter().map(|row| AuditView {
        id: row.id,
        at: Moment::new(row.at),
        actor: clean::inline(&row.actor).into_owned(),
        action: clean::inline(&row.action).into_owned(),
        subject: clean::inline(&row.subject).into_owned(),
        level: row.level.clone(),
        detail: clean::inline(&row.detail).into_owned(),
    });
    Page::of(&AuditPage {
        layout: Layout::new(viewer, Some(NavItem::Machine), viewer.texts().audit),
        tab: Tab::Audit,
        rows: rows.collect(),
        earlier: last.map(|id| format!("/dashboard/machine/audit?before={id}{wanted}")),
        actor,
        action,
        level,
        levels: LEVELS,
        verified: verified.map(|found| VerifiedView {
            at: Moment::new(found.at),
            rows: count(found.rows),
            fault: found.broken,
        }),
        failure,
    })
}
