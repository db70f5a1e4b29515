//! Connections and transactions, as the subjects see them.

use std::ops::Deref;

use super::{Params, Result, Row, Statement};

/// A connection to the database, borrowed from its driver for one read or one change.
pub struct Connection<'c>(&'c rusqlite::Connection);

impl<'c> Connection<'c> {
    /// Returns the connection of SQLite as the subjects see it.
    pub(in crate::store) const fn sqlite(connection: &'c rusqlite::Connection) -> Self {
        Self(connection)
    }

    /// Prepares a statement that is used once, or seldom.
    ///
    /// # Errors
    ///
    /// Returns an error if the database refuses the statement or fails, here and in the other functions.
    pub fn prepare(&self, sql: &str) -> Result<Statement<'c>> {
        Ok(Statement::once(self.0.prepare(sql)?))
    }

    /// Prepares a statement that is used often. The connection keeps it for its next use.
    pub fn prepare_cached(&self, sql: &str) -> Result<Statement<'c>> {
        Ok(Statement::cached(self.0.prepare_cached(sql)?))
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

    /// Begins a read of several statements that all see the same state of the database.
    pub fn snapshot(&self) -> Result<Snapshot<'c>> {
        Ok(Snapshot { connection: Connection(self.0), _transaction: self.0.unchecked_transaction()? })
    }

    /// Runs `work` in a transaction of its own. The connection must not be in one.
    ///
    /// Changes go through the writing thread. This is for those that are made before it runs.
    pub fn in_transaction<T>(&self, work: impl FnOnce(&Transaction<'_>) -> Result<T>) -> Result<T> {
        let behavior = rusqlite::TransactionBehavior::Immediate;
        let transaction = rusqlite::Transaction::new_unchecked(self.0, behavior)?;
        let done = work(&Transaction::sqlite(&transaction))?;
        transaction.commit()?;
        Ok(done)
    }
}

/// A connection within a transaction that changes the database. Its driver commits it, or rolls it back.
pub struct Transaction<'t>(Connection<'t>);

impl<'t> Transaction<'t> {
    /// Returns the transaction of SQLite as the subjects see it.
    pub(in crate::store) fn sqlite(transaction: &'t rusqlite::Transaction<'_>) -> Self {
        Self(Connection(transaction))
    }

    /// Puts off the checks of references between rows to the end of this transaction.
    ///
    /// # Errors
    ///
    /// Returns an error if the database fails.
    pub fn defer_references(&self) -> Result<()> {
        Ok(self.0.0.execute_batch("PRAGMA defer_foreign_keys = ON")?)
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
    _transaction: rusqlite::Transaction<'c>,
}

impl<'c> Deref for Snapshot<'c> {
    type Target = Connection<'c>;

    fn deref(&self) -> &Connection<'c> {
        &self.connection
    }
}
