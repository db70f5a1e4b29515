//! The memory and processors of the sandboxes. The engine takes seconds to measure them, so the overview fetches this part
//! after itself.

use askama::Template;
use serde::Deserialize;

use super::Tab;
use crate::clean;
use crate::dashboard::format::{bytes, fill};
use crate::dashboard::layout::{Layout, NavItem};
use crate::dashboard::texts::Texts;
use crate::dashboard::{Api, ApiFailure, Page, Viewer, fetch};

#[derive(Deserialize)]
struct Usage {
    sandboxes: Vec<Load>,
    problem: Option<String>,
    hint: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Load {
    agent: Option<String>,
    memory_bytes: Option<u64>,
    memory_limit_bytes: Option<u64>,
    cpu_millis: Option<u64>,
    cpu_limit_millis: Option<u64>,
    problem: Option<String>,
}

#[derive(Template)]
#[template(path = "machine_usage.html")]
struct UsagePage {
    layout: Layout,
    tab: Tab,
    sandboxes: Vec<LoadView>,
    problem: Option<String>,
    hint: Option<String>,
}

struct LoadView {
    agent: String,
    memory: String,
    processors: String,
    problem: Option<String>,
}

/// Returns the page.
pub(crate) async fn page(viewer: &Viewer, api: &dyn Api) -> Result<Page, ApiFailure> {
    let usage: Usage = fetch(api, "/api/sandboxes/usage").await?;
    let texts = viewer.texts();
    let cleaned = |text: String| clean::inline(&text).into_owned();
    let sandboxes = usage.sandboxes.into_iter().map(|load| LoadView {
        memory: of_limit(texts, load.memory_bytes, load.memory_limit_bytes, bytes),
        processors: of_limit(texts, load.cpu_millis, load.cpu_limit_millis, processors),
        agent: load.agent.unwrap_or_default(),
        problem: load.problem.map(cleaned),
    });
    Page::of(&UsagePage {
        layout: Layout::new(viewer, Some(NavItem::Machine), texts.sandbox_usage),
        tab: Tab::Overview,
        sandboxes: sandboxes.collect(),
        problem: usage.problem.map(cleaned),
        hint: usage.hint,
    })
}

/// Returns an amount with its limit.
fn of_limit(texts: &Texts, used: Option<u64>, limit: Option<u64>, shown: impl Fn(u64) -> String) -> String {
    let used = used.map_or_else(|| "–".to_owned(), &shown);
    match limit {
        Some(limit) => fill(texts.used_of, &[&used, &shown(limit)]),
        None => fill(texts.used_without_limit, &[&used]),
    }
}

/// Returns a number of processors from thousandths, with two digits after the point.
fn processors(millis: u64) -> String {
    let hundredths = millis.saturating_add(5) / 10;
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dashboard::Language;

    #[test]
    fn amounts_stand_beside_their_limits() {
        let texts = Language::English.texts();
        assert_eq!(of_limit(texts, Some(1_234), Some(2_000), processors), "1.23 of 2.00");
        assert_eq!(of_limit(texts, Some(3 << 20), None, bytes), "3.0 MiB, without a limit");
        assert_eq!(of_limit(texts, None, Some(1 << 30), bytes), "– of 1.0 GiB");
        assert_eq!(processors(4), "0.00");
        assert_eq!(processors(995), "1.00");
    }
}
