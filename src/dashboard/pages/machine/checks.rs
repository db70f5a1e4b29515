//! The checks of `flock doctor`, which run when a person asks for them, and what mends each fault.

use askama::Template;
use serde::Deserialize;

use super::Tab;
use crate::clean;
use crate::dashboard::format::Moment;
use crate::dashboard::layout::{Layout, NavItem};
use crate::dashboard::{Api, ApiFailure, Page, Viewer, fetch, query};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    at: i64,
    took_ms: u64,
    checks: Vec<Check>,
}

#[derive(Deserialize)]
struct Check {
    name: String,
    state: String,
    message: String,
    mend: Option<String>,
}

#[derive(Template)]
#[template(path = "machine_checks.html")]
struct ChecksPage {
    layout: Layout,
    tab: Tab,
    report: Option<ReportView>,
    /// The reason why there are no results.
    failure: Option<ApiFailure>,
}

struct ReportView {
    at: Moment,
    seconds: u64,
    broken: usize,
    warnings: usize,
    /// The worst first.
    checks: Vec<CheckView>,
}

struct CheckView {
    name: String,
    state: &'static str,
    word: &'static str,
    message: String,
    mend: Option<String>,
}

/// Returns the page. `?run=1` in its query runs the checks, which takes seconds.
pub(crate) async fn page(viewer: &Viewer, api: &dyn Api, query: &str) -> Result<Page, ApiFailure> {
    let found = match query::value(query, "run") {
        Some(_) => Some(fetch::<Report>(api, "/api/doctor").await),
        None => None,
    };
    let (report, failure) = match found {
        Some(Ok(report)) => (Some(view(viewer, report)), None),
        Some(Err(failure)) => (None, Some(failure)),
        None => (None, None),
    };
    let layout = Layout::new(viewer, Some(NavItem::Machine), viewer.texts().checks);
    Page::of(&ChecksPage { layout, tab: Tab::Checks, report, failure })
}

fn view(viewer: &Viewer, report: Report) -> ReportView {
    let texts = viewer.texts();
    let mut checks: Vec<(u8, CheckView)> = report
        .checks
        .into_iter()
        .map(|check| {
            let (rank, state, word) = match check.state.as_str() {
                "bad" => (0, "red", texts.check_bad),
                "warn" => (1, "yellow", texts.check_warn),
                _ => (2, "green", texts.check_ok),
            };
            // Messages name files and agents, so what can't be seen in them is spelled out.
            let message = clean::block(&check.message).into_owned();
            let mend = check.mend.map(|mend| clean::block(&mend).into_owned());
            (rank, CheckView { name: check.name, state, word, message, mend })
        })
        .collect();
    // The order of the checks stays the same within a rank.
    checks.sort_by_key(|(rank, _)| *rank);
    let count = |wanted| checks.iter().filter(|(rank, _)| *rank == wanted).count();
    ReportView {
        at: Moment::new(report.at),
        seconds: report.took_ms.div_ceil(1000),
        broken: count(0),
        warnings: count(1),
        checks: checks.into_iter().map(|(_, check)| check).collect(),
    }
}
