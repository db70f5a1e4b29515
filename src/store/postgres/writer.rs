//! The writing thread's connection and its transactions.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::begin::TransactionId;
use super::fence::{Fence, Look};
use super::gateway_lock::{GatewayLock, Sharing};
use super::server::{Driving, Purpose, Server};
use super::session::Session;
use super::transaction::{Outcome, begin_locked, commit, end, lock_deadline, roll_back, send_begin};
use super::{PostgresError, schema};
use crate::error::chain;
use crate::store::StoreError;
use crate::store::batch::Batch;
use crate::store::gateway::{self, Epoch, NewGateway};
use crate::store::gateway_group;
use crate::store::sql::{self, Cause, Connection, Result, Transaction};
use crate::store::writer::WritingDriver;

/// The pause between two attempts to reach the server that has to say what became of a commit.
const OUTCOME_PAUSE: Duration = Duration::from_millis(200);

/// The shortest wait for the lock of all changes by which a gateway counts as held up.
const LONG_WAIT: Duration = Duration::from_millis(1);

/// The connection that changes are made through. A broken one is replaced at the next change.
pub(in crate::store) struct WritingSession {
    session: Session,
    /// The lock that this connection holds if it is the gateway's, and who else may hold it.
    lock: Option<(GatewayLock, Sharing)>,
    /// Refuses the changes of a gateway that was ended.
    fence: Option<Fence>,
}

impl WritingSession {
    pub(super) const fn new(session: Session) -> Self {
        Self { session, lock: None, fence: None }
    }

    pub(super) const fn session(&self) -> &Session {
        &self.session
    }

    /// Takes the lock of the gateway, and adds this gateway to those of the database: beside others if there is a group of
    /// them, and otherwise as the only one. From now on, only a connection that holds the lock makes changes here, and only
    /// until another gateway has ended this one.
    ///
    /// # Errors
    ///
    /// Returns [`PostgresError::Taken`] if another gateway holds the lock.
    pub(super) fn become_gateway(&mut self, new: &NewGateway) -> Result<()> {
        let run = crate::id::hex(&rand::random::<[u8; 16]>());
        let epoch = loop {
            let connection = Connection::postgres(&self.session);
            let sharing = sharing_of(&connection)?;
            let lock = GatewayLock::take(&self.session, sharing, None)?;
            let registered =
                connection.in_transaction(|transaction| register(transaction, sharing, new, &run))?;
            if let Some(epoch) = registered {
                self.lock = Some((lock, sharing));
                break epoch;
            }
            GatewayLock::release(&self.session)?;
        };
        let fence = Fence::new(epoch, run);
        fence.prepare(&self.session)?;
        self.fence = Some(fence);
        Ok(())
    }

    /// Returns `true` for a gateway of a group.
    pub(super) fn is_in_group(&self) -> bool {
        self.lock.as_ref().is_some_and(|(_, sharing)| *sharing == Sharing::Group)
    }

    /// Returns the number of this gateway's run, if it is a gateway.
    pub(super) fn epoch(&self) -> Option<Epoch> {
        self.fence.as_ref().map(Fence::epoch)
    }

    /// Replaces the connection. That of a gateway is used only once it has the lock again: another gateway may have
    /// taken over meanwhile.
    fn replace(&mut self) -> Result<()> {
        let session = connect(&self.session.server, self.session.driving())?;
        if let Some((lock, sharing)) = &mut self.lock {
            *lock = GatewayLock::take(&session, *sharing, Some(&*lock)).map_err(|error| match error {
                // The other gateway has ended this one, or is about to.
                sql::Error::Postgres(PostgresError::Taken(by)) => {
                    tracing::error!("the gateway was replaced by one {by}");
                    sql::Error::Fenced
                }
                error => error,
            })?;
        }
        if let Some(fence) = &self.fence {
            fence.prepare(&session)?;
        }
        self.session = session;
        Ok(())
    }

    /// Makes a change that means nothing, and has the server bring it to its disk, with all commits before it.
    ///
    /// The change is a record of the server's log that no table has. The commit of a transaction that wrote nothing
    /// would wait for no disk.
    pub(in crate::store) fn flush(&mut self) -> Result<()> {
        self.with_connection(|session| {
            // One message, because each is a way to the server and back, and a gateway at work syncs dozens of times a second.
            let flushed = session.batch(&format!(
                "BEGIN; {}; SELECT pg_logical_emit_message(true, 'flock', ''); COMMIT",
                session.server.settings.commit_wait.for_decision()
            ));
            if flushed.is_err() {
                end(session);
            }
            flushed
        })
    }

    /// Begins a transaction. If its begin travels alone, it has the lock of all changes when this returns.
    fn begin_batch(
        &mut self,
        deadline: Instant,
        savepoint: Savepoint,
        travel: BeginTravel,
    ) -> Result<WritingBatch<'_>> {
        let look = if self.fence.is_some() { Look::AtFence } else { Look::Without };
        // A begin that travels with the first statement fails with it. So it does only if the connection works, because a
        // begin that fails by itself is repeated on another one.
        self.with_connection(|session| {
            if travel == BeginTravel::WithStatement && session.is_fresh() {
                send_begin(session, deadline, look)
            } else {
                begin_locked(session, deadline, look)
            }
        })?;
        Ok(WritingBatch { writer: self, savepoint, notices: 0, has_ended: false })
    }

    /// Runs `work`, which may be repeated, on the connection. If that turns out to be broken, it is replaced once.
    fn with_connection<T>(&mut self, work: impl Fn(&Session) -> Result<T>) -> Result<T> {
        self.session.look_for_end();
        if self.session.is_usable() {
            match work(&self.session) {
                // The server has been started again since the last change, for example.
                Err(error) if error.cause() == Cause::Unreachable && !self.session.is_usable() => {}
                done => return done,
            }
        }
        self.replace()?;
        work(&self.session)
    }

    /// Asks the server what became of a transaction whose commit got no answer.
    fn outcome_of(&mut self, id: &TransactionId, lost: &sql::Error) -> Result<()> {
        let deadline = lock_deadline();
        loop {
            match self.with_connection(|session| id.outcome(session, deadline)) {
                Ok(Outcome::Committed) => return Ok(()),
                Ok(Outcome::RolledBack) => return Err(lost.copy()),
                Err(_) if Instant::now() < deadline => thread::sleep(OUTCOME_PAUSE),
                Ok(Outcome::Unknown) | Err(_) => return Err(PostgresError::LostCommit(chain(lost)).into()),
            }
        }
    }
}

/// Returns the gateways that the database has at the same time.
fn sharing_of(connection: &Connection<'_>) -> Result<Sharing> {
    Ok(if gateway_group::is_made(connection)? { Sharing::Group } else { Sharing::Alone })
}

/// Adds a gateway that has the lock for this sharing, and returns its number. Returns `None` and adds nothing if a person has
/// made or ended the group meanwhile: it is the wrong lock then.
fn register(
    transaction: &Transaction<'_>,
    taken: Sharing,
    new: &NewGateway,
    run: &str,
) -> Result<Option<Epoch>> {
    if sharing_of(transaction)? != taken {
        return Ok(None);
    }
    let epoch = match taken {
        Sharing::Alone => gateway::register_alone(transaction, new, run)?,
        Sharing::Group => gateway::register(transaction, new, run)?,
    };
    Ok(Some(epoch))
}

/// Makes a connection for changes. Another flock may have migrated the schema since the last one was made.
fn connect(server: &Arc<Server>, driving: Driving) -> Result<Session> {
    let session = server.connect_driven(Purpose::Write, driving);
    let session = session.and_then(|session| schema::check(&session).map(|_| session));
    session.map_err(|error| match error {
        StoreError::Connect { source, .. } | StoreError::Query { source, .. } => source,
        other => PostgresError::Settings(chain(&other)).into(),
    })
}

impl WritingDriver for WritingSession {
    type Batch<'d> = WritingBatch<'d>;

    fn begin(&mut self, deadline: Instant, changes: usize) -> Result<WritingBatch<'_>> {
        if changes == 1 {
            // Its begin travels with its first statement, whose failure is that of the change anyway.
            return self.begin_batch(deadline, Savepoint::NotNeeded, BeginTravel::WithStatement);
        }
        // Those that still have time wait for the lock again when the oldest is refused.
        self.begin_batch(deadline, Savepoint::Absent, BeginTravel::Alone)
    }

    fn begin_posts(&mut self, deadline: Instant) -> Result<WritingBatch<'_>> {
        let travel = if self.is_held_up() { BeginTravel::Alone } else { BeginTravel::WithStatement };
        self.begin_batch(deadline, Savepoint::NotNeeded, travel)
    }

    fn is_held_up(&self) -> bool {
        // A gateway without others has the lock for itself, and what it waits for is the processor.
        self.is_in_group() && self.session.lock_wait() >= LONG_WAIT
    }

    fn connection(&self) -> Option<sql::Connection<'_>> {
        self.session.is_usable().then(|| sql::Connection::postgres(&self.session))
    }
}

/// A transaction for changes that are committed together.
pub(in crate::store) struct WritingBatch<'d> {
    writer: &'d mut WritingSession,
    savepoint: Savepoint,
    /// The number of notices before the change that is being made.
    notices: usize,
    has_ended: bool,
}

/// The message in which a transaction's begin travels to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BeginTravel {
    /// With the first statement, which costs no way of its own, if the connection is known to work.
    WithStatement,
    Alone,
}

/// The state of the savepoint to which a change is undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Savepoint {
    /// For a change that is alone, the transaction serves as well.
    NotNeeded,
    Absent,
    /// It is before the change that is being made.
    Set,
    /// It is before a change that is kept.
    Passed,
}

impl WritingBatch<'_> {
    const fn session(&self) -> &Session {
        &self.writer.session
    }
}

impl Batch for WritingBatch<'_> {
    fn transaction(&self) -> sql::Transaction<'_> {
        sql::Transaction::postgres(self.session())
    }

    fn begin_change(&mut self) -> Result<()> {
        self.notices = self.session().notice_count();
        match self.savepoint {
            Savepoint::Absent => self.session().send_batch("SAVEPOINT change")?,
            Savepoint::Passed => self.session().send_batch("RELEASE change; SAVEPOINT change")?,
            // A savepoint that was gone back to is still there.
            Savepoint::Set | Savepoint::NotNeeded => return Ok(()),
        }
        self.savepoint = Savepoint::Set;
        Ok(())
    }

    fn keep_change(&mut self) -> Result<()> {
        // The failure of a change among others must not be found at the commit, where it would be that of all. A change that
        // is alone is the commit's.
        if self.savepoint != Savepoint::NotNeeded {
            self.session().settle()?;
        }
        // A change that takes no notice of a failed statement can't be kept: PostgreSQL has given up its work.
        if self.session().is_spoiled() {
            return Err(PostgresError::Spoiled.into());
        }
        if self.savepoint == Savepoint::Set {
            self.savepoint = Savepoint::Passed;
        }
        Ok(())
    }

    fn undo_change(&mut self) -> Result<()> {
        self.session().drop_notices(self.notices);
        if self.savepoint == Savepoint::NotNeeded {
            self.has_ended = true;
            return roll_back(self.session());
        }
        self.session().undo("ROLLBACK TO change")
    }

    fn is_over(&self) -> bool {
        !self.session().is_usable()
    }

    fn commit(mut self) -> Result<()> {
        if self.has_ended {
            return Ok(());
        }
        // Nothing is committed that has not begun.
        self.session().settle_begin()?;
        let id = self.session().transaction_id();
        self.has_ended = true;
        match commit(self.session()) {
            Err(error) if !self.session().is_usable() => self.writer.outcome_of(&id, &error),
            done => done,
        }
    }
}

impl Drop for WritingBatch<'_> {
    fn drop(&mut self) {
        if !self.has_ended {
            end(self.session());
        }
    }
}
