//! The transactions of the writing thread.

use std::time::Instant;

use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::lock_wait;
use crate::store::batch::Batch;
use crate::store::sql;
use crate::store::writer::WritingDriver;

impl WritingDriver for Connection {
    type Batch<'d> = Transaction<'d>;

    fn begin(&mut self, deadline: Instant, _: usize) -> sql::Result<Transaction<'_>> {
        // Take the write lock at the start: a transaction that begins with a read can fail at its first write. With the
        // lock and the log, nothing after this waits for another process.
        let behavior = TransactionBehavior::Immediate;
        Ok(lock_wait::within(deadline, || self.transaction_with_behavior(behavior))?)
    }

    fn connection(&self) -> Option<sql::Connection<'_>> {
        Some(sql::Connection::sqlite(self))
    }
}

impl Batch for Transaction<'_> {
    fn transaction(&self) -> sql::Transaction<'_> {
        sql::Transaction::sqlite(self)
    }

    fn begin_change(&mut self) -> sql::Result<()> {
        execute(self, "SAVEPOINT change")
    }

    fn keep_change(&mut self) -> sql::Result<()> {
        execute(self, "RELEASE change")
    }

    fn undo_change(&mut self) -> sql::Result<()> {
        execute(self, "ROLLBACK TO change")?;
        execute(self, "RELEASE change")
    }

    fn is_over(&self) -> bool {
        // A transaction that ended shows as autocommit.
        self.is_autocommit()
    }

    fn commit(self) -> sql::Result<()> {
        Ok(Transaction::commit(self)?)
    }
}

fn execute(transaction: &Transaction<'_>, sql: &str) -> sql::Result<()> {
    Ok(transaction.prepare_cached(sql)?.execute(()).map(drop)?)
}
