//! The folder of one run of checks, and the removal of what dead processes left.

use std::path::{Path, PathBuf};

use super::CheckError;
use super::container::host_error;
use crate::home::lock::Lock;
use crate::home::{Home, remove_tree};
use crate::sandbox::containers;
use crate::sandbox::engine::Engine;

/// The folder of one run of checks. It is locked as long as the run lives, so that no other process takes it for a
/// leftover, and it is removed when it is dropped.
pub(super) struct WorkFolder {
    checks: PathBuf,
    pub id: String,
    /// Held for the life of the run.
    _lock: Lock,
}

impl WorkFolder {
    /// Creates the folder of a new run.
    pub fn make(home: &Home) -> Result<Self, CheckError> {
        let checks = home.checks();
        let id = format!("{:012x}", rand::random::<u64>() >> 16);
        fs_err::create_dir_all(&checks).map_err(host_error(&checks))?;
        // The lock comes first: a folder without a lock is a leftover.
        let lock = Lock::try_acquire(&lock_file(&checks, &id))?;
        let work = Self { checks, id, _lock: lock };
        fs_err::create_dir_all(work.workspace()).map_err(host_error(work.workspace()))?;
        Ok(work)
    }

    /// Returns the folder that is `/workspace` in the sandbox.
    pub fn workspace(&self) -> PathBuf {
        self.checks.join(&self.id).join("workspace")
    }
}

impl Drop for WorkFolder {
    fn drop(&mut self) {
        remove(&self.checks, &self.id);
    }
}

fn lock_file(checks: &Path, id: &str) -> PathBuf {
    checks.join(format!("{id}.lock"))
}

/// Removes the folder and the lock of a run. A failure is logged, and the next sweep tries again.
fn remove(checks: &Path, id: &str) {
    if let Err((first, more)) = remove_tree::clear(checks, Path::new(id)) {
        let (path, error) = (first.path.display(), first.error);
        tracing::warn!(%path, %error, more, "the folder of a check could not be removed");
        return;
    }
    let _ = fs_err::remove_file(lock_file(checks, id));
}

/// Removes the containers and folders of runs whose process is dead.
///
/// # Errors
///
/// Fails if the engine does not answer, or if a container can't be removed.
pub(super) async fn sweep(engine: &Engine, home: &Home) -> Result<(), CheckError> {
    let checks = home.checks();
    // A lock that can't be examined counts as held.
    let is_left = |id: &str| !Lock::is_held(&lock_file(&checks, id)).unwrap_or(true);
    for container in containers::list(engine, home).await? {
        if container.check.as_deref().is_some_and(|id| is_id(id) && is_left(id)) {
            containers::remove(engine, &container.id).await?;
        }
    }
    for entry in fs_err::read_dir(&checks).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let id = name.trim_end_matches(".lock");
        if is_id(id) && is_left(id) {
            remove(&checks, id);
        }
    }
    Ok(())
}

fn is_id(id: &str) -> bool {
    id.len() == 12 && id.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_lives_is_no_leftover_and_its_folder_goes_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().join("home"), None);
        let work = WorkFolder::make(&home).unwrap();
        assert!(work.workspace().is_dir() && is_id(&work.id), "{}", work.id);
        assert!(Lock::is_held(&lock_file(&home.checks(), &work.id)).unwrap());
        std::os::unix::fs::symlink("/etc", work.workspace().join("link")).unwrap();
        drop(work);
        assert_eq!(std::fs::read_dir(home.checks()).unwrap().count(), 0);
        assert!(Path::new("/etc/passwd").exists());
    }
}
