//! Archives and homes that are not complete yet, beside their final places.
//!
//! Each is locked as long as its process lives. What a killed process left is not locked, and the next one removes it.

use std::fs::File;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::home::remove_tree::clear;
use crate::home::scratch;

/// The beginning of the name of an archive.
pub(super) const ARCHIVE: &str = ".flock-backup-";
/// The beginning of the name of a home.
pub(super) const HOME: &str = ".flock-restore-";

/// Removes drafts of processes that were killed. What can't be removed stays.
pub(super) fn sweep(folder: &Path, prefix: &str) {
    for name in scratch::names(folder).iter().filter(|name| name.starts_with(prefix)) {
        let path = folder.join(name);
        // A link with such a name is not by flock.
        let is_own = path.symlink_metadata().is_ok_and(|found| found.is_file() || found.is_dir());
        if is_own && File::open(&path).is_ok_and(|file| file.try_lock().is_ok()) {
            scratch::sweep(folder, std::slice::from_ref(name));
        }
    }
}

/// Creates the file of an archive, which only its owner can read. Returns it with a second descriptor, which holds its
/// lock.
pub(super) fn file(folder: &Path) -> std::io::Result<(NamedTempFile, File)> {
    let made = tempfile::Builder::new().prefix(ARCHIVE).tempfile_in(folder)?;
    let held = made.as_file().try_clone()?;
    lock(&held);
    Ok((made, held))
}

/// A folder that becomes a home. Dropping it removes it with its content.
#[derive(Debug)]
pub(super) struct DraftHome {
    above: PathBuf,
    name: PathBuf,
    is_kept: bool,
    _held: File,
}

impl DraftHome {
    /// Creates the folder in the folder `above`, for its owner only.
    pub(super) fn make(above: &Path) -> std::io::Result<Self> {
        let made = tempfile::Builder::new().prefix(HOME).tempdir_in(above)?;
        let held = File::open(made.path())?;
        lock(&held);
        let name = made.path().file_name().unwrap_or_default().into();
        // From now on it is removed in a way that can remove everything.
        let _ = made.keep();
        Ok(Self { above: above.to_owned(), name, is_kept: false, _held: held })
    }

    pub(super) fn path(&self) -> PathBuf {
        self.above.join(&self.name)
    }

    /// Keeps what has the name of the draft now, because the draft has another one.
    pub(super) fn keep(&mut self) {
        self.is_kept = true;
    }
}

impl Drop for DraftHome {
    fn drop(&mut self) {
        if !self.is_kept
            && let Err((stuck, _)) = clear(&self.above, &self.name)
        {
            tracing::warn!(path = %stuck.path.display(), error = %stuck.error, "a folder could not be removed");
        }
    }
}

/// Locks a draft. Some file systems have no locks; a draft there may be removed by another process that makes one.
fn lock(file: &File) {
    let _ = file.try_lock();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drafts_of_dead_processes_are_removed_and_others_kept() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at(".flock-backup-dead"), "x").unwrap();
        std::fs::create_dir_all(at(".flock-restore-dead/inner")).unwrap();
        std::fs::write(at("flock-backup-x"), "x").unwrap();
        std::os::unix::fs::symlink(at("flock-backup-x"), at(".flock-backup-link")).unwrap();
        let (archive, _held) = file(folder.path()).unwrap();
        let home = DraftHome::make(folder.path()).unwrap();
        for prefix in [ARCHIVE, HOME] {
            sweep(folder.path(), prefix);
        }
        assert!(!at(".flock-backup-dead").exists() && !at(".flock-restore-dead").exists());
        assert!(at("flock-backup-x").exists() && at(".flock-backup-link").is_symlink());
        assert!(archive.path().exists() && home.path().exists());
        drop((archive, home));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
