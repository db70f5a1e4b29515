//! Errors of the copies of vaults.

use super::MAX_FILE;
use super::held::{VaultHolder, VaultWork};
use crate::blob::BlobError;
use crate::error::{Explain, Kind};
use crate::home::HomeError;
use crate::home::beneath::BeneathError;
use crate::home::write_fence::CutOff;
use crate::id::FolderName;
use crate::swarm::vault::{MAX_ENTRIES, VaultError};

/// A failed operation on the copies of a vault.
#[derive(Debug, thiserror::Error)]
pub(crate) enum VaultCopyError {
    #[error(transparent)]
    Blob(#[from] BlobError),
    #[error(transparent)]
    Vault(#[from] VaultError),
    #[error(transparent)]
    Home(#[from] HomeError),
    #[error(transparent)]
    CutOff(#[from] CutOff),
    /// A part of the vault can't be listed. Its files must not be taken for deleted.
    #[error(
        "vault {0} has more than {MAX_ENTRIES} files and folders, too many levels of them, or a folder that can't be read, so \
         nothing of it is copied"
    )]
    Unlisted(FolderName),
    /// A file is too large.
    #[error("{path:?} of vault {vault} has {size} bytes; at most {MAX_FILE} are copied")]
    TooLarge { vault: FolderName, path: String, size: u64 },
    /// The name of a file can't be in a record.
    #[error("the name of a file of vault {vault} is no text or too long, so it is not copied: {path:?}")]
    Unnamed { vault: FolderName, path: String },
    /// The store has no copy of this vault, or none that is old enough.
    #[error("{place} has no copy of a vault {vault}{}", instead(.is_timed, .known))]
    NotStored {
        place: String,
        vault: FolderName,
        /// `true` if a copy of a certain time was asked for.
        is_timed: bool,
        /// The vaults that it has copies of.
        known: Vec<FolderName>,
    },
    /// Another process brings the vault back or deletes its copies.
    #[error("{}", under_way(.vault, .holder.as_deref()))]
    Busy { vault: FolderName, holder: Option<Box<VaultHolder>> },
    /// The vault is not removed.
    #[error("{0} is a vault of this home, and would be copied again")]
    Present(FolderName),
    /// The work was given up, because the process ends.
    #[error("the copies of a vault were given up")]
    Stopped,
}

/// The most vaults that an error names.
const MAX_NAMED: usize = 20;

/// Returns the end of a sentence that says which copies there are not.
fn instead(is_timed: &bool, known: &[FolderName]) -> String {
    let time = if *is_timed { " of that time or before" } else { "" };
    if known.is_empty() {
        return time.to_owned();
    }
    let names: Vec<&str> = known.iter().take(MAX_NAMED).map(FolderName::as_str).collect();
    let others = if known.len() > MAX_NAMED { " and others" } else { "" };
    format!("{time}; it has copies of {}{others}", names.join(", "))
}

/// Returns a sentence that says why a vault is left alone.
fn under_way(vault: &FolderName, holder: Option<&VaultHolder>) -> String {
    match holder {
        None => format!("another process brings vault {vault} back or deletes its copies"),
        Some(holder) => match holder.work {
            VaultWork::Pull => format!("vault {vault} is being brought back by {holder}"),
            VaultWork::Forget => format!("the copies of vault {vault} are being deleted by {holder}"),
        },
    }
}

impl Explain for VaultCopyError {
    fn kind(&self) -> Kind {
        match self {
            Self::Blob(error) => error.kind(),
            Self::Vault(error) => error.kind(),
            Self::Home(error) => error.kind(),
            Self::NotStored { .. } => Kind::Usage,
            Self::Busy { .. } | Self::Present(_) => Kind::Conflict,
            Self::CutOff(_)
            | Self::Unlisted(_)
            | Self::TooLarge { .. }
            | Self::Unnamed { .. }
            | Self::Stopped => Kind::Failed,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Blob(error) => error.hint(),
            Self::Home(error) => error.hint(),
            Self::NotStored { .. } => Some("flock storage list".to_owned()),
            Self::Busy { .. } => {
                Some("wait until that has ended, or end that process, and try again".to_owned())
            }
            Self::Present(vault) => Some(format!("remove the folder vaults/{vault} first")),
            // An archive has all of them.
            Self::Unlisted(_)
            | Self::TooLarge { .. }
            | Self::Unnamed { .. }
            | Self::Vault(VaultError::File { source: BeneathError::TooLarge { .. }, .. }) => {
                Some("flock backup".to_owned())
            }
            Self::Vault(VaultError::Lock { .. }) => Some("flock status".to_owned()),
            Self::Vault(VaultError::File { .. }) => {
                Some("look at the disk, and who may read and write the vault".to_owned())
            }
            Self::Vault(_) | Self::CutOff(_) | Self::Stopped => None,
        }
    }
}
