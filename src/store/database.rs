//! An open database: how it is read and written, whatever the subject.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use super::change::{PendingChange, Slot, Work};
use super::gateway::{Epoch, NewGateway};
use super::health::StorageHealth;
use super::location::Location;
use super::notice::Notices;
use super::postgres::Server;
use super::read_deadline::ReadDeadline;
use super::read_pool::{ReadPool, Reading};
use super::session::PendingKeys;
use super::sql::{self, Connection, Transaction};
use super::sqlite::DatabaseFile;
use super::sync::Syncer;
use super::writer::WriterJob;
use super::{StoreError, postgres, sqlite};
use crate::home::Home;

/// A home's database, open with `Access`: [`ReadWrite`] or [`ReadOnly`].
///
/// Each subject of the data has a handle, such as [`Database::channels`]. It offers its reads with any access, and its
/// writes only with [`ReadWrite`].
pub struct Database<Access> {
    // These fields are dropped in this order. The last connection to close moves the write-ahead log into the database
    // file, and a read-only connection can't do that, so readers close first.
    pub(super) pool: Pool,
    /// The path of the file that names the end of the audit chain.
    pub(super) head: PathBuf,
    pub(super) spellings: PendingKeys,
    pub(super) access: Access,
}

/// A home's database, open for reading and writing.
pub type Store = Database<ReadWrite>;

/// A home's database, open for reading. A gateway may be writing it at the same time.
pub type Reader = Database<ReadOnly>;

/// The right to read and write a database.
pub struct ReadWrite {
    // The syncer is dropped after the engine, because the last commit of its writing thread must still be synced.
    pub(super) engine: Engine,
    pub(super) syncer: Syncer,
    /// The number of changes of grants, made through this store or noticed.
    pub(super) grants: Arc<AtomicU64>,
}

/// The writing side of a database.
pub(super) enum Engine {
    Sqlite(sqlite::Engine),
    Postgres(postgres::Engine),
}

/// The connections for reading a database.
#[derive(Clone)]
pub(super) enum Pool {
    Sqlite(Arc<ReadPool<DatabaseFile>>),
    Postgres(Arc<ReadPool<Arc<Server>>>),
}

impl Pool {
    /// Runs `work` on a connection. It sees everything that was committed before.
    pub(super) fn read<T>(
        &self,
        what: &'static str,
        work: impl FnOnce(&Connection<'_>) -> sql::Result<T>,
    ) -> Result<T, StoreError> {
        let (mut work, mut found) = (Some(work), None);
        self.run(what, &mut |connection| {
            if let Some(work) = work.take() {
                found = Some(work(connection)?);
            }
            Ok(())
        })?;
        found.ok_or(StoreError::Stopped)
    }

    fn run(&self, what: &'static str, work: Reading<'_>) -> Result<(), StoreError> {
        match self {
            Self::Sqlite(pool) => pool.run(what, work),
            Self::Postgres(pool) => pool.run(what, work),
        }
    }

    /// Returns what is known of the database's condition.
    pub(super) fn condition(&self) -> &StorageHealth {
        match self {
            Self::Sqlite(pool) => &pool.condition,
            Self::Postgres(pool) => &pool.condition,
        }
    }
}

impl Engine {
    fn submit(&self, change: PendingChange) -> Result<(), StoreError> {
        match self {
            Self::Sqlite(engine) => engine.writer.submit(WriterJob::Change(change)),
            Self::Postgres(engine) => engine.writer.submit(WriterJob::Change(change)),
        }
    }

    /// Calls `passed` once all changes before this moment are done.
    pub(super) fn when_written(&self, passed: impl FnOnce() + Send + 'static) -> Result<(), StoreError> {
        match self {
            Self::Sqlite(engine) => engine.writer.submit(WriterJob::Alone(Box::new(|_| passed()))),
            Self::Postgres(engine) => engine.writer.submit(WriterJob::Alone(Box::new(|_| passed()))),
        }
    }
}

/// The right to read a database.
pub struct ReadOnly;

/// The process that opens a database for writing.
#[derive(Clone, Copy, Debug)]
pub(super) enum Opener<'g> {
    Command,
    /// A database on a server has only one of them at a time, or those of a group.
    Gateway(&'g NewGateway),
}

impl Reader {
    /// Opens the home's database. Returns `None` if there is none yet.
    ///
    /// # Errors
    ///
    /// Returns [`StoreError::Newer`] or [`StoreError::NewerSchema`] if a newer flock created the database, and another
    /// error if it can't be opened.
    pub fn open(home: &Home) -> Result<Option<Self>, StoreError> {
        Self::open_until(home, ReadDeadline::default())
    }

    /// Opens the home's database as [`Self::open`] does. A server has to answer before the deadline, now and to all later
    /// reads. A file has no deadline.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Self::open`], and [`StoreError::Connect`] if the server does not answer in time.
    pub(crate) fn open_until(home: &Home, deadline: ReadDeadline) -> Result<Option<Self>, StoreError> {
        match Location::of(home)? {
            Location::File(path) => sqlite::open_reader(home, path),
            Location::Postgres { settings, secret } => {
                postgres::open_reader(Server::until(home, *settings, secret, deadline)?, home)
            }
        }
    }
}

impl Store {
    /// Opens the home's database, creates it if it is missing, and migrates it to this version.
    ///
    /// A copy of a file's old state is saved to the home's backups before a migration.
    ///
    /// # Errors
    ///
    /// Returns [`StoreError::Newer`] or [`StoreError::NewerSchema`] if a newer flock created the database,
    /// [`StoreError::Gone`] if it existed before and is missing now, and other variants if it can't be opened, created or
    /// migrated.
    pub fn open(home: &Home) -> Result<Self, StoreError> {
        Self::open_as(home, Opener::Command)
    }

    /// Opens the home's database as [`Self::open`] does, for the gateway.
    ///
    /// # Errors
    ///
    /// Returns [`StoreError::InUse`] if the gateway of another home uses the same database and the two are not in a group,
    /// and the errors of [`Self::open`]. One of the same home is kept away from a database file by the lock of the home.
    pub(crate) fn open_for_gateway(home: &Home, gateway: &NewGateway) -> Result<Self, StoreError> {
        Self::open_as(home, Opener::Gateway(gateway))
    }

    /// Returns the number of this gateway's run. `None` for a command, and for a database in a file, which has one gateway.
    #[must_use]
    pub(crate) const fn epoch(&self) -> Option<Epoch> {
        match &self.access.engine {
            Engine::Sqlite(_) => None,
            Engine::Postgres(engine) => engine.epoch,
        }
    }

    /// Returns `true` for a gateway that may have others beside it, because a person has made a group of them.
    #[must_use]
    pub(crate) const fn is_in_group(&self) -> bool {
        match &self.access.engine {
            Engine::Sqlite(_) => false,
            Engine::Postgres(engine) => engine.is_in_group,
        }
    }

    /// Returns the notices of changes from now on, also of this gateway's own. There are none for a command, and none for a
    /// database in a file.
    #[must_use]
    pub(crate) fn notices(&self) -> Notices {
        match &self.access.engine {
            Engine::Sqlite(_) => Notices::none(),
            Engine::Postgres(engine) => engine.notices(),
        }
    }

    fn open_as(home: &Home, opener: Opener<'_>) -> Result<Self, StoreError> {
        loop {
            match Location::of(home)? {
                Location::File(path) => {
                    let opened = sqlite::open(home, path.clone());
                    // It may have waited for a move to a server, which has the file open, and has ended meanwhile. What
                    // is written to the old file from then on would be lost.
                    if Location::of(home)? == Location::File(path) {
                        return opened;
                    }
                }
                Location::Postgres { settings, secret } => {
                    return postgres::open(home, (*settings, secret), opener);
                }
            }
        }
    }
}

impl<A> Database<A> {
    pub(super) fn new(home: &Home, pool: Pool, access: A) -> Self {
        Self { pool, head: home.audit_head(), spellings: PendingKeys::default(), access }
    }

    /// Runs `work` on a connection for reading. It sees everything that was committed before.
    ///
    /// `work` has to be short, as a look-up by an index is. It runs in place and takes some microseconds. A hop to
    /// another thread would take longer than the read itself, and a turn makes about a dozen reads. With a server it waits
    /// for the network, and lets another thread run the other tasks meanwhile.
    pub(super) async fn read<T>(
        &self,
        what: &'static str,
        work: impl FnOnce(&Connection<'_>) -> sql::Result<T>,
    ) -> Result<T, StoreError> {
        self.pool.read(what, work)
    }

    /// Runs `work` as [`Self::read`] does, but on a thread that may block: the work can take long.
    pub(super) async fn read_long<T: Send + 'static>(
        &self,
        what: &'static str,
        work: impl FnOnce(&Connection<'_>) -> sql::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (pool, value) = (self.pool.clone(), Slot::default());
        let found = value.clone();
        // In a box, so that the runtime's part is compiled once for all reads.
        let read: Box<dyn FnOnce() -> Result<(), StoreError> + Send> =
            Box::new(move || pool.read(what, work).map(|read| found.fill(read)));
        tokio::task::spawn_blocking(read).await.map_err(|_| StoreError::Stopped)??;
        value.take().ok_or(StoreError::Stopped)
    }
}

impl Store {
    /// Returns the thread that syncs written files, so that they survive a power cut.
    #[must_use]
    pub(crate) const fn syncer(&self) -> &Syncer {
        &self.access.syncer
    }

    /// Syncs everything that was committed so far, with the end of the audit chain.
    ///
    /// This is for changes that must survive a power cut before anybody acts on them, such as an approval.
    pub async fn sync(&self) -> Result<(), StoreError> {
        let (tell, passed) = tokio::sync::oneshot::channel();
        // This job queues behind the earlier changes: only after them the syncing thread knows of all commits.
        self.access.engine.when_written(move || {
            // The caller may no longer be waiting.
            let _ = tell.send(());
        })?;
        passed.await.map_err(|_| StoreError::Stopped)?;
        let syncer = self.access.syncer.handle();
        let synced = tokio::task::spawn_blocking(move || syncer.sync_now()).await;
        let synced = synced.map_err(|_| StoreError::Stopped)?;
        synced.map_err(|source| StoreError::query("bring the changes to the disk", source))
    }

    /// Runs `work` as one change on the writing thread, and returns its value after the commit.
    ///
    /// The change runs to its end even if the caller stops waiting.
    pub(super) async fn write<T, F>(&self, what: &'static str, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Transaction<'_>) -> sql::Result<T> + Send + 'static,
    {
        self.submit(what, |slot| {
            Work::Any(Box::new(move |transaction| work(transaction).map(|done| slot.fill(done))))
        })
        .await
    }

    /// Submits a change that fills the slot it gets, and returns the value after the commit.
    pub(super) async fn submit<T: Send + 'static>(
        &self,
        what: &'static str,
        work: impl FnOnce(Slot<T>) -> Work,
    ) -> Result<T, StoreError> {
        // The value waits in a slot until the commit: the caller must not see it if the transaction fails.
        let value = Slot::default();
        self.commit(what, work(value.clone())).await?;
        value.take().ok_or(StoreError::Stopped)
    }

    /// Submits a change and waits for its commit.
    async fn commit(&self, what: &'static str, work: Work) -> Result<(), StoreError> {
        let (tell, answered) = tokio::sync::oneshot::channel();
        self.access.engine.submit(PendingChange {
            since: Instant::now(),
            work,
            // The caller may no longer be waiting.
            answer: Box::new(move |committed| drop(tell.send(committed))),
        })?;
        // A change that panicked is dropped without an answer.
        let committed = answered.await.map_err(|_| StoreError::Stopped)?;
        committed.map_err(|source| StoreError::query(what, source))
    }

    /// Queues a change without waiting for its outcome, for callers that can't wait. A failure is logged.
    pub(super) fn write_behind<F>(&self, what: &'static str, work: F)
    where
        F: FnOnce(&Transaction<'_>) -> sql::Result<()> + Send + 'static,
    {
        let submitted = self.access.engine.submit(PendingChange {
            since: Instant::now(),
            work: Work::Any(Box::new(work)),
            answer: Box::new(move |committed| {
                if let Err(error) = committed {
                    tracing::error!(%error, "failed to {what}");
                }
            }),
        });
        if let Err(error) = submitted {
            tracing::error!(%error, "failed to {what}");
        }
    }
}

#[cfg(test)]
#[path = "database_tests.rs"]
mod tests;
