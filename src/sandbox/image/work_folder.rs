//! The folder in which a system is assembled before it becomes an image. Each user has one, and one process uses it at
//! a time.
//!
//! It is below `/var/tmp`. The file system must allow devices and programs, which a home's need not, and it must have
//! room for half a gigabyte. Whatever an interrupted run left behind is removed by the next one.

use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::unistd::Uid;

use super::ImageError;

/// The locked folder. Dropping the value releases the lock.
#[derive(Debug)]
pub(crate) struct WorkFolder {
    folder: PathBuf,
    /// The kernel releases the lock when the process ends, for whatever reason.
    _lock: File,
}

impl WorkFolder {
    /// Waits until no other process of this user makes an image, and locks the folder. `waiting` is called once if
    /// there is a wait.
    ///
    /// # Errors
    ///
    /// Returns [`ImageError::Host`] if the folder cannot be created or locked, or if others can access it.
    pub async fn lock(waiting: &(dyn Fn() + Send + Sync)) -> Result<Self, ImageError> {
        let uid = Uid::effective();
        let folder = PathBuf::from(format!("/var/tmp/flock-images-{uid}"));
        let failed = |source: io::Error| ImageError::Host { path: folder.clone(), source };
        match std::fs::DirBuilder::new().mode(0o700).create(&folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(error)),
            _ => check(&folder, uid).map_err(failed)?,
        }
        let file = File::create(folder.join("lock")).map_err(failed)?;
        let mut told = false;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Self { folder, _lock: file }),
                Err(TryLockError::Error(error)) => return Err(failed(error)),
                Err(TryLockError::WouldBlock) => {
                    if !told {
                        waiting();
                        told = true;
                    }
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
            }
        }
    }

    /// Returns the folder for the system. It may hold files that an interrupted run left.
    #[must_use]
    pub fn root(&self) -> PathBuf {
        self.folder.join("root")
    }
}

/// Checks that the folder belongs to this user alone. Anybody can create folders and links in `/var/tmp`, so anything
/// else is refused.
fn check(folder: &Path, uid: Uid) -> io::Result<()> {
    let found = fs_err::symlink_metadata(folder)?;
    if !found.is_dir() || found.uid() != uid.as_raw() || found.mode() & 0o077 != 0 {
        return Err(io::Error::other("it exists already and does not belong to this user alone; remove it"));
    }
    Ok(())
}
