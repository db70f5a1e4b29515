//! The past changes of a project as pieces of work.

use std::path::Path;

use git2::Tree;

use crate::project::diff::{FileDiff, Hunk, LineKind, diff};
use crate::project::{DiffLimits, FileStatus, ObjectId, ProjectError, ProjectRepository};

/// A change of the past that an agent is to make again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work {
    /// The commit that made the change, 40 hex digits.
    pub commit: String,
    pub files: Vec<WorkFile>,
}

/// A file that a piece of work changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkFile {
    pub path: String,
    /// Bytes of the file before the change.
    pub bytes: u64,
    /// Number of lines that are added and removed.
    pub lines: u64,
    /// The changed places: first and last line, as numbered before the change.
    pub spans: Vec<(u32, u32)>,
}

impl Work {
    /// Returns the number of changed lines.
    #[must_use]
    pub fn lines(&self) -> u64 {
        self.files.iter().map(|file| file.lines).sum()
    }

    /// Returns the paths at which git could not join two changes: both change the same lines, or lines that touch.
    pub fn conflicts<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = &'a str> {
        let touch = |one: &(u32, u32), two: &(u32, u32)| {
            one.0 <= two.1.saturating_add(1) && two.0 <= one.1.saturating_add(1)
        };
        self.files.iter().filter_map(move |file| {
            let same = other.files.iter().find(|found| found.path == file.path)?;
            let meets = file.spans.iter().any(|one| same.spans.iter().any(|two| touch(one, two)));
            meets.then_some(file.path.as_str())
        })
    }
}

/// A whole file.
const WHOLE: (u32, u32) = (0, u32::MAX);
/// Limits of what is read of one change. The rest of a larger one does not count.
const LIMITS: DiffLimits = DiffLimits { files: 100, lines: 20_000, bytes: 4 << 20, line: 200 };

/// Returns the last changes before and at a commit, at most `count`, the oldest first. Only the line of first parents is
/// followed, so a merge is one change. The first commit of all is none, because it has no state before it.
///
/// # Errors
///
/// Returns an error if the history can't be read.
pub fn past_work(
    repository: &ProjectRepository,
    tip: ObjectId,
    count: usize,
) -> Result<Vec<Work>, ProjectError> {
    let failed = ProjectError::git("read the history of", repository.folder());
    let mut found = Vec::new();
    let mut at = repository.commit(tip)?;
    while found.len() < count
        && let Some(parent) = at.parent_ids().next()
    {
        let before = repository.commit(parent)?;
        let tree = before.tree().map_err(&failed)?;
        let change = diff(repository, Some(parent), at.id(), LIMITS)?;
        let files: Vec<WorkFile> =
            change.files.iter().map(|file| work_file(file, repository, &tree)).collect();
        if !files.is_empty() {
            found.push(Work { commit: at.id().to_string(), files });
        }
        at = before;
    }
    found.reverse();
    Ok(found)
}

fn work_file(file: &FileDiff, repository: &ProjectRepository, before: &Tree<'_>) -> WorkFile {
    let old = file.old_path.as_deref().unwrap_or(&file.path);
    let entry = before.get_path(Path::new(old)).ok();
    let size = entry.and_then(|entry| Some(repository.git().odb().ok()?.read_header(entry.id()).ok()?.0));
    let in_place = matches!(file.status, FileStatus::Modified);
    let spans: Vec<(u32, u32)> =
        if in_place { file.hunks.iter().filter_map(span).collect() } else { vec![WHOLE] };
    WorkFile {
        path: file.path.clone(),
        bytes: size.unwrap_or_default() as u64,
        lines: (file.added + file.removed) as u64,
        spans: if spans.is_empty() { vec![WHOLE] } else { spans },
    }
}

/// Returns the first and the last line of a hunk that change. A hunk also has lines around them that do not.
fn span(hunk: &Hunk) -> Option<(u32, u32)> {
    let mut before = hunk.old_start.saturating_sub(1);
    let mut span: Option<(u32, u32)> = None;
    for line in &hunk.lines {
        if let Some(number) = line.old {
            before = number;
        }
        if line.kind != LineKind::Context {
            span = Some(span.map_or((before, before), |(first, _)| (first, before)));
        }
    }
    span
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project::testing::Sample;

    fn numbered(changed: &[(usize, &str)]) -> String {
        let line = |at: usize| {
            let new = changed.iter().find(|(place, _)| *place == at);
            new.map_or_else(|| format!("{at}\n"), |(_, text)| format!("{text}\n"))
        };
        (1..=40).map(line).collect()
    }

    #[test]
    fn each_first_parent_commit_is_a_piece_of_work() {
        let sample = Sample::new();
        let base = sample.commit(&[], &[("a", &numbered(&[]))]);
        let side = sample.commit(&[base], &[("a", &numbered(&[])), ("b", "1\n2\n")]);
        let one = sample.commit(&[base], &[("a", &numbered(&[(3, "x")]))]);
        let merge = sample.commit(&[one, side], &[("a", &numbered(&[(3, "x")])), ("b", "1\n2\n")]);
        let empty = sample.commit(&[merge], &[("a", &numbered(&[(3, "x")])), ("b", "1\n2\n")]);
        let all = past_work(&sample.repository, empty, 10).unwrap();
        let commits: Vec<&str> = all.iter().map(|work| work.commit.as_str()).collect();
        assert_eq!(commits, [one.to_string(), merge.to_string()]);
        assert_eq!(all[0].files[0].spans, [(3, 3)]);
        assert_eq!((all[0].lines(), all[0].files[0].bytes), (2, numbered(&[]).len() as u64));
        assert_eq!((all[1].files[0].path.as_str(), all[1].files[0].spans[0]), ("b", WHOLE));
        assert_eq!(past_work(&sample.repository, empty, 1).unwrap(), all[1..]);
    }

    #[test]
    fn changes_conflict_where_git_says_so() {
        let sample = Sample::new();
        let base = sample.commit(&[], &[("a", &numbered(&[])), ("b", "1\n")]);
        let work = |changed: &[(usize, &str)], b: &str| {
            let commit = sample.commit(&[base], &[("a", &numbered(changed)), ("b", b)]);
            (commit, past_work(&sample.repository, commit, 1).unwrap().remove(0))
        };
        let (first, one) = work(&[(10, "x")], "1\n");
        let rows = [
            work(&[(10, "y")], "1\n"),
            work(&[(11, "y")], "1\n"),
            work(&[(12, "y")], "1\n"),
            work(&[(30, "y")], "2\n"),
            work(&[(9, "x\ny")], "1\n"),
        ];
        for (second, other) in rows {
            let index = sample
                .repository
                .git()
                .merge_commits(
                    &sample.repository.commit(first).unwrap(),
                    &sample.repository.commit(second).unwrap(),
                    None,
                )
                .unwrap();
            let ours: Vec<&str> = one.conflicts(&other).collect();
            assert_eq!(!ours.is_empty(), index.has_conflicts(), "{ours:?} {other:?}");
        }
    }
}
