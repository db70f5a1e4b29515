//! The condition of the database: whether it can be written and read, and how often it failed. A fault is an error of the
//! storage below it, as a full or read-only disk, and not of what was asked.

use std::sync::Arc;

use rusqlite::{ErrorCode, ffi};
use tokio::sync::watch;

use super::StoreError;
use crate::clock::unix_ms;
use crate::error::{KERNEL_LOG, chain};

/// What can't be done with the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It can't be written.
    Write,
    /// It can't be read.
    Read,
    /// It can't be opened: something in its place is no file.
    Open,
}

/// Why the database can't be used as it should.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// Since when, in Unix milliseconds.
    pub since: i64,
    /// What can't be done.
    pub access: Access,
    /// The error of that kind that was met first.
    pub reason: String,
    /// Whether the file itself seems to be damaged: that does not pass by itself.
    pub is_damage: bool,
    /// Whether nothing can be done, and not only some part of it can't be read.
    pub blocks: bool,
}

impl Trouble {
    /// The same in words, as in `the database can't be written: database or disk is full`.
    #[must_use]
    pub fn sentence(&self) -> String {
        let reason = &self.reason;
        match self.access {
            Access::Write => format!("the database can't be written: {reason}"),
            Access::Read if self.is_damage => {
                // Until somebody has looked, it may as well be the disk.
                format!("the database can't be read: what was read of it is not whole ({reason})")
            }
            Access::Read => format!("the database can't be read: {reason}; {KERNEL_LOG}"),
            Access::Open => format!("the database can't be used: {reason}"),
        }
    }
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

    /// What is wrong; `None` where nothing is known to be.
    pub(super) fn trouble(&self) -> Option<Trouble> {
        self.0.borrow().trouble.clone()
    }

    /// Returns once nothing is known that keeps all from being done.
    pub(super) async fn until_usable(&self) {
        let mut state = self.0.subscribe();
        // As above.
        let _ = state.wait_for(|state| state.trouble.as_ref().is_none_or(|trouble| !trouble.blocks)).await;
    }

    /// Takes note of what a write failed with.
    pub(super) fn write_failed(&self, error: &rusqlite::Error) {
        if is_fault(error) {
            self.failed(Access::Write, error);
        }
    }

    /// Takes note of what a read failed with.
    pub(super) fn read_failed(&self, error: &rusqlite::Error) {
        if is_fault(error) && !is_busy(error) {
            self.failed(Access::Read, error);
        }
    }

    /// Takes note of what opening a connection to read failed with.
    pub(super) fn open_failed(&self, error: &StoreError) {
        match error {
            StoreError::Open { source, .. } => self.read_failed(source),
            StoreError::Unreadable { source, .. } => {
                self.unwell(Access::Read, chain(source.as_ref()), false);
            }
            StoreError::NoFile { .. } => self.unwell(Access::Open, chain(error), false),
            _ => {}
        }
    }

    fn failed(&self, access: Access, error: &rusqlite::Error) {
        // What is written is read before.
        let access = if is_read(error) { Access::Read } else { access };
        self.unwell(access, chain(error), is_damage(error));
    }

    /// Takes note that nothing can be done, for this reason.
    pub(super) fn unwell(&self, access: Access, reason: String, is_damage: bool) {
        self.0.send_modify(|state| {
            state.faults += 1;
            let now = Trouble { since: unix_ms(), access, reason, is_damage, blocks: true };
            match &mut state.trouble {
                Some(known) if known.access == access => {
                    known.is_damage |= is_damage;
                    known.blocks = true;
                }
                // What fails by now is of more use than what failed first.
                Some(known) => {
                    *known = Trouble { since: known.since, is_damage: known.is_damage | is_damage, ..now };
                }
                none => *none = Some(now),
            }
        });
    }

    /// Takes note that the disk fails to read some part of it, for this reason, while the rest can be used.
    pub(super) fn partly(&self, reason: String) {
        self.0.send_modify(|state| {
            let since = state.trouble.as_ref().map_or_else(unix_ms, |trouble| trouble.since);
            let (access, is_damage, blocks) = (Access::Read, false, false);
            state.trouble = Some(Trouble { since, access, reason, is_damage, blocks });
        });
    }

    /// Takes note that what was taken for damage may be a fault of the disk, which passes.
    pub(super) fn doubt_damage(&self, reason: String) {
        self.0.send_modify(|state| {
            // Whoever tries writes again has to hear of it: until now it was no use.
            state.faults += 1;
            if let Some(trouble) = &mut state.trouble {
                trouble.is_damage = false;
                trouble.reason = reason;
            }
        });
    }

    /// Takes note that it could be used just now.
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

/// The same where it can't be told from a disk that failed to read: SQLite has one word for both.
pub(super) fn is_doubtful(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt)
}

/// Whether an error says that the file was read, and is none of SQLite's.
pub(super) fn is_no_database(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::NotADatabase)
}

/// Whether an error says that the disk failed to read. Other errors of a read have other reasons, as a folder in the place
/// of the file.
pub(super) fn is_unread(error: &rusqlite::Error) -> bool {
    error.sqlite_error().is_some_and(|error| error.extended_code == ffi::SQLITE_IOERR_CORRUPTFS)
}

/// Whether it was a read that failed, whatever for.
fn is_read(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error().map(|error| error.extended_code);
    is_damage(error)
        || matches!(
            code,
            Some(ffi::SQLITE_IOERR_READ | ffi::SQLITE_IOERR_SHORT_READ | ffi::SQLITE_IOERR_CORRUPTFS)
        )
}

fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let waiter = tokio::spawn(async move { waits.until_usable().await });
        condition.well();
        waiter.await.unwrap();
        assert_eq!(condition.trouble(), None);
    }

    #[tokio::test]
    async fn a_read_that_fails_is_trouble_and_wakes_who_waits() {
        let condition = Condition::default();
        let mut faults = condition.faults();
        let waiter = tokio::spawn(async move { faults.next().await });
        tokio::task::yield_now().await;
        condition.read_failed(&failure(ffi::SQLITE_BUSY));
        assert_eq!(condition.trouble(), None, "it is there, and somebody else has it");
        condition.read_failed(&failure(ffi::SQLITE_IOERR_READ));
        waiter.await.unwrap();
        let trouble = condition.trouble().unwrap();
        assert_eq!((trouble.access, trouble.is_damage), (Access::Read, false));
        let sentence = trouble.sentence();
        assert!(
            sentence.starts_with("the database can't be read: ") && sentence.contains("dmesg"),
            "{sentence}"
        );
        condition.well();
        assert_eq!(condition.trouble(), None);
        condition.read_failed(&failure(ffi::SQLITE_CORRUPT));
        assert!(condition.trouble().unwrap().is_damage);
    }

    #[tokio::test]
    async fn what_fails_now_is_said_and_a_part_that_can_not_be_read_blocks_nothing() {
        let condition = Condition::default();
        // A change that failed to read what it changes says nothing of writes.
        condition.write_failed(&failure(ffi::SQLITE_IOERR_READ));
        let since = condition.trouble().unwrap().since;
        assert_eq!(condition.trouble().unwrap().access, Access::Read);
        condition.write_failed(&failure(ffi::SQLITE_FULL));
        let trouble = condition.trouble().unwrap();
        assert_eq!((trouble.access, trouble.since, trouble.blocks), (Access::Write, since, true));
        let is_here = StoreError::NoFile { path: "/x-wal".into() };
        condition.open_failed(&is_here);
        let sentence = condition.trouble().unwrap().sentence();
        assert_eq!(
            sentence, "the database can't be used: /x-wal can't be opened: it is no regular file",
            "no disk fails"
        );
        condition.partly("a page can't be read".to_owned());
        condition.until_usable().await;
        assert!(condition.trouble().is_some_and(|trouble| !trouble.blocks));
        condition.read_failed(&failure(ffi::SQLITE_IOERR_READ));
        assert!(condition.trouble().unwrap().blocks);
    }
}
