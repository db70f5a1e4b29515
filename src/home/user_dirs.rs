//! Folders of the home that a person fills: `vaults/` and `skills/`, with one folder for each vault or skill, and
//! `archetypes/`.

use std::path::Path;

use super::beneath::{BeneathError, FileKind, Root};
use crate::id::FolderName;

/// Returns the names of the vaults or skills in a folder, sorted. Links, files and invalid names are left out. A
/// missing folder has none.
#[must_use]
pub fn names(folder: &Path) -> Vec<FolderName> {
    let listed = open(folder).and_then(|root| root.list(Path::new(""), MAX_ENTRIES));
    // Entries beyond the limit are ignored.
    let (entries, _) = listed.unwrap_or_default();
    let folders = entries.iter().filter(|entry| entry.kind == FileKind::Folder);
    folders.filter_map(|entry| entry.path.to_str()?.parse().ok()).collect()
}

/// Opens the folder itself.
///
/// It belongs to the person, who may have made it a link to another place. Links inside it are not followed.
///
/// # Errors
///
/// Returns a [`BeneathError`] if it does not exist or is not a folder.
pub fn open(folder: &Path) -> Result<Root, BeneathError> {
    // `Root::open` refuses a link as the last component. With `.` appended, a link to the folder is not the last one.
    Root::open(&folder.join("."))
}

const MAX_ENTRIES: usize = 1000;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_persons_link_to_the_folder_is_followed_and_none_in_it() {
        let dir = tempfile::tempdir().unwrap();
        let (real, link) = (dir.path().join("real"), dir.path().join("link"));
        for name in ["b", "a.1", ".hidden", "no name"] {
            std::fs::create_dir_all(real.join(name)).unwrap();
        }
        std::fs::write(real.join("file"), "x").unwrap();
        symlink("a.1", real.join("alias")).unwrap();
        symlink(&real, &link).unwrap();
        let found = names(&link);
        assert_eq!(found.iter().map(FolderName::as_str).collect::<Vec<_>>(), ["a.1", "b"]);
        assert!(names(&real.join("file")).is_empty() && names(&real.join("none")).is_empty());
    }
}
