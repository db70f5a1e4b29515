//! Connections for reading, which are reused.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use rusqlite::{Connection, OpenFlags};

use super::StoreError;
use super::connection::connect;
use super::health::{self, StorageHealth};

/// The number of idle connections that are kept for reuse.
const MAX_IDLE: usize = 4;

/// The connections of a process that read one database.
pub(super) struct ReadPool {
    pub(super) path: PathBuf,
    idle: Mutex<Vec<Connection>>,
    pub(super) condition: StorageHealth,
}

impl ReadPool {
    /// Returns a pool that begins with these connections. It opens more when they are needed.
    pub(super) fn new(path: PathBuf, idle: Vec<Connection>) -> Self {
        Self { path, idle: Mutex::new(idle), condition: StorageHealth::default() }
    }

    /// Runs `work` on a connection. It sees everything that was committed before.
    pub(super) fn read<T>(
        &self,
        what: &'static str,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let kept = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let connection = match kept {
            Some(connection) => connection,
            None => connect(&self.path, OpenFlags::SQLITE_OPEN_READ_ONLY)
                .inspect_err(|error| self.condition.record_open_failure(error))?,
        };
        let result = work(&connection);
        match &result {
            // Drop the connection: after a fault of the disk, a new one may be able to read where this one can't.
            Err(error) if health::is_fault(error) => self.condition.record_read_failure(error),
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
