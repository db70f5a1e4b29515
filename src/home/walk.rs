//! A look through a whole folder that is not trusted: bounded in depth and number, following nothing.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use super::beneath::{BeneathError, Entry, Kind, Root};

/// How far a walk goes.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Levels of folders; 1 is the folder itself.
    pub depth: usize,
    /// Entries in all.
    pub entries: usize,
}

/// What was found.
#[derive(Debug, Default)]
pub struct Walk {
    /// Everything but what is hidden, each folder before what is in it, and in a folder by name.
    pub entries: Vec<Entry>,
    /// Whether there is more than the limits let be seen.
    pub more: bool,
}

impl Walk {
    /// The regular files.
    pub fn files(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| entry.kind == Kind::File)
    }
}

/// Looks through `from`, a path relative to `root`; an empty one is the root itself. What begins with a dot
/// is passed over: there are the drafts of atomic writes, and what programs keep for themselves.
///
/// # Errors
///
/// If the folder itself can't be listed. A folder in it that can't is named in the log, and counts as more.
pub fn walk(root: &Root, from: &Path, limits: Limits) -> Result<Walk, BeneathError> {
    let mut found = Walk::default();
    descend(root, from, limits, &mut found)?;
    Ok(found)
}

fn descend(root: &Root, folder: &Path, limits: Limits, found: &mut Walk) -> Result<(), BeneathError> {
    let room = limits.entries.saturating_sub(found.entries.len());
    let (entries, more) = root.list(folder, room + HIDDEN)?;
    found.more |= more;
    for entry in entries {
        if entry.path.file_name().is_some_and(|name| name.as_bytes().starts_with(b".")) {
            continue;
        }
        if found.entries.len() >= limits.entries {
            found.more = true;
            break;
        }
        let inner = (entry.kind == Kind::Folder).then(|| entry.path.clone());
        found.entries.push(entry);
        let Some(inner) = inner else { continue };
        if limits.depth <= 1 {
            found.more = true;
            continue;
        }
        let below = Limits { depth: limits.depth - 1, ..limits };
        if let Err(error) = descend(root, &inner, below, found) {
            tracing::warn!(folder = ?inner, error = crate::error::chain(&error), "a folder can't be listed");
            found.more = true;
        }
    }
    Ok(())
}

/// Hidden entries of one folder that are read over without costing a visible one its place.
const HIDDEN: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(walk: &Walk) -> Vec<&str> {
        walk.entries.iter().map(|entry| entry.path.to_str().unwrap()).collect()
    }

    #[test]
    fn a_walk_is_in_order_hides_the_hidden_and_follows_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::create_dir_all(at("b/c")).unwrap();
        std::fs::create_dir(at(".git")).unwrap();
        for name in ["b/c/2", "b/1", "a", "z", ".hidden", ".git/config"] {
            std::fs::write(at(name), "x").unwrap();
        }
        std::os::unix::fs::symlink("/etc", at("link")).unwrap();
        let root = Root::open(dir.path()).unwrap();
        let all = walk(&root, Path::new(""), Limits { depth: 9, entries: 99 }).unwrap();
        assert_eq!(paths(&all), ["a", "b", "b/1", "b/c", "b/c/2", "link", "z"]);
        assert!(!all.more);
        assert_eq!(all.files().count(), 4);
        let shallow = walk(&root, Path::new(""), Limits { depth: 2, entries: 99 }).unwrap();
        assert_eq!(paths(&shallow), ["a", "b", "b/1", "b/c", "link", "z"]);
        assert!(shallow.more);
        let few = walk(&root, Path::new(""), Limits { depth: 9, entries: 3 }).unwrap();
        assert_eq!((few.entries.len(), few.more), (3, true));
        assert!(walk(&root, Path::new("link"), Limits { depth: 9, entries: 99 }).is_err());
    }
}
