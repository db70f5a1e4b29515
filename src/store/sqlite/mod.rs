//! SQLite's own part of the store: its files, its connections and threads, migrations, backups, and the repair of a
//! damaged file.
//!
//! The subjects of the store know none of it.

pub(in crate::store) mod backup;
pub(in crate::store) mod connection;
mod damage_recheck;
pub(crate) mod integrity;
mod lock_wait;
mod opening;
mod probe;
mod read_pool;
pub(in crate::store) mod recovery;
pub(crate) mod row_counts;
pub(in crate::store) mod schema;
pub(crate) mod search_index;
mod writer;

pub(super) use damage_recheck::RawFile;
pub(super) use probe::FileId;
pub(super) use read_pool::ReadPool;
pub(super) use writer::{PendingChange, Writer, WriterJob};
