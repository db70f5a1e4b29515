//! Merges of two commits, without a working tree.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use git2::{Index, MergeOptions, Oid, Signature, Time};
use serde::Serialize;

use super::{CommitSummary, ObjectId, ProjectError, ProjectRepository};
use crate::clean;

/// The result of a merge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MergeOutcome {
    /// The tip already has everything of the branch.
    Contained,
    /// The new commit, whose parents are the tip and the branch. No reference leads to it yet.
    Merged(ObjectId),
    /// Both sides changed the same places. Nothing was written.
    Conflicts(Vec<Conflict>),
}

/// A file that two sides changed in ways that can't be joined.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Conflict {
    /// The path, without invisible characters.
    pub path: String,
    /// The newest commits of the tip's side that changed the file.
    pub tip: Vec<CommitSummary>,
    /// The newest commits of the branch's side that changed the file.
    pub branch: Vec<CommitSummary>,
}

/// The text and the author of a merge.
#[derive(Clone, Copy, Debug)]
pub struct MergeMessage<'a> {
    /// The whole message. Its first line is the subject.
    pub text: &'a str,
    /// The time in Unix seconds. The same merge at the same time is the same commit.
    pub at: i64,
}

/// Merges a branch into the tip. Writes the new commit, but moves no reference.
///
/// # Errors
///
/// Returns [`ProjectError::NoCommit`] if a commit is missing, [`ProjectError::Unrelated`] if the histories have nothing
/// in common, and an error if they can't be read or the commit can't be written.
pub fn merge(
    repository: &ProjectRepository,
    tip: ObjectId,
    branch: ObjectId,
    message: MergeMessage<'_>,
) -> Result<MergeOutcome, ProjectError> {
    if repository.contains(tip, branch)? {
        return Ok(MergeOutcome::Contained);
    }
    let mut index = merged_index(repository, tip, branch)?;
    let conflicts = conflicts(repository, &index, tip, branch)?;
    if !conflicts.is_empty() {
        return Ok(MergeOutcome::Conflicts(conflicts));
    }
    let git = repository.git();
    let failed = ProjectError::git("write a merge into", repository.folder());
    let tree = index.write_tree_to(git).and_then(|id| git.find_tree(id)).map_err(&failed)?;
    let author = Signature::new(NAME, ADDRESS, &Time::new(message.at, 0)).map_err(&failed)?;
    let parents = [&repository.commit(tip)?, &repository.commit(branch)?];
    let merged = git.commit(None, &author, &author, message.text, &tree, &parents).map_err(&failed)?;
    repository.open_up()?;
    Ok(MergeOutcome::Merged(merged))
}

/// Returns the conflicts that a merge of two commits would have, without writing anything. There are none if one
/// contains the other.
///
/// # Errors
///
/// Returns [`ProjectError::NoCommit`] if a commit is missing, [`ProjectError::Unrelated`] if the histories have nothing
/// in common, and an error if they can't be read.
pub fn try_merge(
    repository: &ProjectRepository,
    one: ObjectId,
    other: ObjectId,
) -> Result<Vec<Conflict>, ProjectError> {
    if repository.contains(one, other)? || repository.contains(other, one)? {
        return Ok(Vec::new());
    }
    conflicts(repository, &merged_index(repository, one, other)?, one, other)
}

fn merged_index(repository: &ProjectRepository, tip: Oid, branch: Oid) -> Result<Index, ProjectError> {
    super::diff::fork_point(repository, tip, branch)?;
    let (ours, theirs) = (repository.commit(tip)?, repository.commit(branch)?);
    let mut options = MergeOptions::new();
    // An agent can make a history that takes forever to merge with many common ancestors.
    options.find_renames(true).target_limit(MAX_RENAMES).recursion_limit(MAX_RECURSION);
    let merged = repository.git().merge_commits(&ours, &theirs, Some(&options));
    merged.map_err(ProjectError::git("merge branches of", repository.folder()))
}

fn conflicts(
    repository: &ProjectRepository,
    index: &Index,
    tip: Oid,
    branch: Oid,
) -> Result<Vec<Conflict>, ProjectError> {
    if !index.has_conflicts() {
        return Ok(Vec::new());
    }
    let failed = ProjectError::git("merge branches of", repository.folder());
    let mut paths: BTreeMap<Vec<u8>, [Vec<CommitSummary>; 2]> = BTreeMap::new();
    for conflict in index.conflicts().map_err(&failed)? {
        let conflict = conflict.map_err(&failed)?;
        // A file that was renamed on one side has other entries under its other name.
        let entry = conflict.our.or(conflict.their).or(conflict.ancestor);
        if let Some(entry) = entry.filter(|_| paths.len() < MAX_CONFLICTS) {
            paths.insert(entry.path, Default::default());
        }
    }
    for (side, (from, without)) in [(tip, branch), (branch, tip)].into_iter().enumerate() {
        touched(repository, from, without, &mut paths, side)?;
    }
    let conflict = |(path, [tip, branch]): (Vec<u8>, [Vec<CommitSummary>; 2])| Conflict {
        path: clean::inline(&String::from_utf8_lossy(&path)).into_owned(),
        tip,
        branch,
    };
    Ok(paths.into_iter().map(conflict).collect())
}

/// Adds the newest commits of one side that changed each of the paths.
fn touched(
    repository: &ProjectRepository,
    from: Oid,
    without: Oid,
    paths: &mut BTreeMap<Vec<u8>, [Vec<CommitSummary>; 2]>,
    side: usize,
) -> Result<(), ProjectError> {
    let git = repository.git();
    let failed = ProjectError::git("read the history of", repository.folder());
    let mut walk = git.revwalk().map_err(&failed)?;
    walk.push(from).and_then(|()| walk.hide(without)).map_err(&failed)?;
    for id in walk.take(MAX_SEARCHED) {
        let commit = repository.commit(id.map_err(&failed)?)?;
        // A merge changes a file only if the file differs from all of its parents.
        let trees: Vec<_> = commit.parents().filter_map(|parent| parent.tree().ok()).collect();
        let tree = commit.tree().map_err(&failed)?;
        let entry = |tree: &git2::Tree<'_>, path: &[u8]| {
            let path = Path::new(OsStr::from_bytes(path));
            tree.get_path(path).ok().map(|entry| (entry.id(), entry.filemode()))
        };
        for (path, found) in paths.iter_mut() {
            let now = entry(&tree, path);
            let is_changed =
                trees.iter().all(|parent| entry(parent, path) != now) && !(trees.is_empty() && now.is_none());
            if is_changed && found[side].len() < MAX_COMMITS {
                found[side].push(CommitSummary::of(&commit));
            }
        }
    }
    Ok(())
}

/// The author of merges.
const NAME: &str = "flock";
/// The address of the author, which leads nowhere.
const ADDRESS: &str = "flock@localhost";
/// Number of files up to which renames are looked for.
const MAX_RENAMES: u32 = 500;
/// Number of common ancestors that are merged with each other first.
const MAX_RECURSION: u32 = 8;
/// Limit on the number of conflicts that are named.
const MAX_CONFLICTS: usize = 50;
/// Limit on the commits of one side that are named for a file.
const MAX_COMMITS: usize = 3;
/// Limit on the commits of one side that are searched for changes of a file.
const MAX_SEARCHED: usize = 500;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project::testing::Sample;

    const MESSAGE: MergeMessage<'static> = MergeMessage { text: "Merge it", at: 1_700_000_000 };

    #[test]
    fn a_branch_is_contained_merged_or_in_conflict() {
        let sample = Sample::new();
        let repository = &sample.repository;
        let base = sample.commit(&[], &[("a", "1\n2\n3\n"), ("b", "1\n")]);
        let tip = sample.commit_as("tip", &[base], &[("a", "1\n2\n3\n"), ("b", "tip\n")]);
        let clean = sample.commit(&[base], &[("a", "0\n2\n3\n"), ("b", "1\n")]);
        let bad = sample.commit_as("branch", &[base], &[("a", "1\n2\n3\n"), ("b", "branch\n")]);
        let later = sample.commit_as("unrelated", &[bad], &[("a", "1\n"), ("b", "branch\n")]);
        assert_eq!(merge(repository, tip, base, MESSAGE).unwrap(), MergeOutcome::Contained);
        assert_eq!(merge(repository, tip, tip, MESSAGE).unwrap(), MergeOutcome::Contained);
        let MergeOutcome::Merged(merged) = merge(repository, tip, clean, MESSAGE).unwrap() else { panic!() };
        let commit = repository.commit(merged).unwrap();
        assert_eq!(commit.parent_ids().collect::<Vec<_>>(), [tip, clean]);
        let text = |path: &str| {
            let entry = commit.tree().unwrap().get_path(path.as_ref()).unwrap();
            repository.git().find_blob(entry.id()).unwrap().content().to_vec()
        };
        assert_eq!((text("a"), text("b")), (b"0\n2\n3\n".to_vec(), b"tip\n".to_vec()));
        let again = merge(repository, tip, clean, MESSAGE).unwrap();
        assert_eq!(again, MergeOutcome::Merged(merged), "the same merge is the same commit");
        let MergeOutcome::Conflicts(conflicts) = merge(repository, tip, later, MESSAGE).unwrap() else {
            panic!()
        };
        let [Conflict { path, tip: ours, branch: theirs }] = &conflicts[..] else { panic!("{conflicts:?}") };
        assert_eq!((path.as_str(), ours.len(), theirs.len()), ("b", 1, 1));
        assert_eq!((ours[0].subject.as_str(), theirs[0].subject.as_str()), ("tip", "branch"));
        assert_eq!(try_merge(repository, tip, later).unwrap(), conflicts);
        assert!(try_merge(repository, tip, clean).unwrap().is_empty());
        assert!(try_merge(repository, base, tip).unwrap().is_empty());
    }

    #[test]
    fn a_file_deleted_on_one_side_and_changed_on_the_other_is_a_conflict() {
        let sample = Sample::new();
        let base = sample.commit(&[], &[("a", "1\n"), ("b", "1\n")]);
        let deleted = sample.commit_as("delete", &[base], &[("b", "1\n")]);
        let changed = sample.commit_as("change", &[base], &[("a", "2\n"), ("b", "1\n")]);
        let conflicts = try_merge(&sample.repository, deleted, changed).unwrap();
        assert_eq!(conflicts.len(), 1);
        assert_eq!(conflicts[0].path, "a");
        assert_eq!((&*conflicts[0].tip[0].subject, &*conflicts[0].branch[0].subject), ("delete", "change"));
    }

    #[test]
    fn unrelated_histories_are_not_merged() {
        let sample = Sample::new();
        let (one, two) = (sample.commit(&[], &[("a", "1")]), sample.commit(&[], &[("b", "1")]));
        let merged = merge(&sample.repository, one, two, MESSAGE);
        assert!(matches!(merged, Err(ProjectError::Unrelated { .. })));
    }
}
