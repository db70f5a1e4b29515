//! The database: all SQL and its migrations.
//!
//! One thread writes, changes that wait together in one transaction; reads go through a few connections beside it.
//! A change is committed when its future resolves: it survives `kill -9`. That it reaches the disk is
//! [`sync`]'s work, a few milliseconds later.

mod agent;
mod archive;
mod audit;
mod backup;
mod busy;
mod card;
pub mod census;
mod chain;
mod channel;
mod condition;
pub mod damage;
mod delivery;
mod doubt;
mod error;
mod exchange;
mod freeze;
mod idempotency;
mod inbox;
mod post;
mod probe;
mod program;
mod recent;
mod rename;
mod request;
mod salvage;
mod schema;
mod session;
mod state;
pub mod sync;
mod task;
mod token;
mod turn;
mod usage;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use rusqlite::{Connection, OpenFlags, Transaction};

use crate::home::{Home, HomeError};

pub use archive::ArchiveStep;
pub use audit::{
    AuditEntry, AuditFilter, AuditRow, Level, MAX_ROWS as MAX_AUDIT_ROWS, digest as text_digest,
};
pub use backup::{Backup, BackupKind, due_at as backup_due_at, list as backups};
pub use card::{CardUpdate, StoredCard};
pub use chain::{Broken, Verified};
pub use channel::{Archiving, Changed, Channel, ChannelState, Member, MemberChange, NewChannel};
pub use condition::{Access, Faults, Trouble};
pub use delivery::{Batch, BatchLimits, Given, InFlight, MOST_COUNTED, Unseen};
pub use error::StoreError;
pub use exchange::NewExchange;
pub use freeze::{Freeze, Frozen};
pub use idempotency::{IdempotencyKey, KeyedRequest};
pub use inbox::{Item, ItemKind, NewItem};
pub use post::{Mentioned, NewPost, Page, Post, PostOutcome, Posted, Wake};
pub use program::{Begun, ProgramConversation};
pub use recent::{OUTLINE, RecentPost};
pub use request::{Along, Moved, NewRequest, RequestRow, RequestState, Scope, Step, digest, next};
pub use salvage::{LostSession, Restored, Taken, restore};
pub use session::{NewSession, Session, SessionState, StoredPrompt};
pub use state::AgentState;
pub use task::{
    Added as TaskAdded, NewTask, Task, TaskChange, TaskChanged, TaskCounts, TaskFilter, TaskKind,
    TaskMessage, TaskState,
};
pub use token::{ClientToken, NewToken, Right, hash as token_hash};
pub use turn::{Begin, Ended, Tokens, Turn, TurnState};
pub use usage::{Counted, Exceeded, NewUsage, UsageBy, UsageFilter, UsageLimit, UsageSum, Used};

use condition::Condition;
use sync::Syncer;
use writer::{Change, Job, Writer};

/// Copies the home's database, which may be in use, and checks the copy.
///
/// # Errors
///
/// [`StoreError::Backup`]; a copy that is not whole does not stay.
pub fn snapshot(home: &Home, to: &Path) -> Result<(), StoreError> {
    drop(fs_err::remove_file(to));
    backup::copy(&home.database(), to).map_err(|source| StoreError::Backup { path: to.to_owned(), source })
}

/// The version of the home's database; `None` where there is none.
///
/// # Errors
///
/// Where it can't be read, or a newer flock made it.
pub fn schema_version(home: &Home) -> Result<Option<u32>, StoreError> {
    let path = home.database();
    if !is_there(&path)? {
        return Ok(None);
    }
    let connection = connect(&path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    schema::check(&connection, &path).map(Some)
}

/// Whether the home's database is of a newer flock.
#[must_use]
pub fn is_newer(home: &Home) -> bool {
    matches!(schema_version(home), Err(StoreError::Newer { .. }))
}

/// Connections for reading that are kept for later.
const READERS: usize = 4;

/// The database of one home, open for reading and writing.
pub struct Store {
    path: PathBuf,
    head: PathBuf,
    // Dropped in this order: the connection that closes last folds the WAL into the file, which a reading
    // one can't; and what the writer commits last must still be synced.
    readers: Mutex<Vec<Connection>>,
    writer: Writer,
    syncer: Syncer,
    condition: Condition,
    /// The file that was opened: another one may be put in its place.
    file: probe::FileId,
    /// How often something was granted or taken back here.
    grants: AtomicU64,
    spellings: session::Spellings,
    raw: Arc<doubt::Raw>,
}

impl Store {
    /// Opens the home's database, makes it if it is not there, and brings it up to this version; what it
    /// was before is saved to the home's backups.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says; [`StoreError::Newer`] where a newer flock made it, and [`StoreError::Gone`] where there was one
    /// and is none.
    pub fn open(home: &Home) -> Result<Self, StoreError> {
        let path = home.database();
        if !is_there(&path)? && is_there(&home.audit_head())? {
            // An empty one in its place would hide that it is gone.
            return Err(StoreError::Gone { path });
        }
        create_private(&path)?;
        let mut connection = connect(&path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        schema::migrate(&mut connection, &path, &home.backups())?;
        let head = chain::open(&mut connection, &home.audit_head())?;
        let syncer = Syncer::start(wal_of(&path), home.audit_head()).map_err(StoreError::Thread)?;
        let condition = Condition::default();
        let writer = Writer::start(connection, syncer.handle(), head, condition.clone());
        let writer = writer.map_err(StoreError::Thread)?;
        let file =
            probe::FileId::of(&path).map_err(|source| StoreError::Create { path: path.clone(), source })?;
        let (readers, grants) = (Mutex::default(), AtomicU64::new(0));
        let spellings = session::Spellings::default();
        Ok(Self {
            path,
            head: home.audit_head(),
            readers,
            writer,
            syncer,
            condition,
            file,
            grants,
            spellings,
            raw: Arc::default(),
        })
    }

    /// Takes note of files that were written and makes them safe from a power cut.
    #[must_use]
    pub const fn syncer(&self) -> &Syncer {
        &self.syncer
    }

    /// Brings all that was committed to the disk and folds the WAL into the database.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub async fn settle(&self) -> Result<(), StoreError> {
        let what = "fold the log into the database";
        let (answer, answered) = tokio::sync::oneshot::channel();
        self.writer.submit(Job::Alone(Box::new(move |connection| {
            let folded = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |_| Ok(()));
            drop(answer.send(folded));
        })))?;
        let folded = answered.await.map_err(|_| StoreError::Stopped)?;
        folded.map_err(|source| StoreError::query(what, source))?;
        let syncer = self.syncer.handle();
        tokio::task::spawn_blocking(move || syncer.sync_now()).await.map_err(|_| StoreError::Stopped)
    }

    /// Brings what was committed until now to the disk, and the end of the audit's chain with it: for what
    /// must survive a power cut before anybody acts on it, as an approval.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub async fn sync(&self) -> Result<(), StoreError> {
        let (tell, passed) = tokio::sync::oneshot::channel();
        // Behind the changes before it: only then the syncing thread has been told of them.
        self.writer.submit(Job::Alone(Box::new(move |_| {
            // The caller may have stopped waiting.
            let _ = tell.send(());
        })))?;
        passed.await.map_err(|_| StoreError::Stopped)?;
        let syncer = self.syncer.handle();
        tokio::task::spawn_blocking(move || syncer.sync_now()).await.map_err(|_| StoreError::Stopped)
    }

    /// Runs `work` as one change on the writing thread; what it returns is committed. It is run to its end
    /// even if the caller stops waiting.
    async fn write<T, F>(&self, what: &'static str, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Transaction<'_>) -> rusqlite::Result<T> + Send + 'static,
    {
        let (tell, answered) = tokio::sync::oneshot::channel();
        let value = Arc::new(Mutex::new(None));
        let slot = Arc::clone(&value);
        let fill = move |done| *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(done);
        self.writer.submit(Job::Change(Change {
            since: Instant::now(),
            work: Box::new(move |transaction| work(transaction).map(fill)),
            answer: Box::new(move |committed| {
                let value = value.lock().unwrap_or_else(PoisonError::into_inner).take();
                // The caller may have stopped waiting.
                drop(tell.send(committed.and_then(|()| value.ok_or(rusqlite::Error::InvalidQuery))));
            }),
        }))?;
        match answered.await {
            Ok(result) => result.map_err(|source| StoreError::query(what, source)),
            Err(_) => Err(StoreError::Stopped),
        }
    }

    /// Like [`Self::write`], without waiting for the answer: for what must be tried when nobody can wait.
    fn write_behind<F>(&self, what: &'static str, work: F)
    where
        F: FnOnce(&Transaction<'_>) -> rusqlite::Result<()> + Send + 'static,
    {
        let submitted = self.writer.submit(Job::Change(Change {
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

    /// Reads with a connection of its own: the caller sees all that was committed before.
    fn read<T>(
        &self,
        what: &'static str,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let kept = self.readers.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let connection = match kept {
            Some(connection) => connection,
            None => connect(&self.path, OpenFlags::SQLITE_OPEN_READ_ONLY)
                .inspect_err(|error| self.condition.open_failed(error))?,
        };
        let result = work(&connection);
        match &result {
            // After a fault of the disk a new connection may read what this one can't.
            Err(error) if condition::is_fault(error) => self.condition.read_failed(error),
            _ => {
                let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
                if readers.len() < READERS {
                    readers.push(connection);
                }
            }
        }
        result.map_err(|source| StoreError::query(what, source))
    }
}

/// The database of one home, open for reading beside a gateway that writes it.
pub struct Reader {
    connection: Connection,
    head: PathBuf,
}

impl Reader {
    /// Opens the home's database; `None` if there is none yet.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub fn open(home: &Home) -> Result<Option<Self>, StoreError> {
        let path = home.database();
        if !is_there(&path)? {
            return Ok(None);
        }
        let connection = connect(&path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        if schema::check(&connection, &path)? == 0 {
            return Ok(None);
        }
        Ok(Some(Self { connection, head: home.audit_head() }))
    }

    fn read<T>(
        &self,
        what: &'static str,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        work(&self.connection).map_err(|source| StoreError::query(what, source))
    }
}

fn connect(path: &Path, access: OpenFlags) -> Result<Connection, StoreError> {
    require_files(path)?;
    let open = || {
        let flags = access | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(path, flags)?;
        busy::install(&mut connection)?;
        let writes = access.contains(OpenFlags::SQLITE_OPEN_READ_WRITE);
        connection.execute_batch(if writes {
            // NORMAL: a commit costs no fsync. The WAL is synced in groups by `sync`; a checkpoint syncs
            // by itself, so a power cut never breaks the file.
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = ON;
             PRAGMA wal_autocheckpoint = 2000; PRAGMA cache_size = -1024; PRAGMA journal_size_limit = 8388608;"
        } else {
            "PRAGMA cache_size = -256;"
        })?;
        // The writer has more statements than the default, and what falls out is compiled anew.
        connection.set_prepared_statement_cache_capacity(if writes { 96 } else { 32 });
        Ok(connection)
    };
    open().map_err(|source| StoreError::open(path, source))
}

/// What SQLite opens beside a database.
const BESIDE: [&str; 3] = ["-wal", "-shm", "-journal"];

/// Refuses a FIFO, a folder or the like where a database and the files beside it belong: SQLite would wait for a FIFO's
/// other end, which never comes.
fn require_files(path: &Path) -> Result<(), StoreError> {
    for path in std::iter::once(path.to_owned()).chain(BESIDE.map(|suffix| beside(path, suffix))) {
        // Of what can't be looked at SQLite says why it can't open it.
        if std::fs::metadata(&path).is_ok_and(|found| !found.is_file()) {
            return Err(StoreError::NoFile { path });
        }
    }
    Ok(())
}

/// Makes an empty file only the owner can read, before SQLite would make one that others can. The files
/// beside it get the same mode from SQLite.
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

/// Whether a file is there. One that can't be looked at is not taken for one that is gone.
fn is_there(path: &Path) -> Result<bool, HomeError> {
    path.try_exists().map_err(|source| HomeError::Io { verb: "look at", path: path.to_owned(), source })
}

fn wal_of(path: &Path) -> PathBuf {
    beside(path, "-wal")
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

#[cfg(test)]
mod archive_tests;
#[cfg(test)]
mod chain_tests;
#[cfg(test)]
mod channel_tests;
#[cfg(test)]
mod tests;
