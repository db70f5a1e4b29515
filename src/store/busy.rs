//! Waiting for another process that has locked the database. It is measured by the clock: SQLite's own timeout adds up
//! the pauses that it asked for, which become far longer on a busy machine.

use std::cell::Cell;
use std::time::{Duration, Instant};

use rusqlite::Connection;

/// How long a change or a read waits for the lock, from when it was asked for.
pub(super) const LIMIT: Duration = Duration::from_secs(5);
/// The first pause between two attempts; each is twice as long as the one before it.
const PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

thread_local! {
    /// When statements of this thread stop to wait, where that was set.
    static DEADLINE: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Has the statements of a connection wait for the lock until [`LIMIT`] has passed, or until the deadline of
/// [`within`].
pub(super) fn install(connection: &mut Connection) -> rusqlite::Result<()> {
    let mut began = Instant::now();
    connection.busy_handler(Some(move |attempts: i32| {
        let now = Instant::now();
        if attempts == 0 {
            began = now;
        }
        let deadline = DEADLINE.get().unwrap_or(began + LIMIT);
        let left = deadline.saturating_duration_since(now);
        std::thread::sleep(pause(attempts).min(left));
        !left.is_zero()
    }))
}

/// Does some work whose statements wait for the lock until this moment.
pub(super) fn within<T>(deadline: Instant, work: impl FnOnce() -> T) -> T {
    let before = DEADLINE.replace(Some(deadline));
    let done = work();
    DEADLINE.set(before);
    done
}

fn pause(attempts: i32) -> Duration {
    let doubled = PAUSE.saturating_mul(1 << attempts.clamp(0, 10));
    doubled.min(LONGEST_PAUSE)
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
    fn what_has_waited_long_enough_tries_once_and_waits_no_more() {
        let (_folder, waits, holds) = two();
        let write = || within(Instant::now(), || waits.execute_batch("BEGIN IMMEDIATE; COMMIT"));
        let refused = write().unwrap_err();
        assert_eq!(refused.sqlite_error_code(), Some(rusqlite::ErrorCode::DatabaseBusy));
        holds.execute_batch("COMMIT").unwrap();
        write().unwrap();
    }

    #[test]
    fn what_waits_goes_on_when_the_lock_is_given_back() {
        let (_folder, waits, holds) = two();
        let waiter = std::thread::spawn(move || waits.execute_batch("BEGIN IMMEDIATE; COMMIT"));
        holds.execute_batch("COMMIT").unwrap();
        waiter.join().unwrap().unwrap();
    }

    #[test]
    fn pauses_grow_and_stay_short() {
        assert_eq!(pause(0), PAUSE);
        assert!(pause(3) > pause(2));
        assert_eq!(pause(i32::MAX), LONGEST_PAUSE);
    }
}
