//! Checkpoints and rewinds as people and programs are shown them.

use std::path::Path;

use serde::Serialize;
use serde_json::{Value, json};
use similar::TextDiff;

use super::diff::Change;
use super::objects::Objects;
use super::packages::{self, PackagePlan};
use super::record::{CheckpointRecord, Reason};
use super::tree::Node;
use crate::id::SessionKey;
use crate::nix_store::ProfileDifference;

/// The most changes that are listed.
const MAX_CHANGES: usize = 500;
/// The most files of which the differences in their texts are shown.
const MAX_TEXTS: usize = 40;
/// The largest file of which they are shown.
const MAX_TEXT: u64 = 128 << 10;
/// The most lines of one file's differences.
const MAX_LINES: usize = 80;

/// The changes that a rewind would make, or has made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RewindView {
    /// The checkpoint that it goes back to.
    pub(crate) checkpoint: u64,
    /// Unix milliseconds of that checkpoint.
    pub(crate) at: i64,
    /// The checkpoint of the state before the rewind, with which it can be undone. `None` as long as it is only shown.
    pub(crate) undo: Option<u64>,
    /// The changes of files.
    pub(crate) files: Vec<ChangeView>,
    /// Number of all changes, of which at most 500 are listed.
    pub(crate) file_count: usize,
    /// The changes that are not made, because somebody else than the agent has changed these files.
    pub(crate) foreign: Vec<ChangeView>,
    /// Number of all of them.
    pub(crate) foreign_count: usize,
    /// The conversations that go on from an earlier moment.
    pub(crate) conversations: Vec<ConversationView>,
    /// The change of the packages, unless they stay.
    pub(crate) packages: Option<PackagesView>,
    /// `true` if they stay because the checkpoint has those of another home, or does not say of which one.
    pub(crate) packages_elsewhere: bool,
    /// Files that the checkpoint does not have, such as sockets.
    pub(crate) left_out: Vec<String>,
    /// The deviations from the plan, for people.
    pub(crate) warnings: Vec<String>,
    /// Names exactly this plan.
    pub(crate) plan: String,
}

/// A changed path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ChangeView {
    /// The path in the workspace. Bytes that are no text are replaced.
    pub(crate) path: String,
    /// `added`, `removed` or `changed`.
    pub(crate) change: &'static str,
    /// `file`, `folder` or `link`.
    pub(crate) kind: &'static str,
    /// The differences of a text, in unified form.
    pub(crate) diff: Option<String>,
}

/// A change of the packages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PackagesView {
    /// The generation of the profile in use. 0 stands for no profile.
    from: u32,
    /// The generation that it goes back to.
    to: u32,
    #[serde(flatten)]
    difference: ProfileDifference,
}

impl PackagesView {
    pub(super) fn of(plan: &PackagePlan) -> Self {
        Self { from: plan.from, to: plan.to, difference: plan.difference.clone() }
    }
}

/// A conversation that goes on from an earlier moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ConversationView {
    pub(crate) session: SessionKey,
    /// Number of messages that a model is no longer shown.
    pub(crate) messages: usize,
}

/// Returns the first changes with the differences of texts, as they would be made.
pub(super) fn changes(objects: &Objects, changes: &[Change]) -> Vec<ChangeView> {
    let mut texts = 0;
    let shown = changes.iter().take(MAX_CHANGES).map(|change| {
        let diff = if texts < MAX_TEXTS { text_diff(objects, change) } else { None };
        texts += usize::from(diff.is_some());
        let kind = change.after.as_ref().or(change.before.as_ref()).map_or("file", Node::kind);
        ChangeView { path: shown_path(&change.path), change: change.verb(), kind, diff }
    });
    shown.collect()
}

fn shown_path(path: &Path) -> String {
    crate::clean::inline(&path.to_string_lossy()).into_owned()
}

/// Returns the differences of a file's text, or `None` if it is no text or too large.
fn text_diff(objects: &Objects, change: &Change) -> Option<String> {
    let text = |node: &Option<Node>| match node {
        None => Some(String::new()),
        Some(Node::File { content, size, .. }) if *size <= MAX_TEXT => {
            let bytes = objects.bytes(*content, MAX_TEXT).ok()??;
            String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))
        }
        Some(_) => None,
    };
    let (before, after) = (text(&change.before)?, text(&change.after)?);
    if before == after {
        return None;
    }
    let diff =
        TextDiff::configure().timeout(std::time::Duration::from_millis(200)).diff_lines(&before, &after);
    let unified = diff.unified_diff().context_radius(2).to_string();
    let mut lines: Vec<String> =
        unified.lines().take(MAX_LINES).map(|line| crate::clean::block(line).into_owned()).collect();
    let more = unified.lines().count().saturating_sub(MAX_LINES);
    if more > 0 {
        lines.push(format!("… {more} more lines"));
    }
    Some(lines.join("\n"))
}

/// Returns a checkpoint for people and programs. `changed` is the number of paths that differ from the checkpoint before
/// it, and `stores` the package stores of this home.
pub(super) fn record(record: &CheckpointRecord, changed: Option<usize>, stores: Option<&str>) -> Value {
    let mut shown = json!({
        "number": record.number,
        "at": record.at,
        "files": record.files.is_some(),
        "entries": record.entries,
        "changed": changed,
        "packages": packages::number_in(stores, record),
        "problem": record.problem,
        "leftOut": record.left_out.paths,
        "unstable": record.unstable.paths,
    });
    let (kind, more) = match &record.reason {
        Reason::Turn { session, turn } => ("turn", json!({"session": session, "turn": turn})),
        Reason::TurnEnd { session, turn } => ("turnEnd", json!({"session": session, "turn": turn})),
        Reason::Asked { by, note } => ("asked", json!({"by": by, "note": note})),
        Reason::Rewind { by, to, .. } => ("rewind", json!({"by": by, "to": to})),
        Reason::Rewound => ("rewound", json!({})),
        Reason::Recovered => ("recovered", json!({})),
        Reason::Lost { engine } => ("lost", json!({"engine": engine})),
    };
    shown["reason"] = kind.into();
    if let (Some(shown), Value::Object(more)) = (shown.as_object_mut(), more) {
        shown.extend(more);
    }
    shown
}

/// Returns the paths of a list as text, bounded.
pub(super) fn paths(paths: &[std::path::PathBuf]) -> String {
    let shown: Vec<String> = paths.iter().take(5).map(|path| shown_path(path)).collect();
    let more = paths.len().saturating_sub(shown.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", shown.join(", "))
}
