//! Transactions: changes, which are serial over all gateways, and reads of one state.

use std::time::Instant;

use super::PostgresError;
use super::fence::Look;
use super::session::Session;
use super::text::literal;
use crate::id::unhex;
use crate::store::sql::{self, Result};
use crate::store::writer::LOCK_LIMIT;

/// The identity of a transaction, by which its outcome can be asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TransactionId {
    number: String,
    /// The time at which the server started. After a crash the numbers of transactions that had not reached the disk are
    /// given to others.
    server_start: String,
}

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

/// Begins a transaction that holds the lock of all changes, and waits until `deadline` for that lock.
///
/// Changes read what they write next, such as the last number of a channel. With the lock, each of them sees all
/// changes before it, as the one writing thread of an SQLite database does.
///
/// # Errors
///
/// Returns [`sql::Error::Fenced`] if the gateway of the fence was ended, and other errors if the server fails or the lock was
/// not to be had.
pub(super) fn begin_locked(session: &Session, deadline: Instant, look: Look) -> Result<TransactionId> {
    // 0 would mean no limit.
    let wait = deadline.saturating_duration_since(Instant::now()).as_millis().max(1);
    session.clear_failure();
    session.drop_notices(0);
    session.set_chain_end(None);
    // One message, because each is a way to the server and back. The look at the fence is a statement of its own: one that
    // also waited for the lock would see the rows as they were before the wait.
    let begun = session.texts(&format!(
        "BEGIN; SET LOCAL lock_timeout = {wait}; SELECT pg_advisory_xact_lock({});
         SET LOCAL lock_timeout = 0; {}",
        session.server.settings.lock_key(),
        look.statement()
    ));
    match begun {
        Ok(texts) => {
            let text = |column: usize| texts.get(column).cloned().flatten().unwrap_or_default();
            if text(2) != "t" {
                roll_back(session)?;
                return Err(sql::Error::Fenced);
            }
            if let (Ok(id), Some(hash)) = (text(3).parse(), unhex(&text(4))) {
                session.set_chain_end(Some((id, hash)));
            }
            Ok(TransactionId { number: text(0), server_start: text(1) })
        }
        Err(error) => {
            // It has begun, and the lock was not to be had.
            if session.is_usable() {
                roll_back(session)?;
            }
            Err(error)
        }
    }
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
    if notices.is_empty() {
        return session.batch("COMMIT");
    }
    // In the message of the commit, because each is a way to the server and back. The server passes them on after it.
    let channel = literal(&session.server.settings.channel());
    let texts: Vec<String> = notices.iter().map(|text| literal(text)).collect();
    let committed = session.batch(&format!(
        "SELECT pg_notify({channel}, told) FROM unnest(ARRAY[{}]) AS told; COMMIT",
        texts.join(", ")
    ));
    if committed.is_err() {
        // The commit was not reached if the notices failed.
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
        begin_locked(session, deadline, Look::Without).map(|_| Self { session, is_over: false })
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
        let asking = begin_locked(session, deadline, Look::Without)?;
        let asked = session.texts(&format!("SELECT pg_xact_status('{}'::xid8)", self.number));
        end(session);
        let texts = asked?;
        let same_server = self.server_start == asking.server_start;
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
