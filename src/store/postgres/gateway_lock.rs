//! The lock that makes a gateway the only one of its database, or one of its group.
//!
//! Those of a group share it, so that neither a gateway without a group nor a move of the database comes beside them.
//! It belongs to the connection that makes the gateway's changes, and ends with it: on the server, within a moment after
//! the process has died. A gateway whose connection broke makes no change before it has the lock again, so one that was
//! cut off for a while can't write beside one that has taken over.

use std::thread;
use std::time::{Duration, Instant};

use super::PostgresError;
use super::session::Session;
use crate::store::StoreError;
use crate::store::sql::{self, Result};

/// The time in which the connection of a gateway that has just ended is gone from the server.
const LIMIT: Duration = Duration::from_secs(5);
/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(50);

/// The gateways that a database has at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sharing {
    /// One.
    Alone,
    /// Several, because a person has made a group of them.
    Group,
}

impl Sharing {
    /// Returns the function of the server that takes the lock.
    const fn function(self) -> &'static str {
        match self {
            Self::Alone => "pg_try_advisory_lock",
            Self::Group => "pg_try_advisory_lock_shared",
        }
    }
}

/// A connection that holds the lock, as the server knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GatewayLock {
    process: String,
    /// The time at which the server began the process. Numbers of processes are used again.
    began: String,
}

impl GatewayLock {
    /// Takes the lock for a connection. `before` is the broken connection in whose place it is: the server may not have
    /// noticed yet that it broke, and then ends it if the lock is not to be had beside it.
    ///
    /// # Errors
    ///
    /// Returns [`PostgresError::Taken`] if another connection holds the lock, and other errors if the server fails.
    pub(super) fn take(session: &Session, sharing: Sharing, before: Option<&Self>) -> Result<Self> {
        let function = sharing.function();
        let key = session.server.settings.gateway_key();
        // A machine that is cut off holds the lock until the server finds its connection dead.
        session.batch(
            "SET tcp_keepalives_idle = 3; SET tcp_keepalives_interval = 2; SET tcp_keepalives_count = 2;
             SET tcp_user_timeout = 7000",
        )?;
        let deadline = Instant::now() + LIMIT;
        loop {
            let taken = session.texts(&format!(
                "SELECT {function}({key}), pid, backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()"
            ))?;
            if let [Some(is_taken), Some(process), Some(began)] = taken.as_slice()
                && is_taken == "t"
            {
                return Ok(Self { process: process.clone(), began: began.clone() });
            }
            if let Some(Self { process, began }) = before {
                session.batch(&format!(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                     WHERE pid = {process} AND backend_start = '{began}'"
                ))?;
            }
            if Instant::now() >= deadline {
                return Err(PostgresError::Taken(holder(session, key)?).into());
            }
            thread::sleep(PAUSE);
        }
    }

    /// Gives the lock of a connection back.
    ///
    /// # Errors
    ///
    /// Returns an error if the server fails.
    pub(super) fn release(session: &Session) -> Result<()> {
        // The lock of all changes belongs to a transaction, and is not among them.
        session.batch("SELECT pg_advisory_unlock_all()")
    }
}

/// Returns the error for a lock that was not to be had.
pub(super) fn refused(place: String, source: sql::Error) -> StoreError {
    match source {
        sql::Error::Postgres(PostgresError::Taken(by)) => StoreError::InUse { place, by },
        source => StoreError::query("become the gateway of the database", source),
    }
}

/// Returns where the gateway that holds the lock is, and since when, as far as the server says so.
fn holder(session: &Session, key: i64) -> Result<String> {
    let found = session.texts(&format!(
        "SELECT coalesce('at ' || host(client_addr), 'on the server''s own machine'), date_trunc('second', backend_start)
         FROM pg_locks JOIN pg_stat_activity USING (pid)
         WHERE locktype = 'advisory' AND granted AND objsubid = 1
             AND (CAST(CAST(classid AS BIGINT) << 32 AS BIGINT) | CAST(objid AS BIGINT)) = {key}
             AND pg_locks.database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    ))?;
    Ok(match found.as_slice() {
        [Some(place), Some(since)] => format!("{place}, connected since {since}"),
        _ => "which the server does not name".to_owned(),
    })
}
