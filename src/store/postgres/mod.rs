//! The driver for PostgreSQL: connections and their thread, values, transactions, migrations, and the errors.
//!
//! The subjects of the store know none of it. All processes that use a schema make their changes one after the other, under
//! one lock, so that a subject's code is right whichever database is behind it. Only one of them is a gateway, and one that
//! another has replaced makes no change any more.

mod begin;
pub(super) mod catalog;
mod engine;
mod error;
mod fence;
mod gateway_lock;
mod held_rows;
mod hosts;
mod listener;
mod read_pool;
mod runtime;
mod schema;
mod schema_end;
mod server;
mod session;
mod settings;
mod text;
mod tls;
mod transaction;
mod value;
mod wait;
mod writer;

pub(super) use engine::{Engine, open, open_reader};
pub(super) use error::PostgresError;
pub(super) use held_rows::MAX_ROWS;
pub(super) use schema_end::SchemaEnd;
pub(super) use server::{DEFAULT_SECRET, Server};
pub(super) use session::{PreparedStatement, Session};
pub(super) use settings::{DEFAULT_SCHEMA, Settings};
pub(super) use transaction::{LockedTransaction, Snapshot, lock_deadline};
pub(super) use value::value_of;

#[cfg(test)]
pub(super) mod tests;
