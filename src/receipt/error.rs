//! The errors of receipts. A check that fails is not one of them: the receipt says so.

use std::path::PathBuf;

use super::sshsig::SignatureError;
use crate::error::{Explain, Kind};
use crate::home::HomeError;
use crate::nix_store::NixError;
use crate::sandbox::check::CheckError;
use crate::store::StoreError;

/// The reason why a receipt can't be made, read or believed.
#[derive(Debug, thiserror::Error)]
pub enum ReceiptError {
    /// A document is not in its canonical form, or contradicts itself.
    #[error("{what} can't be used: {reason}")]
    Malformed {
        /// The document, for example `the receipt`.
        what: &'static str,
        reason: String,
    },
    /// A git object is missing or is not what its hash says.
    #[error("the git object {id} can't be used: {reason}")]
    Object { id: String, reason: String },
    /// A tree has a name that git does not write, or is too large.
    #[error("the tree can't be used: in {path:?}, {reason}")]
    Tree { path: PathBuf, reason: String },
    /// There is no repository.
    #[error("failed to open the repository {}", path.display())]
    Repository {
        path: PathBuf,
        #[source]
        source: git2::Error,
    },
    /// The checks of a task are out of flock's bounds.
    #[error("the checks can't be used: {reason}")]
    Checks { reason: String },
    /// No receipt has this id, or several begin with it.
    #[error("{0}")]
    NotFound(String),
    /// The signature is missing or wrong.
    #[error("the signature of the receipt is not valid")]
    Signature(#[from] SignatureError),
    /// A stored receipt was changed.
    #[error("the stored receipt {id} is not the one that was made: {reason}")]
    Changed { id: String, reason: &'static str },
    /// The secret is no key for receipts.
    #[error("the secret \"receipt-key\" holds no key for receipts")]
    Key,
    /// The system gave no random numbers.
    #[error("failed to make a key for receipts")]
    Random,
    #[error("failed to use {}", path.display())]
    File {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error(transparent)]
    Home(#[from] HomeError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Check(#[from] CheckError),
    #[error(transparent)]
    Nix(#[from] NixError),
}

impl Explain for ReceiptError {
    fn kind(&self) -> Kind {
        match self {
            Self::Home(error) => error.kind(),
            Self::Store(error) => error.kind(),
            Self::Check(error) => error.kind(),
            Self::Nix(error) => error.kind(),
            _ => Kind::Failed,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Home(error) => error.hint(),
            Self::Store(error) => error.hint(),
            Self::Check(error) => error.hint(),
            Self::Nix(error) => error.hint(),
            Self::NotFound(_) => Some("flock receipt list".to_owned()),
            Self::Changed { .. } => Some("flock audit --verify".to_owned()),
            Self::Key => Some("move the file secrets/receipt-key away, and: flock receipt key".to_owned()),
            _ => None,
        }
    }
}
