//! The record of a rollback in progress. It is written before anything is changed, and removed when the home is in its
//! new state or in the old one again. A record that is found while nobody holds the lock belongs to a rollback that was
//! killed. The next command that changes the home completes it.

use serde::{Deserialize, Serialize};

use crate::home::lock::Lock;
use crate::home::{Home, HomeError, atomic};
use crate::id::AgentId;

/// A rollback in progress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PendingRollback {
    /// The generation before.
    pub from: u64,
    /// The generation to go back to.
    pub to: u64,
    /// The party that asked for it.
    pub by: String,
    /// Unix milliseconds.
    pub begun_at: i64,
    /// Set while the change is being undone.
    #[serde(default)]
    pub back: bool,
    /// The replacement of the configuration, if it differs.
    pub config: Option<ConfigSwitch>,
    /// The agents whose packages change.
    pub packages: Vec<PackageSwitch>,
    /// The images whose names move.
    #[serde(default)]
    pub images: Vec<ImageSwitch>,
    /// The change of OpenClaw's version, if there is one.
    pub openclaw: Option<VersionSwitch>,
    /// The change of flock's program, if there is one. It is the last step.
    pub program: Option<VersionSwitch>,
}

/// The replacement of the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConfigSwitch {
    /// Name of the backup that holds the configuration before, with its keys.
    pub backup: String,
    /// SHA-256 of the configuration before.
    pub before: String,
    /// SHA-256 of the configuration after.
    pub after: String,
}

/// The change of an agent's packages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackageSwitch {
    pub agent: AgentId,
    /// The generation of its profile before. 0 stands for no profile.
    pub from: u32,
    /// The generation of its profile after.
    pub to: u32,
}

/// The change of the image that has a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageSwitch {
    pub name: String,
    /// The image's id before.
    pub from: String,
    /// Its id after.
    pub to: String,
}

/// The change from one version of a program to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionSwitch {
    pub from: String,
    pub to: String,
}

impl PendingRollback {
    /// Writes the record. Returns once it is on the disk.
    ///
    /// # Errors
    ///
    /// Returns an error if it can't be written. Then nothing may be changed.
    pub fn write(&self, home: &Home) -> Result<(), HomeError> {
        let bytes = serde_json::to_vec_pretty(self).unwrap_or_default();
        atomic::write(&path(home), &bytes, 0o600)
    }
}

/// Returns the rollback in progress, if there is one.
///
/// # Errors
///
/// Returns an error if the record can't be read or is invalid. Ignoring it would leave the home between two states.
pub fn read(home: &Home) -> Result<Option<PendingRollback>, HomeError> {
    let path = path(home);
    let Some(bytes) = atomic::read(&path, MAX_BYTES)? else { return Ok(None) };
    serde_json::from_slice(&bytes).map(Some).map_err(|error| HomeError::io("read", &path)(error.into()))
}

/// Returns `true` if a rollback is in progress or was killed.
#[must_use]
pub fn is_open(home: &Home) -> bool {
    path(home).exists()
}

/// Removes the record, because the rollback has ended.
///
/// # Errors
///
/// Returns an error if it can't be removed.
pub fn clear(home: &Home) -> Result<(), HomeError> {
    let path = path(home);
    match fs_err::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(HomeError::io("remove", &path)(error));
        }
        _ => {}
    }
    // Otherwise a power cut could bring the record back, and the next command would undo a rollback that had ended.
    let folder = home.generations();
    let synced = std::fs::File::open(&folder).and_then(|folder| folder.sync_all());
    synced.map_err(HomeError::io("sync", &folder))
}

/// Takes the lock of rollbacks, without waiting. It is held while one is in progress.
///
/// # Errors
///
/// Returns [`HomeError::Held`] if another process has it.
pub fn try_lock(home: &Home) -> Result<Lock, HomeError> {
    Lock::try_acquire(&home.rollback_lock())
}

fn path(home: &Home) -> std::path::PathBuf {
    home.generations().join("rollback")
}

/// Largest record, in bytes.
const MAX_BYTES: u64 = 1 << 20;
