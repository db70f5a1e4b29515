//! Connections and transactions, as the subjects see them.

use std::ops::Deref;

use super::{Params, Result, Row, Statement, statement};
use crate::store::notice::{self, NoticeKind};
use crate::store::postgres::{self, Session};

/// The database behind a connection.
///
/// One SQL text serves both wherever it can. This is for the few places where it can't, each of which says why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    Sqlite,
    Postgres,
}

/// The number and the hash of the last row of the audit's chain.
pub type ChainEnd = (i64, Vec<u8>);

/// A connection to the database, borrowed from its driver for one read or one change.
#[derive(Clone, Copy)]
pub struct Connection<'c>(Driver<'c>);

#[derive(Clone, Copy)]
enum Driver<'c> {
    Sqlite(&'c rusqlite::Connection),
    Postgres(&'c Session),
}

impl<'c> Connection<'c> {
    /// Returns the connection of SQLite as the subjects see it.
    pub(in crate::store) const fn sqlite(connection: &'c rusqlite::Connection) -> Self {
        Self(Driver::Sqlite(connection))
    }

    /// Returns the connection of PostgreSQL as the subjects see it.
    pub(in crate::store) const fn postgres(session: &'c Session) -> Self {
        Self(Driver::Postgres(session))
    }

    /// Returns the database behind the connection.
    #[must_use]
    pub const fn dialect(&self) -> Dialect {
        match self.0 {
            Driver::Sqlite(_) => Dialect::Sqlite,
            Driver::Postgres(_) => Dialect::Postgres,
        }
    }

    /// Returns the largest number of rows that a statement should be about.
    ///
    /// PostgreSQL's work for a statement takes longer than that for a row. In SQLite, a statement that stays prepared costs
    /// next to nothing.
    #[must_use]
    pub const fn rows_of_statement(&self) -> usize {
        match self.0 {
            Driver::Sqlite(_) => 1,
            Driver::Postgres(_) => postgres::MAX_ROWS,
        }
    }

    /// Prepares a statement that is used once, or seldom.
    ///
    /// # Errors
    ///
    /// Returns an error if the database refuses the statement or fails, here and in the other functions.
    pub fn prepare(&self, sql: &str) -> Result<Statement<'c>> {
        match self.0 {
            Driver::Sqlite(connection) => Ok(Statement::once(connection.prepare(sql)?)),
            // To prepare is a way to the server and back, so each text is kept. What is seldom used falls out.
            Driver::Postgres(session) => Ok(Statement::postgres(session.prepare(sql)?)),
        }
    }

    /// Prepares a statement that is used often. The connection keeps it for its next use.
    pub fn prepare_cached(&self, sql: &str) -> Result<Statement<'c>> {
        match self.0 {
            Driver::Sqlite(connection) => Ok(Statement::cached(connection.prepare_cached(sql)?)),
            Driver::Postgres(session) => Ok(Statement::postgres(session.prepare(sql)?)),
        }
    }

    /// Prepares and runs a statement, and returns the number of rows that it changed.
    pub fn execute(&self, sql: &str, params: impl Params) -> Result<usize> {
        self.prepare(sql)?.execute(params)
    }

    /// Prepares and runs a statement, and returns its first row converted by `map`.
    ///
    /// # Errors
    ///
    /// Returns [`Error::NoRow`](super::Error::NoRow) if there is no row.
    pub fn query_row<T, F>(&self, sql: &str, params: impl Params, map: F) -> Result<T>
    where
        F: FnOnce(&Row<'_>) -> Result<T>,
    {
        self.prepare(sql)?.query_row(params, map)
    }

    /// Returns the time of the database's clock, in Unix milliseconds.
    ///
    /// That of a server is one clock for all gateways, however their machines' clocks are set. A database in a file has that
    /// of its machine.
    pub fn clock(&self) -> Result<i64> {
        match self.0 {
            Driver::Sqlite(_) => Ok(crate::clock::unix_ms()),
            Driver::Postgres(_) => self
                .prepare_cached("SELECT CAST(floor(extract(epoch FROM clock_timestamp()) * 1000) AS BIGINT)")?
                .query_row((), |row| row.get(0)),
        }
    }

    /// Returns the end of the audit's chain if the transaction knows it, which saves a way to a server and back.
    pub fn chain_end(&self) -> Result<Option<ChainEnd>> {
        match self.0 {
            Driver::Sqlite(_) => Ok(None),
            Driver::Postgres(session) => session.chain_end(),
        }
    }

    /// Begins a read of several statements that all see the same state of the database.
    pub fn snapshot(&self) -> Result<Snapshot<'c>> {
        let transaction = match self.0 {
            Driver::Sqlite(connection) => SnapshotDriver::Sqlite(connection.unchecked_transaction()?),
            Driver::Postgres(session) => SnapshotDriver::Postgres(postgres::Snapshot::begin(session)?),
        };
        Ok(Snapshot { connection: *self, _transaction: transaction })
    }

    /// Runs `work` in a transaction of its own. The connection must not be in one.
    ///
    /// Changes go through the writing thread. This is for those that are made before it runs.
    pub fn in_transaction<T>(&self, work: impl FnOnce(&Transaction<'_>) -> Result<T>) -> Result<T> {
        match self.0 {
            Driver::Sqlite(connection) => {
                let behavior = rusqlite::TransactionBehavior::Immediate;
                let transaction = rusqlite::Transaction::new_unchecked(connection, behavior)?;
                let done = work(&Transaction::sqlite(&transaction))?;
                transaction.commit()?;
                Ok(done)
            }
            Driver::Postgres(session) => {
                let change = postgres::LockedTransaction::begin(session, postgres::lock_deadline())?;
                let done = work(&Transaction::postgres(session))?;
                change.commit()?;
                Ok(done)
            }
        }
    }
}

/// A connection within a transaction that changes the database. Its driver commits it, or rolls it back.
pub struct Transaction<'t>(Connection<'t>);

impl<'t> Transaction<'t> {
    /// Returns the transaction of SQLite as the subjects see it.
    pub(in crate::store) fn sqlite(transaction: &'t rusqlite::Transaction<'_>) -> Self {
        Self(Connection::sqlite(transaction))
    }

    /// Returns a connection to PostgreSQL that is in a transaction, as the subjects see it.
    pub(in crate::store) const fn postgres(session: &'t Session) -> Self {
        Self(Connection::postgres(session))
    }

    /// Puts off the checks of references between rows to the end of this transaction.
    ///
    /// # Errors
    ///
    /// Returns an error if the database fails.
    pub fn defer_references(&self) -> Result<()> {
        match self.0.0 {
            Driver::Sqlite(connection) => Ok(connection.execute_batch("PRAGMA defer_foreign_keys = ON")?),
            Driver::Postgres(session) => session.batch("SET CONSTRAINTS ALL DEFERRED"),
        }
    }

    /// Inserts a row at the latest before the next statement of this transaction that waits for an answer, or before its
    /// commit. What is only [sent](Statement::send) may come before it. `sql` ends with `VALUES (?1, …)`.
    ///
    /// PostgreSQL gets rows of the same statement together. Its work for a statement takes longer than that for a row.
    ///
    /// # Errors
    ///
    /// Returns an error if the row can't be inserted. A failure may also be reported by the statement that it goes with.
    pub fn add_row(&self, sql: &str, row: impl Params) -> Result<()> {
        match self.0.0 {
            Driver::Sqlite(_) => self.prepare_cached(sql)?.send(row),
            Driver::Postgres(session) => {
                session.hold(sql, statement::values(row)?);
                Ok(())
            }
        }
    }

    /// Tells the gateways about this change once it is committed. With a long `name`, or an empty one, the notice is about
    /// everything of its kind. A database in a file has one gateway, which makes its changes itself.
    pub fn tell(&self, kind: NoticeKind, name: &str) {
        match self.0.0 {
            Driver::Sqlite(_) => {}
            Driver::Postgres(session) => session.add_notice(notice::text(kind, name)),
        }
    }

    /// Takes note of the end of the audit's chain, to which this transaction has just added. See
    /// [`Connection::chain_end`].
    pub fn set_chain_end(&self, end: ChainEnd) {
        match self.0.0 {
            Driver::Sqlite(_) => {}
            Driver::Postgres(session) => session.set_chain_end(Some(end)),
        }
    }

    /// Makes the commit wait until this transaction has reached the server's disk, and its synchronous replica if it has
    /// one. It is for changes that other gateways act on at once, which a crash of the server must not take back. A database
    /// in a file has no other gateway.
    ///
    /// # Errors
    ///
    /// Returns an error if the database fails.
    pub fn wait_for_disk(&self) -> Result<()> {
        match self.0.0 {
            Driver::Sqlite(_) => Ok(()),
            Driver::Postgres(session) => session.commit_on_disk(),
        }
    }
}

impl<'t> Deref for Transaction<'t> {
    type Target = Connection<'t>;

    fn deref(&self) -> &Connection<'t> {
        &self.0
    }
}

/// A connection that sees one state of the database until it is dropped.
pub struct Snapshot<'c> {
    connection: Connection<'c>,
    _transaction: SnapshotDriver<'c>,
}

/// The transaction that keeps the state. Dropping it ends the transaction.
enum SnapshotDriver<'c> {
    Sqlite(#[expect(dead_code, reason = "it is held for its end")] rusqlite::Transaction<'c>),
    Postgres(#[expect(dead_code, reason = "it is held for its end")] postgres::Snapshot<'c>),
}

impl<'c> Deref for Snapshot<'c> {
    type Target = Connection<'c>;

    fn deref(&self) -> &Connection<'c> {
        &self.connection
    }
}
