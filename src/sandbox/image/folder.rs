//! Where a system is put together before it becomes an image: one folder of this user, one maker at a time.
//!
//! It is below `/var/tmp`: on a file system that has devices and programs, which a home's need not be, and
//! where half a gigabyte fits. Whatever an interrupted run left is removed by the next one.

use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::unistd::Uid;

use super::ImageError;

/// The folder, held by this process until dropped.
#[derive(Debug)]
pub struct Work {
    folder: PathBuf,
    /// Released by the kernel with the process, however that ends.
    _lock: File,
}

impl Work {
    /// Waits until no other process of this user makes an image. `waiting` is told once if it must.
    ///
    /// # Errors
    ///
    /// [`ImageError::Host`] where the folder is not ours alone.
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

    /// Where the system goes. It may hold what an interrupted run left.
    #[must_use]
    pub fn root(&self) -> PathBuf {
        self.folder.join("root")
    }
}

/// Anybody can make folders and links in `/var/tmp`: only a folder of this user's that nobody else can
/// write is used.
fn check(folder: &Path, uid: Uid) -> io::Result<()> {
    let found = fs_err::symlink_metadata(folder)?;
    if !found.is_dir() || found.uid() != uid.as_raw() || found.mode() & 0o077 != 0 {
        return Err(io::Error::other("it is there already and not this user's alone; remove it"));
    }
    Ok(())
}
