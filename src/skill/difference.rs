//! The difference between two contents of a skill, for the person who decides about an update. Pure. Whatever is left out
//! is counted.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Serialize;
use sha2::{Digest as _, Sha256};
use similar::TextDiff;

use super::content::{SkillContent, SkillFile};
use crate::id::hex;

/// The limits of a difference.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DifferenceLimits {
    /// The most lines of all files together.
    pub(crate) lines: usize,
    /// The most characters of a line.
    pub(crate) characters: usize,
}

impl DifferenceLimits {
    /// Limits for a terminal.
    pub(crate) const SHORT: Self = Self { lines: 2_000, characters: 1_000 };
    /// No limits besides those of a skill itself.
    pub(crate) const FULL: Self = Self { lines: usize::MAX, characters: usize::MAX };
}

/// The difference between two contents.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SkillDifference {
    /// The changed files, by their paths.
    pub(crate) files: Vec<FileDifference>,
    /// Number of lines that are not shown, or not shown in full.
    pub(crate) left_out: usize,
}

/// The difference of one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FileDifference {
    pub(crate) path: String,
    pub(crate) change: FileChange,
    /// A change that no line shows: of the mode, or of a file that is no text.
    pub(crate) notes: Vec<String>,
    /// The lines in unified form.
    pub(crate) lines: Vec<String>,
}

/// The kind of a file's change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum FileChange {
    Added,
    Removed,
    Changed,
}

impl FileChange {
    /// Returns the word for people and programs.
    #[must_use]
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Removed => "removed",
            Self::Changed => "changed",
        }
    }
}

/// Returns the difference between two contents.
#[must_use]
pub(crate) fn between(
    before: &SkillContent,
    after: &SkillContent,
    limits: DifferenceLimits,
) -> SkillDifference {
    let mut found = SkillDifference::default();
    let mut room = limits.lines;
    let paths: BTreeSet<&String> = before.files().keys().chain(after.files().keys()).collect();
    for path in paths {
        let (old, new) = (before.files().get(path), after.files().get(path));
        let change = match (old, new) {
            (None, _) => FileChange::Added,
            (_, None) => FileChange::Removed,
            _ if old == new => continue,
            _ => FileChange::Changed,
        };
        let mut lines = text_lines(old, new);
        let hidden = lines.len().saturating_sub(room);
        lines.truncate(room);
        room -= lines.len();
        found.left_out += hidden;
        for line in &mut lines {
            found.left_out += usize::from(shorten(line, limits.characters));
        }
        found.files.push(FileDifference { path: path.clone(), change, notes: notes(old, new), lines });
    }
    found
}

/// Returns the changes that no line shows.
fn notes(old: Option<&SkillFile>, new: Option<&SkillFile>) -> Vec<String> {
    let mut notes = Vec::new();
    match (old.is_some_and(|file| file.is_executable), new.is_some_and(|file| file.is_executable)) {
        (false, true) => notes.push("it becomes executable".to_owned()),
        (true, false) if new.is_some() => notes.push("it is no longer executable".to_owned()),
        _ => {}
    }
    let described = |file: &SkillFile| {
        format!("{} bytes, sha256 {}", file.bytes.len(), hex(&Sha256::digest(&file.bytes)))
    };
    let is_text = |file: Option<&SkillFile>| file.is_none_or(|file| file.text().is_some());
    if !is_text(old) || !is_text(new) {
        let of = |file: Option<&SkillFile>| file.map_or_else(|| "nothing".to_owned(), described);
        notes.push(format!("no text: {}, then {}", of(old), of(new)));
    } else if old.is_none_or(|file| file.bytes.is_empty()) && new.is_some_and(|file| file.bytes.is_empty()) {
        notes.push("empty".to_owned());
    }
    notes
}

fn text_lines(old: Option<&SkillFile>, new: Option<&SkillFile>) -> Vec<String> {
    let text = |file: Option<&SkillFile>| match file {
        None => Some(String::new()),
        Some(file) => file.text().map(str::to_owned),
    };
    let (Some(old), Some(new)) = (text(old), text(new)) else { return Vec::new() };
    if old == new {
        return Vec::new();
    }
    // A hostile text could make an exact comparison take for ever. After this time the rest is shown as replaced.
    let diff = TextDiff::configure().timeout(Duration::from_millis(500)).diff_lines(&old, &new);
    let unified = diff.unified_diff().context_radius(3).to_string();
    // Only newlines separate lines. A carriage return at the end of a line stays, so that its change is shown.
    unified.trim_end_matches('\n').split('\n').map(str::to_owned).collect()
}

/// Cuts a line after so many characters. Returns `true` if something was cut off.
fn shorten(line: &mut String, most: usize) -> bool {
    let Some((end, _)) = line.char_indices().nth(most) else { return false };
    let rest = line[end..].chars().count();
    line.truncate(end);
    line.push_str(&format_rest(rest));
    true
}

fn format_rest(rest: usize) -> String {
    format!(" … and {rest} more characters")
}
