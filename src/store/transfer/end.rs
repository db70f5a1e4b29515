//! The two kinds of ends of a move, as the copy sees them.

use std::path::Path;

use super::catalog::{Catalog, MovedTable};
use crate::store::audit_chain::{self, AuditVerification};
use crate::store::postgres::{self, SchemaEnd};
use crate::store::sql::{self, Connection, Dialect, Transaction};
use crate::store::sqlite::file_end::FileEnd;
use crate::store::{StoreError, sqlite};

/// A database that rows are copied from or to.
#[derive(Clone, Copy)]
pub(super) enum End<'e> {
    File(&'e FileEnd),
    Schema(&'e SchemaEnd),
}

impl<'e> End<'e> {
    pub(super) const fn connection(self) -> Connection<'e> {
        match self {
            Self::File(end) => end.connection(),
            Self::Schema(end) => end.connection(),
        }
    }

    /// Returns where it is, for people.
    pub(super) fn place(self) -> String {
        match self {
            Self::File(end) => end.path().display().to_string(),
            Self::Schema(end) => end.place(),
        }
    }

    /// Returns the tables that it has.
    pub(super) fn catalog(self) -> Result<Catalog, StoreError> {
        let connection = self.connection();
        let catalog = match connection.dialect() {
            Dialect::Sqlite => sqlite::catalog::read(&connection),
            Dialect::Postgres => postgres::catalog::read(&connection),
        };
        catalog.map_err(|source| StoreError::query("read which tables there are", source))
    }

    /// Returns the last number that each table has given to a row.
    fn last_numbers(self) -> sql::Result<Vec<(String, i64)>> {
        let connection = self.connection();
        match self {
            Self::File(_) => sqlite::catalog::last_numbers(&connection),
            Self::Schema(_) => {
                let all = postgres::catalog::last_numbers(&connection)?;
                Ok(all.into_iter().map(|(table, _, number)| (table, number)).collect())
            }
        }
    }

    /// Walks along the audit, and compares it with the files of the home at `head`.
    pub(super) fn verify_audit(self, head: &Path) -> Result<AuditVerification, StoreError> {
        match self {
            // The connection of a source is in a transaction, and the walk begins one of its own.
            Self::File(end) => end.beside(|connection| audit_chain::verify_at(connection, head)),
            Self::Schema(end) => audit_chain::verify_at(&end.connection(), head),
        }
    }
}

/// Has the tables of `target` go on with the numbers of their rows after those of `source`, so that none is given twice.
pub(super) fn go_on_after(source: End<'_>, target: End<'_>) -> Result<(), StoreError> {
    let set = || -> sql::Result<()> {
        let last = source.last_numbers()?;
        let number =
            |table: &str| last.iter().find(|(name, _)| name == table).map_or(0, |(_, number)| *number);
        target.connection().in_transaction(|transaction: &Transaction<'_>| match target {
            End::File(_) => last
                .iter()
                .try_for_each(|(table, number)| sqlite::catalog::go_on_after(transaction, table, *number)),
            End::Schema(_) => postgres::catalog::go_on_after(transaction, number),
        })
    };
    set().map_err(|source| StoreError::query("set the numbers of new rows", source))
}

/// Makes what is made of the rows, or checks it where it was made with them.
pub(super) fn finish_rows(target: End<'_>, tables: &[MovedTable]) -> Result<(), StoreError> {
    let finished = match target {
        // The triggers of the table of messages have put each message's words into the index.
        End::File(end) => end.connection().in_transaction(sqlite::catalog::check_words),
        End::Schema(end) => end.analyze(&names(tables)),
    };
    finished.map_err(|source| StoreError::query("finish the copied tables", source))
}

pub(super) fn names(tables: &[MovedTable]) -> Vec<&str> {
    tables.iter().map(|table| table.name.as_str()).collect()
}
