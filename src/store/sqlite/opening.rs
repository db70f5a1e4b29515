//! Opening a home's database, and bringing its log into its file.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use rusqlite::OpenFlags;

use super::connection::{connect, create_private, is_there, wal_of};
use super::probe::FileId;
use super::read_pool::ReadPool;
use super::schema;
use super::writer::{Writer, WriterJob};
use crate::home::Home;
use crate::store::database::{ReadOnly, ReadWrite};
use crate::store::sql::Connection;
use crate::store::sync::Syncer;
use crate::store::{Reader, Store, StoreError, audit_chain};

impl Reader {
    /// Opens the home's database. Returns `None` if there is none yet.
    ///
    /// # Errors
    ///
    /// Returns [`StoreError::Newer`] if a newer flock created the database, and another error if it can't be opened.
    pub fn open(home: &Home) -> Result<Option<Self>, StoreError> {
        let path = home.database();
        if !is_there(&path)? {
            return Ok(None);
        }
        let connection = connect(&path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        // Version 0 is a file that another process has created and not migrated yet.
        if schema::check(&connection, &path)? == 0 {
            return Ok(None);
        }
        Ok(Some(Self::new(home, Arc::new(ReadPool::new(path, vec![connection])), ReadOnly)))
    }
}

impl Store {
    /// Opens the home's database, creates it if it is missing, and migrates it to this version.
    ///
    /// A copy of the old state is saved to the home's backups before a migration.
    ///
    /// # Errors
    ///
    /// Returns [`StoreError::Newer`] if a newer flock created the database, [`StoreError::Gone`] if the database
    /// existed before and is missing now, and other variants if it can't be opened, created or migrated.
    pub fn open(home: &Home) -> Result<Self, StoreError> {
        let path = home.database();
        if !is_there(&path)? && is_there(&home.audit_head())? {
            // Creating an empty database here would hide the loss.
            return Err(StoreError::Gone { path });
        }
        create_private(&path)?;
        let mut connection = connect(&path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        schema::migrate(&mut connection, &path, &home.backups())?;
        let head = audit_chain::open(&Connection::sqlite(&connection), &home.audit_head())?;
        let syncer = Syncer::start(wal_of(&path), home.audit_head()).map_err(StoreError::Thread)?;
        let pool = Arc::new(ReadPool::new(path.clone(), Vec::new()));
        let writer = Writer::start(connection, syncer.handle(), head, pool.condition.clone());
        let writer = writer.map_err(StoreError::Thread)?;
        let file = FileId::of(&path).map_err(|source| StoreError::Create { path, source })?;
        let access = ReadWrite { writer, syncer, file, grants: AtomicU64::new(0), raw: Arc::default() };
        Ok(Self::new(home, pool, access))
    }

    /// Syncs everything that was committed and moves the write-ahead log into the database file, as far as no reader of
    /// another process uses the log.
    pub async fn settle(&self) -> Result<(), StoreError> {
        let what = "fold the log into the database";
        let (answer, answered) = tokio::sync::oneshot::channel();
        self.access.writer.submit(WriterJob::Alone(Box::new(move |connection| {
            // The row says whether a reader kept a part of the log in use. That is no failure: the part stays in the log,
            // which is synced below, and the next checkpoint moves it.
            let folded = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |_| Ok(()));
            drop(answer.send(folded));
        })))?;
        let folded = answered.await.map_err(|_| StoreError::Stopped)?;
        folded.map_err(|source| StoreError::query(what, source))?;
        // What was reported to the syncer, and the end of the audit chain, still have to reach the disk.
        let syncer = self.access.syncer.handle();
        tokio::task::spawn_blocking(move || syncer.sync_now()).await.map_err(|_| StoreError::Stopped)
    }
}
