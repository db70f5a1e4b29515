//! The errors of statements, and their causes.

use rusqlite::{ErrorCode, ffi};

use crate::store::postgres::PostgresError;

/// The result of a statement.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a statement, or of a value in a row.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// SQLite refused the statement, or failed.
    #[error(transparent)]
    Sqlite(rusqlite::Error),
    /// PostgreSQL refused the statement or failed, or it can't be reached.
    #[error(transparent)]
    Postgres(#[from] PostgresError),
    /// This gateway was ended, by another one or by itself, and changes nothing any more.
    #[error("another gateway has taken over from this one")]
    Fenced,
    /// A query found no row, though its caller needs one.
    #[error("the query found no row")]
    NoRow,
    /// A stored value has a form that flock does not know.
    #[error("a stored value has an unknown form")]
    Malformed,
    /// The value of a column has a form that flock does not know.
    #[error("the value of column {column} can't be understood")]
    Column {
        /// The column's place in the row, from 0.
        column: usize,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl Error {
    /// Returns the error for a column whose value could not be converted.
    pub fn column(column: usize, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::Column { column, source: Box::new(source) }
    }

    /// Returns the cause, as far as the database names it.
    pub(in crate::store) fn cause(&self) -> Cause {
        match self {
            Self::Sqlite(error) => Cause::of(error),
            Self::Postgres(error) => error.cause(),
            Self::Fenced => Cause::Fenced,
            Self::NoRow | Self::Malformed | Self::Column { .. } => Cause::Statement,
        }
    }

    /// Returns the SQLSTATE, if a server of PostgreSQL gave one.
    pub(in crate::store) fn sqlstate(&self) -> Option<&str> {
        match self {
            Self::Postgres(error) => error.code(),
            _ => None,
        }
    }

    /// Returns a copy for one of the changes that failed together. The errors of the driver have no `Clone`.
    pub(in crate::store) fn copy(&self) -> Self {
        match self {
            Self::Sqlite(rusqlite::Error::SqliteFailure(code, message)) => {
                Self::Sqlite(rusqlite::Error::SqliteFailure(*code, message.clone()))
            }
            Self::Postgres(error) => Self::Postgres(error.clone()),
            Self::Fenced => Self::Fenced,
            other => Self::Sqlite(rusqlite::Error::SqliteFailure(
                ffi::Error::new(ffi::SQLITE_ERROR),
                Some(other.to_string()),
            )),
        }
    }
}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        match error {
            rusqlite::Error::QueryReturnedNoRows => Self::NoRow,
            error => Self::Sqlite(error),
        }
    }
}

impl From<super::FromSqlError> for Error {
    fn from(error: super::FromSqlError) -> Self {
        Self::Sqlite(error.into())
    }
}

/// Takes the error for a missing row as `None`.
pub trait OptionalExtension<T> {
    /// Returns `None` instead of [`Error::NoRow`].
    ///
    /// # Errors
    ///
    /// Returns any other error.
    fn optional(self) -> Result<Option<T>>;
}

impl<T> OptionalExtension<T> for Result<T> {
    fn optional(self) -> Result<Option<T>> {
        match self {
            Ok(value) => Ok(Some(value)),
            Err(Error::NoRow) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The cause of an error, whatever the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The statement or a value. The storage is not at fault.
    Statement,
    /// Another process holds the lock.
    Locked,
    /// There is no room for a write, because the disk is full or the file may not grow.
    Full,
    /// The disk failed to read.
    Unread,
    /// A read failed: because of the disk, or because something else is in place of the file.
    Read,
    /// The disk failed in another way.
    Disk,
    /// The content that was read is invalid, or the disk failed to read it: SQLite has one code for both.
    Corrupt,
    /// The file could be read and is not a database.
    NotDatabase,
    /// The file can't be opened, or not for this access. A server refuses the user, or that user's access.
    Refused,
    /// The server can't be reached, or it is going down. Nothing was changed.
    Unreachable,
    /// The answer to a commit was lost, and nothing says if the change was made.
    Unknown,
    /// Another gateway has taken over from this one, which changes nothing any more. Nothing was changed.
    Fenced,
}

impl Cause {
    /// Returns the cause of an error of SQLite.
    pub(in crate::store) fn of(error: &rusqlite::Error) -> Self {
        let Some(error) = error.sqlite_error() else { return Self::Statement };
        match (error.code, error.extended_code) {
            (ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked, _) => Self::Locked,
            // A write that fails with this code, for example because the file may not grow, needs the same remedy as a
            // full disk.
            (ErrorCode::DiskFull, _) | (_, ffi::SQLITE_IOERR_WRITE) => Self::Full,
            (_, ffi::SQLITE_IOERR_CORRUPTFS) => Self::Unread,
            (_, ffi::SQLITE_IOERR_READ | ffi::SQLITE_IOERR_SHORT_READ) => Self::Read,
            (ErrorCode::SystemIoFailure, _) => Self::Disk,
            (ErrorCode::DatabaseCorrupt, _) => Self::Corrupt,
            (ErrorCode::NotADatabase, _) => Self::NotDatabase,
            (
                ErrorCode::ReadOnly
                | ErrorCode::CannotOpen
                | ErrorCode::PermissionDenied
                | ErrorCode::FileLockingProtocolFailed,
                _,
            ) => Self::Refused,
            _ => Self::Statement,
        }
    }

    /// Returns `true` if the storage failed and may recover, so that the same operation can be retried.
    pub(in crate::store) fn is_fault(self) -> bool {
        self != Self::Statement
    }

    /// Returns `true` if the content of the file is invalid.
    pub(in crate::store) const fn is_damage(self) -> bool {
        matches!(self, Self::Corrupt | Self::NotDatabase)
    }

    /// Returns `true` if the failed operation was a read, for any reason.
    pub(in crate::store) const fn is_read_failure(self) -> bool {
        matches!(self, Self::Corrupt | Self::NotDatabase | Self::Read | Self::Unread)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(code: i32) -> Error {
        rusqlite::Error::SqliteFailure(ffi::Error::new(code), None).into()
    }

    #[test]
    fn only_storage_errors_count_as_faults() {
        for (code, fault, damage) in [
            (ffi::SQLITE_FULL, true, false),
            (ffi::SQLITE_IOERR_WRITE, true, false),
            (ffi::SQLITE_IOERR_FSYNC, true, false),
            (ffi::SQLITE_READONLY_DBMOVED, true, false),
            (ffi::SQLITE_CANTOPEN, true, false),
            (ffi::SQLITE_BUSY, true, false),
            (ffi::SQLITE_CORRUPT, true, true),
            (ffi::SQLITE_NOTADB, true, true),
            (ffi::SQLITE_CONSTRAINT, false, false),
            (ffi::SQLITE_INTERRUPT, false, false),
        ] {
            let cause = failure(code).cause();
            assert_eq!((cause.is_fault(), cause.is_damage()), (fault, damage), "{code}");
        }
    }

    #[test]
    fn a_missing_row_is_the_same_error_whoever_reports_it() {
        let missing: Result<()> = Err(rusqlite::Error::QueryReturnedNoRows.into());
        assert!(matches!(missing.optional(), Ok(None)));
        let failed: Result<()> = Err(failure(ffi::SQLITE_BUSY));
        assert!(matches!(failed.optional(), Err(error) if error.cause() == Cause::Locked));
    }

    #[test]
    fn a_copy_keeps_the_code() {
        assert_eq!(failure(ffi::SQLITE_FULL).copy().cause(), Cause::Full);
        assert_eq!(Error::NoRow.copy().to_string(), Error::NoRow.to_string());
        assert_eq!(Error::Fenced.copy().cause(), Cause::Fenced);
    }
}
