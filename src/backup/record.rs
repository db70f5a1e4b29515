//! The record of the newest backup of a home, which is in the home and in no backup.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::manifest::Part;
use crate::home::{Home, HomeError, atomic};

/// Largest record, in bytes.
const MAX_BYTES: u64 = 64 << 10;

/// The newest backup of a home.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BackupRecord {
    /// Unix milliseconds.
    pub(crate) at: i64,
    pub(crate) file: PathBuf,
    pub(crate) bytes: u64,
    /// Set if it was read again after it was written.
    pub(crate) verified: bool,
    /// The parts that it does not have.
    pub(crate) without: Vec<Part>,
}

impl BackupRecord {
    /// Returns the record of a home. `None` if no backup was made, or if the record is damaged.
    ///
    /// # Errors
    ///
    /// Returns an error if the file can't be read.
    pub(crate) fn read(home: &Home) -> Result<Option<Self>, HomeError> {
        let bytes = atomic::read(&home.backup_record(), MAX_BYTES)?;
        Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
    }

    /// Returns what the status shows of it.
    pub(crate) fn shown(&self) -> Value {
        json!({"at": self.at, "file": self.file.display().to_string()})
    }

    pub(super) fn write(&self, home: &Home) -> Result<(), HomeError> {
        atomic::write(&home.backup_record(), json!(self).to_string().as_bytes(), 0o600)
    }
}
