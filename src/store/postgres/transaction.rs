//! Transactions: changes, which are serial over all gateways, and reads of one state.

use std::time::Instant;

use super::PostgresError;
use super::begin::{self, TransactionId};
use super::fence::Look;
use super::session::Session;
use super::text::literal;
use crate::store::sql::{Cause, Result};
use crate::store::writer::LOCK_LIMIT;

/// What the server says of a transaction whose commit got no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Committed,
    RolledBack,
    Unknown,
}

/// Returns the time until which a change that begins now waits for the lock.
pub(in crate::store) fn lock_deadline() -> Instant {
    Instant::now() + LOCK_LIMIT
}

/// Sends the begin of a transaction that holds the lock of all changes, and that waits until `deadline` for it. The first
/// statement that waits for an answer waits for this too.
///
/// Changes read what they write next, such as the last number of a channel. With the lock, each of them sees all
/// changes before it, as the one writing thread of an SQLite database does.
///
/// # Errors
///
/// Returns an error if it can't be sent.
pub(super) fn send_begin(session: &Session, deadline: Instant, look: Look) -> Result<()> {
    let wait = deadline.saturating_duration_since(Instant::now());
    or_undone(session, session.begin(begin::statements(session.server.settings.lock_key(), wait, look)))
}

/// Begins a transaction as [`send_begin`] does, and waits until it has begun.
///
/// # Errors
///
/// Returns [`sql::Error::Fenced`](crate::store::sql::Error::Fenced) if the gateway of the fence was ended, and other errors
/// if the server fails or the lock was not to be had.
pub(super) fn begin_locked(session: &Session, deadline: Instant, look: Look) -> Result<()> {
    send_begin(session, deadline, look)?;
    or_undone(session, session.settle_begin())
}

/// Undoes the transaction if its begin failed: the lock was not to be had, or the fence was in the way.
fn or_undone(session: &Session, begun: Result<()>) -> Result<()> {
    if let Err(error) = &begun {
        // The server has measured no wait, because there was no look at the fence.
        if error.cause() == Cause::Locked {
            session.set_lock_wait(LOCK_LIMIT);
        }
        if session.is_usable() {
            roll_back(session)?;
        }
    }
    begun
}

/// Commits the transaction of a connection.
///
/// PostgreSQL takes the COMMIT of a transaction in which a statement has failed, and rolls back without an error. That
/// must not pass for a success, so this refuses it.
pub(super) fn commit(session: &Session) -> Result<()> {
    if session.is_spoiled() {
        roll_back(session)?;
        return Err(PostgresError::Spoiled.into());
    }
    // The failure of a statement that nobody has waited for yet is reported in the place of the commit's success.
    let notices = session.take_notices();
    let committed = if notices.is_empty() {
        session.batch("COMMIT")
    } else {
        // In the message of the commit, because each is a way to the server and back. The server passes them on after it.
        let channel = literal(&session.server.settings.channel());
        let texts: Vec<String> = notices.iter().map(|text| literal(text)).collect();
        session.batch(&format!(
            "SELECT pg_notify({channel}, told) FROM unnest(ARRAY[{}]) AS told; COMMIT",
            texts.join(", ")
        ))
    };
    if committed.is_err() {
        // The commit was not reached if a held row or the notices failed.
        end(session);
    }
    committed
}

/// Undoes the transaction of a connection.
pub(super) fn roll_back(session: &Session) -> Result<()> {
    session.undo("ROLLBACK")
}

/// A transaction that holds the lock of all changes. Unless it is committed, dropping it undoes it.
pub(in crate::store) struct LockedTransaction<'s> {
    session: &'s Session,
    is_over: bool,
}

impl<'s> LockedTransaction<'s> {
    /// Begins it, and waits until `deadline` for the lock.
    pub(in crate::store) fn begin(session: &'s Session, deadline: Instant) -> Result<Self> {
        begin_locked(session, deadline, Look::Without).map(|()| Self { session, is_over: false })
    }

    /// Commits it.
    pub(in crate::store) fn commit(mut self) -> Result<()> {
        self.is_over = true;
        commit(self.session)
    }
}

impl Drop for LockedTransaction<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            end(self.session);
        }
    }
}

/// Undoes the transaction of a connection, or makes the connection unusable, so that nobody goes on in it.
pub(super) fn end(session: &Session) {
    if session.is_usable() && roll_back(session).is_err() {
        session.give_up();
    }
}

impl TransactionId {
    /// Asks the server, over another connection, what became of the transaction.
    pub(super) fn outcome(&self, session: &Session, deadline: Instant) -> Result<Outcome> {
        // The lock is free only when the transaction is over, whatever its outcome.
        begin_locked(session, deadline, Look::Without)?;
        let asking = session.transaction_id();
        let asked = session.texts(&format!("SELECT pg_xact_status('{}'::xid8)", self.number));
        end(session);
        let texts = asked?;
        let same_server = self.server_run == asking.server_run;
        Ok(match texts.first().map(Option::as_deref) {
            // Nobody else can have got the number of a transaction that was not lost, so this one is not among the
            // committed.
            Some(Some("aborted")) => Outcome::RolledBack,
            Some(Some("committed")) if same_server => Outcome::Committed,
            _ => Outcome::Unknown,
        })
    }
}

/// A transaction that only reads, and sees one state of the database. It ends when it is dropped.
pub(in crate::store) struct Snapshot<'s>(&'s Session);

impl<'s> Snapshot<'s> {
    pub(in crate::store) fn begin(session: &'s Session) -> Result<Self> {
        session.batch("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")?;
        Ok(Self(session))
    }
}

impl Drop for Snapshot<'_> {
    fn drop(&mut self) {
        end(self.0);
    }
}
