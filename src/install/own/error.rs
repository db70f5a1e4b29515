//! Why flock could not be updated.

use std::path::PathBuf;

use crate::error::{Explain, Kind};
use crate::home::HomeError;
use crate::install::InstallError;
use crate::store::StoreError;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum OwnError {
    /// The home's own files.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// Fetching, building, or a file.
    #[error(transparent)]
    Install(#[from] InstallError),
    /// The database could not be copied.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Another update is under way.
    #[error("another flock is updating this program")]
    Busy,
    /// Nobody said where the source is.
    #[error("it is not known where flock's source is")]
    NoSource,
    /// The source would come over a connection that anybody on the way can change.
    #[error("{address} is not encrypted: anybody on the way could put another program in the place of flock")]
    Unencrypted {
        /// The address.
        address: String,
    },
    /// The program in use was replaced while this process ran.
    #[error("{} was replaced since this command was started", path.display())]
    Replaced {
        /// Where it was.
        path: PathBuf,
    },
    /// A package manager owns the program.
    #[error("{} belongs to {owner}, which would overwrite or miss the change", path.display())]
    Owned {
        /// The program.
        path: PathBuf,
        /// As in `the Debian package flock`.
        owner: String,
    },
    /// The program can't be replaced by this user.
    #[error("{} can't be replaced: this user may not write to its folder", path.display())]
    Unwritable {
        /// The program.
        path: PathBuf,
    },
    /// There is no cargo.
    #[error("flock is built with cargo, and there is none on PATH")]
    NoCargo,
    /// What was fetched is not flock.
    #[error("{address} is not flock: {reason}")]
    NotFlock {
        /// From where.
        address: String,
        /// What it lacks.
        reason: String,
    },
    /// The disk is too small.
    #[error("building flock needs {needed} on the disk of the home; {found} are free")]
    Space {
        /// As in `4.0 GB`.
        needed: String,
        /// As in `1.2 GB`.
        found: String,
    },
    /// What was built did not pass its trial.
    #[error("{program} did not pass its trial: {reason}")]
    Untried {
        /// The version.
        program: String,
        /// Why.
        reason: String,
        /// Where all that it wrote is.
        log: PathBuf,
    },
    /// There is no program to go back to.
    #[error("there is no version of flock to go back to")]
    NoPrevious,
}

impl Explain for OwnError {
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
                return error.hint().map(|_| "flock update --self --from https://… or a path".to_owned());
            }
            Self::Install(error) => {
                return error
                    .hint()
                    .map(|hint| hint.replace("flock init --gateway openclaw", "flock update --self"));
            }
            Self::Store(error) => return error.hint(),
            Self::Busy => "wait for it to end, then flock update --self".to_owned(),
            Self::NoSource => {
                "flock update --self --from URL or a path of its repository; it is remembered".to_owned()
            }
            Self::Unencrypted { .. } => "take an https or ssh address, or say --unencrypted".to_owned(),
            Self::Replaced { .. } => "flock update --self again".to_owned(),
            Self::Owned { path, .. } | Self::Unwritable { path } => format!(
                "install -D -m 755 {} ~/.local/bin/flock, put ~/.local/bin first on PATH, and run flock update --self \
                 with that one; or install the new version as this one was",
                path.display()
            ),
            Self::NoCargo => "install Rust as https://rustup.rs says, then flock update --self".to_owned(),
            Self::NotFlock { .. } => "flock update --self --from URL --ref REF".to_owned(),
            Self::Space { .. } => "df -h ~/.flock".to_owned(),
            Self::Untried { log, .. } => {
                format!("less {}; flock update --self --retry tries this commit again", log.display())
            }
            Self::NoPrevious => "flock update --self --ref COMMIT builds the one you want".to_owned(),
        })
    }
}
