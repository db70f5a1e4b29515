//! The condition of the database: whether it can be written, and how often it failed. A fault is an error of the
//! storage below it, as a full or read-only disk, and not of what was asked.

use std::sync::Arc;

use rusqlite::ErrorCode;
use tokio::sync::watch;

use crate::clock::unix_ms;
use crate::error::chain;

/// Why the database can't be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// Since when, in Unix milliseconds.
    pub since: i64,
    /// The error that was met first.
    pub reason: String,
    /// Whether the file itself is damaged: that does not pass by itself.
    pub is_damage: bool,
}

#[derive(Clone, Debug, Default)]
struct State {
    trouble: Option<Trouble>,
    faults: u64,
}

/// What is known of the condition of a database, shared by all who use it.
#[derive(Clone, Debug, Default)]
pub(super) struct Condition(Arc<watch::Sender<State>>);

/// Tells who waits of each fault.
#[derive(Debug)]
pub struct Faults {
    state: watch::Receiver<State>,
    seen: u64,
}

impl Faults {
    /// Waits for a fault that was not waited for before.
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
            // The sender lives as long as the store; without one there is nothing to come.
            std::future::pending::<()>().await;
        }
    }
}

impl Condition {
    pub(super) fn faults(&self) -> Faults {
        let state = self.0.subscribe();
        let seen = state.borrow().faults;
        Faults { state, seen }
    }

    /// Why nothing can be written; `None` where nothing is known to be wrong.
    pub(super) fn trouble(&self) -> Option<Trouble> {
        self.0.borrow().trouble.clone()
    }

    /// Returns once nothing is known to be wrong.
    pub(super) async fn until_well(&self) {
        let mut state = self.0.subscribe();
        // As above.
        let _ = state.wait_for(|state| state.trouble.is_none()).await;
    }

    /// Takes note of what a write failed with.
    pub(super) fn write_failed(&self, error: &rusqlite::Error) {
        if is_fault(error) {
            self.unwell(chain(error), is_damage(error));
        }
    }

    /// Takes note of what a read failed with. That alone says nothing of writes.
    pub(super) fn read_failed(&self, error: &rusqlite::Error) {
        if is_damage(error) {
            self.unwell(chain(error), true);
        } else if is_fault(error) && !is_busy(error) {
            self.0.send_modify(|state| state.faults += 1);
        }
    }

    /// Takes note that nothing can be written, for this reason.
    pub(super) fn unwell(&self, reason: String, is_damage: bool) {
        self.0.send_modify(|state| {
            state.faults += 1;
            let trouble =
                state.trouble.get_or_insert_with(|| Trouble { since: unix_ms(), reason, is_damage: false });
            trouble.is_damage |= is_damage;
        });
    }

    /// Takes note that what was taken for damage may be a fault of the disk, which passes.
    pub(super) fn doubt_damage(&self) {
        self.0.send_modify(|state| {
            // Whoever tries writes again has to hear of it: until now it was no use.
            state.faults += 1;
            if let Some(trouble) = &mut state.trouble {
                trouble.is_damage = false;
            }
        });
    }

    /// Takes note that something was written just now.
    pub(super) fn well(&self) {
        // That something could be written does not make whole what is damaged.
        self.0.send_if_modified(|state| state.trouble.take_if(|trouble| !trouble.is_damage).is_some());
    }
}

/// Whether an error is one of the storage and may pass, so that the same can be tried again.
pub(super) fn is_fault(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(
            ErrorCode::DiskFull
                | ErrorCode::SystemIoFailure
                | ErrorCode::ReadOnly
                | ErrorCode::CannotOpen
                | ErrorCode::PermissionDenied
                | ErrorCode::DatabaseBusy
                | ErrorCode::DatabaseLocked
                | ErrorCode::FileLockingProtocolFailed
                | ErrorCode::DatabaseCorrupt
                | ErrorCode::NotADatabase
        )
    )
}

/// Whether an error says that the file holds what no database holds.
pub(super) fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}

fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::ffi;

    fn failure(code: i32) -> rusqlite::Error {
        rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)
    }

    #[test]
    fn only_the_storage_is_at_fault() {
        for (code, fault, damage) in [
            (ffi::SQLITE_FULL, true, false),
            (ffi::SQLITE_IOERR_WRITE, true, false),
            (ffi::SQLITE_IOERR_FSYNC, true, false),
            (ffi::SQLITE_READONLY_DBMOVED, true, false),
            (ffi::SQLITE_CANTOPEN, true, false),
            (ffi::SQLITE_BUSY, true, false),
            (ffi::SQLITE_CORRUPT, true, true),
            (ffi::SQLITE_NOTADB, true, true),
            (ffi::SQLITE_CONSTRAINT, false, false),
            (ffi::SQLITE_INTERRUPT, false, false),
        ] {
            assert_eq!((is_fault(&failure(code)), is_damage(&failure(code))), (fault, damage), "{code}");
        }
    }

    #[tokio::test]
    async fn trouble_keeps_its_first_reason_until_something_is_written() {
        let condition = Condition::default();
        let mut faults = condition.faults();
        condition.write_failed(&failure(ffi::SQLITE_CONSTRAINT));
        assert_eq!(condition.trouble(), None);
        condition.write_failed(&failure(ffi::SQLITE_FULL));
        condition.write_failed(&failure(ffi::SQLITE_READONLY));
        let trouble = condition.trouble().unwrap();
        assert!(trouble.reason.contains("full"), "{trouble:?}");
        faults.next().await;
        let waits = condition.clone();
        let waiter = tokio::spawn(async move { waits.until_well().await });
        condition.well();
        waiter.await.unwrap();
        assert_eq!(condition.trouble(), None);
    }

    #[tokio::test]
    async fn a_read_that_fails_says_nothing_of_writes_but_wakes_who_waits() {
        let condition = Condition::default();
        let mut faults = condition.faults();
        let waiter = tokio::spawn(async move { faults.next().await });
        tokio::task::yield_now().await;
        condition.read_failed(&failure(ffi::SQLITE_BUSY));
        condition.read_failed(&failure(ffi::SQLITE_IOERR_READ));
        waiter.await.unwrap();
        assert_eq!(condition.trouble(), None);
        condition.read_failed(&failure(ffi::SQLITE_CORRUPT));
        assert!(condition.trouble().unwrap().is_damage);
    }
}
