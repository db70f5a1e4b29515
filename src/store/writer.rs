//! The one thread that writes. One writer never meets a lock of its own process, and a change never waits
//! for anything but the changes before it.
//!
//! Changes that wait together are committed together: a commit costs far more than what most of them do.
//! Each has a savepoint of its own, so that one that fails takes none of the others with it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::thread::JoinHandle;

use rusqlite::{Connection, Transaction, TransactionBehavior, ffi};

use super::StoreError;
use super::chain::{self, Head};
use super::sync::Handle;

/// Does a change, within a transaction.
pub(super) type Work = Box<dyn FnOnce(&Transaction<'_>) -> rusqlite::Result<()> + Send>;
/// Tells who waits for a change whether it was committed.
pub(super) type Answer = Box<dyn FnOnce(rusqlite::Result<()>) + Send>;

/// A change of the database.
pub(super) struct Change {
    /// Does it, within a transaction.
    pub(super) work: Work,
    /// Tells who waits for it whether it was committed.
    pub(super) answer: Answer,
}

/// What the thread is given.
pub(super) enum Job {
    /// A change.
    Change(Change),
    /// Something that must not be within a transaction.
    Alone(Box<dyn FnOnce(&mut Connection) + Send>),
}

/// The most changes that are committed together.
const MOST: usize = 256;

/// The writing thread. Dropping it lets it finish what was submitted.
pub(super) struct Writer {
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Gives the connection to a thread of its own.
    pub(super) fn start(mut connection: Connection, syncer: Handle, head: Head) -> std::io::Result<Self> {
        let (sender, jobs) = mpsc::channel::<Job>();
        let thread = std::thread::Builder::new().name("store-writer".to_owned()).spawn(move || {
            let mut known = head;
            while let Ok(first) = jobs.recv() {
                let mut changes = Vec::new();
                let mut next = Some(first);
                while let Some(Job::Change(change)) = next {
                    changes.push(change);
                    next = if changes.len() < MOST { jobs.try_recv().ok() } else { None };
                }
                if !changes.is_empty() && together(&mut connection, changes) {
                    let head = chain::head(&connection).ok().filter(|head| *head != known);
                    known = head.clone().unwrap_or(known);
                    syncer.wal_written(head);
                }
                if let Some(Job::Alone(work)) = next
                    && catch_unwind(AssertUnwindSafe(|| work(&mut connection))).is_err()
                {
                    tracing::error!("work on the database panicked");
                }
            }
        })?;
        Ok(Self { jobs: Some(sender), thread: Some(thread) })
    }

    /// Hands a change to the thread.
    pub(super) fn submit(&self, job: Job) -> Result<(), StoreError> {
        let jobs = self.jobs.as_ref().ok_or(StoreError::Stopped)?;
        jobs.send(job).map_err(|_| StoreError::Stopped)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

/// Commits these changes in one transaction; says whether anything was committed.
fn together(connection: &mut Connection, changes: Vec<Change>) -> bool {
    let mut waiting = Vec::with_capacity(changes.len());
    let mut changes = changes.into_iter();
    let result = attempt(connection, &mut changes, &mut waiting);
    let is_committed = result.is_ok() && !waiting.is_empty();
    waiting.extend(changes.map(|change| change.answer));
    for answer in waiting {
        answer(result.as_ref().copied().map_err(copy));
    }
    is_committed
}

/// Tries them in turn. Who is to be told of the end of all is put into `waiting`.
fn attempt(
    connection: &mut Connection,
    changes: &mut impl Iterator<Item = Change>,
    waiting: &mut Vec<Answer>,
) -> rusqlite::Result<()> {
    // The write lock is taken at the beginning: a transaction that began by reading could fail where it
    // first writes.
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for change in changes {
        execute(&transaction, "SAVEPOINT change")?;
        let Change { work, answer } = change;
        // A defect in one change must not take the database from all the others.
        match catch_unwind(AssertUnwindSafe(|| work(&transaction))) {
            Ok(Ok(())) => waiting.push(answer),
            // Some failures, a full disk among them, end the whole transaction.
            Ok(Err(error)) if transaction.is_autocommit() => {
                waiting.push(answer);
                return Err(error);
            }
            Ok(Err(error)) => {
                execute(&transaction, "ROLLBACK TO change")?;
                answer(Err(error));
            }
            Err(_) => {
                tracing::error!("a change of the database panicked and was rolled back");
                execute(&transaction, "ROLLBACK TO change")?;
            }
        }
        execute(&transaction, "RELEASE change")?;
    }
    transaction.commit()
}

fn execute(transaction: &Transaction<'_>, sql: &str) -> rusqlite::Result<()> {
    transaction.prepare_cached(sql)?.execute(()).map(drop)
}

/// The same error once more: each of those that waited together is told.
fn copy(error: &rusqlite::Error) -> rusqlite::Error {
    match error {
        rusqlite::Error::SqliteFailure(code, message) => {
            rusqlite::Error::SqliteFailure(*code, message.clone())
        }
        other => rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_ERROR), Some(other.to_string())),
    }
}
