//! A walk through an untrusted folder: limited in depth and number of entries, following no links.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use super::beneath::{BeneathError, DirEntry, FileKind, Root};

/// The limits of a walk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WalkLimits {
    /// The number of levels; 1 is the folder itself without subfolders.
    pub depth: usize,
    /// The number of entries in total.
    pub entries: usize,
}

/// The result of a walk.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    /// All entries that are not hidden. A folder comes before its content, and entries of one folder are sorted by
    /// name.
    pub entries: Vec<DirEntry>,
    /// Set if there is more than the limits allow.
    pub more: bool,
}

impl Walk {
    /// Returns the regular files.
    pub fn files(&self) -> impl Iterator<Item = &DirEntry> {
        self.entries.iter().filter(|entry| entry.kind == FileKind::File)
    }
}

/// A folder that can be listed, wherever it is.
pub(crate) trait Listing {
    /// Lists a folder, sorted by name, at most `cap` entries. The second value is `true` if there are more.
    ///
    /// # Errors
    ///
    /// Returns a [`BeneathError`] if the path is not a folder below this one or can't be read.
    fn list(&self, path: &Path, cap: usize) -> Result<(Vec<DirEntry>, bool), BeneathError>;
}

impl Listing for Root {
    fn list(&self, path: &Path, cap: usize) -> Result<(Vec<DirEntry>, bool), BeneathError> {
        Self::list(self, path, cap)
    }
}

/// Walks through `from`, a path relative to `root`; an empty path is the root itself.
///
/// Names that begin with a dot are skipped. They are temporary files of atomic writes, and files that programs keep for
/// themselves.
///
/// # Errors
///
/// Returns a [`BeneathError`] if the folder itself can't be listed. A subfolder that can't be listed is logged and
/// counts as more.
pub(crate) fn walk(root: &impl Listing, from: &Path, limits: WalkLimits) -> Result<Walk, BeneathError> {
    let mut found = Walk::default();
    descend(root, from, limits, &mut found)?;
    Ok(found)
}

fn descend(
    root: &impl Listing,
    folder: &Path,
    limits: WalkLimits,
    found: &mut Walk,
) -> Result<(), BeneathError> {
    let room = limits.entries.saturating_sub(found.entries.len());
    // Hidden entries are dropped below, so more than `room` have to be read.
    let (entries, more) = root.list(folder, room + MAX_HIDDEN)?;
    found.more |= more;
    for entry in entries {
        if entry.path.file_name().is_some_and(|name| name.as_bytes().starts_with(b".")) {
            continue;
        }
        if found.entries.len() >= limits.entries {
            found.more = true;
            break;
        }
        let inner = (entry.kind == FileKind::Folder).then(|| entry.path.clone());
        found.entries.push(entry);
        let Some(inner) = inner else { continue };
        // Folders of the last level are listed but not entered, so there may be more.
        if limits.depth <= 1 {
            found.more = true;
            continue;
        }
        let below = WalkLimits { depth: limits.depth - 1, ..limits };
        if let Err(error) = descend(root, &inner, below, found) {
            tracing::warn!(folder = ?inner, error = crate::error::chain(&error), "a folder can't be listed");
            found.more = true;
        }
    }
    Ok(())
}

/// The number of hidden entries of a folder that are read in addition to the limit, so that they do not displace
/// visible ones.
const MAX_HIDDEN: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(walk: &Walk) -> Vec<&str> {
        walk.entries.iter().map(|entry| entry.path.to_str().unwrap()).collect()
    }

    #[test]
    fn a_walk_is_sorted_and_skips_hidden_entries_and_links() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::create_dir_all(at("b/c")).unwrap();
        std::fs::create_dir(at(".git")).unwrap();
        for name in ["b/c/2", "b/1", "a", "z", ".hidden", ".git/config"] {
            std::fs::write(at(name), "x").unwrap();
        }
        std::os::unix::fs::symlink("/etc", at("link")).unwrap();
        let root = Root::open(dir.path()).unwrap();
        let all = walk(&root, Path::new(""), WalkLimits { depth: 9, entries: 99 }).unwrap();
        assert_eq!(paths(&all), ["a", "b", "b/1", "b/c", "b/c/2", "link", "z"]);
        assert!(!all.more);
        assert_eq!(all.files().count(), 4);
        let shallow = walk(&root, Path::new(""), WalkLimits { depth: 2, entries: 99 }).unwrap();
        assert_eq!(paths(&shallow), ["a", "b", "b/1", "b/c", "link", "z"]);
        assert!(shallow.more);
        let few = walk(&root, Path::new(""), WalkLimits { depth: 9, entries: 3 }).unwrap();
        assert_eq!((few.entries.len(), few.more), (3, true));
        assert!(walk(&root, Path::new("link"), WalkLimits { depth: 9, entries: 99 }).is_err());
    }
}
