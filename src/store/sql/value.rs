//! Values on their way into a statement and out of a row.
//!
//! The traits and the five kinds of values are those of `rusqlite`. They depend on no connection, and every database
//! has these kinds, so other drivers convert from and to them.

pub use rusqlite::ToSql;
pub use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, Value, ValueRef};

/// The result of [`ToSql::to_sql`].
pub type ToSqlResult<'v> = rusqlite::Result<rusqlite::types::ToSqlOutput<'v>>;
