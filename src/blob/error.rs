//! Errors of the store of blobs.

use std::io;
use std::path::{Path, PathBuf};

use super::BlobKey;
use crate::error::{Explain, KERNEL_LOG_HINT, Kind, is_of_disk};
use crate::home::HomeError;

/// A failed operation on a store of blobs. No error contains a key of the access.
#[derive(Debug, thiserror::Error)]
pub enum BlobError {
    /// There is no blob with this key.
    #[error("{place} has no {key}")]
    Missing { place: String, key: BlobKey },
    /// A blob is not what was written.
    #[error("{key} in {place} is damaged: {reason}")]
    Damaged { place: String, key: BlobKey, reason: String },
    /// The server could not be reached, or did not carry out the request, after several attempts.
    #[error("{place} can't be used for now: {problem}")]
    Unreachable { place: String, problem: String },
    /// The server does not accept the access key, or the key may not do this.
    #[error("{place} refuses the access key: {problem}")]
    Denied { place: String, problem: String },
    /// The clock of this machine is too far from the server's, so that no signature is valid.
    #[error("{place} refuses requests because the clock of this machine differs from its own: {problem}")]
    Clock { place: String, problem: String },
    /// The server refuses the request as such.
    #[error("{place} refuses a request: {problem}")]
    Refused { place: String, problem: String },
    /// The secret of the access key can't be read.
    #[error("the key for {place} can't be used: {problem}")]
    Key { place: String, problem: String },
    /// The folder of the store does not exist, for example because its disk is not mounted.
    #[error("the folder {} does not exist", path.display())]
    NoFolder { path: PathBuf },
    /// The store of this home is empty now.
    #[error("{place} is not the store that this home has used: it has no {}", super::owner::NAME)]
    Lost { place: String },
    /// Another home writes to the store.
    #[error("{place} belongs to another home")]
    Foreign { place: String },
    /// No store is set.
    #[error("no place for blobs is set")]
    Unset,
    /// A file of the store or of the home failed.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// A system call failed.
    #[error("failed to {verb} {}", path.display())]
    Io {
        /// The operation, as in `read`.
        verb: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

impl BlobError {
    /// Returns a function that adds the operation and the path to an error.
    pub(super) fn io(verb: &'static str, path: &Path) -> impl Fn(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { verb, path: path.clone(), source }
    }

    /// Returns `true` if the blob does not exist.
    #[must_use]
    pub const fn is_missing(&self) -> bool {
        matches!(self, Self::Missing { .. })
    }
}

/// The key of the settings.
const SETTINGS: &str = "plugins.entries.flock.config.storage.blobs";

impl Explain for BlobError {
    fn kind(&self) -> Kind {
        match self {
            Self::Home(error) => error.kind(),
            Self::Foreign { .. } => Kind::Conflict,
            Self::Unset => Kind::Usage,
            Self::Io { source, .. } if is_of_disk(source) => Kind::Unreadable,
            _ => Kind::Failed,
        }
    }

    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Home(error) => return error.hint(),
            Self::Io { source, .. } if is_of_disk(source) => KERNEL_LOG_HINT.to_owned(),
            Self::Denied { .. } | Self::Key { .. } => {
                format!("flock config set {SETTINGS}.secretAccessKey -")
            }
            Self::Foreign { .. } => "flock storage take".to_owned(),
            Self::Unset => {
                format!("flock config set {SETTINGS} '{{\"kind\": \"folder\", \"path\": \"/PATH\"}}'")
            }
            Self::Clock { .. } => "set the clock of this machine, for example with timedatectl".to_owned(),
            Self::NoFolder { path } => {
                format!("mount the disk, or make the folder: mkdir {}", path.display())
            }
            Self::Lost { .. } => {
                "mount the disk or name the right bucket, or begin with an empty one: flock storage take"
                    .to_owned()
            }
            Self::Refused { .. } => format!("flock config get {SETTINGS}"),
            _ => "flock storage check".to_owned(),
        })
    }

    fn may_pass(&self) -> bool {
        matches!(self, Self::Unreachable { .. }) || self.kind() == Kind::Unreadable
    }
}
