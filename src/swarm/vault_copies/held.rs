//! Keeps other processes from a vault while it is brought back, or while its copies are deleted.
//!
//! It is the lock of a file beside the vaults, which gateways that share the agents' files share, too. Whoever does this is a
//! command, which has no lease of the database and maybe no database. A lock ends with its holder, however that ends.

use std::fmt::{self, Display};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::VaultCopyError;
use crate::clock::{self, unix_ms};
use crate::home::lock::Lock;
use crate::home::{Home, HomeError, atomic};
use crate::id::FolderName;
use crate::process;
use crate::swarm::vault::Vaults;

/// The most bytes of what the file of a lock says of its holder.
const MAX_NOTE: u64 = 4 << 10;

/// The work for which a vault is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum VaultWork {
    /// The vault is brought back.
    Pull,
    /// All of its copies are deleted.
    Forget,
}

/// The process that holds a vault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct VaultHolder {
    pub(super) work: VaultWork,
    /// The login name of its user.
    by: String,
    machine: String,
    process: u32,
    /// Unix milliseconds.
    since: i64,
}

impl VaultHolder {
    /// Returns this process.
    fn here(work: VaultWork) -> Self {
        let (by, machine) = (process::login(), process::host_name());
        Self { work, by, machine, process: std::process::id(), since: unix_ms() }
    }

    /// Returns what the file of a lock says of its holder. `None` if that is not written yet.
    fn read(path: &Path) -> Option<Self> {
        serde_json::from_slice(&atomic::read(path, MAX_NOTE).ok()??).ok()
    }
}

impl Display for VaultHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { by, machine, process, since, .. } = self;
        write!(f, "{by} on {machine} (process {process}, since {})", clock::local(*since))
    }
}

/// A vault that this process alone brings back, or whose copies it alone deletes, until this is dropped.
#[derive(Debug)]
pub(crate) struct HeldVault {
    pub(super) vault: FolderName,
    pub(super) vaults: Arc<Vaults>,
    _alone: Lock,
}

impl HeldVault {
    /// Takes a vault of a home, whether it exists or not.
    ///
    /// # Errors
    ///
    /// Returns [`VaultCopyError::Busy`] if another process has it, also one of another gateway with the same files.
    pub(crate) fn take(home: &Home, vault: &FolderName, work: VaultWork) -> Result<Self, VaultCopyError> {
        let path = home.vault_copies_lock(vault);
        let alone = match Lock::acquire_with_folder(&path, Duration::ZERO) {
            Err(HomeError::Held { .. }) => {
                let holder = VaultHolder::read(&path).map(Box::new);
                return Err(VaultCopyError::Busy { vault: vault.clone(), holder });
            }
            taken => taken?,
        };
        let note = serde_json::to_vec(&VaultHolder::here(work)).unwrap_or_default();
        // Without it, others are kept out all the same.
        if let Err(error) = alone.write_note(&note) {
            tracing::warn!(%vault, %error, "failed to write into a lock who holds it");
        }
        Ok(Self { vault: vault.clone(), vaults: Arc::new(Vaults::new(home)), _alone: alone })
    }
}
