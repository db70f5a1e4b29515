//! Operations on an agent that take several steps: each is written down before its first step and struck out after its
//! last, so that one which was killed is known and can be finished.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::lock::Lock;
use super::{Home, HomeError, atomic};
use crate::id::AgentId;

/// An operation that has begun and has not ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pending {
    /// The agent.
    pub agent: AgentId,
    /// What is done with it.
    pub operation: Operation,
    /// Who asked for it, as a party.
    pub by: String,
    /// When it began, in Unix milliseconds.
    pub begun_at: i64,
    /// Whether the configuration has been changed for it. An agent of this id that is configured after that is a new
    /// one and stays there.
    pub configured: bool,
}

/// What is done with an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum Operation {
    /// It is removed.
    Remove {
        /// Whether its workspace, transcripts and sessions are deleted, too.
        purge: bool,
        /// Its workspace when it was removed.
        workspace: PathBuf,
    },
    /// It gets another id.
    Rename {
        /// The new one.
        to: AgentId,
        /// Its workspace when that began.
        workspace: PathBuf,
        /// Whether a gateway was stopped for it, which is to be started again.
        restart: bool,
    },
}

impl Pending {
    /// Whether its last step deletes what the agent had.
    #[must_use]
    pub const fn purges(&self) -> bool {
        match self.operation {
            Operation::Remove { purge, .. } => purge,
            Operation::Rename { .. } => false,
        }
    }

    /// As in `the removal of coder`.
    #[must_use]
    pub fn title(&self) -> String {
        match &self.operation {
            Operation::Remove { .. } => format!("the removal of {}", self.agent),
            Operation::Rename { to, .. } => format!("the rename of {} to {to}", self.agent),
        }
    }

    /// The command that goes on with it.
    #[must_use]
    pub fn command(&self) -> String {
        match &self.operation {
            Operation::Remove { purge: true, .. } => format!("flock remove {} --purge", self.agent),
            Operation::Remove { purge: false, .. } => format!("flock remove {}", self.agent),
            Operation::Rename { to, .. } => format!("flock rename {} {to}", self.agent),
        }
    }
}

/// No record of an operation is larger, in bytes.
const LARGEST: u64 = 64 << 10;
/// How long one waits for another process that is at an operation.
const PATIENCE: Duration = Duration::from_secs(300);

/// Writes down that an operation begins, or how far it has come. It is on the disk when this returns.
///
/// # Errors
///
/// If it can't be written.
pub fn write(home: &Home, pending: &Pending) -> Result<(), HomeError> {
    let folder = home.pending();
    fs_err::create_dir_all(&folder).map_err(|source| HomeError::Io {
        verb: "make the folder",
        path: folder.clone(),
        source,
    })?;
    let bytes = serde_json::to_vec_pretty(pending).unwrap_or_default();
    atomic::write(&path(home, &pending.agent), &bytes, 0o600)
}

/// Strikes an operation out.
///
/// # Errors
///
/// If its record can't be removed.
pub fn clear(home: &Home, agent: &AgentId) -> Result<(), HomeError> {
    let path = path(home, agent);
    match fs_err::remove_file(&path) {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
            Err(HomeError::Io { verb: "remove", path, source })
        }
        _ => Ok(()),
    }
}

/// The operation on this agent that has not ended.
///
/// # Errors
///
/// If its record can't be read.
pub fn read(home: &Home, agent: &AgentId) -> Result<Option<Pending>, HomeError> {
    let path = path(home, agent);
    let Some(bytes) = atomic::read(&path, LARGEST)? else { return Ok(None) };
    serde_json::from_slice(&bytes).map(Some).map_err(|error| HomeError::Io {
        verb: "read",
        path,
        source: std::io::Error::other(error),
    })
}

/// All operations that have not ended, in the order of their agents.
///
/// # Errors
///
/// If one can't be read.
pub fn all(home: &Home) -> Result<Vec<Pending>, HomeError> {
    let folder = home.pending();
    let fail = |source| HomeError::Io { verb: "read", path: folder.clone(), source };
    let entries = match fs_err::read_dir(&folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(fail)?,
    };
    let mut agents = Vec::new();
    for entry in entries {
        let name = entry.map_err(fail)?.file_name();
        let name = name.to_str().and_then(|name| name.strip_suffix(ENDING));
        agents.extend(name.and_then(|name| name.parse::<AgentId>().ok()));
    }
    agents.sort();
    let mut found = Vec::new();
    for agent in agents {
        found.extend(read(home, &agent)?);
    }
    Ok(found)
}

/// The right to work on operations of this home. Blocks while another process has it, for some minutes at most.
///
/// # Errors
///
/// [`HomeError::Held`] if another process keeps it.
pub fn lock(home: &Home) -> Result<Lock, HomeError> {
    Lock::acquire(&home.pending_lock(), PATIENCE)
}

/// As [`lock`], without waiting.
///
/// # Errors
///
/// [`HomeError::Held`] if another process has it.
pub fn try_lock(home: &Home) -> Result<Lock, HomeError> {
    Lock::try_acquire(&home.pending_lock())
}

const ENDING: &str = ".json";

fn path(home: &Home, agent: &AgentId) -> PathBuf {
    home.pending().join(format!("{agent}{ENDING}"))
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
        let of = |id: &str| Pending {
            agent: id.parse().unwrap(),
            operation: Operation::Remove { purge: true, workspace: "/w".into() },
            by: "human:ann".to_owned(),
            begun_at: 7,
            configured: false,
        };
        let (ada, bob) = (of("ada"), of("bob"));
        write(&home, &bob).unwrap();
        write(&home, &ada).unwrap();
        write(&home, &Pending { configured: true, ..bob.clone() }).unwrap();
        // A draft of a writer that was killed.
        std::fs::write(home.pending().join(".new-a1b2c3"), "{").unwrap();
        assert_eq!(all(&home).unwrap(), [ada.clone(), Pending { configured: true, ..bob.clone() }]);
        clear(&home, &ada.agent).unwrap();
        clear(&home, &ada.agent).unwrap();
        assert_eq!(read(&home, &ada.agent).unwrap(), None);
        assert!(read(&home, &bob.agent).unwrap().is_some_and(|found| found.configured));
        std::fs::write(home.pending().join("bob.json"), "{").unwrap();
        assert!(all(&home).is_err());
    }
}
