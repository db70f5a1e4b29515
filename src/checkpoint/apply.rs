//! Changes a workspace from one stored state to another, file by file. Nothing but the given paths is touched. The workspace
//! can be on another machine.
//!
//! Each step can be repeated, so an interrupted change is completed by making the remaining ones. The sandbox is stopped
//! meanwhile.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use super::diff::Change;
use super::error::CheckpointError;
use super::objects::Objects;
use super::tree::Node;
use crate::fault_point::{self, FaultPoint};
use crate::home::beneath::{BeneathError, FileKind, Owner};
use crate::sandbox::workspace_files::WorkspaceFiles;

/// The most entries of a folder that are looked at because it can't be removed.
const MAX_LEFT: usize = 10_000;

/// The place of a change.
pub(super) struct Place<'a> {
    pub(super) files: &'a WorkspaceFiles,
    pub(super) objects: &'a Objects,
    /// The user that new files belong to, if it is not this process's.
    pub(super) owner: Option<Owner>,
    /// The rewind's number. The numbers of files that are not complete yet begin with it.
    pub(super) drafts: u32,
}

/// Makes the changes. Returns the folders that could not be removed, because something is in them that no checkpoint
/// knows.
///
/// # Errors
///
/// Returns an error if a content is missing or a file can't be changed. Some changes may be made then.
pub(super) fn apply(place: &Place<'_>, changes: &[Change]) -> Result<Vec<PathBuf>, CheckpointError> {
    let unlocked = unlock(place.files, changes)?;
    let mut stuck = Vec::new();
    // From the innermost outwards: a folder is empty by the time it is removed.
    for change in changes.iter().rev() {
        let Some(before) = &change.before else { continue };
        let is_folder = change.after.as_ref().is_some_and(Node::is_folder);
        // A file or link takes the place of another in one step. Only what has to go first is removed here.
        if change.after.is_none() || before.is_folder() != is_folder {
            if !remove(place.files, change, before)? {
                stuck.push(change.path.clone());
            }
            fault_point::reach(FaultPoint::Rewinding);
        }
    }
    for (at, change) in changes.iter().enumerate() {
        if let Some(after) = &change.after
            && !stuck.contains(&change.path)
        {
            put(place, change, after, at)?;
            fault_point::reach(FaultPoint::Rewinding);
        }
    }
    // The permissions of folders come last, because they may forbid what was to be done in them.
    for change in changes.iter().rev() {
        if let Some(Node::Folder { mode, .. }) = change.after {
            place.files.set_mode(&change.path, mode)?;
        }
    }
    for (path, mode) in unlocked.iter().rev() {
        let is_changed = changes.iter().any(|change| change.path == *path);
        if !is_changed && place.files.stat(path).is_ok_and(|found| found.kind == FileKind::Folder)
            || path.as_os_str().is_empty()
        {
            place.files.set_mode(path, *mode)?;
        }
    }
    Ok(stuck)
}

/// Gives the owner all rights on the folders in which something changes. Returns their permissions before.
fn unlock(files: &WorkspaceFiles, changes: &[Change]) -> Result<Vec<(PathBuf, u32)>, CheckpointError> {
    let above: BTreeSet<&Path> = changes
        .iter()
        .flat_map(|change| {
            let own = change.before.as_ref().is_some_and(Node::is_folder).then_some(change.path.as_path());
            change.path.ancestors().skip(1).chain(own)
        })
        .collect();
    let mut unlocked = Vec::new();
    // A path comes before those below it.
    for path in above {
        // A file whose place a folder takes keeps its permissions: if this ends here, it must not look as if somebody else had
        // changed it.
        if !path.as_os_str().is_empty() && files.stat(path).is_ok_and(|found| found.kind != FileKind::Folder)
        {
            continue;
        }
        let mode = match files.mode(path) {
            Ok(mode) => mode,
            Err(error @ BeneathError::Unreachable { .. }) => return Err(error.into()),
            // Those that are not there yet are made below.
            Err(_) => continue,
        };
        if mode & 0o700 != 0o700 && files.set_mode(path, mode | 0o700).is_ok() {
            unlocked.push((path.to_owned(), mode));
        }
    }
    Ok(unlocked)
}

/// Removes what a change takes away. Returns `false` if it is a folder that is not empty.
fn remove(files: &WorkspaceFiles, change: &Change, before: &Node) -> Result<bool, CheckpointError> {
    let gone = |result: Result<(), BeneathError>| match result {
        Err(BeneathError::NotFound { .. }) => Ok(()),
        other => other,
    };
    if !before.is_folder() {
        gone(files.remove(&change.path))?;
        return Ok(true);
    }
    let is_removed = || match gone(files.remove_folder(&change.path)) {
        // It is left because of the fence, and not for what somebody else has in it.
        Err(error @ BeneathError::CutOff { .. }) => Err(error),
        done => Ok(done.is_ok()),
    };
    if is_removed()? {
        return Ok(true);
    }
    // Sockets, FIFOs and devices are in no checkpoint, and mean nothing without the programs that used them.
    let (left, more) = files.list(&change.path, MAX_LEFT)?;
    if more || left.iter().any(|entry| entry.kind != FileKind::Other) {
        return Ok(false);
    }
    for entry in left {
        gone(files.remove(&entry.path))?;
    }
    Ok(is_removed()?)
}

/// Puts what a change wants in its place.
fn put(place: &Place<'_>, change: &Change, after: &Node, at: usize) -> Result<(), CheckpointError> {
    let Place { files, objects, owner, drafts } = place;
    let path = &change.path;
    let draft = (u64::from(*drafts) << 32) | at as u64;
    match after {
        Node::Folder { .. } => match files.stat(path) {
            Ok(found) if found.kind == FileKind::Folder => {}
            _ => files.create_dir(path, *owner)?,
        },
        Node::File { mode, size, content } => {
            let is_only_mode =
                matches!(&change.before, Some(Node::File { content: old, .. }) if old == content);
            if is_only_mode {
                files.set_mode(path, *mode)?;
            } else {
                let mut new = files.draft(path, draft, *owner)?;
                objects.fill(*content, *size, &mut new)?;
                fault_point::reach(FaultPoint::Rewinding);
                new.put(*size, *mode)?;
            }
        }
        Node::Link { target } => {
            files.put_link(path, draft, Path::new(&OsString::from_vec(target.clone())), *owner)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::content::ContentId;
    use crate::clock;
    use crate::home::beneath::Root;
    use crate::home::write_fence::WriteFence;

    #[test]
    fn a_folder_behind_a_closed_fence_does_not_count_as_kept_by_somebody_else() {
        let folder = tempfile::tempdir().unwrap();
        let (objects, _) = Objects::open(folder.path()).unwrap();
        let workspace = folder.path().join("workspace");
        std::fs::create_dir_all(workspace.join("old")).unwrap();
        let fence = WriteFence::new();
        let files = WorkspaceFiles::from(Root::open(&workspace).unwrap().fenced(fence.clone()));
        let place = Place { files: &files, objects: &objects, owner: None, drafts: 0 };
        let before = Some(Node::Folder { mode: 0o755, tree: ContentId::of_tree(b"") });
        let changes = [Change { path: PathBuf::from("old"), before, after: None }];
        fence.write_until(clock::boot_ms());
        let refused = apply(&place, &changes).unwrap_err();
        assert!(matches!(refused, CheckpointError::Workspace(BeneathError::CutOff { .. })), "{refused:?}");
        fence.write_until(i64::MAX);
        assert_eq!(apply(&place, &changes).unwrap(), Vec::<PathBuf>::new());
        assert!(!workspace.join("old").exists());
    }
}
