//! Connections for reading.

use std::path::PathBuf;

use rusqlite::{Connection, OpenFlags};

use super::connection::connect;
use crate::store::read_pool::{ConnectionLimit, ReadingDriver};
use crate::store::{StoreError, sql};

/// A database's file, as it is read.
pub(in crate::store) struct DatabaseFile(pub(in crate::store) PathBuf);

impl ReadingDriver for DatabaseFile {
    type Connection = Connection;

    const MAX_IDLE: usize = 4;
    const LIMIT: Option<ConnectionLimit> = None;

    fn connect(&self) -> Result<Connection, StoreError> {
        connect(&self.0, OpenFlags::SQLITE_OPEN_READ_ONLY)
    }

    fn is_usable(_: &Connection) -> bool {
        true
    }

    fn view(connection: &Connection) -> sql::Connection<'_> {
        sql::Connection::sqlite(connection)
    }

    fn wait(read: &mut dyn FnMut()) {
        // A read takes microseconds.
        read();
    }
}
