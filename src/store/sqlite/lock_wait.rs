//! Waiting for another process that holds the database lock.
//!
//! The wait is measured by the clock. SQLite's own timeout adds up the pauses that it asked for, and on a busy machine
//! each pause takes far longer than asked.

use std::cell::Cell;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use crate::store::writer::LOCK_LIMIT;

/// The first pause between two attempts. Each further pause doubles, up to [`MAX_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const MAX_PAUSE: Duration = Duration::from_millis(50);

thread_local! {
    /// The moment at which statements of this thread stop waiting; [`LOCK_LIMIT`] applies if it is not set.
    static DEADLINE: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Makes the statements of a connection wait for the lock until [`LOCK_LIMIT`] has passed, or until the deadline set by
/// [`within`].
pub(in crate::store) fn install(connection: &mut Connection) -> rusqlite::Result<()> {
    let mut began = Instant::now();
    connection.busy_handler(Some(move |attempts: i32| {
        let now = Instant::now();
        // SQLite starts again at attempt 0 for each new wait.
        if attempts == 0 {
            began = now;
        }
        let deadline = DEADLINE.get().unwrap_or(began + LOCK_LIMIT);
        let left = deadline.saturating_duration_since(now);
        std::thread::sleep(pause(attempts).min(left));
        // Returning `false` makes the statement fail with "database is locked".
        !left.is_zero()
    }))
}

/// Runs `work` with a common deadline for all its waits for the lock.
pub(super) fn within<T>(deadline: Instant, work: impl FnOnce() -> T) -> T {
    let before = DEADLINE.replace(Some(deadline));
    let done = work();
    DEADLINE.set(before);
    done
}

fn pause(attempts: i32) -> Duration {
    // Clamped, so that the shift can't overflow.
    let doubled = FIRST_PAUSE.saturating_mul(1 << attempts.clamp(0, 10));
    doubled.min(MAX_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two() -> (tempfile::TempDir, Connection, Connection) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("db");
        let mut waits = Connection::open(&path).unwrap();
        install(&mut waits).unwrap();
        let holds = Connection::open(&path).unwrap();
        holds.execute_batch("BEGIN EXCLUSIVE").unwrap();
        (folder, waits, holds)
    }

    #[test]
    fn an_expired_deadline_allows_one_attempt_without_a_wait() {
        let (_folder, waits, holds) = two();
        let write = || within(Instant::now(), || waits.execute_batch("BEGIN IMMEDIATE; COMMIT"));
        let refused = write().unwrap_err();
        assert_eq!(refused.sqlite_error_code(), Some(rusqlite::ErrorCode::DatabaseBusy));
        holds.execute_batch("COMMIT").unwrap();
        write().unwrap();
    }

    #[test]
    fn a_waiting_statement_continues_when_the_lock_is_released() {
        let (_folder, waits, holds) = two();
        let waiter = std::thread::spawn(move || waits.execute_batch("BEGIN IMMEDIATE; COMMIT"));
        holds.execute_batch("COMMIT").unwrap();
        waiter.join().unwrap().unwrap();
    }

    #[test]
    fn pauses_grow_and_stay_short() {
        assert_eq!(pause(0), FIRST_PAUSE);
        assert!(pause(3) > pause(2));
        assert_eq!(pause(i32::MAX), MAX_PAUSE);
    }
}
