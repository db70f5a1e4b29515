//! Folders of the home that a person fills: `vaults/` and `skills/`, with a folder for each vault or skill, and
//! `archetypes/`.

use std::path::Path;

use super::beneath::{BeneathError, Kind, Root};
use crate::id::FolderName;

/// The vaults or skills in a folder, in order. A link, a file, or a name that is none is not among them; where
/// the folder is missing there are none.
#[must_use]
pub fn names(folder: &Path) -> Vec<FolderName> {
    let listed = open(folder).and_then(|root| root.list(Path::new(""), MAX));
    let (entries, _) = listed.unwrap_or_default();
    let folders = entries.iter().filter(|entry| entry.kind == Kind::Folder);
    folders.filter_map(|entry| entry.path.to_str()?.parse().ok()).collect()
}

/// Opens the folder itself. It is the person's, who may have put a link to another place there; what is in it is opened
/// without following any.
///
/// # Errors
///
/// If it is not there or not a folder.
pub fn open(folder: &Path) -> Result<Root, BeneathError> {
    // A link in the last place is not followed, and here the last place is the folder's own `.`.
    Root::open(&folder.join("."))
}

const MAX: usize = 1000;

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
