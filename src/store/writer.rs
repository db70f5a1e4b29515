//! The writing thread.
//!
//! Only one thread of a process writes, so it never meets a lock of its own process, and a change waits only for the
//! changes before it.
//!
//! Changes that wait together are committed together, because a commit costs far more than most changes. Each change
//! can be undone alone, so that one that fails does not undo the others. Several changes, and messages of a gateway that
//! was held up, take along those that come until they have the lock.
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
    ///
    /// With more than one, it returns once it has the lock, and the transaction takes further changes.
    fn begin(&mut self, deadline: Instant, changes: usize) -> sql::Result<Self::Batch<'_>>;

    /// Begins a transaction for messages that are posted as one change, whatever their number. If [`Self::is_held_up`], it
    /// returns once it has the lock.
    fn begin_posts(&mut self, deadline: Instant) -> sql::Result<Self::Batch<'_>> {
        self.begin(deadline, 1)
    }

    /// Returns `true` if another process's changes have just held up those of this one, and may do so again.
    fn is_held_up(&self) -> bool {
        false
    }

    /// Returns the connection, to read from it outside of a transaction.
    fn connection(&self) -> Option<sql::Connection<'_>>;
}

/// The jobs that wait for the thread, in their order.
struct Jobs<D> {
    queue: mpsc::Receiver<WriterJob<D>>,
    /// The first of them, if it was looked at already.
    next: Option<WriterJob<D>>,
    /// The number of changes that the last transaction had, with those that came until it had the lock.
    last_count: usize,
}

impl<D> Jobs<D> {
    const fn new(queue: mpsc::Receiver<WriterJob<D>>) -> Self {
        Self { queue, next: None, last_count: 0 }
    }

    /// Takes the next job, or waits for it. Returns `None` at the end of the queue.
    fn wait(&mut self) -> Option<WriterJob<D>> {
        self.next.take().or_else(|| self.queue.recv().ok())
    }

    /// Takes the next job if it is there already, and is a change for which `fits` returns `true`.
    fn take_change_if(&mut self, fits: impl Fn(&PendingChange) -> bool) -> Option<PendingChange> {
        match self.next.take().or_else(|| self.queue.try_recv().ok()) {
            Some(WriterJob::Change(change)) if fits(&change) => Some(change),
            other => {
                self.next = other;
                None
            }
        }
    }

    /// Adds the changes that are there already to those of a transaction.
    fn add_changes(&mut self, changes: &mut VecDeque<PendingChange>) {
        while changes.len() < MAX_BATCH
            && let Some(change) = self.take_change_if(|_| true)
        {
            changes.push_back(change);
        }
    }

    /// Adds the messages that are there already, up to the first other job, to those that are posted as one change.
    fn add_posts(&mut self, posts: &mut VecDeque<PendingChange>) {
        let mut bytes: usize = posts.iter().filter_map(batch::size).sum();
        while posts.len() < MAX_BATCH
            && bytes < batch::MAX_TOGETHER
            && let Some(post) = self.take_change_if(|next| batch::size(next).is_some())
        {
            bytes += batch::size(&post).unwrap_or_default();
            posts.push_back(post);
        }
    }
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
        let (sender, queue) = mpsc::channel::<WriterJob<D>>();
        let thread = std::thread::Builder::new().name("store-writer".to_owned()).spawn(move || {
            let (mut jobs, mut known) = (Jobs::new(queue), head);
            while let Some(job) = jobs.wait() {
                match job {
                    WriterJob::Change(change) => {
                        // Take everything that waits already, but never wait for more: a single change is committed at
                        // once.
                        let mut changes = VecDeque::from([change]);
                        jobs.add_changes(&mut changes);
                        if commit_batch(&mut driver, changes, &mut jobs, &condition) {
                            let head = driver.connection().and_then(|found| audit_chain::head(&found).ok());
                            let head = head.filter(|head| *head != known);
                            known = head.clone().unwrap_or(known);
                            // The syncer is told after the commit, so it never syncs a state without it.
                            syncer.committed(head);
                        }
                    }
                    WriterJob::Alone(work) => {
                        if catch_unwind(AssertUnwindSafe(|| work(&mut driver))).is_err() {
                            tracing::error!("work on the database panicked");
                        }
                    }
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

/// Commits changes in one transaction, with those of `jobs` that come while these wait for the lock. Returns `true` if
/// anything was committed.
fn commit_batch<D: WritingDriver>(
    driver: &mut D,
    mut changes: VecDeque<PendingChange>,
    jobs: &mut Jobs<D>,
    condition: &StorageHealth,
) -> bool {
    // A message that is alone takes others along if they may come while it waits for the lock. If none came last time, that
    // would cost it a way to the server while it has the lock, and most likely for nothing.
    let takes_others = changes.len() > 1 || (jobs.last_count > 1 && driver.is_held_up());
    if takes_others && batch::are_posts(&changes) {
        match post_as_one(driver, &mut changes, jobs) {
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
        let result = begun.and_then(|batch| {
            // A transaction for one change takes no other.
            if changes.len() > 1 {
                jobs.add_changes(&mut changes);
            }
            jobs.last_count = changes.len();
            batch::make(batch, &mut changes, &mut waiting, condition)
        });
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

/// Posts messages as one change, with those that come until it has the lock. Returns `false` if they were not posted, and have to
/// be tried as other changes are.
fn post_as_one<D: WritingDriver>(
    driver: &mut D,
    posts: &mut VecDeque<PendingChange>,
    jobs: &mut Jobs<D>,
) -> sql::Result<bool> {
    let Some(oldest) = posts.front() else { return Ok(false) };
    match driver.begin_posts(oldest.since + LOCK_LIMIT) {
        Ok(batch) => {
            jobs.add_posts(posts);
            jobs.last_count = posts.len();
            batch::post_as_one(batch, posts)
        }
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
    use crate::home::Home;
    use crate::store::NewPost;
    use crate::store::change::{PendingPost, Slot, Work};
    use crate::store::sqlite::{self, lock_wait};

    type RefusedNumbers = Arc<Mutex<Vec<u32>>>;

    /// A database in which the changes of another process are always in the way.
    struct HeldUp(Connection);

    impl WritingDriver for HeldUp {
        type Batch<'d> = <Connection as WritingDriver>::Batch<'d>;

        fn begin(&mut self, deadline: Instant, changes: usize) -> sql::Result<Self::Batch<'_>> {
            self.0.begin(deadline, changes)
        }

        fn is_held_up(&self) -> bool {
            true
        }

        fn connection(&self) -> Option<sql::Connection<'_>> {
            self.0.connection()
        }
    }

    /// Returns a connection to a database that has the channel of the messages.
    fn database() -> (tempfile::TempDir, Connection) {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().to_owned(), None);
        let path = home.data().join("flock.db");
        drop(sqlite::open(&home, path.clone()).unwrap());
        let own = Connection::open(path).unwrap();
        let channel = "INSERT INTO channel (id, name, topic, created_by, created_at)
                       VALUES ('ops', 'ops', 'x', 'human:ann', 1)";
        own.execute(channel, ()).unwrap();
        (folder, own)
    }

    /// Returns a queue with these jobs, to which no other comes.
    fn jobs<D>(waiting: impl IntoIterator<Item = WriterJob<D>>) -> Jobs<D> {
        let (sender, queue) = mpsc::channel();
        waiting.into_iter().for_each(|job| sender.send(job).unwrap());
        Jobs::new(queue)
    }

    /// Returns a message, which has to be posted.
    fn post(text: &str) -> PendingChange {
        let new = NewPost::of_system(&"ops".parse().unwrap(), text.to_owned(), 1);
        let work = Work::Post(Box::new(PendingPost { new, outcome: Slot::default() }));
        PendingChange { since: Instant::now(), work, answer: Box::new(|result| assert!(result.is_ok())) }
    }

    /// Returns a change that does nothing, and has to be committed.
    fn other() -> PendingChange {
        let work = Work::Any(Box::new(|_| Ok(())));
        PendingChange { since: Instant::now(), work, answer: Box::new(|result| assert!(result.is_ok())) }
    }

    fn lengths(changes: &VecDeque<PendingChange>) -> Vec<Option<usize>> {
        changes.iter().map(batch::size).collect()
    }

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
        assert!(!commit_batch(&mut own, changes, &mut jobs([]), &condition));
        assert_eq!(refused.lock().unwrap().len(), 300);
        assert!(condition.trouble().is_some());
        other.execute_batch("ROLLBACK").unwrap();
        let changes = (0..3).map(|number| change(number, long_ago, &refused)).collect();
        let committed = commit_batch(&mut own, changes, &mut jobs([]), &condition);
        assert!(committed, "the lock was free at the only attempt");
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
        let waiter = std::thread::spawn(move || {
            commit_batch(&mut own, changes, &mut jobs([]), &StorageHealth::default())
        });
        assert!(told.recv().unwrap(), "the old one is refused at once");
        other.execute_batch("ROLLBACK").unwrap();
        assert!(waiter.join().unwrap());
        assert!(refused.lock().unwrap().is_empty());
    }

    #[test]
    fn messages_are_added_up_to_the_first_other_job_or_the_limit() {
        let large = "x".repeat(batch::MAX_TOGETHER);
        let change = WriterJob::Change;
        let waiting = [
            change(post("22")),
            change(post("333")),
            change(other()),
            change(post(&large)),
            change(post("4444")),
            WriterJob::Alone(Box::new(|_| {})),
            change(post("55555")),
        ];
        let mut left: Jobs<Connection> = jobs(waiting);
        let mut posts = VecDeque::from([post("1")]);
        for _ in 0..2 {
            left.add_posts(&mut posts);
            assert_eq!(lengths(&posts), [Some(1), Some(2), Some(3)], "the other change comes first");
        }
        let mut others: VecDeque<_> = left.take_change_if(|_| true).into_iter().collect();
        assert_eq!(lengths(&others), [None]);
        let mut posts = VecDeque::from([post("1")]);
        left.add_posts(&mut posts);
        assert_eq!(lengths(&posts), [Some(1), Some(large.len())], "there is no room for more");
        left.add_changes(&mut others);
        assert_eq!(lengths(&others), [None, Some(4)]);
        assert!(matches!(left.wait(), Some(WriterJob::Alone(_))));
        assert!(matches!(left.wait(), Some(WriterJob::Change(_))));
        assert!(left.wait().is_none());
    }

    #[test]
    fn what_comes_until_a_transaction_has_the_lock_is_committed_with_it() {
        let (_folder, mut own) = database();
        let condition = StorageHealth::default();
        let change = WriterJob::Change;
        let mut left = jobs([change(post("3")), change(other()), change(post("4"))]);
        let posts = VecDeque::from([post("1"), post("2")]);
        assert!(commit_batch(&mut own, posts, &mut left, &condition));
        let said: String = own
            .query_row(
                "SELECT group_concat(content) FROM (SELECT content FROM message ORDER BY seq)",
                (),
                |row| row.get(0),
            )
            .unwrap();
        assert_eq!(said, "1,2,3");
        // A transaction for one change has no savepoint before it, so it takes no other.
        let Some(WriterJob::Change(alone)) = left.wait() else { panic!("the other change is left") };
        assert!(commit_batch(&mut own, VecDeque::from([alone]), &mut left, &condition));
        assert!(commit_batch(&mut own, VecDeque::from([other(), other()]), &mut left, &condition));
        assert!(left.wait().is_none(), "the last message went with them");
        let count: i64 = own.query_row("SELECT count(*) FROM message", (), |row| row.get(0)).unwrap();
        assert_eq!(count, 4);
        assert!(condition.trouble().is_none());
    }

    #[test]
    fn a_message_that_is_alone_takes_others_along_only_after_several_changes() {
        let (_folder, own) = database();
        let (sender, queue) = mpsc::channel();
        let (mut own, mut left) = (HeldUp(own), Jobs::new(queue));
        let condition = StorageHealth::default();
        let mut take_another_along = |changes: Vec<PendingChange>| {
            sender.send(WriterJob::Change(post("another"))).unwrap();
            assert!(commit_batch(&mut own, changes.into(), &mut left, &condition));
            left.take_change_if(|_| true).is_none()
        };
        assert!(!take_another_along(vec![post("1")]), "nothing was before it");
        assert!(!take_another_along(vec![post("2")]), "that before it was alone");
        assert!(take_another_along(vec![post("3"), post("4")]));
        assert!(take_another_along(vec![post("5")]), "three were before it");
        assert!(take_another_along(vec![post("6")]), "the one that came counts");
        assert!(!take_another_along(vec![other()]), "a transaction for one change takes no other");
        assert!(!take_another_along(vec![post("7")]), "that before it was alone");
    }
}
