//! The changes between two commits, by file, with limits on everything: an agent may have committed a file of any size,
//! or any number of files.

use std::fmt::Write as _;

use git2::{Delta, DiffFindOptions, DiffLineType, DiffOptions, Oid, Patch};
use serde::Serialize;

use super::{ObjectId, ProjectError, ProjectRepository};
use crate::clean;

/// The limits of a diff. What exceeds them is left out, and the diff says so.
#[derive(Clone, Copy, Debug)]
pub struct DiffLimits {
    /// Most files that are listed.
    pub files: usize,
    /// Most lines of all files together, context included.
    pub lines: usize,
    /// Most bytes of all lines together.
    pub bytes: usize,
    /// Most bytes of one line. The rest of the line is cut off.
    pub line: usize,
}

impl Default for DiffLimits {
    fn default() -> Self {
        Self { files: 300, lines: 10_000, bytes: 1 << 20, line: 2_000 }
    }
}

/// The changes from one commit to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BranchDiff {
    /// The commit before the changes, 40 hex digits.
    pub base: String,
    /// The commit with the changes, 40 hex digits.
    pub head: String,
    /// The changed files, in the order of their paths.
    pub files: Vec<FileDiff>,
    /// Number of changed files, listed or not.
    pub changed: usize,
    /// Number of added lines in all files.
    pub added: usize,
    /// Number of removed lines in all files.
    pub removed: usize,
    /// `true` if files or lines were left out.
    pub is_cut: bool,
}

/// The changes of one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FileDiff {
    /// The path, without invisible characters.
    pub path: String,
    /// The path before the change, if the file was renamed or copied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old_path: Option<String>,
    pub status: FileStatus,
    /// Number of added lines, whether they are shown or not.
    pub added: usize,
    /// Number of removed lines, whether they are shown or not.
    pub removed: usize,
    /// `true` if the content is not text, or too large to be compared. Such a file has no hunks.
    pub is_binary: bool,
    /// `true` if the file became executable, or no longer is.
    pub is_mode_changed: bool,
    pub hunks: Vec<Hunk>,
    /// `true` if lines were left out.
    pub is_cut: bool,
}

/// The kind of a file's change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FileStatus {
    Added,
    Deleted,
    Modified,
    Renamed,
    Copied,
    /// A file became a link, a folder became a submodule, and the like.
    Retyped,
}

impl FileStatus {
    /// Returns the letter that git shows.
    #[must_use]
    pub const fn letter(self) -> char {
        match self {
            Self::Added => 'A',
            Self::Deleted => 'D',
            Self::Modified => 'M',
            Self::Renamed => 'R',
            Self::Copied => 'C',
            Self::Retyped => 'T',
        }
    }
}

/// A part of a file with changed lines and some lines around them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Hunk {
    /// Number of the first line before the change, counted from 1.
    pub old_start: u32,
    pub old_lines: u32,
    /// Number of the first line after the change, counted from 1.
    pub new_start: u32,
    pub new_lines: u32,
    /// The line of the file that names the surrounding function, if there is one.
    pub heading: String,
    pub lines: Vec<DiffLine>,
}

/// A line of a hunk: unchanged, added or removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DiffLine {
    pub kind: LineKind,
    /// Number of the line before the change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old: Option<u32>,
    /// Number of the line after the change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new: Option<u32>,
    /// The text without its line end. Invisible characters other than tab are escaped.
    pub text: String,
    /// `true` if the file ends after this line without a line end.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_unended: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LineKind {
    Context,
    Added,
    Removed,
}

/// Returns the last commit that both histories have.
///
/// # Errors
///
/// Returns [`ProjectError::Unrelated`] if there is none.
pub fn fork_point(
    repository: &ProjectRepository,
    one: ObjectId,
    other: ObjectId,
) -> Result<ObjectId, ProjectError> {
    repository
        .git()
        .merge_base(one, other)
        .map_err(|_| ProjectError::Unrelated { one: one.to_string(), other: other.to_string() })
}

/// Returns the changes that a branch brings: from the commit where it left the tip to its head.
///
/// # Errors
///
/// Returns [`ProjectError::Unrelated`] if the histories have nothing in common, and an error if they can't be read.
pub fn branch_diff(
    repository: &ProjectRepository,
    tip: ObjectId,
    head: ObjectId,
    limits: DiffLimits,
) -> Result<BranchDiff, ProjectError> {
    diff(repository, Some(fork_point(repository, tip, head)?), head, limits)
}

/// Returns the changes from `base` to `head`. Without a base every file is new.
///
/// # Errors
///
/// Returns [`ProjectError::NoCommit`] if a commit is missing, and an error if the files can't be compared.
pub fn diff(
    repository: &ProjectRepository,
    base: Option<ObjectId>,
    head: ObjectId,
    limits: DiffLimits,
) -> Result<BranchDiff, ProjectError> {
    let failed = ProjectError::git("compare files of", repository.folder());
    let old = base.map(|base| repository.commit(base)?.tree().map_err(&failed)).transpose()?;
    let new = repository.commit(head)?.tree().map_err(&failed)?;
    let mut options = DiffOptions::new();
    options.context_lines(3).interhunk_lines(0).max_size(MAX_COMPARED).include_typechange(true);
    let mut found =
        repository.git().diff_tree_to_tree(old.as_ref(), Some(&new), Some(&mut options)).map_err(&failed)?;
    let mut renames = DiffFindOptions::new();
    renames.renames(true).rename_limit(MAX_RENAMES);
    found.find_similar(Some(&mut renames)).map_err(&failed)?;
    let mut diff = BranchDiff {
        base: base.unwrap_or(Oid::ZERO_SHA1).to_string(),
        head: head.to_string(),
        files: Vec::new(),
        changed: found.deltas().len(),
        added: 0,
        removed: 0,
        is_cut: false,
    };
    let mut left = Left { lines: limits.lines, bytes: limits.bytes, line: limits.line };
    for index in 0..found.deltas().len() {
        // A patch loads both versions of the file. They are counted even if nothing of the file is shown, up to a limit.
        if index >= MAX_COUNTED {
            diff.is_cut = true;
            break;
        }
        let patch = Patch::from_diff(&found, index).map_err(&failed)?;
        let Some(delta) = found.get_delta(index) else { break };
        let file = file_diff(&delta, patch.as_ref(), index < limits.files, &mut left);
        let Ok(file) = file else { continue };
        diff.added += file.added;
        diff.removed += file.removed;
        diff.is_cut |= file.is_cut;
        if index < limits.files {
            diff.files.push(file);
        } else {
            diff.is_cut = true;
        }
    }
    Ok(diff)
}

/// The part of the limits that is not used up.
struct Left {
    lines: usize,
    bytes: usize,
    line: usize,
}

fn file_diff(
    delta: &git2::DiffDelta<'_>,
    patch: Option<&Patch<'_>>,
    is_shown: bool,
    left: &mut Left,
) -> Result<FileDiff, git2::Error> {
    let name = |file: git2::DiffFile<'_>| {
        let bytes = file.path_bytes().unwrap_or_default();
        clean::inline(&String::from_utf8_lossy(bytes)).into_owned()
    };
    let (old, new) = (delta.old_file(), delta.new_file());
    let status = match delta.status() {
        Delta::Added => FileStatus::Added,
        Delta::Deleted => FileStatus::Deleted,
        Delta::Renamed => FileStatus::Renamed,
        Delta::Copied => FileStatus::Copied,
        Delta::Typechange => FileStatus::Retyped,
        _ => FileStatus::Modified,
    };
    let is_moved = matches!(status, FileStatus::Renamed | FileStatus::Copied);
    let (old_mode, new_mode) = (old.mode(), new.mode());
    let (_, added, removed) = patch.map(Patch::line_stats).transpose()?.unwrap_or_default();
    let is_binary = delta.flags().is_binary();
    let mut file = FileDiff {
        path: if status == FileStatus::Deleted { name(old) } else { name(new) },
        old_path: is_moved.then(|| name(delta.old_file())),
        status,
        added,
        removed,
        is_binary,
        is_mode_changed: !matches!(status, FileStatus::Added | FileStatus::Deleted) && old_mode != new_mode,
        hunks: Vec::new(),
        is_cut: false,
    };
    if let Some(patch) = patch.filter(|_| is_shown && !is_binary) {
        for index in 0..patch.num_hunks() {
            if !add_hunk(&mut file.hunks, patch, index, left)? {
                file.is_cut = true;
                break;
            }
        }
    }
    Ok(file)
}

/// Adds a hunk, or its beginning if the limits end within it. Returns `true` if all of it was added.
fn add_hunk(
    hunks: &mut Vec<Hunk>,
    patch: &Patch<'_>,
    index: usize,
    left: &mut Left,
) -> Result<bool, git2::Error> {
    if left.lines == 0 || left.bytes == 0 {
        return Ok(false);
    }
    let (head, count) = patch.hunk(index)?;
    let header = String::from_utf8_lossy(head.header()).into_owned();
    // `@@ -1,2 +1,3 @@ fn main() {`
    let heading = header.splitn(3, "@@").nth(2).unwrap_or_default().trim();
    let mut hunk = Hunk {
        old_start: head.old_start(),
        old_lines: head.old_lines(),
        new_start: head.new_start(),
        new_lines: head.new_lines(),
        heading: clean::summary(heading, MAX_HEADING),
        lines: Vec::new(),
    };
    let mut is_whole = true;
    for number in 0..count {
        let line = patch.line_in_hunk(index, number)?;
        let kind = match line.origin_value() {
            DiffLineType::Context => LineKind::Context,
            DiffLineType::Addition => LineKind::Added,
            DiffLineType::Deletion => LineKind::Removed,
            // "No newline at end of file" is a line of its own in a patch.
            _ => {
                if let Some(last) = hunk.lines.last_mut() {
                    last.is_unended = true;
                }
                continue;
            }
        };
        if left.lines == 0 || left.bytes == 0 {
            is_whole = false;
            break;
        }
        let content = line.content();
        let content = content.strip_suffix(b"\n").unwrap_or(content);
        let (content, is_cut) = match content.get(..left.line.min(left.bytes)) {
            Some(beginning) if beginning.len() < content.len() => (beginning, true),
            _ => (content, false),
        };
        left.lines -= 1;
        left.bytes = left.bytes.saturating_sub(content.len().max(1));
        let mut text = clean::block(&String::from_utf8_lossy(content)).into_owned();
        if is_cut {
            text.push('…');
            is_whole &= left.bytes > 0;
        }
        hunk.lines.push(DiffLine {
            kind,
            old: line.old_lineno(),
            new: line.new_lineno(),
            text,
            is_unended: false,
        });
    }
    hunks.push(hunk);
    Ok(is_whole)
}

/// Returns the number of changed files and lines, and the first files with theirs, as a short text of a few lines.
#[must_use]
pub fn stat(diff: &BranchDiff) -> String {
    let files = if diff.changed == 1 { "1 file".to_owned() } else { format!("{} files", diff.changed) };
    let mut text = format!("{files}, +{} −{}", diff.added, diff.removed);
    for file in diff.files.iter().take(STAT_FILES) {
        let path = match &file.old_path {
            Some(old) => format!("{old} → {}", file.path),
            None => file.path.clone(),
        };
        let changed =
            if file.is_binary { "binary".to_owned() } else { format!("+{} −{}", file.added, file.removed) };
        let (letter, path) = (file.status.letter(), clean::summary(&path, 120));
        // Writing to a String does not fail.
        let _ = write!(text, "\n{letter} {path} ({changed})");
    }
    if diff.changed > STAT_FILES {
        let _ = write!(text, "\nand {} more", diff.changed - STAT_FILES);
    }
    text
}

/// Size in bytes above which a file counts as binary.
const MAX_COMPARED: i64 = 4 << 20;
/// Number of files up to which lines are counted.
const MAX_COUNTED: usize = 2_000;
/// Number of added and removed files up to which renames are looked for.
const MAX_RENAMES: usize = 200;
/// Limit on the characters of a hunk's heading.
const MAX_HEADING: usize = 120;
/// Number of files in the short text.
const STAT_FILES: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project::testing::Sample;

    #[test]
    fn changes_are_listed_by_file_with_their_lines() {
        let sample = Sample::new();
        let long: String = (0..40).map(|n| format!("line {n}\n")).collect();
        let base = sample.commit(
            &[],
            &[("a.txt", "one\ntwo\nthree\n"), ("gone", "x\n"), ("moved", &long), ("bin", "\0\u{1}")],
        );
        let head = sample.commit(
            &[base],
            &[
                ("a.txt", "one\n2\u{1b}[0m\nthree"),
                ("new/b.txt", "b\n"),
                ("elsewhere", &long),
                ("bin", "\0\u{2}"),
            ],
        );
        let tip = sample.commit(&[base], &[("other", "z")]);
        let found = branch_diff(&sample.repository, tip, head, DiffLimits::default()).unwrap();
        assert_eq!(found.base, base.to_string());
        let by = |path: &str| found.files.iter().find(|file| file.path == path).unwrap();
        assert_eq!((found.changed, found.added, found.removed, found.is_cut), (5, 3, 3, false));
        let a = by("a.txt");
        assert_eq!((a.status, a.added, a.removed), (FileStatus::Modified, 2, 2));
        let lines: Vec<_> = a.hunks[0].lines.iter().map(|line| (line.kind, &*line.text)).collect();
        assert_eq!(
            lines,
            [
                (LineKind::Context, "one"),
                (LineKind::Removed, "two"),
                (LineKind::Removed, "three"),
                (LineKind::Added, "2\\u{1b}[0m"),
                (LineKind::Added, "three"),
            ]
        );
        assert!(a.hunks[0].lines[4].is_unended && !a.hunks[0].lines[2].is_unended);
        assert_eq!((a.hunks[0].lines[4].old, a.hunks[0].lines[4].new), (None, Some(3)));
        let moved = by("elsewhere");
        assert_eq!((moved.status, moved.old_path.as_deref()), (FileStatus::Renamed, Some("moved")));
        assert!(by("bin").is_binary && by("bin").hunks.is_empty());
        assert_eq!(by("gone").status, FileStatus::Deleted);
        let text = stat(&found);
        assert!(text.starts_with("5 files, +3 −3\n") && text.contains("M bin (binary)"), "{text}");
        assert!(text.contains("R moved → elsewhere (+0 −0)"), "{text}");
    }

    #[test]
    fn what_exceeds_the_limits_is_left_out_and_said() {
        let sample = Sample::new();
        let many: Vec<(String, String)> =
            (0..20).map(|n| (format!("f{n:02}"), "0123456789\n".repeat(50))).collect();
        let many: Vec<(&str, &str)> = many.iter().map(|(path, text)| (&**path, &**text)).collect();
        let head = sample.commit(&[], &many);
        let with = |limits| diff(&sample.repository, None, head, limits).unwrap();
        let whole = with(DiffLimits::default());
        assert!(!whole.is_cut && whole.files.len() == 20);
        let few = with(DiffLimits { files: 3, ..DiffLimits::default() });
        assert_eq!((few.files.len(), few.changed, few.added, few.is_cut), (3, 20, 1000, true));
        let lines = with(DiffLimits { lines: 120, ..DiffLimits::default() });
        let shown = |diff: &BranchDiff| -> usize {
            diff.files.iter().flat_map(|file| &file.hunks).map(|hunk| hunk.lines.len()).sum()
        };
        assert_eq!((shown(&lines), lines.added, lines.is_cut), (120, 1000, true));
        let cut: Vec<bool> = lines.files.iter().map(|file| file.is_cut).collect();
        assert_eq!(cut[..4], [false, false, true, true]);
        let bytes = with(DiffLimits { bytes: 105, ..DiffLimits::default() });
        assert!(bytes.is_cut && shown(&bytes) == 11, "{}", shown(&bytes));
        let narrow = with(DiffLimits { line: 4, ..DiffLimits::default() });
        assert_eq!(narrow.files[0].hunks[0].lines[0].text, "0123…");
        assert!(stat(&whole).ends_with("and 10 more"));
    }

    #[test]
    fn unrelated_histories_have_no_diff() {
        let sample = Sample::new();
        let (one, two) = (sample.commit(&[], &[("a", "1")]), sample.commit(&[], &[("b", "1")]));
        let found = branch_diff(&sample.repository, one, two, DiffLimits::default());
        assert!(matches!(found, Err(ProjectError::Unrelated { .. })));
    }
}
