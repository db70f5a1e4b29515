//! A file that was found: its lines around the place, with the ways to the rest.

use askama::Template;
use serde::Deserialize;

use super::Area;
use crate::clean;
use crate::dashboard::layout::{Layout, NavItem};
use crate::dashboard::{Api, ApiFailure, Page, Viewer, fetch, query};
use crate::id::AgentId;

/// Number of lines on a page.
const LINES: usize = 300;
/// Number of lines before the place that was asked for.
const BEFORE: usize = 30;
/// Longest line that is shown whole, in characters.
const MAX_LINE: usize = 2_000;

/// The agent or the vault that a file belongs to.
pub(super) enum Owner {
    Agent(AgentId),
    Vault(String),
}

impl Owner {
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Agent(agent) => agent.as_str(),
            Self::Vault(vault) => vault,
        }
    }

    fn parameter(&self) -> String {
        match self {
            Self::Agent(agent) => format!("agent={}", query::encoded(agent.as_str())),
            Self::Vault(vault) => format!("vault={}", query::encoded(vault)),
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Text {
    r#in: String,
    agent: Option<AgentId>,
    vault: Option<String>,
    path: String,
    text: String,
    is_whole: bool,
}

#[derive(Template)]
#[template(path = "search_file.html")]
struct FilePage {
    layout: Layout,
    path: String,
    owner: String,
    area_name: &'static str,
    lines: Vec<LineView>,
    earlier: Option<String>,
    later: Option<String>,
    /// Set if the file or one of the lines is longer than what is shown of it.
    is_cut: bool,
}

struct LineView {
    number: usize,
    text: String,
    /// Set for the line that was found.
    is_found: bool,
}

/// Returns the address of the page of a file, at a line.
pub(super) fn address(owner: &Owner, path: &str, line: u64) -> String {
    let owner = owner.parameter();
    format!("/dashboard/search/file?{owner}&path={}&line={line}#l{line}", query::encoded(path))
}

/// Returns the page. In its query, `agent` or `vault` and `path` name the file, `line` the place in it, and `from` the
/// first line that is shown.
pub(crate) async fn page(viewer: &Viewer, api: &dyn Api, query_text: &str) -> Result<Page, ApiFailure> {
    let texts = viewer.texts();
    let number = |name| query::value(query_text, name).and_then(|value| value.parse::<usize>().ok());
    let names = ["agent", "vault", "path"].into_iter().filter_map(|name| {
        let value = query::value(query_text, name)?;
        Some(format!("{name}={}", query::encoded(&value)))
    });
    let route = format!("/api/search/memory/file?{}", names.collect::<Vec<_>>().join("&"));
    let found: Text = fetch(api, &route).await?;
    let area = Area::ALL.into_iter().find(|area| area.as_str() == found.r#in);
    let owner = match (found.agent, found.vault) {
        (Some(agent), _) => Owner::Agent(agent),
        (None, vault) => Owner::Vault(vault.unwrap_or_default()),
    };
    let line = number("line");
    let all: Vec<&str> = found.text.lines().collect();
    let part = part(all.len(), number("from").or_else(|| Some(line?.saturating_sub(BEFORE))));
    let beginning = |from: usize| {
        let place = line.map(|line| format!("&line={line}")).unwrap_or_default();
        format!(
            "/dashboard/search/file?{}&path={}{place}&from={from}",
            owner.parameter(),
            query::encoded(&found.path)
        )
    };
    let mut is_cut = !found.is_whole;
    let lines = part.clone().map(|at| {
        let text = all[at];
        let end = text.char_indices().nth(MAX_LINE).map_or(text.len(), |(end, _)| end);
        is_cut |= end < text.len();
        LineView {
            number: at + 1,
            text: clean::block(&text[..end]).into_owned(),
            is_found: line == Some(at + 1),
        }
    });
    let lines = lines.collect();
    let path = clean::inline(&found.path).into_owned();
    Page::of(&FilePage {
        layout: Layout::new(viewer, Some(NavItem::Search), path.clone()),
        path,
        earlier: (part.start > 0).then(|| beginning(part.start.saturating_sub(LINES) + 1)),
        later: (part.end < all.len()).then(|| beginning(part.end + 1)),
        owner: owner.name().to_owned(),
        area_name: area.map_or("", |area| area.name(texts)),
        lines,
        is_cut,
    })
}

/// Returns the lines of a page that begins with this line, counted from 1, of a file with so many.
fn part(count: usize, from: Option<usize>) -> std::ops::Range<usize> {
    let first = from.unwrap_or(1).clamp(1, count.max(1)) - 1;
    first..(first + LINES).min(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_on_some_page_and_no_number_leads_outside() {
        assert_eq!(part(0, None), 0..0);
        assert_eq!(part(10, Some(0)), 0..10);
        assert_eq!(part(10, Some(99)), 9..10);
        assert_eq!(part(1_000, Some(usize::MAX)), 999..1_000);
        let mut next = part(1_000, None);
        let mut seen = 0;
        loop {
            assert_eq!(next.start, seen);
            seen = next.end;
            if seen == 1_000 {
                break;
            }
            next = part(1_000, Some(next.end + 1));
        }
    }
}
