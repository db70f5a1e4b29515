//! The SQLite database: all SQL statements and migrations of flock.
//!
//! One thread writes, and combines waiting changes into one transaction. Reads use a few separate connections. A change
//! is committed when its future resolves, and then survives `kill -9`. Syncing to the disk follows a few milliseconds
//! later, by [`sync`].

mod agent_removal;
mod agent_rename;
mod agent_state;
mod audit;
mod audit_chain;
mod backup;
mod card;
mod channel;
mod channel_archive;
mod damage_recheck;
mod delivery;
mod error;
mod exchange;
mod freeze;
mod health;
mod idempotency;
mod inbox;
pub(crate) mod integrity;
mod lock_wait;
mod post;
mod post_outline;
mod probe;
mod program_conversation;
mod recovery;
mod request;
pub(crate) mod row_counts;
mod schema;
mod session;
pub(crate) mod sync;
mod task;
mod token;
mod turn;
mod usage;
mod writer;

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use rusqlite::{Connection, OpenFlags, Transaction};

use crate::home::{Home, HomeError};

pub(crate) use agent_state::AgentState;
pub use audit::{AuditEntry, Level};
pub(crate) use audit::{AuditFilter, AuditRow, MAX_ROWS as MAX_AUDIT_ROWS, digest as text_digest};
pub(crate) use audit_chain::AuditVerification;
pub(crate) use backup::{Backup, BackupKind, due_at as backup_due_at, list as backups};
pub(crate) use card::{CardUpdate, StoredCard};
pub use channel::NewChannel;
pub(crate) use channel::{Channel, ChannelState, Member, MemberChange};
pub(crate) use channel_archive::ArchiveStep;
pub(crate) use delivery::{Batch, BatchLimits, Given, MOST_COUNTED, UnseenSummary};
pub(crate) use error::StoreError;
pub(crate) use exchange::NewExchange;
pub(crate) use freeze::{Freeze, FreezeState};
pub(crate) use idempotency::{IdempotencyKey, KeyedRequest};
pub(crate) use inbox::{InboxItem, InboxItemKind, NewInboxItem};
pub(crate) use post::{CommittedPost, Post, PostOutcome};
pub use post::{NewPost, Page, PostMentions, WakeUrgency};
pub(crate) use post_outline::{OUTLINE_CHARS, PostOutline};
pub(crate) use program_conversation::{ConversationOrigin, ProgramConversation};
pub(crate) use recovery::{LostSession, RestoreOutcome, restore};
pub use request::{Along, NewRequest, RequestRow, RequestState, Scope};
pub(crate) use request::{RequestStep, RequestTransition};
pub use session::NewSession;
pub(crate) use session::{Session, SessionState, StoredPrompt};
pub use task::TaskFilter;
pub(crate) use task::{
    NewTask, Task, TaskChange, TaskChangeResult, TaskCounts, TaskKind, TaskMessage, TaskState,
    TaskSubmission as TaskAdded,
};
pub(crate) use token::{ClientToken, hash as token_hash};
pub use token::{NewToken, Right};
pub(crate) use turn::{NewTurn, Turn, TurnCompletion};
pub use turn::{TokenCounts, TurnState};
pub use usage::NewUsage;
pub(crate) use usage::{ExceededLimit, UsageAmount, UsageBy, UsageFilter, UsageLimit, UsageScope, UsageSum};

use health::StorageHealth;
use sync::Syncer;
use writer::{PendingChange, Writer, WriterJob};

/// Copies the home's database to `to` and checks the copy. The database may be in use.
///
/// # Errors
///
/// Returns [`StoreError::Backup`] if the copy can't be made or is damaged. The incomplete copy is deleted.
pub(crate) fn snapshot(home: &Home, to: &Path) -> Result<(), StoreError> {
    // A file from an earlier attempt may be there, and the copy needs an empty one.
    drop(fs_err::remove_file(to));
    backup::copy(&home.database(), to).map_err(|source| StoreError::Backup { path: to.to_owned(), source })
}

/// Returns the schema version of the home's database; `None` if there is no database.
///
/// # Errors
///
/// Returns [`StoreError::Newer`] if a newer flock created the database, and another error if it can't be read.
pub(crate) fn schema_version(home: &Home) -> Result<Option<u32>, StoreError> {
    let path = home.database();
    if !is_there(&path)? {
        return Ok(None);
    }
    let connection = connect(&path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    schema::check(&connection, &path).map(Some)
}

/// Returns `true` if a newer flock created the home's database.
#[must_use]
pub(crate) fn is_newer(home: &Home) -> bool {
    matches!(schema_version(home), Err(StoreError::Newer { .. }))
}

/// The number of idle connections for reading that are kept for reuse.
const MAX_IDLE_READERS: usize = 4;

/// A home's database, open for reading and writing.
pub struct Store {
    // These fields are dropped in this order. The last connection to close moves the write-ahead log into the database
    // file, and a read-only connection can't do that, so readers close first. The syncer comes after the writer,
    // because the writer's last commit must still be synced.
    reader: Reader,
    writer: Writer,
    syncer: Syncer,
    /// The identity of the opened file, to notice if another file replaces it.
    file: probe::FileId,
    /// The number of changes of grants made through this store.
    grants: AtomicU64,
    raw: Arc<damage_recheck::RawFile>,
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
        let head = audit_chain::open(&mut connection, &home.audit_head())?;
        let syncer = Syncer::start(wal_of(&path), home.audit_head()).map_err(StoreError::Thread)?;
        let reader = Reader::new(home);
        let writer = Writer::start(connection, syncer.handle(), head, reader.condition.clone());
        let writer = writer.map_err(StoreError::Thread)?;
        let file = probe::FileId::of(&path).map_err(|source| StoreError::Create { path, source })?;
        Ok(Self { reader, writer, syncer, file, grants: AtomicU64::new(0), raw: Arc::default() })
    }

    /// Returns the thread that syncs written files, so that they survive a power cut.
    #[must_use]
    pub(crate) const fn syncer(&self) -> &Syncer {
        &self.syncer
    }

    /// Syncs everything that was committed and moves the write-ahead log into the database file, as far as no reader of
    /// another process uses the log.
    pub async fn settle(&self) -> Result<(), StoreError> {
        let what = "fold the log into the database";
        let (answer, answered) = tokio::sync::oneshot::channel();
        self.writer.submit(WriterJob::Alone(Box::new(move |connection| {
            // The row says whether a reader kept a part of the log in use. That is no failure: the part stays in the log,
            // which is synced below, and the next checkpoint moves it.
            let folded = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |_| Ok(()));
            drop(answer.send(folded));
        })))?;
        let folded = answered.await.map_err(|_| StoreError::Stopped)?;
        folded.map_err(|source| StoreError::query(what, source))?;
        // What was reported to the syncer, and the end of the audit chain, still have to reach the disk.
        let syncer = self.syncer.handle();
        tokio::task::spawn_blocking(move || syncer.sync_now()).await.map_err(|_| StoreError::Stopped)
    }

    /// Syncs everything that was committed so far, with the end of the audit chain.
    ///
    /// This is for changes that must survive a power cut before anybody acts on them, such as an approval.
    pub async fn sync(&self) -> Result<(), StoreError> {
        let (tell, passed) = tokio::sync::oneshot::channel();
        // This job queues behind the earlier changes: only after them the syncing thread knows of all commits.
        self.writer.submit(WriterJob::Alone(Box::new(move |_| {
            // The caller may no longer be waiting.
            let _ = tell.send(());
        })))?;
        passed.await.map_err(|_| StoreError::Stopped)?;
        let syncer = self.syncer.handle();
        tokio::task::spawn_blocking(move || syncer.sync_now()).await.map_err(|_| StoreError::Stopped)
    }

    /// Runs `work` as one change on the writing thread, and returns its value after the commit.
    ///
    /// The change runs to its end even if the caller stops waiting.
    async fn write<T, F>(&self, what: &'static str, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Transaction<'_>) -> rusqlite::Result<T> + Send + 'static,
    {
        let (tell, answered) = tokio::sync::oneshot::channel();
        // The value waits in a slot until the commit: the caller must not see it if the transaction fails.
        let value = Arc::new(Mutex::new(None));
        let slot = Arc::clone(&value);
        let fill = move |done| *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(done);
        self.writer.submit(WriterJob::Change(PendingChange {
            since: Instant::now(),
            work: Box::new(move |transaction| work(transaction).map(fill)),
            answer: Box::new(move |committed| {
                let value = value.lock().unwrap_or_else(PoisonError::into_inner).take();
                // The caller may no longer be waiting.
                drop(tell.send(committed.and_then(|()| value.ok_or(rusqlite::Error::InvalidQuery))));
            }),
        }))?;
        match answered.await {
            Ok(result) => result.map_err(|source| StoreError::query(what, source)),
            Err(_) => Err(StoreError::Stopped),
        }
    }

    /// Queues a change without waiting for its outcome, for callers that can't wait. A failure is logged.
    fn write_behind<F>(&self, what: &'static str, work: F)
    where
        F: FnOnce(&Transaction<'_>) -> rusqlite::Result<()> + Send + 'static,
    {
        let submitted = self.writer.submit(WriterJob::Change(PendingChange {
            since: Instant::now(),
            work: Box::new(work),
            answer: Box::new(move |committed| {
                if let Err(error) = committed {
                    tracing::error!(%error, "failed to {what}");
                }
            }),
        }));
        if let Err(error) = submitted {
            tracing::error!(%error, "failed to {what}");
        }
    }
}

impl Deref for Store {
    type Target = Reader;

    fn deref(&self) -> &Reader {
        &self.reader
    }
}

/// A home's database, open for reading. A gateway may be writing it at the same time.
pub struct Reader {
    path: PathBuf,
    head: PathBuf,
    /// Idle connections.
    connections: Mutex<Vec<Connection>>,
    condition: StorageHealth,
    spellings: session::PendingKeys,
}

impl Reader {
    fn new(home: &Home) -> Self {
        Self {
            path: home.database(),
            head: home.audit_head(),
            connections: Mutex::default(),
            condition: StorageHealth::default(),
            spellings: session::PendingKeys::default(),
        }
    }

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
        Ok(Some(Self { connections: Mutex::new(vec![connection]), ..Self::new(home) }))
    }

    /// Runs `work` on a connection for reading. It sees everything that was committed before.
    fn read<T>(
        &self,
        what: &'static str,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let kept = self.connections.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let connection = match kept {
            Some(connection) => connection,
            None => connect(&self.path, OpenFlags::SQLITE_OPEN_READ_ONLY)
                .inspect_err(|error| self.condition.record_open_failure(error))?,
        };
        let result = work(&connection);
        match &result {
            // Drop the connection: after a fault of the disk, a new one may be able to read where this one can't.
            Err(error) if health::is_fault(error) => self.condition.record_read_failure(error),
            _ => {
                let mut idle = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
                if idle.len() < MAX_IDLE_READERS {
                    idle.push(connection);
                }
            }
        }
        result.map_err(|source| StoreError::query(what, source))
    }
}

fn connect(path: &Path, access: OpenFlags) -> Result<Connection, StoreError> {
    require_files(path)?;
    let open = || {
        let flags = access | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(path, flags)?;
        lock_wait::install(&mut connection)?;
        let writes = access.contains(OpenFlags::SQLITE_OPEN_READ_WRITE);
        connection.execute_batch(if writes {
            // With NORMAL a commit makes no fsync. [`sync`] syncs the log in groups. A checkpoint syncs by itself, so a
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
fn require_files(path: &Path) -> Result<(), StoreError> {
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
fn create_private(path: &Path) -> Result<(), StoreError> {
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
fn is_there(path: &Path) -> Result<bool, HomeError> {
    path.try_exists().map_err(|source| HomeError::Io { verb: "look at", path: path.to_owned(), source })
}

fn wal_of(path: &Path) -> PathBuf {
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
fn files_of(path: &Path) -> impl Iterator<Item = PathBuf> {
    std::iter::once(path.to_owned()).chain(BESIDE.map(|suffix| beside(path, suffix)))
}

#[cfg(test)]
mod archive_tests;
#[cfg(test)]
mod chain_tests;
#[cfg(test)]
mod channel_tests;
#[cfg(test)]
mod tests;
