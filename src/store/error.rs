//! Why the database did not do its work.

use std::path::{Path, PathBuf};

use rusqlite::{ErrorCode, ffi};

use super::condition;
use crate::error::{Explain, KERNEL_LOG, Kind};
use crate::home::HomeError;

/// Why the database did not do its work.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file could not be made.
    #[error("failed to create the database {}", path.display())]
    Create {
        /// Which file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file could not be opened, or is no database.
    #[error("failed to open the database {}", path.display())]
    Open {
        /// Which file.
        path: PathBuf,
        /// Why.
        #[source]
        source: rusqlite::Error,
    },
    /// The file holds what no database holds.
    #[error("the database {} is damaged: {what}", path.display())]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// There was a database, and it is gone.
    #[error("the database {} is gone, though the home had one", path.display())]
    Gone {
        /// Which file.
        path: PathBuf,
    },
    /// Something that is no file is where the database or a file beside it should be.
    #[error("{} can't be opened: it is no regular file", path.display())]
    NoFile {
        /// What is there.
        path: PathBuf,
    },
    /// The file is no longer the one that was opened.
    #[error("the database {} can't be used: {reason}", path.display())]
    Replaced {
        /// Which file.
        path: PathBuf,
        /// What is there instead.
        reason: String,
    },
    /// A newer flock made it.
    #[error("the database {} has version {found}, and this flock knows versions up to {known}", path.display())]
    Newer {
        /// Which file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The newest one known here.
        known: u32,
    },
    /// It could not be saved before a migration.
    #[error("failed to save the database to {} before changing it", path.display())]
    Backup {
        /// Where to.
        path: PathBuf,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A migration failed; the database is as it was before it.
    #[error("failed to bring the database to version {version}")]
    Migration {
        /// Which version.
        version: u32,
        /// Why.
        #[source]
        source: rusqlite::Error,
    },
    /// A file beside the database could not be read or written. Nothing was changed.
    #[error(transparent)]
    Beside(#[from] HomeError),
    /// A thread could not be started.
    #[error("failed to start a thread of the database")]
    Thread(#[source] std::io::Error),
    /// A statement failed.
    #[error("failed to {what} in the database")]
    Query {
        /// As in `begin a turn`.
        what: &'static str,
        /// Why.
        #[source]
        source: rusqlite::Error,
    },
    /// Another process held the database for longer than is waited. Nothing was changed.
    #[error("failed to {what}: another process has locked the database")]
    Locked {
        /// As in `begin a turn`.
        what: &'static str,
        /// Why.
        #[source]
        source: rusqlite::Error,
    },
    /// There was no room for it. Nothing was changed.
    #[error(
        "failed to {what}: there is no room for the database, its disk is full or fails, or its file may not grow"
    )]
    Full {
        /// As in `begin a turn`.
        what: &'static str,
        /// Why.
        #[source]
        source: rusqlite::Error,
    },
    /// The disk failed to read or write it. Nothing was changed.
    #[error("failed to {what}: the disk of the database fails")]
    Disk {
        /// As in `begin a turn`.
        what: &'static str,
        /// Why.
        #[source]
        source: rusqlite::Error,
    },
    /// What was read is not what a database holds: the file is damaged, or the disk failed to read it. SQLite says the same
    /// of both. Nothing was changed.
    #[error("failed to {what}: what was read of the database is not whole")]
    Doubtful {
        /// As in `begin a turn`.
        what: &'static str,
        /// Why.
        #[source]
        source: rusqlite::Error,
    },
    /// The disk fails to read the file.
    #[error("the database {} can't be read: its disk fails", path.display())]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The writing thread has ended.
    #[error("the database is closed")]
    Stopped,
}

impl StoreError {
    /// What opening a file failed with, by its reason.
    pub(super) fn open(path: &Path, source: rusqlite::Error) -> Self {
        let path = path.to_owned();
        if condition::is_unread(&source) {
            Self::Unreadable { path, source: source.into() }
        } else {
            Self::Open { path, source }
        }
    }

    /// What a statement failed with, by its reason.
    pub(super) fn query(what: &'static str, source: rusqlite::Error) -> Self {
        let code = source.sqlite_error().map(|error| (error.code, error.extended_code));
        match code {
            Some((ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked, _)) => Self::Locked { what, source },
            Some((ErrorCode::DiskFull, _) | (_, ffi::SQLITE_IOERR_WRITE)) => Self::Full { what, source },
            Some((ErrorCode::SystemIoFailure, _)) => Self::Disk { what, source },
            Some((ErrorCode::DatabaseCorrupt, _)) => Self::Doubtful { what, source },
            _ => Self::Query { what, source },
        }
    }
}

/// Says of what is not whole which of the two it is.
const DOCTOR: &str = "flock doctor";

impl StoreError {
    /// Whether the storage failed, as a full disk does, and not what was asked of it: the same may be done later.
    #[must_use]
    pub fn is_fault(&self) -> bool {
        match self {
            Self::Full { .. }
            | Self::Locked { .. }
            | Self::Disk { .. }
            | Self::Doubtful { .. }
            | Self::Unreadable { .. } => true,
            Self::Beside(error) => error.kind() == Kind::Unreadable,
            Self::Query { source, .. } | Self::Open { source, .. } => condition::is_fault(source),
            _ => false,
        }
    }

    /// Whether it is for a look at the file to say if this is damage, or a disk that fails.
    #[must_use]
    pub fn is_doubtful(&self) -> bool {
        match self {
            Self::Doubtful { .. } => true,
            Self::Open { source, .. } | Self::Migration { source, .. } => condition::is_doubtful(source),
            _ => false,
        }
    }
}

impl Explain for StoreError {
    fn kind(&self) -> Kind {
        match self {
            Self::Newer { .. } => Kind::NewerHome,
            Self::Damaged { .. } | Self::Gone { .. } => Kind::Damaged,
            Self::Disk { .. } | Self::Doubtful { .. } | Self::Unreadable { .. } => Kind::Unreadable,
            Self::Query { source, .. } | Self::Open { source, .. } if condition::is_no_database(source) => {
                Kind::Damaged
            }
            Self::Open { source, .. } | Self::Migration { source, .. }
                if condition::is_doubtful(source) || condition::is_unread(source) =>
            {
                Kind::Unreadable
            }
            Self::Beside(error) => error.kind(),
            Self::Stopped => Kind::Internal,
            _ => Kind::Failed,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Newer { .. } => Some("flock update".to_owned()),
            Self::Replaced { .. } => Some("flock restart".to_owned()),
            Self::NoFile { path } => {
                Some(format!("ls -ld {} shows what it is; move it away, then flock doctor", path.display()))
            }
            Self::Beside(error) => error.hint(),
            Self::Stopped => None,
            Self::Locked { .. } => Some("end what holds it, or try again in a moment".to_owned()),
            Self::Full { .. } => Some("make room on its disk, then try again".to_owned()),
            error if error.is_doubtful() => Some(DOCTOR.to_owned()),
            error => Some(match error.kind() {
                Kind::Damaged => "flock restore".to_owned(),
                Kind::Unreadable => KERNEL_LOG.to_owned(),
                _ => DOCTOR.to_owned(),
            }),
        }
    }

    fn may_pass(&self) -> bool {
        self.is_fault() && self.kind() != Kind::Damaged
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(code: i32) -> rusqlite::Error {
        rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)
    }

    #[test]
    fn a_disk_that_fails_is_not_damage() {
        let open = |code| StoreError::open(Path::new("/x"), failure(code));
        let query = |code| StoreError::query("look", failure(code));
        for (code, kind, hint) in [
            (ffi::SQLITE_IOERR_CORRUPTFS, Kind::Unreadable, KERNEL_LOG),
            // So SQLite calls a read that failed, too.
            (ffi::SQLITE_CORRUPT, Kind::Unreadable, DOCTOR),
            (ffi::SQLITE_NOTADB, Kind::Damaged, "flock restore"),
        ] {
            for error in [open(code), query(code)] {
                assert_eq!((error.kind(), error.hint().as_deref()), (kind, Some(hint)), "{error:?}");
                assert_eq!(error.may_pass(), kind == Kind::Unreadable, "{error:?}");
                assert_eq!(error.is_doubtful(), code == ffi::SQLITE_CORRUPT, "{error:?}");
            }
        }
        assert_eq!(query(ffi::SQLITE_IOERR_READ).kind(), Kind::Unreadable);
        assert_eq!(open(ffi::SQLITE_IOERR_READ).kind(), Kind::Failed, "it may be no file at all");
        assert!(query(ffi::SQLITE_IOERR_WRITE).to_string().contains("no room"));
    }
}
