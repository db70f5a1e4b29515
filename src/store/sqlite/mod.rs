//! SQLite's own part of the store: its files, its connections and threads, migrations, backups, and the repair of a
//! damaged file.
//!
//! The subjects of the store know none of it.

pub(in crate::store) mod backup;
pub(in crate::store) mod catalog;
pub(in crate::store) mod connection;
mod damage_recheck;
pub(in crate::store) mod file_end;
pub(crate) mod integrity;
pub(in crate::store) mod lock_wait;
mod opening;
mod probe;
mod read_pool;
pub(in crate::store) mod recovery;
pub(crate) mod row_counts;
pub(in crate::store) mod schema;
pub(crate) mod search_index;
pub(crate) mod snapshot;
mod writer;

use std::path::PathBuf;
use std::sync::Arc;

use damage_recheck::RawFile;
pub(super) use opening::{open, open_reader};
use probe::FileId;
pub(super) use read_pool::DatabaseFile;

use crate::store::writer::Writer;

/// The writing side of an open database.
pub(super) struct Engine {
    pub(super) writer: Writer<rusqlite::Connection>,
    path: PathBuf,
    /// The identity of the opened file, to notice if another file replaces it.
    file: FileId,
    raw: Arc<RawFile>,
}
