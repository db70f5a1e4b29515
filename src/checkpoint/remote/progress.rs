//! How far the copies in the store are, for people: what the gateway could not copy, and since when.

use std::path::Path;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::MAX_FILE;
use crate::home::{Home, HomeError, atomic};
use crate::id::AgentId;

/// The copies that failed at the last look.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CopyProgress {
    /// The place of the store.
    pub(crate) place: String,
    pub(crate) failed: Vec<FailedCopy>,
}

/// A copy that failed and is tried again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FailedCopy {
    pub(crate) agent: AgentId,
    /// Unix milliseconds of the first failure in a row.
    pub(crate) since: i64,
    pub(crate) problem: String,
    /// The command that mends it.
    pub(crate) hint: Option<String>,
}

impl CopyProgress {
    /// Reads what the gateway has written. Returns `None` if it has not written anything.
    ///
    /// # Errors
    ///
    /// Returns an error if the file can't be read.
    pub(crate) fn read(path: &Path) -> Result<Option<Self>, HomeError> {
        let bytes = atomic::read(path, MAX_FILE * 64)?;
        Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
    }

    /// Writes it for other processes.
    ///
    /// # Errors
    ///
    /// Returns an error if the file can't be written.
    pub(crate) fn write(&self, path: &Path) -> Result<(), HomeError> {
        let bytes = serde_json::to_vec(self).map_err(|error| HomeError::io("write", path)(error.into()))?;
        atomic::write_unsynced(path, &bytes, 0o600)
    }
}

/// A mark of the state of an agent's checkpoints, which differs after each new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CheckpointMark {
    length: u64,
    modified: Option<SystemTime>,
}

impl CheckpointMark {
    /// Returns the mark of an agent's checkpoints, or `None` if there are none.
    pub(crate) fn of(home: &Home, agent: &AgentId) -> Option<Self> {
        let found = home.checkpoints(agent).join("records.jsonl").symlink_metadata().ok()?;
        Some(Self { length: found.len(), modified: found.modified().ok() })
    }
}
