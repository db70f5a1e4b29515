//! Connections for reading, which are reused.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use rusqlite::{Connection, OpenFlags};

use super::connection::connect;
use crate::store::health::StorageHealth;
use crate::store::{StoreError, sql};

/// The number of idle connections that are kept for reuse.
const MAX_IDLE: usize = 4;

/// The connections of a process that read one database.
pub(in crate::store) struct ReadPool {
    pub(in crate::store) path: PathBuf,
    idle: Mutex<Vec<Connection>>,
    pub(in crate::store) condition: StorageHealth,
}

impl ReadPool {
    /// Returns a pool that begins with these connections. It opens more when they are needed.
    pub(in crate::store) fn new(path: PathBuf, idle: Vec<Connection>) -> Self {
        Self { path, idle: Mutex::new(idle), condition: StorageHealth::default() }
    }

    /// Runs `work` on a connection. It sees everything that was committed before.
    pub(in crate::store) fn read<T>(
        &self,
        what: &'static str,
        work: impl FnOnce(&sql::Connection<'_>) -> sql::Result<T>,
    ) -> Result<T, StoreError> {
        let kept = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let connection = match kept {
            Some(connection) => connection,
            None => connect(&self.path, OpenFlags::SQLITE_OPEN_READ_ONLY)
                .inspect_err(|error| self.condition.record_open_failure(error))?,
        };
        let result = work(&sql::Connection::sqlite(&connection));
        match &result {
            // Drop the connection: after a fault of the disk, a new one may be able to read where this one can't.
            Err(error) if error.cause().is_fault() => self.condition.record_read_failure(error),
            _ => {
                let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
                if idle.len() < MAX_IDLE {
                    idle.push(connection);
                }
            }
        }
        result.map_err(|source| StoreError::query(what, source))
    }
}
