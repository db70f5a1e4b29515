//! Temporary folders that are removed with their content when they are dropped.

use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use super::HomeError;
use super::remove_tree::clear;

/// A temporary folder that only its owner can use. Dropping it removes it with its content.
#[derive(Debug)]
pub(crate) struct ScratchDir {
    above: PathBuf,
    name: PathBuf,
}

impl ScratchDir {
    /// Creates the folder `name` in the folder `above`, which is created too if it is missing.
    ///
    /// # Errors
    ///
    /// Returns an error if it can't be created, or if the name is in use.
    pub fn make(above: &Path, name: &str) -> Result<Self, HomeError> {
        let made = Self { above: above.to_owned(), name: name.into() };
        let make = |path: &Path, recursive: bool| {
            let created = std::fs::DirBuilder::new().recursive(recursive).mode(0o700).create(path);
            created.map_err(HomeError::io("make the folder", path))
        };
        // The folder itself is created without `recursive`, which would accept an existing one.
        make(above, true)?;
        if let Err(error) = make(&made.path(), false) {
            // What has the name belongs to another process, so it must not be removed by the destructor.
            std::mem::forget(made);
            return Err(error);
        }
        Ok(made)
    }

    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.above.join(&self.name)
    }
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        remove(&self.above, &self.name);
    }
}

/// Returns the names of the entries of the folder `above`.
#[must_use]
pub fn names(above: &Path) -> Vec<String> {
    let Ok(entries) = fs_err::read_dir(above) else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect()
}

/// Removes these entries of the folder `above`, which an earlier process left.
pub fn sweep(above: &Path, names: &[String]) {
    names.iter().for_each(|name| remove(above, Path::new(name)));
}

fn remove(above: &Path, name: &Path) {
    if let Err((stuck, count)) = clear(above, name) {
        tracing::warn!(path = %stuck.path.display(), error = %stuck.error, count, "a folder could not be removed");
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_scratch_folder_is_private_and_removed_on_drop() {
        let folder = tempfile::tempdir().unwrap();
        let above = folder.path().join("commands");
        let scratch = ScratchDir::make(&above, "r-1").unwrap();
        let path = scratch.path();
        for made in [&above, &path] {
            assert_eq!(std::fs::metadata(made).unwrap().permissions().mode() & 0o777, 0o700);
        }
        std::fs::write(path.join("file"), "x").unwrap();
        assert!(ScratchDir::make(&above, "r-1").is_err(), "it is another's");
        assert!(path.join("file").exists());
        std::os::unix::fs::symlink(folder.path(), path.join("link")).unwrap();
        drop(scratch);
        assert!(above.exists() && !path.exists());
    }

    #[test]
    fn listed_entries_are_removed_and_others_kept() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["r-1", "r-2"] {
            std::fs::create_dir_all(folder.path().join(name).join("deep")).unwrap();
        }
        let mut found = names(folder.path());
        found.sort();
        assert_eq!(found, ["r-1", "r-2"]);
        sweep(folder.path(), &found[..1]);
        assert!(!folder.path().join("r-1").exists() && folder.path().join("r-2").exists());
        assert_eq!(names(&folder.path().join("none")), Vec::<String>::new());
    }
}
