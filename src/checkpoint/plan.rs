//! Decides what a rewind changes in a workspace, and what it leaves alone because somebody else than the agent has
//! changed it. Pure, except that it reads stored trees.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::content::ContentId;
use super::diff::{Change, diff};
use super::error::CheckpointError;
use super::objects::Objects;
use super::record::CheckpointRecord;
use super::tree::Node;

/// The changes of a rewind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FilePlan {
    /// From the present state to the wanted one. A folder comes before what is in it.
    pub(super) changes: Vec<Change>,
    /// The changes that would overwrite what somebody else has changed.
    pub(super) foreign: Vec<Change>,
}

/// Returns the changes from the present state, which is the newest record, to the record at `target`. None of them touches
/// the `own` paths, which are flock's.
///
/// # Errors
///
/// Returns an error if a stored tree is missing or damaged.
pub(super) fn plan(
    objects: &Objects,
    records: &[CheckpointRecord],
    target: usize,
    own: &HashSet<PathBuf>,
) -> Result<FilePlan, CheckpointError> {
    let wanted = records.get(target).and_then(|record| record.files);
    let present = records.last().and_then(|record| record.files);
    let changes = without(diff(objects, present, wanted)?, own);
    let touched = foreign_paths(objects, records.get(target..).unwrap_or_default())?;
    let foreign = changes.iter().filter(|change| touched.contains(&change.path)).cloned().collect();
    Ok(FilePlan { changes, foreign })
}

/// Returns the paths that were changed while no turn of the agent ran.
fn foreign_paths(
    objects: &Objects,
    records: &[CheckpointRecord],
) -> Result<HashSet<PathBuf>, CheckpointError> {
    let mut touched = HashSet::new();
    let Some((first, rest)) = records.split_first() else { return Ok(touched) };
    let (mut before, mut is_open) = (first.files, first.is_open);
    for record in rest {
        match (before, record.files) {
            (Some(before), Some(after)) if !is_open => {
                touched
                    .extend(diff(objects, Some(before), Some(after))?.into_iter().map(|change| change.path));
            }
            _ => {}
        }
        // A record without files says only if a turn ran.
        if record.files.is_some() {
            (before, is_open) = (record.files, record.is_open);
        } else {
            is_open |= record.is_open;
        }
    }
    Ok(touched)
}

/// Removes the changes that would touch `kept` paths, and those that can't be made without touching them.
pub(super) fn without(changes: Vec<Change>, kept: &HashSet<PathBuf>) -> Vec<Change> {
    if kept.is_empty() {
        return changes;
    }
    // Folders that have to stay because something kept is in them, and paths below which nothing can be put.
    let (mut needed, mut closed) = (HashSet::new(), HashSet::new());
    for change in changes.iter().filter(|change| kept.contains(&change.path)) {
        if change.before.is_some() {
            needed.extend(change.path.ancestors().skip(1).map(Path::to_owned));
        }
        if !change.before.as_ref().is_some_and(Node::is_folder) {
            closed.insert(change.path.clone());
        }
    }
    let is_possible = |change: &Change| {
        let removes_folder = change.before.as_ref().is_some_and(Node::is_folder)
            && !change.after.as_ref().is_some_and(Node::is_folder);
        let is_needed = removes_folder && needed.contains(&change.path);
        let is_closed = change.path.ancestors().skip(1).any(|above| closed.contains(above));
        ![kept.contains(&change.path), is_needed, is_closed].contains(&true)
    };
    // What was to replace a folder that stays can't be put anywhere, and neither can what is below it.
    let stays: HashSet<PathBuf> = changes
        .iter()
        .filter(|change| needed.contains(&change.path) && !change.after.as_ref().is_some_and(Node::is_folder))
        .map(|change| change.path.clone())
        .collect();
    changes.into_iter().filter(|change| is_possible(change) && !stays.contains(&change.path)).collect()
}

/// Returns the changes that an interrupted rewind still has to make, and the paths that it must not touch, because they
/// are neither as they were before it nor as it wants them.
///
/// # Errors
///
/// Returns an error if a stored tree is missing or damaged.
pub(super) fn remaining(
    objects: &Objects,
    present: ContentId,
    before: ContentId,
    wanted: ContentId,
    kept: &HashSet<PathBuf>,
) -> Result<(Vec<Change>, Vec<PathBuf>), CheckpointError> {
    let changes = diff(objects, Some(present), Some(wanted))?;
    let planned: std::collections::HashMap<PathBuf, Option<Node>> =
        diff(objects, Some(before), Some(wanted))?
            .into_iter()
            .map(|change| (change.path, change.before))
            .collect();
    let is_own = |change: &Change| match (&change.before, planned.get(&change.path)) {
        // It was removed, and its successor is not there yet.
        (None, Some(_)) => true,
        // A wanted folder that is there already and has not got its permissions yet. What is in it counts by itself.
        (Some(Node::Folder { .. }), Some(_)) if change.after.as_ref().is_some_and(Node::is_folder) => true,
        (Some(now), Some(Some(then))) => now.is_same(then) || (now.is_folder() && then.is_folder()),
        // A folder whose owner was given the rights that the rewind needs.
        (Some(Node::Folder { mode, .. }), _) => {
            matches!(&change.after, Some(Node::Folder { mode: wanted, .. }) if *mode == *wanted | 0o700)
        }
        _ => false,
    };
    let foreign: Vec<PathBuf> =
        changes.iter().filter(|change| !is_own(change)).map(|change| change.path.clone()).collect();
    let all: HashSet<PathBuf> = kept.iter().chain(&foreign).cloned().collect();
    Ok((without(changes, &all), foreign.into_iter().filter(|path| !kept.contains(path)).collect()))
}

#[cfg(test)]
mod tests {
    use super::super::record::Reason;
    use super::super::scan::Named;
    use super::super::tree::TreeEntry;
    use super::*;

    fn file(text: &str) -> Node {
        Node::File { mode: 0o644, size: text.len() as u64, content: ContentId::of_file(text.as_bytes()) }
    }

    /// Stores a tree of files with these texts. A path that ends with a slash is a folder.
    fn tree(objects: &Objects, files: &[(&str, &str)]) -> ContentId {
        let mut entries: Vec<TreeEntry> = Vec::new();
        let mut at = 0;
        while let Some((path, text)) = files.get(at) {
            let Some((folder, _)) = path.split_once('/') else {
                entries.push(TreeEntry { name: path.as_bytes().to_vec(), node: file(text) });
                at += 1;
                continue;
            };
            let below =
                files[at..].iter().take_while(|(path, _)| path.starts_with(&format!("{folder}/"))).count();
            let inner: Vec<(&str, &str)> = files[at..at + below]
                .iter()
                .map(|(path, text)| (path.split_once('/').unwrap().1, *text))
                .filter(|(path, _)| !path.is_empty())
                .collect();
            let tree = tree(objects, &inner);
            entries.push(TreeEntry {
                name: folder.as_bytes().to_vec(),
                node: Node::Folder { mode: 0o755, tree },
            });
            at += below;
        }
        objects.put_folder(&entries, None).unwrap()
    }

    fn record(files: Option<ContentId>, is_open: bool) -> CheckpointRecord {
        CheckpointRecord {
            number: 1,
            at: 1,
            reason: Reason::Rewound,
            files,
            entries: 0,
            problem: None,
            left_out: Named::default(),
            unstable: Named::default(),
            is_open,
            packages: None,
            packages_of: None,
            transcripts: std::collections::BTreeMap::new(),
        }
    }

    fn paths(changes: &[Change]) -> Vec<&str> {
        changes.iter().map(|change| change.path.to_str().unwrap()).collect()
    }

    #[test]
    fn only_changes_between_turns_are_foreign() {
        let home = tempfile::tempdir().unwrap();
        let (objects, _) = Objects::open(home.path()).unwrap();
        let begun = tree(&objects, &[("a", "1"), ("b", "1"), ("d/x", "1")]);
        let ended = tree(&objects, &[("a", "2"), ("b", "1"), ("c", "1"), ("d/x", "1")]);
        let edited =
            tree(&objects, &[("a", "2"), ("b", "person"), ("c", "1"), ("d/x", "1"), ("d/y", "person")]);
        let records = [record(Some(begun), true), record(Some(ended), false), record(Some(edited), false)];
        let none = HashSet::new();
        let found = plan(&objects, &records, 0, &none).unwrap();
        assert_eq!(paths(&found.changes), ["a", "b", "c", "d/y"]);
        assert_eq!(paths(&found.foreign), ["b", "d/y"]);
        // A record without files neither hides nor invents a change.
        let records = [
            record(Some(begun), true),
            record(Some(ended), false),
            record(None, false),
            record(Some(edited), false),
        ];
        assert_eq!(paths(&plan(&objects, &records, 0, &none).unwrap().foreign), ["b", "d/y"]);
        let records = [record(Some(begun), true), record(None, true), record(Some(edited), false)];
        assert_eq!(plan(&objects, &records, 0, &none).unwrap().foreign, []);
        // A change that was taken back overwrites nothing.
        let records = [record(Some(begun), false), record(Some(edited), true), record(Some(begun), false)];
        assert_eq!(plan(&objects, &records, 0, &none).unwrap(), FilePlan::default());
        // What is flock's own is nobody's change, and is not changed.
        let records = [record(Some(begun), true), record(Some(ended), false), record(Some(edited), false)];
        let own = ["b", "c"].iter().map(PathBuf::from).collect();
        let found = plan(&objects, &records, 0, &own).unwrap();
        assert_eq!((paths(&found.changes), paths(&found.foreign)), (vec!["a", "d/y"], vec!["d/y"]));
    }

    #[test]
    fn what_is_kept_keeps_its_folder_and_its_place() {
        let home = tempfile::tempdir().unwrap();
        let (objects, _) = Objects::open(home.path()).unwrap();
        let present =
            tree(&objects, &[("agent/old", "1"), ("agent/person", "1"), ("other", "1"), ("p", "person")]);
        let wanted = tree(&objects, &[("agent", "a file"), ("new", "1"), ("p/x", "1")]);
        let changes = diff(&objects, Some(present), Some(wanted)).unwrap();
        let kept: HashSet<PathBuf> = ["agent/person", "p"].iter().map(PathBuf::from).collect();
        assert_eq!(paths(&without(changes, &kept)), ["agent/old", "new", "other"]);
    }

    #[test]
    fn a_folder_that_was_just_made_still_gets_its_permissions() {
        let home = tempfile::tempdir().unwrap();
        let (objects, _) = Objects::open(home.path()).unwrap();
        let before = tree(&objects, &[("a", "1")]);
        let wanted = tree(&objects, &[("a", "1"), ("new/x", "1")]);
        let empty = objects.put_folder(&[], None).unwrap();
        let made = TreeEntry { name: b"new".to_vec(), node: Node::Folder { mode: 0o700, tree: empty } };
        let entries = [TreeEntry { name: b"a".to_vec(), node: file("1") }, made];
        let present = objects.put_folder(&entries, None).unwrap();
        let (changes, foreign) = remaining(&objects, present, before, wanted, &HashSet::new()).unwrap();
        assert_eq!(paths(&changes), ["new", "new/x"]);
        assert_eq!(foreign, Vec::<PathBuf>::new());
    }

    #[test]
    fn an_interrupted_rewind_goes_on_and_leaves_others_changes_alone() {
        let home = tempfile::tempdir().unwrap();
        let (objects, _) = Objects::open(home.path()).unwrap();
        let before = tree(&objects, &[("a", "2"), ("b", "2"), ("new/x", "2"), ("same", "1")]);
        let wanted = tree(&objects, &[("a", "1"), ("b", "1"), ("c", "1"), ("same", "1")]);
        // `a` is done and `new/x` is removed. A person has changed `c` and `same`, and put a file into `new`.
        let present =
            tree(&objects, &[("a", "1"), ("b", "2"), ("c", "person"), ("new/y", "p"), ("same", "p")]);
        let (changes, foreign) = remaining(&objects, present, before, wanted, &HashSet::new()).unwrap();
        assert_eq!(paths(&changes), ["b"]);
        assert_eq!(foreign, ["c", "new/y", "same"].map(PathBuf::from));
    }
}
