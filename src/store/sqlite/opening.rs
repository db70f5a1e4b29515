//! Opening a home's database, and bringing its log into its file.

use std::path::PathBuf;
use std::sync::Arc;

use rusqlite::OpenFlags;

use super::Engine;
use super::connection::{connect, create_private, is_there, wal_of};
use super::probe::FileId;
use super::read_pool::DatabaseFile;
use super::schema;
use crate::home::Home;
use crate::store::database::{self, Pool, ReadOnly, ReadWrite};
use crate::store::read_pool::ReadPool;
use crate::store::sql::Connection;
use crate::store::sync::{self, Syncer};
use crate::store::writer::{Writer, WriterJob};
use crate::store::{Reader, Store, StoreError, audit_chain};

/// Opens the database at `path` for reading. Returns `None` if there is none yet.
pub(in crate::store) fn open_reader(home: &Home, path: PathBuf) -> Result<Option<Reader>, StoreError> {
    if !is_there(&path)? {
        return Ok(None);
    }
    let connection = connect(&path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    // Version 0 is a file that another process has created and not migrated yet.
    if schema::check(&connection, &path)? == 0 {
        return Ok(None);
    }
    let pool = Pool::Sqlite(Arc::new(ReadPool::new(DatabaseFile(path), vec![connection])));
    Ok(Some(Reader::new(home, pool, ReadOnly)))
}

/// Opens the database at `path`, creates it if it is missing, and migrates it to this version.
pub(in crate::store) fn open(home: &Home, path: PathBuf) -> Result<Store, StoreError> {
    if !is_there(&path)? && is_there(&home.audit_head())? {
        // Creating an empty database here would hide the loss.
        return Err(StoreError::Gone { path });
    }
    create_private(&path)?;
    let mut connection = connect(&path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    schema::migrate(&mut connection, &path, &home.backups())?;
    let head = audit_chain::open(&Connection::sqlite(&connection), &home.audit_head())?;
    let wal = wal_of(&path);
    let sync = Box::new(move || {
        sync::sync(&wal);
        Ok(())
    });
    let syncer = Syncer::start(sync, home.audit_head()).map_err(StoreError::Thread)?;
    let pool = Arc::new(ReadPool::new(DatabaseFile(path.clone()), Vec::new()));
    let writer = Writer::start(connection, syncer.handle(), head, pool.condition.clone());
    let writer = writer.map_err(StoreError::Thread)?;
    let file = FileId::of(&path).map_err(|source| StoreError::Create { path: path.clone(), source })?;
    let engine = database::Engine::Sqlite(Engine { writer, path, file, raw: Arc::default() });
    let access = ReadWrite { engine, syncer, grants: Arc::default() };
    Ok(Store::new(home, Pool::Sqlite(pool), access))
}

impl Engine {
    /// Moves the write-ahead log into the database file, as far as no reader of another process uses the log.
    pub(in crate::store) async fn fold_log(&self) -> Result<(), StoreError> {
        let what = "fold the log into the database";
        let (answer, answered) = tokio::sync::oneshot::channel();
        self.writer.submit(WriterJob::Alone(Box::new(move |connection| {
            // The row says whether a reader kept a part of the log in use. That is no failure: the part stays in the log,
            // which is synced after this, and the next checkpoint moves it.
            let folded = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |_| Ok(()));
            drop(answer.send(folded));
        })))?;
        let folded = answered.await.map_err(|_| StoreError::Stopped)?;
        folded.map_err(|source| StoreError::query(what, source))
    }
}
