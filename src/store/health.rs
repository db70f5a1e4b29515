//! The condition of the database: its ability to be read and written, and the number of its faults.
//!
//! A fault is an error of the storage below the database, such as a full or read-only disk. An error of the statement itself
//! is not one.

use std::sync::Arc;

use tokio::sync::watch;

use super::StoreError;
use super::sql::{self, Cause};
use crate::clock::unix_ms;
use crate::error::{KERNEL_LOG_HINT, chain};

/// An operation that the database can't do at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatabaseAccess {
    Write,
    Read,
    /// Opening fails because something in its place is not a regular file.
    Open,
    /// The server can't be reached, so nothing can be done.
    Reach,
}

/// A lasting problem that keeps the database from being used normally.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageProblem {
    /// Unix milliseconds of the first failure.
    pub since: i64,
    pub access: DatabaseAccess,
    /// The text of the first error of this kind.
    pub reason: String,
    /// Set if the file itself seems damaged, which does not pass without a repair.
    pub is_damage: bool,
    /// Set if nothing can be done; unset if only part of the file can't be read.
    pub blocks: bool,
}

impl StorageProblem {
    /// Returns a sentence for people, as in `the database can't be written: database or disk is full`.
    #[must_use]
    pub fn sentence(&self) -> String {
        let reason = &self.reason;
        match self.access {
            DatabaseAccess::Write => format!("the database can't be written: {reason}"),
            DatabaseAccess::Read if self.is_damage => {
                // Until someone has checked, a failing disk is as likely as damage, so the sentence claims neither.
                format!("the database can't be read: what was read of it is not whole ({reason})")
            }
            DatabaseAccess::Read => format!("the database can't be read: {reason}; {KERNEL_LOG_HINT}"),
            DatabaseAccess::Open => format!("the database can't be used: {reason}"),
            DatabaseAccess::Reach => format!("the database can't be reached: {reason}"),
        }
    }
}

#[derive(Clone, Debug, Default)]
struct State {
    trouble: Option<StorageProblem>,
    faults: u64,
    /// Set for good once another gateway has taken over from this one.
    is_fenced: bool,
}

/// The known condition of a database, shared by all its users in this process.
#[derive(Clone, Debug, Default)]
pub(super) struct StorageHealth(Arc<watch::Sender<State>>);

/// A subscription to faults.
#[derive(Clone, Debug)]
pub struct FaultSubscription {
    state: watch::Receiver<State>,
    seen: u64,
}

impl FaultSubscription {
    /// Waits for a fault that this subscription has not reported yet.
    pub async fn next(&mut self) {
        let seen = self.seen;
        let has_ended = match self.state.wait_for(|state| state.faults > seen).await {
            Ok(state) => {
                self.seen = state.faults;
                false
            }
            Err(_) => true,
        };
        if has_ended {
            // The sender lives as long as the store. Without it no fault can come, so this waits forever.
            std::future::pending::<()>().await;
        }
    }
}

impl StorageHealth {
    pub(super) fn faults(&self) -> FaultSubscription {
        let state = self.0.subscribe();
        let seen = state.borrow().faults;
        FaultSubscription { state, seen }
    }

    /// Returns the current trouble, or `None` if nothing is known to be wrong.
    pub(super) fn trouble(&self) -> Option<StorageProblem> {
        self.0.borrow().trouble.clone()
    }

    /// Waits until another gateway has taken over from this one.
    pub(super) async fn until_fenced(&self) {
        let mut state = self.0.subscribe();
        if state.wait_for(|state| state.is_fenced).await.is_err() {
            // The store is gone, so nothing can take it over any more.
            std::future::pending::<()>().await;
        }
    }

    /// Waits until no known trouble blocks all use.
    pub(super) async fn until_usable(&self) {
        let mut state = self.0.subscribe();
        // An error means that the store is gone, so there is nothing to wait for.
        let _ = state.wait_for(|state| state.trouble.as_ref().is_none_or(|trouble| !trouble.blocks)).await;
    }

    /// Records the error of a failed write, if it is a fault.
    pub(super) fn write_failed(&self, error: &sql::Error) {
        if error.cause().is_fault() {
            self.failed(DatabaseAccess::Write, error);
        }
    }

    /// Records the error of a failed read, if it is a fault. Waiting too long for a lock does not count here.
    pub(super) fn record_read_failure(&self, error: &sql::Error) {
        let cause = error.cause();
        if cause.is_fault() && cause != Cause::Locked {
            self.failed(DatabaseAccess::Read, error);
        }
    }

    /// Records the error of a failed attempt to open a connection for reading.
    pub(super) fn record_open_failure(&self, error: &StoreError) {
        match error {
            StoreError::Open { source, .. } | StoreError::Connect { source, .. } => {
                self.record_read_failure(source);
            }
            StoreError::Unreadable { source, .. } => {
                self.mark_unusable(DatabaseAccess::Read, chain(source.as_ref()), false);
            }
            StoreError::NoFile { .. } => self.mark_unusable(DatabaseAccess::Open, chain(error), false),
            _ => {}
        }
    }

    fn failed(&self, access: DatabaseAccess, error: &sql::Error) {
        let cause = error.cause();
        if cause == Cause::Fenced {
            self.0.send_modify(|state| state.is_fenced = true);
        }
        // A write reads pages first, so a failed write can be a failed read.
        let access = match cause {
            Cause::Unreachable | Cause::Unknown => DatabaseAccess::Reach,
            _ if cause.is_read_failure() => DatabaseAccess::Read,
            _ => access,
        };
        self.mark_unusable(access, chain(error), cause.is_damage());
    }

    /// Records that the database can't be used at all, and why.
    pub(super) fn mark_unusable(&self, access: DatabaseAccess, reason: String, is_damage: bool) {
        self.0.send_modify(|state| {
            state.faults += 1;
            let now = StorageProblem { since: unix_ms(), access, reason, is_damage, blocks: true };
            // Keep the first reason: later errors of the same kind often only follow from it.
            match &mut state.trouble {
                Some(known) if known.access == access => {
                    known.is_damage |= is_damage;
                    known.blocks = true;
                }
                // A different kind of failure is the current state, so it replaces the older reason.
                Some(known) => {
                    *known =
                        StorageProblem { since: known.since, is_damage: known.is_damage | is_damage, ..now };
                }
                none => *none = Some(now),
            }
        });
    }

    /// Records that the disk fails to read part of the file while the rest can be used.
    pub(super) fn mark_partly_unreadable(&self, reason: String) {
        self.0.send_modify(|state| {
            // A trouble that has become smaller still began when it was first noticed.
            let since = state.trouble.as_ref().map_or_else(unix_ms, |trouble| trouble.since);
            let (access, is_damage, blocks) = (DatabaseAccess::Read, false, false);
            state.trouble = Some(StorageProblem { since, access, reason, is_damage, blocks });
        });
    }

    /// Records that an apparent damage may be a fault of the disk, which can pass.
    pub(super) fn clear_damage(&self, reason: String) {
        self.0.send_modify(|state| {
            // Tasks that retry writes wait for a fault. Until now a retry was useless, so this has to wake them.
            state.faults += 1;
            if let Some(trouble) = &mut state.trouble {
                trouble.is_damage = false;
                trouble.reason = reason;
            }
        });
    }

    /// Records that the database was used successfully just now.
    pub(super) fn well(&self) {
        self.0.send_if_modified(|state| {
            // A gateway from which another has taken over makes no change any more, whatever else works. And a successful
            // write does not repair a damaged file.
            let is_fenced = state.is_fenced;
            state.trouble.take_if(|trouble| !is_fenced && !trouble.is_damage).is_some()
        });
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::ffi;

    use super::*;

    fn failure(code: i32) -> sql::Error {
        rusqlite::Error::SqliteFailure(ffi::Error::new(code), None).into()
    }

    #[tokio::test]
    async fn a_problem_keeps_its_first_reason_until_a_write_succeeds() {
        let condition = StorageHealth::default();
        let mut faults = condition.faults();
        condition.write_failed(&failure(ffi::SQLITE_CONSTRAINT));
        assert_eq!(condition.trouble(), None);
        condition.write_failed(&failure(ffi::SQLITE_FULL));
        condition.write_failed(&failure(ffi::SQLITE_READONLY));
        let trouble = condition.trouble().unwrap();
        assert!(trouble.reason.contains("full"), "{trouble:?}");
        faults.next().await;
        let waits = condition.clone();
        let waiter = tokio::spawn(async move { waits.until_usable().await });
        condition.well();
        waiter.await.unwrap();
        assert_eq!(condition.trouble(), None);
    }

    #[tokio::test]
    async fn a_failed_read_is_a_problem_and_wakes_subscribers() {
        let condition = StorageHealth::default();
        let mut faults = condition.faults();
        let waiter = tokio::spawn(async move { faults.next().await });
        tokio::task::yield_now().await;
        condition.record_read_failure(&failure(ffi::SQLITE_BUSY));
        assert_eq!(condition.trouble(), None, "it is there, and somebody else has it");
        condition.record_read_failure(&failure(ffi::SQLITE_IOERR_READ));
        waiter.await.unwrap();
        let trouble = condition.trouble().unwrap();
        assert_eq!((trouble.access, trouble.is_damage), (DatabaseAccess::Read, false));
        let sentence = trouble.sentence();
        assert!(
            sentence.starts_with("the database can't be read: ") && sentence.contains("dmesg"),
            "{sentence}"
        );
        condition.well();
        assert_eq!(condition.trouble(), None);
        condition.record_read_failure(&failure(ffi::SQLITE_CORRUPT));
        assert!(condition.trouble().unwrap().is_damage);
    }

    #[tokio::test]
    async fn a_gateway_that_was_replaced_stays_so() {
        let condition = StorageHealth::default();
        let waits = condition.clone();
        let waiter = tokio::spawn(async move { waits.until_fenced().await });
        condition.write_failed(&failure(ffi::SQLITE_FULL));
        condition.well();
        assert_eq!(condition.trouble(), None);
        condition.write_failed(&sql::Error::Fenced);
        waiter.await.unwrap();
        condition.well();
        let sentence = condition.trouble().unwrap().sentence();
        assert!(sentence.contains("another gateway has taken over"), "{sentence}");
    }

    #[test]
    fn a_server_that_is_away_is_no_failing_disk() {
        use crate::store::postgres::PostgresError;
        let condition = StorageHealth::default();
        let away = PostgresError::Connection("connection refused".to_owned());
        condition.record_read_failure(&away.into());
        let sentence = condition.trouble().unwrap().sentence();
        assert!(sentence.contains("reached") && !sentence.contains("dmesg"), "{sentence}");
        assert!(condition.trouble().unwrap().blocks);
    }

    #[tokio::test]
    async fn the_latest_failure_is_reported_and_an_unreadable_part_does_not_block() {
        let condition = StorageHealth::default();
        // A change that failed to read its rows says nothing about the ability to write.
        condition.write_failed(&failure(ffi::SQLITE_IOERR_READ));
        let since = condition.trouble().unwrap().since;
        assert_eq!(condition.trouble().unwrap().access, DatabaseAccess::Read);
        condition.write_failed(&failure(ffi::SQLITE_FULL));
        let trouble = condition.trouble().unwrap();
        assert_eq!((trouble.access, trouble.since, trouble.blocks), (DatabaseAccess::Write, since, true));
        let is_here = StoreError::NoFile { path: "/x-wal".into() };
        condition.record_open_failure(&is_here);
        let sentence = condition.trouble().unwrap().sentence();
        assert_eq!(
            sentence, "the database can't be used: /x-wal can't be opened: it is no regular file",
            "no disk fails"
        );
        condition.mark_partly_unreadable("a page can't be read".to_owned());
        condition.until_usable().await;
        assert!(condition.trouble().is_some_and(|trouble| !trouble.blocks));
        condition.record_read_failure(&failure(ffi::SQLITE_IOERR_READ));
        assert!(condition.trouble().unwrap().blocks);
    }
}
