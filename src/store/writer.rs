//! The one thread that writes. One writer never meets a lock of its own process, and a change never waits
//! for anything but the changes before it.
//!
//! Changes that wait together are committed together: a commit costs far more than what most of them do.
//! Each has a savepoint of its own, so that one that fails takes none of the others with it.
//!
//! Where another process has locked the database, each change waits for it once, from when it was submitted: those that
//! queue behind a change that waits do not begin to wait when it is refused.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Instant;

use rusqlite::{Connection, ErrorCode, Transaction, TransactionBehavior, ffi};

use super::StoreError;
use super::busy;
use super::chain::{self, Head};
use super::condition::Condition;
use super::sync::Handle;

/// Does a change, within a transaction.
pub(super) type Work = Box<dyn FnOnce(&Transaction<'_>) -> rusqlite::Result<()> + Send>;
/// Tells who waits for a change whether it was committed.
pub(super) type Answer = Box<dyn FnOnce(rusqlite::Result<()>) + Send>;

/// A change of the database.
pub(super) struct Change {
    /// When it was submitted.
    pub(super) since: Instant,
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
    pub(super) fn start(
        mut connection: Connection,
        syncer: Handle,
        head: Head,
        condition: Condition,
    ) -> std::io::Result<Self> {
        let (sender, jobs) = mpsc::channel::<Job>();
        let thread = std::thread::Builder::new().name("store-writer".to_owned()).spawn(move || {
            let mut known = head;
            while let Ok(first) = jobs.recv() {
                let mut changes = VecDeque::new();
                let mut next = Some(first);
                while let Some(Job::Change(change)) = next {
                    changes.push_back(change);
                    next = if changes.len() < MOST { jobs.try_recv().ok() } else { None };
                }
                if !changes.is_empty() && together(&mut connection, changes, &condition) {
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
fn together(connection: &mut Connection, mut changes: VecDeque<Change>, condition: &Condition) -> bool {
    while let Some(oldest) = changes.front() {
        let mut waiting = Vec::with_capacity(changes.len());
        let deadline = oldest.since + busy::LIMIT;
        let result = busy::within(deadline, || attempt(connection, &mut changes, &mut waiting, condition));
        if let Err(error) = &result {
            condition.write_failed(error);
            if is_busy(error) && waiting.is_empty() {
                refuse_overdue(&mut changes, error, Instant::now());
                continue;
            }
        }
        let is_committed = result.is_ok() && !waiting.is_empty();
        waiting.extend(changes.into_iter().map(|change| change.answer));
        for answer in waiting {
            answer(result.as_ref().copied().map_err(copy));
        }
        return is_committed;
    }
    false
}

/// Refuses the changes that have waited for the lock as long as they may: the oldest, and all that are as old.
fn refuse_overdue(changes: &mut VecDeque<Change>, error: &rusqlite::Error, now: Instant) {
    let mut next = changes.pop_front();
    while let Some(change) = next {
        (change.answer)(Err(copy(error)));
        next = changes.pop_front_if(|change| change.since + busy::LIMIT <= now);
    }
}

/// Whether another process has the lock.
fn is_busy(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
}

/// Tries them in turn once the lock is had. Who is to be told of the end of all is put into `waiting`.
fn attempt(
    connection: &mut Connection,
    changes: &mut VecDeque<Change>,
    waiting: &mut Vec<Answer>,
    condition: &Condition,
) -> rusqlite::Result<()> {
    // The write lock is taken at the beginning: a transaction that began by reading could fail where it
    // first writes.
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    while let Some(change) = changes.pop_front() {
        execute(&transaction, "SAVEPOINT change")?;
        let Change { work, answer, .. } = change;
        // A defect in one change must not take the database from all the others.
        match catch_unwind(AssertUnwindSafe(|| work(&transaction))) {
            Ok(Ok(())) => waiting.push(answer),
            // Some failures, a full disk among them, end the whole transaction.
            Ok(Err(error)) if transaction.is_autocommit() => {
                waiting.push(answer);
                return Err(error);
            }
            Ok(Err(error)) => {
                condition.write_failed(&error);
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

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use super::*;

    type Refused = Arc<Mutex<Vec<u32>>>;

    fn change(number: u32, since: Instant, refused: &Refused) -> Change {
        let refused = Arc::clone(refused);
        Change {
            since,
            work: Box::new(|_| Ok(())),
            answer: Box::new(move |result| {
                if result.is_err() {
                    refused.lock().unwrap().push(number);
                }
            }),
        }
    }

    fn folder() -> (tempfile::TempDir, Connection, Connection) {
        let folder = tempfile::tempdir().unwrap();
        let mut own = Connection::open(folder.path().join("db")).unwrap();
        busy::install(&mut own).unwrap();
        let other = Connection::open(folder.path().join("db")).unwrap();
        (folder, own, other)
    }

    #[test]
    fn only_what_has_waited_long_enough_is_refused() {
        let refused = Refused::default();
        let now = Instant::now();
        let ago = |millis| now.checked_sub(Duration::from_millis(millis)).unwrap();
        let limit = u64::try_from(busy::LIMIT.as_millis()).unwrap();
        let ages = [limit + 900, limit + 1, limit, limit - 1, 0];
        let mut changes: VecDeque<Change> =
            (0..).zip(ages).map(|(number, age)| change(number, ago(age), &refused)).collect();
        let error = rusqlite::Error::InvalidQuery;
        refuse_overdue(&mut changes, &error, now);
        assert_eq!(*refused.lock().unwrap(), [0, 1, 2]);
        assert_eq!(changes.len(), 2);
        // The oldest goes in any case, else it would be tried for ever.
        refuse_overdue(&mut changes, &error, now);
        assert_eq!((refused.lock().unwrap().last().copied(), changes.len()), (Some(3), 1));
    }

    #[test]
    fn what_waited_behind_a_refused_change_is_refused_with_it() {
        let (_folder, mut own, other) = folder();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        let refused = Refused::default();
        let long_ago = Instant::now().checked_sub(busy::LIMIT * 2).unwrap();
        let changes = (0..300).map(|number| change(number, long_ago, &refused)).collect();
        let condition = Condition::default();
        assert!(!together(&mut own, changes, &condition));
        assert_eq!(refused.lock().unwrap().len(), 300);
        assert!(condition.trouble().is_some());
        other.execute_batch("ROLLBACK").unwrap();
        let changes = (0..3).map(|number| change(number, long_ago, &refused)).collect();
        assert!(together(&mut own, changes, &condition), "the lock was free at the only attempt");
    }

    #[test]
    fn a_younger_change_goes_on_waiting() {
        let (_folder, mut own, other) = folder();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        let refused = Refused::default();
        let long_ago = Instant::now().checked_sub(busy::LIMIT * 2).unwrap();
        let (tell, told) = mpsc::channel();
        let mut first = change(0, long_ago, &refused);
        first.answer = Box::new(move |result| tell.send(result.is_err()).unwrap());
        let changes = VecDeque::from([first, change(1, Instant::now(), &refused)]);
        let waiter = std::thread::spawn(move || together(&mut own, changes, &Condition::default()));
        assert!(told.recv().unwrap(), "the old one is refused at once");
        other.execute_batch("ROLLBACK").unwrap();
        assert!(waiter.join().unwrap());
        assert!(refused.lock().unwrap().is_empty());
    }
}
