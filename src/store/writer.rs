//! The one thread that writes. One writer never meets a lock of its own process, and a change never waits
//! for anything but the changes before it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::thread::JoinHandle;

use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::StoreError;
use super::sync::Handle;

/// One change; says whether something was committed.
pub(super) type Job = Box<dyn FnOnce(&mut Connection) -> bool + Send>;

/// The writing thread. Dropping it lets it finish what was submitted.
pub(super) struct Writer {
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Gives the connection to a thread of its own.
    pub(super) fn start(mut connection: Connection, syncer: Handle) -> std::io::Result<Self> {
        let (sender, jobs) = mpsc::channel::<Job>();
        let thread = std::thread::Builder::new().name("store-writer".to_owned()).spawn(move || {
            for job in jobs {
                // A defect in one change must not take the database from all the others; the transaction
                // rolls back when it is dropped.
                match catch_unwind(AssertUnwindSafe(|| job(&mut connection))) {
                    Ok(true) => syncer.wal_written(),
                    Ok(false) => {}
                    Err(_) => tracing::error!("a change of the database panicked and was rolled back"),
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

/// Runs `work` as one transaction, which takes the write lock at its beginning: one that began by reading
/// could fail where it first writes.
pub(super) fn transaction<T>(
    connection: &mut Connection,
    work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let value = work(&transaction)?;
    transaction.commit()?;
    Ok(value)
}
