//! Connections for reading, which are reused.

use std::sync::{Mutex, PoisonError};

use super::health::StorageHealth;
use super::{StoreError, sql};

/// The number of idle connections that are kept for reuse.
const MAX_IDLE: usize = 4;

/// The part of a database's driver that reads use.
pub(super) trait ReadingDriver {
    type Connection;

    /// Makes a connection for reading.
    fn connect(&self) -> Result<Self::Connection, StoreError>;

    /// Returns `true` unless a connection is known to be broken.
    fn is_usable(connection: &Self::Connection) -> bool;

    /// Returns a connection as the subjects see it.
    fn view(connection: &Self::Connection) -> sql::Connection<'_>;

    /// Runs a read where it may wait for its answer.
    fn wait<T>(read: impl FnOnce() -> T) -> T;
}

/// The connections of a process that read one database.
pub(super) struct ReadPool<D: ReadingDriver> {
    pub(super) driver: D,
    idle: Mutex<Vec<D::Connection>>,
    pub(super) condition: StorageHealth,
}

impl<D: ReadingDriver> ReadPool<D> {
    /// Returns a pool that begins with these connections. It opens more when they are needed.
    pub(super) fn new(driver: D, idle: Vec<D::Connection>) -> Self {
        Self { driver, idle: Mutex::new(idle), condition: StorageHealth::default() }
    }

    /// Runs `work` on a connection. It sees everything that was committed before.
    pub(super) fn read<T>(
        &self,
        what: &'static str,
        work: impl FnOnce(&sql::Connection<'_>) -> sql::Result<T>,
    ) -> Result<T, StoreError> {
        D::wait(|| self.read_here(what, work))
    }

    fn read_here<T>(
        &self,
        what: &'static str,
        work: impl FnOnce(&sql::Connection<'_>) -> sql::Result<T>,
    ) -> Result<T, StoreError> {
        let connection = match self.take_idle() {
            Some(connection) => connection,
            None => self.driver.connect().inspect_err(|error| self.condition.record_open_failure(error))?,
        };
        let result = work(&D::view(&connection));
        match &result {
            // Drop the connection: after a fault of the storage, a new one may be able to read where this one can't.
            Err(error) if error.cause().is_fault() => self.condition.record_read_failure(error),
            _ if !D::is_usable(&connection) => {}
            _ => {
                let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
                if idle.len() < MAX_IDLE {
                    idle.push(connection);
                }
            }
        }
        result.map_err(|source| StoreError::query(what, source))
    }

    /// Returns an idle connection that is not known to be broken.
    fn take_idle(&self) -> Option<D::Connection> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(connection) = idle.pop() {
            if D::is_usable(&connection) {
                return Some(connection);
            }
        }
        None
    }
}
