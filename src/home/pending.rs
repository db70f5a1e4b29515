//! Unfinished operations on agents.
//!
//! An operation of several steps is recorded before its first step and deleted after its last one. If its process is
//! killed, the record shows that, and the operation can be finished.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::lock::Lock;
use super::{Home, HomeError, atomic};
use crate::id::AgentId;

/// An operation that has begun and has not ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PendingOperation {
    pub agent: AgentId,
    pub operation: AgentOperation,
    /// The party that asked for it.
    pub by: String,
    /// Unix milliseconds.
    pub begun_at: i64,
    /// Set once the configuration was changed for the operation. An agent of this id that is added to the configuration
    /// afterwards is a new one and is kept.
    pub configured: bool,
}

/// The kind of an operation on an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum AgentOperation {
    /// The agent is removed.
    Remove {
        /// Set to delete its workspace, transcripts and sessions as well.
        purge: bool,
        /// Its workspace at the time of the removal.
        workspace: PathBuf,
    },
    /// The agent gets another id.
    Rename {
        /// The new id.
        to: AgentId,
        /// Its workspace at the start of the operation.
        workspace: PathBuf,
        /// Set if a gateway was stopped for this and has to be started again.
        restart: bool,
    },
}

impl PendingOperation {
    /// Returns `true` if the last step deletes the agent's data.
    #[must_use]
    pub(crate) const fn purges(&self) -> bool {
        match self.operation {
            AgentOperation::Remove { purge, .. } => purge,
            AgentOperation::Rename { .. } => false,
        }
    }

    /// Returns a noun phrase, as in `the removal of coder`.
    #[must_use]
    pub fn title(&self) -> String {
        match &self.operation {
            AgentOperation::Remove { .. } => format!("the removal of {}", self.agent),
            AgentOperation::Rename { to, .. } => format!("the rename of {} to {to}", self.agent),
        }
    }

    /// Returns the command that continues the operation.
    #[must_use]
    pub fn command(&self) -> String {
        match &self.operation {
            AgentOperation::Remove { purge: true, .. } => format!("flock remove {} --purge", self.agent),
            AgentOperation::Remove { purge: false, .. } => format!("flock remove {}", self.agent),
            AgentOperation::Rename { to, .. } => format!("flock rename {} {to}", self.agent),
        }
    }
}

/// The largest record in bytes.
const MAX_BYTES: u64 = 64 << 10;
/// The time limit for waiting for another process that works on an operation.
const LOCK_TIMEOUT: Duration = Duration::from_secs(300);

/// Records the start of an operation or its progress. Returns once the record is on the disk.
///
/// # Errors
///
/// Returns an error if the record can't be written.
pub fn write(home: &Home, pending: &PendingOperation) -> Result<(), HomeError> {
    let folder = home.pending();
    // `init` does not create this folder.
    fs_err::create_dir_all(&folder).map_err(HomeError::io("make the folder", &folder))?;
    let bytes = serde_json::to_vec_pretty(pending).unwrap_or_default();
    atomic::write(&path(home, &pending.agent), &bytes, 0o600)
}

/// Deletes the record of an operation that has ended.
///
/// # Errors
///
/// Returns an error if the record can't be removed.
pub fn clear(home: &Home, agent: &AgentId) -> Result<(), HomeError> {
    let path = path(home, agent);
    // A missing record is fine: the last step of an operation may be repeated after a crash.
    match fs_err::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(HomeError::io("remove", &path)(error))
        }
        _ => Ok(()),
    }
}

/// Returns the unfinished operation on an agent, if there is one.
///
/// # Errors
///
/// Returns an error if the record can't be read or is invalid.
pub fn read(home: &Home, agent: &AgentId) -> Result<Option<PendingOperation>, HomeError> {
    let path = path(home, agent);
    let Some(bytes) = atomic::read(&path, MAX_BYTES)? else { return Ok(None) };
    // An invalid record is an error, because ignoring it would leave its operation unfinished.
    serde_json::from_slice(&bytes).map(Some).map_err(|error| HomeError::io("read", &path)(error.into()))
}

/// Returns all unfinished operations, sorted by agent.
///
/// # Errors
///
/// Returns an error if a record can't be read or is invalid.
pub fn all(home: &Home) -> Result<Vec<PendingOperation>, HomeError> {
    let folder = home.pending();
    let fail = HomeError::io("read", &folder);
    let entries = match fs_err::read_dir(&folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(&fail)?,
    };
    let mut agents = Vec::new();
    for entry in entries {
        let name = entry.map_err(&fail)?.file_name();
        // Temporary files of `atomic::write` have other names and are skipped.
        let name = name.to_str().and_then(|name| name.strip_suffix(SUFFIX));
        agents.extend(name.and_then(|name| name.parse::<AgentId>().ok()));
    }
    agents.sort();
    let mut found = Vec::new();
    for agent in agents {
        found.extend(read(home, &agent)?);
    }
    Ok(found)
}

/// Takes the lock for work on operations of this home. Waits some minutes for another process that has it.
///
/// # Errors
///
/// Returns [`HomeError::Held`] if another process still has it after that.
pub fn lock(home: &Home) -> Result<Lock, HomeError> {
    Lock::acquire(&home.pending_lock(), LOCK_TIMEOUT)
}

/// Takes the same lock as [`lock`], without waiting.
///
/// # Errors
///
/// Returns [`HomeError::Held`] if another process has it.
pub fn try_lock(home: &Home) -> Result<Lock, HomeError> {
    Lock::try_acquire(&home.pending_lock())
}

const SUFFIX: &str = ".json";

fn path(home: &Home, agent: &AgentId) -> PathBuf {
    home.pending().join(format!("{agent}{SUFFIX}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_is_known_from_its_beginning_to_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path().to_owned(), None);
        assert_eq!(all(&home).unwrap(), []);
        std::fs::create_dir_all(home.data()).unwrap();
        let of = |id: &str| PendingOperation {
            agent: id.parse().unwrap(),
            operation: AgentOperation::Remove { purge: true, workspace: "/w".into() },
            by: "human:ann".to_owned(),
            begun_at: 7,
            configured: false,
        };
        let (ada, bob) = (of("ada"), of("bob"));
        write(&home, &bob).unwrap();
        write(&home, &ada).unwrap();
        write(&home, &PendingOperation { configured: true, ..bob.clone() }).unwrap();
        // A temporary file of a process that was killed.
        std::fs::write(home.pending().join(".new-a1b2c3"), "{").unwrap();
        assert_eq!(all(&home).unwrap(), [ada.clone(), PendingOperation { configured: true, ..bob.clone() }]);
        clear(&home, &ada.agent).unwrap();
        clear(&home, &ada.agent).unwrap();
        assert_eq!(read(&home, &ada.agent).unwrap(), None);
        assert!(read(&home, &bob.agent).unwrap().is_some_and(|found| found.configured));
        std::fs::write(home.pending().join("bob.json"), "{").unwrap();
        assert!(all(&home).is_err());
    }
}
