//! The changes of a branch, by file: in one column, or with both sides beside each other.

use askama::Template;
use serde::Deserialize;

use super::address;
use crate::dashboard::layout::{Layout, NavItem};
use crate::dashboard::{Api, ApiFailure, Page, Viewer, fetch, query};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Diff {
    branch: String,
    files: Vec<File>,
    changed: usize,
    added: usize,
    removed: usize,
    is_cut: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct File {
    path: String,
    old_path: Option<String>,
    status: String,
    added: usize,
    removed: usize,
    is_binary: bool,
    is_cut: bool,
    hunks: Vec<Hunk>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Hunk {
    new_start: u32,
    heading: String,
    lines: Vec<Line>,
}

#[derive(Clone, Deserialize)]
struct Line {
    kind: String,
    old: Option<u32>,
    new: Option<u32>,
    text: String,
}

#[derive(Template)]
#[template(path = "project_diff.html")]
struct DiffPage {
    layout: Layout,
    project: String,
    project_address: String,
    branch: String,
    /// The address of the other way of showing.
    other: String,
    is_beside: bool,
    changed: usize,
    added: usize,
    removed: usize,
    is_cut: bool,
    files: Vec<FileView>,
}

struct FileView {
    name: String,
    status: String,
    added: usize,
    removed: usize,
    is_binary: bool,
    is_cut: bool,
    hunks: Vec<HunkView>,
}

struct HunkView {
    /// The file and the first line, which no other part of the page has.
    name: String,
    rows: Vec<Row>,
}

/// A row with two sides. In one column, only one of them is set.
struct Row {
    old: Option<Side>,
    new: Option<Side>,
}

struct Side {
    number: u32,
    /// `added`, `removed` or `context`, which is also the class of its colour.
    kind: String,
    sign: char,
    text: String,
}

/// Returns the page. `agent` and `branch` in its query name a branch, and `view=beside` shows both sides.
pub(crate) async fn page(
    viewer: &Viewer,
    api: &dyn Api,
    name: &str,
    query_text: &str,
) -> Result<Page, ApiFailure> {
    let given = |key| query::value(query_text, key).filter(|value| !value.is_empty());
    let chosen = ["agent", "branch"].into_iter().filter_map(|key| {
        let value = given(key)?;
        Some(format!("{key}={}", query::encoded(&value)))
    });
    let chosen = chosen.collect::<Vec<_>>().join("&");
    let selection = if chosen.is_empty() { String::new() } else { format!("?{chosen}") };
    let is_beside = given("view").as_deref() == Some("beside");
    let found: Diff = fetch(api, &format!("/api/projects/{}/diff{selection}", query::encoded(name))).await?;
    let joint = if selection.is_empty() { "?" } else { "&" };
    let other = if is_beside { String::new() } else { format!("{joint}view=beside") };
    let own = address(name);
    let files = found.files.into_iter().map(|file| FileView {
        status: file.status,
        added: file.added,
        removed: file.removed,
        is_binary: file.is_binary,
        is_cut: file.is_cut,
        hunks: file
            .hunks
            .into_iter()
            .map(|hunk| HunkView {
                name: format!("{}:{} {}", file.path, hunk.new_start, hunk.heading),
                rows: if is_beside { beside(&hunk.lines) } else { below(&hunk.lines) },
            })
            .collect(),
        name: match file.old_path {
            Some(old) if old != file.path => format!("{old} → {}", file.path),
            _ => file.path,
        },
    });
    Page::of(&DiffPage {
        layout: Layout::new(viewer, Some(NavItem::Projects), found.branch.clone()),
        project: name.to_owned(),
        other: format!("{own}/diff{selection}{other}"),
        project_address: own,
        branch: found.branch,
        is_beside,
        changed: found.changed,
        added: found.added,
        removed: found.removed,
        is_cut: found.is_cut,
        files: files.collect(),
    })
}

fn side(line: &Line, number: Option<u32>) -> Side {
    let sign = match line.kind.as_str() {
        "added" => '+',
        "removed" => '-',
        _ => ' ',
    };
    Side { number: number.unwrap_or_default(), kind: line.kind.clone(), sign, text: line.text.clone() }
}

/// Returns the lines one below the other.
fn below(lines: &[Line]) -> Vec<Row> {
    lines
        .iter()
        .map(|line| match line.kind.as_str() {
            "added" => Row { old: None, new: Some(side(line, line.new)) },
            "removed" => Row { old: Some(side(line, line.old)), new: None },
            _ => Row { old: Some(side(line, line.old)), new: Some(side(line, line.new)) },
        })
        .collect()
}

/// Returns the lines with the removed ones beside those that replace them.
fn beside(lines: &[Line]) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut rest = lines;
    while let Some(first) = rest.first() {
        if first.kind == "context" {
            rows.push(Row { old: Some(side(first, first.old)), new: Some(side(first, first.new)) });
            rest = &rest[1..];
            continue;
        }
        let removed = rest.iter().take_while(|line| line.kind == "removed").count();
        let added = rest[removed..].iter().take_while(|line| line.kind == "added").count();
        for at in 0..removed.max(added) {
            let old = (at < removed).then(|| side(&rest[at], rest[at].old));
            let new = (at < added).then(|| side(&rest[removed + at], rest[removed + at].new));
            rows.push(Row { old, new });
        }
        // A line of a kind that is not known yet is skipped rather than read for ever.
        rest = &rest[(removed + added).max(1)..];
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(kind: &str, old: Option<u32>, new: Option<u32>) -> Line {
        Line { kind: kind.into(), old, new, text: format!("{old:?}{new:?}") }
    }

    #[test]
    fn what_was_replaced_stands_beside_what_replaced_it() {
        let lines = [
            line("context", Some(1), Some(1)),
            line("removed", Some(2), None),
            line("removed", Some(3), None),
            line("added", None, Some(2)),
            line("context", Some(4), Some(3)),
            line("added", None, Some(4)),
            line("odd", None, None),
        ];
        let shown: Vec<(u32, u32)> = beside(&lines)
            .iter()
            .map(|row| {
                let number = |side: &Option<Side>| side.as_ref().map_or(0, |side| side.number);
                (number(&row.old), number(&row.new))
            })
            .collect();
        assert_eq!(shown, [(1, 1), (2, 2), (3, 0), (4, 3), (0, 4)]);
        assert_eq!(below(&lines).len(), lines.len());
    }
}
