//! The seam between the subjects of the store and the database: connections, statements, rows, values and errors.
//!
//! The subjects (channels, tasks, the audit, …) write one SQL text for each statement and know only these types. A
//! driver stands behind them. The one for SQLite passes each call on to `rusqlite` in place: it boxes and copies nothing.
//! What only SQLite has, such as its files and its pragmas, is in [`sqlite`](super::sqlite). The driver for PostgreSQL
//! is in [`postgres`](super::postgres).

mod connection;
mod error;
mod params;
mod row;
mod statement;
mod value;

pub use connection::{ChainEnd, Connection, Dialect, Transaction};
pub use error::{Cause, Error, OptionalExtension, Result};
pub use params::{Binder, Params, params_from_iter};
pub use row::{MappedRows, Row, Rows};
pub use statement::Statement;
pub use value::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlResult, Value, ValueRef};

pub(super) use params::{parameters, params, values_list};

/// What stands in a text in the place of NUL, the one character that PostgreSQL can't store.
pub(super) const NUL_REPLACEMENT: &str = "\u{fffd}";
