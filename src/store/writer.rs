//! The writing thread.
//!
//! Only one thread of a process writes, so it never meets a lock of its own process, and a change waits only for the
//! changes before it.
//!
//! Changes that wait together are committed together, because a commit costs far more than most changes. Each change
//! can be undone alone, so that one that fails does not undo the others.
//!
//! If another process holds the lock, the wait of each change is counted from its submission. Changes that queue behind
//! a waiting one therefore do not start a new wait when it is refused.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::StoreError;
use super::audit_chain::{self, ChainHead};
use super::batch::{self, Batch};
use super::change::PendingChange;
use super::health::StorageHealth;
use super::sql::{self, Cause};
use super::sync::SyncHandle;

/// The time a read or a write waits for another process's lock, counted from its first attempt.
pub(super) const LOCK_LIMIT: Duration = Duration::from_secs(5);

/// The most changes that are committed together.
const MAX_BATCH: usize = 256;

/// A job for the writing thread.
pub(super) enum WriterJob<D> {
    Change(PendingChange),
    /// Work that must not run within a transaction.
    Alone(Box<dyn FnOnce(&mut D) + Send>),
}

/// The part of a database's driver that the writing thread uses.
pub(super) trait WritingDriver: Send + 'static {
    /// A transaction for changes that are committed together.
    type Batch<'d>: Batch
    where
        Self: 'd;

    /// Begins a transaction for this number of changes. Waits until `deadline` for the lock.
    fn begin(&mut self, deadline: Instant, changes: usize) -> sql::Result<Self::Batch<'_>>;

    /// Returns the connection, to read from it outside of a transaction.
    fn connection(&self) -> Option<sql::Connection<'_>>;
}

/// The writing thread. Dropping it waits until all submitted jobs are done.
pub(super) struct Writer<D> {
    jobs: Option<mpsc::Sender<WriterJob<D>>>,
    thread: Option<JoinHandle<()>>,
}

impl<D: WritingDriver> Writer<D> {
    /// Starts the thread, which owns the driver.
    pub(super) fn start(
        mut driver: D,
        syncer: SyncHandle,
        head: ChainHead,
        condition: StorageHealth,
    ) -> std::io::Result<Self> {
        let (sender, jobs) = mpsc::channel::<WriterJob<D>>();
        let thread = std::thread::Builder::new().name("store-writer".to_owned()).spawn(move || {
            let mut known = head;
            while let Ok(first) = jobs.recv() {
                let mut changes = VecDeque::new();
                let mut next = Some(first);
                while let Some(WriterJob::Change(change)) = next {
                    changes.push_back(change);
                    // Take everything that waits already, but never wait for more: a single change is committed at
                    // once.
                    next = if changes.len() < MAX_BATCH { jobs.try_recv().ok() } else { None };
                }
                if !changes.is_empty() && commit_batch(&mut driver, changes, &condition) {
                    let head = driver.connection().and_then(|connection| audit_chain::head(&connection).ok());
                    let head = head.filter(|head| *head != known);
                    known = head.clone().unwrap_or(known);
                    // The syncer is told after the commit, so it never syncs a state without it.
                    syncer.committed(head);
                }
                if let Some(WriterJob::Alone(work)) = next
                    && catch_unwind(AssertUnwindSafe(|| work(&mut driver))).is_err()
                {
                    tracing::error!("work on the database panicked");
                }
            }
        })?;
        Ok(Self { jobs: Some(sender), thread: Some(thread) })
    }
}

impl<D> Writer<D> {
    /// Queues a job for the thread.
    pub(super) fn submit(&self, job: WriterJob<D>) -> Result<(), StoreError> {
        let jobs = self.jobs.as_ref().ok_or(StoreError::Stopped)?;
        jobs.send(job).map_err(|_| StoreError::Stopped)
    }
}

impl<D> Drop for Writer<D> {
    fn drop(&mut self) {
        // Closing the queue ends the thread's loop once the queue is empty.
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

/// Commits changes in one transaction. Returns `true` if anything was committed.
fn commit_batch<D: WritingDriver>(
    driver: &mut D,
    mut changes: VecDeque<PendingChange>,
    condition: &StorageHealth,
) -> bool {
    if batch::are_posts(&changes) {
        match post_as_one(driver, &changes) {
            Ok(true) => {
                changes.into_iter().for_each(|change| (change.answer)(Ok(())));
                return true;
            }
            Ok(false) => {}
            Err(error) => {
                condition.write_failed(&error);
                changes.into_iter().for_each(|change| (change.answer)(Err(error.copy())));
                return false;
            }
        }
    }
    while let Some(oldest) = changes.front() {
        let mut waiting = Vec::with_capacity(changes.len());
        // The oldest change sets the deadline, because its wait began first.
        let begun = driver.begin(oldest.since + LOCK_LIMIT, changes.len());
        let result = begun.and_then(|batch| batch::make(batch, &mut changes, &mut waiting, condition));
        if let Err(error) = &result {
            condition.write_failed(error);
            // With an empty `waiting` the lock was never obtained, so no change has run and the younger ones can still
            // be tried.
            if error.cause() == Cause::Locked && waiting.is_empty() {
                refuse_overdue(&mut changes, error, Instant::now());
                continue;
            }
        }
        let is_committed = result.is_ok() && !waiting.is_empty();
        waiting.extend(changes.into_iter().map(|change| change.answer));
        for answer in waiting {
            answer(result.as_ref().copied().map_err(sql::Error::copy));
        }
        return is_committed;
    }
    false
}

/// Posts messages as one change. Returns `false` if they were not posted, and have to be tried as other changes are.
fn post_as_one<D: WritingDriver>(driver: &mut D, posts: &VecDeque<PendingChange>) -> sql::Result<bool> {
    let Some(oldest) = posts.front() else { return Ok(false) };
    match driver.begin(oldest.since + LOCK_LIMIT, 1) {
        Ok(batch) => batch::post_as_one(batch, posts),
        // Those that still have time wait for the lock once more.
        Err(error) if error.cause() == Cause::Locked => Ok(false),
        Err(error) => Err(error),
    }
}

/// Refuses the changes whose wait for the lock is over: the oldest in any case, and all that are overdue at `now`.
fn refuse_overdue(changes: &mut VecDeque<PendingChange>, error: &sql::Error, now: Instant) {
    let mut next = changes.pop_front();
    while let Some(change) = next {
        (change.answer)(Err(error.copy()));
        next = changes.pop_front_if(|change| change.since + LOCK_LIMIT <= now);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use rusqlite::Connection;

    use super::*;
    use crate::store::change::Work;
    use crate::store::sqlite::lock_wait;

    type RefusedNumbers = Arc<Mutex<Vec<u32>>>;

    fn change(number: u32, since: Instant, refused: &RefusedNumbers) -> PendingChange {
        let refused = Arc::clone(refused);
        PendingChange {
            since,
            work: Work::Any(Box::new(|_| Ok(()))),
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
        lock_wait::install(&mut own).unwrap();
        let other = Connection::open(folder.path().join("db")).unwrap();
        (folder, own, other)
    }

    #[test]
    fn only_overdue_changes_are_refused() {
        let refused = RefusedNumbers::default();
        let now = Instant::now();
        let ago = |millis| now.checked_sub(Duration::from_millis(millis)).unwrap();
        let limit = u64::try_from(LOCK_LIMIT.as_millis()).unwrap();
        let ages = [limit + 900, limit + 1, limit, limit - 1, 0];
        let mut changes: VecDeque<PendingChange> =
            (0..).zip(ages).map(|(number, age)| change(number, ago(age), &refused)).collect();
        let error = sql::Error::Malformed;
        refuse_overdue(&mut changes, &error, now);
        assert_eq!(*refused.lock().unwrap(), [0, 1, 2]);
        assert_eq!(changes.len(), 2);
        // The oldest change is always refused, or it would be retried forever.
        refuse_overdue(&mut changes, &error, now);
        assert_eq!((refused.lock().unwrap().last().copied(), changes.len()), (Some(3), 1));
    }

    #[test]
    fn overdue_changes_behind_a_refused_one_are_refused_too() {
        let (_folder, mut own, other) = folder();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        let refused = RefusedNumbers::default();
        let long_ago = Instant::now().checked_sub(LOCK_LIMIT * 2).unwrap();
        let changes = (0..300).map(|number| change(number, long_ago, &refused)).collect();
        let condition = StorageHealth::default();
        assert!(!commit_batch(&mut own, changes, &condition));
        assert_eq!(refused.lock().unwrap().len(), 300);
        assert!(condition.trouble().is_some());
        other.execute_batch("ROLLBACK").unwrap();
        let changes = (0..3).map(|number| change(number, long_ago, &refused)).collect();
        assert!(commit_batch(&mut own, changes, &condition), "the lock was free at the only attempt");
    }

    #[test]
    fn a_newer_change_keeps_waiting() {
        let (_folder, mut own, other) = folder();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        let refused = RefusedNumbers::default();
        let long_ago = Instant::now().checked_sub(LOCK_LIMIT * 2).unwrap();
        let (tell, told) = mpsc::channel();
        let mut first = change(0, long_ago, &refused);
        first.answer = Box::new(move |result| tell.send(result.is_err()).unwrap());
        let changes = VecDeque::from([first, change(1, Instant::now(), &refused)]);
        let waiter = std::thread::spawn(move || commit_batch(&mut own, changes, &StorageHealth::default()));
        assert!(told.recv().unwrap(), "the old one is refused at once");
        other.execute_batch("ROLLBACK").unwrap();
        assert!(waiter.join().unwrap());
        assert!(refused.lock().unwrap().is_empty());
    }
}
