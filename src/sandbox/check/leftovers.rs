//! The folder of one run of checks, and the removal of what dead processes left.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::CheckError;
use super::container::host_error;
use crate::home::lock::Lock;
use crate::home::{Home, HomeError, remove_tree};
use crate::sandbox::containers;
use crate::sandbox::engine::Engine;

/// Longest time that a new run waits for a sweep that looks at its lock.
const SWEEP_LIMIT: Duration = Duration::from_secs(10);

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
        let lock = take(&lock_file(&checks, &id))?;
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

/// Takes the lock of a new run. Between its making and its locking, a sweep may take its file for one that a dead process
/// left, and remove it.
fn take(path: &Path) -> Result<Lock, HomeError> {
    loop {
        let lock = Lock::acquire(path, SWEEP_LIMIT)?;
        if lock.is_at(path) {
            return Ok(lock);
        }
    }
}

/// Removes the folder and the lock of a run, which the caller holds. A failure is logged, and the next sweep tries again.
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
    sweep_folders(&checks);
    Ok(())
}

/// Removes the folders of runs whose process is dead, each under its lock. A run that begins meanwhile sees by that that
/// its lock is gone.
fn sweep_folders(checks: &Path) {
    for entry in fs_err::read_dir(checks).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let id = name.trim_end_matches(".lock");
        if !is_id(id) {
            continue;
        }
        let path = lock_file(checks, id);
        // A lock that can't be examined counts as held.
        if let Ok(lock) = Lock::try_acquire(&path)
            && lock.is_at(&path)
        {
            remove(checks, id);
        }
    }
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

    #[test]
    fn a_sweep_takes_no_run_that_begins_meanwhile() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().join("home"), None);
        let checks = home.checks();
        let is_over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    sweep_folders(&checks);
                }
            });
            let made: Vec<_> = (0..200).map(|_| WorkFolder::make(&home)).collect();
            is_over.store(true, std::sync::atomic::Ordering::Relaxed);
            for work in &made {
                let work = work.as_ref().unwrap_or_else(|error| panic!("{error}"));
                assert!(work.workspace().is_dir(), "{}", work.id);
                assert!(Lock::is_held(&lock_file(&checks, &work.id)).unwrap(), "{}", work.id);
            }
        });
    }

    #[test]
    fn what_a_dead_run_left_is_removed_with_and_without_its_lock() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().join("home"), None);
        let (checks, ids) = (home.checks(), ["0123456789ab", "ba9876543210"]);
        for id in ids {
            std::fs::create_dir_all(checks.join(id).join("workspace")).unwrap();
        }
        std::fs::write(lock_file(&checks, ids[0]), "").unwrap();
        sweep_folders(&checks);
        assert_eq!(std::fs::read_dir(&checks).unwrap().count(), 0);
    }
}
