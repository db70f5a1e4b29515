//! Errors of updating flock itself.

use std::path::PathBuf;

use crate::error::{Explain, Kind};
use crate::home::HomeError;
use crate::install::InstallError;
use crate::store::StoreError;

/// The reasons why an update fails.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SelfUpdateError {
    /// An error of the home's own files.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// An error of fetching, of building, or of a file.
    #[error(transparent)]
    Install(#[from] InstallError),
    /// The database could not be copied.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Another update is running.
    #[error("another flock is updating this program")]
    Busy,
    /// No repository is known.
    #[error("flock does not know the repository of its own source")]
    NoSource,
    /// The connection is not encrypted, so anybody on the way could change the source.
    #[error("{address} is not encrypted: anybody on the way could put another program in the place of flock")]
    Unencrypted { address: String },
    /// The program was replaced by somebody else while this process ran.
    #[error("{} was replaced since this command was started", path.display())]
    Replaced {
        /// The former path of the program.
        path: PathBuf,
    },
    /// The program belongs to a package manager.
    #[error("{} belongs to {owner}, which would overwrite or miss the change", path.display())]
    Owned {
        path: PathBuf,
        /// Package or store that owns it, as in `the Debian package flock`.
        owner: String,
    },
    /// This user may not replace the program.
    #[error("{} can't be replaced: this user may not write to its folder", path.display())]
    Unwritable { path: PathBuf },
    #[error("flock is built with cargo, and there is none on PATH")]
    NoCargo,
    /// The fetched source is not flock.
    #[error("{address} is not flock: {reason}")]
    NotFlock { address: String, reason: String },
    /// The disk is too small.
    #[error("building flock needs {needed} on the disk of the home; {found} are free")]
    Space {
        /// Required space, as in `4.0 GB`.
        needed: String,
        /// Free space, as in `1.2 GB`.
        found: String,
    },
    /// The new program did not pass its trial.
    #[error("{program} did not pass its trial: {reason}")]
    Untried {
        /// Its name and version.
        program: String,
        reason: String,
        /// The log with its whole output.
        log: PathBuf,
    },
    /// There is no earlier program for a rollback.
    #[error("there is no version of flock to go back to")]
    NoPrevious,
}

impl Explain for SelfUpdateError {
    fn kind(&self) -> Kind {
        match self {
            Self::Home(error) => error.kind(),
            Self::Install(error) => error.kind(),
            Self::Store(error) => error.kind(),
            Self::Busy => Kind::Conflict,
            Self::NoSource | Self::Unencrypted { .. } => Kind::Usage,
            _ => Kind::Failed,
        }
    }

    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Home(error) => return error.hint(),
            Self::Install(error @ InstallError::Repository { .. }) => {
                return error.hint().map(|_| {
                    "name an https or ssh address, or a path: flock update --self --from REPOSITORY"
                        .to_owned()
                });
            }
            // The hints of the shared installer name the command that installs OpenClaw.
            Self::Install(error) => {
                return error
                    .hint()
                    .map(|hint| hint.replace("flock init --gateway openclaw", "flock update --self"));
            }
            Self::Store(error) => return error.hint(),
            Self::Busy => "wait for it to end, then flock update --self".to_owned(),
            Self::NoSource => {
                "name it once, as a URL or a path: flock update --self --from REPOSITORY".to_owned()
            }
            Self::Unencrypted { .. } => "take an https or ssh address, or say --unencrypted".to_owned(),
            Self::Replaced { .. } => "flock update --self".to_owned(),
            // A private copy can always be updated, whatever the system does with its own.
            Self::Owned { path, .. } | Self::Unwritable { path } => format!(
                "install -D -m 755 {} ~/.local/bin/flock, put ~/.local/bin first on PATH, and run flock update \
                 --self with that copy; or install the new version in the same way as this one",
                path.display()
            ),
            Self::NoCargo => "install Rust as https://rustup.rs says, then flock update --self".to_owned(),
            Self::NotFlock { .. } => "flock update --self --from URL --ref REF".to_owned(),
            Self::Space { .. } => "df -h ~/.flock".to_owned(),
            Self::Untried { log, .. } => {
                format!("less {}; to try this commit again: flock update --self --retry", log.display())
            }
            Self::NoPrevious => "to build a certain version: flock update --self --ref COMMIT".to_owned(),
        })
    }
}
