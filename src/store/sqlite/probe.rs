//! Test writes and reads that show if the database can be used.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

use super::connection::connect;
use super::{Engine, lock_wait, schema};
use crate::error::chain;
use crate::store::health::{DatabaseAccess, StorageHealth};
use crate::store::writer::{LOCK_LIMIT, WriterJob};
use crate::store::{StoreError, sql};

/// The identity of a file, independent of its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    pub(super) fn of(path: &Path) -> std::io::Result<Self> {
        std::fs::metadata(path).map(|facts| Self { device: facts.dev(), inode: facts.ino() })
    }
}

impl Engine {
    /// Returns the inode of the opened file.
    pub(in crate::store) const fn identity(&self) -> i64 {
        self.file.inode.cast_signed()
    }

    /// Writes a meaningless value, reads again what could not be read before, and records the result.
    pub(in crate::store) async fn try_out(&self, condition: &StorageHealth) -> Result<(), StoreError> {
        // Writes to the open file would still succeed if the path named another file by now.
        let place = match FileId::of(&self.path) {
            Ok(found) if found == self.file => None,
            Ok(_) => Some("another file was put in its place".to_owned()),
            Err(error) => Some(format!("its file can't be seen: {error}")),
        };
        if let Some(reason) = place {
            condition.mark_unusable(DatabaseAccess::Write, reason.clone(), false);
            return Err(StoreError::Replaced { path: self.path.clone(), reason });
        }
        let before = condition.trouble();
        self.probe_write(condition, before.is_some()).await?;
        // A successful write does not show that reads work again.
        if before.is_some_and(|trouble| trouble.access != DatabaseAccess::Write) {
            return self.probe_read(condition).await;
        }
        condition.well();
        Ok(())
    }

    async fn probe_write(&self, condition: &StorageHealth, is_unwell: bool) -> Result<(), StoreError> {
        let (tell, told) = tokio::sync::oneshot::channel();
        let path = self.path.clone();
        // If writes are known to fail, the changes queued behind this one must not wait for its timeout.
        let patience = if is_unwell { Duration::ZERO } else { LOCK_LIMIT };
        let deadline = Instant::now() + patience;
        self.writer.submit(WriterJob::Alone(Box::new(move |connection| {
            let result = lock_wait::within(deadline, || {
                let result = write(connection);
                if result.as_ref().err().is_some_and(wants_new_connection)
                    && let Ok(new) = connect(&path, OpenFlags::SQLITE_OPEN_READ_WRITE)
                {
                    *connection = new;
                    return write(connection);
                }
                result
            });
            // The caller may no longer be waiting.
            let _ = tell.send(result.map_err(sql::Error::from));
        })))?;
        let result = told.await.map_err(|_| StoreError::Stopped)?;
        match &result {
            Err(error) if error.cause().is_fault() => condition.write_failed(error),
            Err(error) => condition.mark_unusable(DatabaseAccess::Write, chain(error), false),
            Ok(()) => {}
        }
        result.map_err(|source| StoreError::query("write a test value", source))
    }

    /// Reads through a new connection, whose cache is empty, and then reads the whole raw file.
    async fn probe_read(&self, condition: &StorageHealth) -> Result<(), StoreError> {
        let (path, raw) = (self.path.clone(), Arc::clone(&self.raw));
        let read = tokio::task::spawn_blocking(move || {
            let connection = connect(&path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
            schema::check(&connection, &path)?;
            Ok::<_, StoreError>(raw.read(&path))
        });
        match read.await.map_err(|_| StoreError::Stopped)? {
            Ok(Ok(())) => condition.well(),
            Ok(Err(error)) => {
                condition.mark_partly_unreadable(format!("its disk fails to read a part of it: {error}"));
            }
            Err(error) => {
                condition.record_open_failure(&error);
                return Err(error);
            }
        }
        Ok(())
    }
}

/// Writes a counter that flock never reads. Its value changes each time, because SQLite skips a write that changes
/// nothing.
fn write(connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let number: i32 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
    transaction.pragma_update(None, "user_version", number.wrapping_add(1))?;
    transaction.commit()
}

/// Returns `true` if a new connection may help. A file that was not writable when it was opened stays read-only for
/// that connection.
fn wants_new_connection(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(
            ErrorCode::ReadOnly
                | ErrorCode::SystemIoFailure
                | ErrorCode::CannotOpen
                // SQLite uses this code for a page that the disk failed to read.
                | ErrorCode::DatabaseCorrupt
        )
    )
}

#[cfg(test)]
mod tests {
    use crate::home::Home;
    use crate::store::Store;

    #[tokio::test]
    async fn a_missing_file_is_a_problem_until_it_is_back() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().to_owned(), None);
        let store = Store::open(&home).unwrap();
        store.try_out().await.unwrap();
        assert_eq!(store.trouble(), None);
        let aside = folder.path().join("aside");
        std::fs::rename(home.database(), &aside).unwrap();
        assert!(store.try_out().await.is_err());
        assert!(store.trouble().unwrap().reason.contains("can't be seen"));
        std::fs::write(home.database(), "").unwrap();
        assert!(store.try_out().await.is_err());
        std::fs::rename(&aside, home.database()).unwrap();
        store.try_out().await.unwrap();
        store.until_usable().await;
        assert_eq!(store.trouble(), None);
    }

    #[tokio::test]
    async fn each_probe_changes_the_test_value() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().to_owned(), None);
        let store = Store::open(&home).unwrap();
        let number = || -> i64 {
            store
                .pool
                .read("look", |connection| connection.query_row("PRAGMA user_version", (), |row| row.get(0)))
                .unwrap()
        };
        let before = number();
        store.try_out().await.unwrap();
        assert_ne!(number(), before);
    }
}
