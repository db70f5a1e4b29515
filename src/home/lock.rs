//! Locks on files, as `flock(2)` gives them: they end with the process that holds them, however it ends.

use std::fs::{File, TryLockError};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::HomeError;

/// A held lock; dropping it gives it back.
#[derive(Debug)]
pub struct Lock {
    // Opened close-on-exec, so that no child keeps it.
    _file: File,
    path: PathBuf,
}

impl Lock {
    /// Takes the lock if nobody holds it.
    ///
    /// # Errors
    ///
    /// [`HomeError::Held`] if somebody does.
    pub fn try_acquire(path: &Path) -> Result<Self, HomeError> {
        let file = open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file, path: path.to_owned() }),
            Err(TryLockError::WouldBlock) => Err(HomeError::Held { path: path.to_owned() }),
            Err(TryLockError::Error(source)) => {
                Err(HomeError::Io { verb: "lock", path: path.to_owned(), source })
            }
        }
    }

    /// Takes the lock, waiting at most `limit` for it. Blocks the thread.
    ///
    /// # Errors
    ///
    /// [`HomeError::Held`] if it stays held.
    pub fn acquire(path: &Path, limit: Duration) -> Result<Self, HomeError> {
        let end = Instant::now() + limit;
        let mut pause = Duration::from_micros(200);
        loop {
            match Self::try_acquire(path) {
                Err(HomeError::Held { .. }) if Instant::now() < end => {
                    // flock(2) has no deadline of its own; the pause grows so that 50 waiters stay cheap.
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(Duration::from_millis(10));
                }
                other => return other,
            }
        }
    }

    /// Whether somebody holds the lock at `path`. A file that is not there is not held.
    ///
    /// # Errors
    ///
    /// If that can't be found out.
    pub fn is_held(path: &Path) -> Result<bool, HomeError> {
        if !path.exists() {
            return Ok(false);
        }
        match Self::try_acquire(path) {
            Ok(_) => Ok(false),
            Err(HomeError::Held { .. }) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// The file that is locked.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn open(path: &Path) -> Result<File, HomeError> {
    let flags = nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK;
    let mut options = std::fs::OpenOptions::new();
    let writing = options.read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(flags);
    let opened = match writing.open(path) {
        // A lock needs no right to write. On a disk that became read-only flock must still be stopped.
        Err(error) if is_read_only(&error) => {
            std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(|_| error)
        }
        opened => opened,
    };
    opened.map_err(|source| HomeError::Io { verb: "open the lock", path: path.to_owned(), source })
}

fn is_read_only(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::ReadOnlyFilesystem | std::io::ErrorKind::PermissionDenied)
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
}
