//! Values on their way into a statement and out of a row.
//!
//! The traits and the five kinds of values are those of `rusqlite`. They depend on no connection, and every database
//! has these kinds, so other drivers convert from and to them.

use rusqlite::types::ToSqlOutput;

pub use rusqlite::ToSql;
pub use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, Value, ValueRef};

/// The result of [`ToSql::to_sql`].
pub type ToSqlResult<'v> = rusqlite::Result<ToSqlOutput<'v>>;

/// Returns a value that depends on nothing else.
pub(super) fn owned(value: &(impl ToSql + ?Sized)) -> super::Result<Value> {
    match value.to_sql()? {
        ToSqlOutput::Borrowed(value) => Ok(value.try_into()?),
        ToSqlOutput::Owned(value) => Ok(value),
        // Of features of SQLite that flock does not use.
        _ => Err(super::Error::Malformed),
    }
}
