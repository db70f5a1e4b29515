//! File locks with `flock(2)`. A lock ends with the process that holds it, however the process ends.

use std::fs::{File, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::{Duration, Instant};

use super::HomeError;

/// A held lock, which is released when it is dropped.
#[derive(Debug)]
pub struct Lock {
    // Opened close-on-exec, so that no child process keeps the lock.
    file: File,
}

impl Lock {
    /// Takes the lock if nobody holds it.
    ///
    /// # Errors
    ///
    /// Returns [`HomeError::Held`] if another process holds it, and [`HomeError::Io`] if the file can't be opened or
    /// locked.
    pub fn try_acquire(path: &Path) -> Result<Self, HomeError> {
        let file = open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Self { file }),
            Err(TryLockError::WouldBlock) => Err(HomeError::Held { path: path.to_owned() }),
            Err(TryLockError::Error(error)) => Err(HomeError::io("lock", path)(error)),
        }
    }

    /// Takes the lock and waits at most `limit` for it. Blocks the calling thread.
    ///
    /// # Errors
    ///
    /// Returns [`HomeError::Held`] if it is still held after `limit`, and [`HomeError::Io`] if the file can't be opened
    /// or locked.
    pub fn acquire(path: &Path, limit: Duration) -> Result<Self, HomeError> {
        let end = Instant::now() + limit;
        let mut pause = Duration::from_micros(200);
        loop {
            match Self::try_acquire(path) {
                Err(HomeError::Held { .. }) if Instant::now() < end => {
                    // flock(2) has no timeout, so poll. The growing pause keeps even 50 waiting processes cheap.
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(Duration::from_millis(10));
                }
                other => return other,
            }
        }
    }

    /// Takes the lock as [`Self::acquire`] does, and creates the folder of its file if that is missing.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Self::acquire`], and [`HomeError::Io`] if the folder can't be created.
    pub(crate) fn acquire_with_folder(path: &Path, limit: Duration) -> Result<Self, HomeError> {
        match Self::acquire(path, limit) {
            Err(HomeError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {
                let folder = path.parent().unwrap_or(Path::new("."));
                fs_err::create_dir_all(folder).map_err(HomeError::io("make the folder", folder))?;
                Self::acquire(path, limit)
            }
            taken => taken,
        }
    }

    /// Replaces what the file of the lock says of its holder to those who are refused.
    ///
    /// # Errors
    ///
    /// Returns the error of the system call that failed.
    pub(crate) fn write_note(&self, note: &[u8]) -> std::io::Result<()> {
        self.file.set_len(0)?;
        self.file.write_all_at(note, 0)?;
        // Other machines may see it only then.
        self.file.sync_data()
    }

    /// Returns `true` if the locked file is the one at `path`. Where files of locks are removed, another process may have
    /// removed this one after it was opened here and before it was locked, and such a lock keeps nobody out.
    #[must_use]
    pub fn is_at(&self, path: &Path) -> bool {
        match (self.file.metadata(), fs_err::symlink_metadata(path)) {
            (Ok(own), Ok(there)) => (own.dev(), own.ino()) == (there.dev(), there.ino()),
            _ => false,
        }
    }

    /// Returns `true` if the lock at `path` is held. A lock whose file does not exist is not held.
    ///
    /// # Errors
    ///
    /// Returns [`HomeError::Io`] if the file can't be opened or locked.
    pub fn is_held(path: &Path) -> Result<bool, HomeError> {
        // Trying to take the lock would create the file.
        if !path.exists() {
            return Ok(false);
        }
        match Self::try_acquire(path) {
            Ok(_) => Ok(false),
            Err(HomeError::Held { .. }) => Ok(true),
            Err(error) => Err(error),
        }
    }
}

fn open(path: &Path) -> Result<File, HomeError> {
    let flags = nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK;
    let mut options = std::fs::OpenOptions::new();
    let writing = options.read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(flags);
    let opened = match writing.open(path) {
        // A lock needs no write permission. flock must still be able to stop if its disk has become read-only.
        Err(error) if is_read_only(&error) => {
            std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(|_| error)
        }
        opened => opened,
    };
    opened.map_err(HomeError::io("open the lock", path))
}

fn is_read_only(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holder_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.lock");
        assert!(!Lock::is_held(&path).unwrap());
        let first = Lock::try_acquire(&path).unwrap();
        assert!(matches!(Lock::try_acquire(&path), Err(HomeError::Held { .. })));
        assert!(Lock::is_held(&path).unwrap());
        let waiter = std::thread::spawn({
            let path = path.clone();
            move || Lock::acquire(&path, Duration::from_secs(10)).map(drop)
        });
        drop(first);
        waiter.join().unwrap().unwrap();
        assert!(!Lock::is_held(&path).unwrap());
    }

    #[test]
    fn a_lock_whose_file_was_removed_or_replaced_is_not_at_its_path() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.lock");
        let lock = Lock::try_acquire(&path).unwrap();
        assert!(lock.is_at(&path));
        std::fs::remove_file(&path).unwrap();
        assert!(!lock.is_at(&path));
        let other = Lock::try_acquire(&path).unwrap();
        assert!(other.is_at(&path) && !lock.is_at(&path));
    }
}
