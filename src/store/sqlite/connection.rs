//! The database's files, and SQLite's connections to them.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use super::lock_wait;
use crate::home::HomeError;
use crate::store::StoreError;

/// Opens a connection to a database that exists.
pub(super) fn connect(path: &Path, access: OpenFlags) -> Result<Connection, StoreError> {
    require_files(path)?;
    let open = || -> rusqlite::Result<Connection> {
        let flags = access | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(path, flags)?;
        lock_wait::install(&mut connection)?;
        let writes = access.contains(OpenFlags::SQLITE_OPEN_READ_WRITE);
        connection.execute_batch(if writes {
            // With NORMAL a commit makes no fsync. [`crate::store::sync`] syncs the log in groups. A checkpoint syncs by itself, so a
            // power cut never damages the file.
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = ON;
             PRAGMA wal_autocheckpoint = 2000; PRAGMA cache_size = -1024; PRAGMA journal_size_limit = 8388608;"
        } else {
            "PRAGMA cache_size = -256;"
        })?;
        // The writer uses more statements than the default capacity, and a statement that falls out is compiled again.
        connection.set_prepared_statement_cache_capacity(if writes { 96 } else { 32 });
        Ok(connection)
    };
    open().map_err(|source| StoreError::open(path, source))
}

/// The suffixes of the files that SQLite opens beside a database.
pub const BESIDE: [&str; 3] = ["-wal", "-shm", "-journal"];

/// Refuses anything that is not a regular file in place of the database and the files beside it.
///
/// SQLite would wait for the other end of a FIFO, which never comes.
pub(super) fn require_files(path: &Path) -> Result<(), StoreError> {
    for path in files_of(path) {
        // If a path can't be examined, SQLite's own error says why.
        if std::fs::metadata(&path).is_ok_and(|found| !found.is_file()) {
            return Err(StoreError::NoFile { path });
        }
    }
    Ok(())
}

/// Creates an empty file that only its owner can read. SQLite itself would make one that others can read.
///
/// SQLite gives the files beside the database the same mode.
pub(super) fn create_private(path: &Path) -> Result<(), StoreError> {
    use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
    let error = |source| StoreError::Create { path: path.to_owned(), source };
    if let Some(folder) = path.parent() {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(error)?;
    }
    match std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(_) => Ok(()),
        Err(source) if source.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(source) => Err(error(source)),
    }
}

/// Returns `true` if a file exists. A path that can't be examined is an error, so it is not mistaken for a missing
/// file.
pub(super) fn is_there(path: &Path) -> Result<bool, HomeError> {
    path.try_exists().map_err(|source| HomeError::Io { verb: "look at", path: path.to_owned(), source })
}

/// Returns the path of the write-ahead log.
pub(in crate::store) fn wal_of(path: &Path) -> PathBuf {
    beside(path, "-wal")
}

/// Returns the path of a file that SQLite opens beside a database. The suffix is one of [`BESIDE`].
#[must_use]
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Returns the paths of a database and of the files that SQLite opens beside it.
pub(super) fn files_of(path: &Path) -> impl Iterator<Item = PathBuf> {
    std::iter::once(path.to_owned()).chain(BESIDE.map(|suffix| beside(path, suffix)))
}
