//! A database file at one end of a move, which nobody else changes meanwhile.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use super::connection::{connect, create_private, files_of, is_there};
use super::integrity::{self, CheckDepth};
use super::schema;
use crate::store::{StoreError, sql};

/// The work of a statement that failed, for its message.
const HOLD: &str = "have the database for the move alone";
const FINISH: &str = "finish the new database";

/// A connection to a database file.
pub(in crate::store) struct FileEnd {
    connection: Connection,
    path: PathBuf,
}

impl FileEnd {
    /// Opens a database for reading, as it is while others write to it. Returns `None` if there is none yet.
    pub(in crate::store) fn look(path: &Path) -> Result<Option<Self>, StoreError> {
        if !is_there(path)? {
            return Ok(None);
        }
        let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        let version = schema::check(&connection, path)?;
        Ok((version > 0).then(|| Self { connection, path: path.to_owned() }))
    }

    /// Opens a database of the newest version, and refuses every change of it until the connection ends.
    ///
    /// Returns [`StoreError::Locked`] if another process has it open. Such a process could go on with the file after the
    /// move, under whatever name.
    pub(in crate::store) fn hold(path: &Path) -> Result<Self, StoreError> {
        let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        let failed = |source: rusqlite::Error| StoreError::query(HOLD, source);
        // SQLite gives up its log only if nobody else has the file open. The next one who writes gets a log again.
        let mode: String =
            connection.query_row("PRAGMA journal_mode = DELETE", (), |row| row.get(0)).map_err(failed)?;
        if mode != "delete" {
            return Err(failed(rusqlite::Error::SqliteFailure(
                rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY),
                Some("another process has it open".to_owned()),
            )));
        }
        // Never committed, because nothing is changed.
        connection.execute_batch("BEGIN IMMEDIATE").map_err(failed)?;
        Ok(Self { connection, path: path.to_owned() })
    }

    /// Opens the file that becomes a database, or makes it.
    pub(in crate::store) fn draft(path: &Path) -> Result<Self, StoreError> {
        create_private(path)?;
        let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        Ok(Self { connection, path: path.to_owned() })
    }

    pub(in crate::store) const fn connection(&self) -> sql::Connection<'_> {
        sql::Connection::sqlite(&self.connection)
    }

    pub(in crate::store) fn path(&self) -> &Path {
        &self.path
    }

    /// Runs `work` on another connection, which is in no transaction.
    pub(in crate::store) fn beside<T>(
        &self,
        work: impl FnOnce(&sql::Connection<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let connection = connect(&self.path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        work(&sql::Connection::sqlite(&connection))
    }

    /// Creates the tables, or brings them to this version.
    pub(in crate::store) fn migrate(&mut self) -> Result<(), StoreError> {
        schema::migrate_copy(&mut self.connection, &self.path)
    }

    /// Closes a draft, checks it, and brings it to the disk as one file.
    pub(in crate::store) fn finish(self) -> Result<PathBuf, StoreError> {
        let failed = |source: rusqlite::Error| StoreError::query(FINISH, source);
        // The file gets its name without a log beside it.
        self.connection.query_row("PRAGMA journal_mode = DELETE", (), |_| Ok(())).map_err(failed)?;
        self.connection.close().map_err(|(_, source)| failed(source))?;
        let path = self.path;
        let checked = integrity::check(&path, CheckDepth::Deep)?;
        if !checked.is_whole() {
            return Err(StoreError::Damaged { what: checked.summary(), path });
        }
        let synced = std::fs::File::open(&path).and_then(|file| file.sync_all());
        synced.map_err(|source| StoreError::Create { path: path.clone(), source })?;
        Ok(path)
    }
}

/// Removes a draft with the files beside it.
pub(in crate::store) fn remove_draft(path: &Path) -> Result<(), StoreError> {
    for path in files_of(path) {
        match fs_err::remove_file(&path) {
            Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
                return Err(StoreError::Create { path, source });
            }
            _ => {}
        }
    }
    Ok(())
}
