//! The configuration without its secrets: what is wrong with it, one value that can be set, and the backups with what
//! they would change.

use askama::Template;
use serde::Deserialize;
use serde_json::Value;

use super::Tab;
use crate::clean;
use crate::clock;
use crate::dashboard::format::Moment;
use crate::dashboard::layout::{Layout, NavItem};
use crate::dashboard::{Api, ApiFailure, Page, Viewer, fetch, query};

#[derive(Deserialize)]
struct Config {
    path: String,
    document: Option<Value>,
    problem: Option<Problem>,
    warnings: Vec<String>,
    backups: Vec<Backup>,
}

#[derive(Deserialize)]
struct Problem {
    message: String,
    hint: Option<String>,
}

#[derive(Deserialize)]
struct Backup {
    name: String,
    at: i64,
    step: u32,
    problem: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Difference {
    name: String,
    at: i64,
    step: u32,
    problem: Option<String>,
    /// The digest of the file that it would replace.
    replaces: String,
    hunks: Vec<Vec<Line>>,
    changed_secrets: Vec<String>,
}

#[derive(Deserialize)]
struct Line {
    kind: String,
    text: String,
}

#[derive(Template)]
#[template(path = "machine_config.html")]
struct ConfigPage {
    layout: Layout,
    tab: Tab,
    path: String,
    document: Option<String>,
    problem: Option<Problem>,
    warnings: Vec<String>,
    backups: Vec<BackupView>,
    chosen: Option<DifferenceView>,
    /// The reason why the chosen backup can't be shown.
    failure: Option<ApiFailure>,
}

struct BackupView {
    name: String,
    /// The time, by which no two backups are the same.
    label: String,
    at: Moment,
    problem: Option<String>,
    is_chosen: bool,
    address: String,
}

struct DifferenceView {
    name: String,
    label: String,
    at: Moment,
    problem: Option<String>,
    replaces: String,
    hunks: Vec<Vec<LineView>>,
    changed_secrets: Vec<String>,
}

struct LineView {
    kind: &'static str,
    sign: char,
    text: String,
}

/// Returns the page. `?backup=` in its query chooses a backup to compare.
pub(crate) async fn page(viewer: &Viewer, api: &dyn Api, query: &str) -> Result<Page, ApiFailure> {
    let config: Config = fetch(api, "/api/config").await?;
    let chosen = query::value(query, "backup").filter(|name| !name.is_empty());
    let (difference, failure) = match &chosen {
        Some(name) => {
            let path = format!("/api/config/backups/{}", query::encoded(name));
            match fetch::<Difference>(api, &path).await {
                Ok(difference) => (Some(difference), None),
                Err(failure) => (None, Some(failure)),
            }
        }
        None => (None, None),
    };
    let backups = config.backups.into_iter().map(|backup| BackupView {
        label: label(backup.at, backup.step),
        at: Moment::new(backup.at),
        problem: backup.problem,
        is_chosen: chosen.as_deref() == Some(&*backup.name),
        address: format!("/dashboard/machine/config?backup={}", query::encoded(&backup.name)),
        name: backup.name,
    });
    Page::of(&ConfigPage {
        layout: Layout::new(viewer, Some(NavItem::Machine), viewer.texts().configuration),
        tab: Tab::Config,
        path: config.path,
        document: config.document.map(|document| cleaned(&pretty(&document))),
        problem: config.problem.map(|Problem { message, hint }| Problem { message: cleaned(&message), hint }),
        warnings: config.warnings.iter().map(|warning| cleaned(warning)).collect(),
        backups: backups.collect(),
        chosen: difference.map(view),
        failure,
    })
}

fn view(found: Difference) -> DifferenceView {
    let line = |line: Line| {
        let (kind, sign) = match line.kind.as_str() {
            "added" => ("added", '+'),
            "removed" => ("removed", '-'),
            _ => ("same", ' '),
        };
        LineView { kind, sign, text: cleaned(&line.text) }
    };
    DifferenceView {
        name: found.name,
        label: label(found.at, found.step),
        at: Moment::new(found.at),
        problem: found.problem,
        replaces: found.replaces,
        hunks: found.hunks.into_iter().map(|lines| lines.into_iter().map(line).collect()).collect(),
        changed_secrets: found.changed_secrets,
    }
}

/// Returns the time of a backup with what tells it from the others of the same second: its milliseconds, and its number
/// if several were made within one.
fn label(at: i64, step: u32) -> String {
    let time = format!("{}.{:03}", clock::local(at), at.rem_euclid(1000));
    if step == 0 { time } else { format!("{time} ({})", step.saturating_add(1)) }
}

fn pretty(document: &Value) -> String {
    serde_json::to_string_pretty(document).unwrap_or_default()
}

/// Spells out what can't be seen in a text. A value may come from a web page or a model.
fn cleaned(text: &str) -> String {
    clean::block(text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backups_of_one_second_have_different_labels() {
        let labels = [label(1_700_000_000_007, 0), label(1_700_000_000_120, 0), label(1_700_000_000_120, 1)];
        assert!(labels[0].ends_with(".007") && labels[1].ends_with(".120"), "{labels:?}");
        assert_eq!(labels[2], format!("{} (2)", labels[1]));
    }
}
