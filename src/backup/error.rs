//! The errors of backups of the whole home.

use std::io;
use std::path::{Path, PathBuf};

use crate::error::{Explain, KERNEL_LOG_HINT, Kind, is_of_disk};
use crate::home::HomeError;
use crate::home::beneath::BeneathError;
use crate::store::StoreError;
use crate::store::transfer::MoveError;

/// An error of making, reading or restoring a backup of the whole home.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BackupError {
    /// The archive would be in the home that it is made of.
    #[error("{} is in the home, and would be lost with it", file.display())]
    Inside { file: PathBuf },
    /// The home's gateway has joined others, and the agents' files are in the folder that all of them share.
    #[error("the files of its agents are not in {}, but in {}, which it shares with other gateways", home.display(), files.display())]
    Joined { home: PathBuf, files: PathBuf },
    /// Something has the name of the archive already.
    #[error("{} exists already", file.display())]
    Exists { file: PathBuf },
    /// The disk has too little free space.
    #[error("{} has {} MiB free, and up to {} MiB are needed", folder.display(), free >> 20, (needed >> 20) + 1)]
    Full {
        folder: PathBuf,
        /// In bytes.
        free: u64,
        /// In bytes.
        needed: u64,
    },
    /// Another process backs up the same home.
    #[error("another backup of {} is being made", home.display())]
    Busy { home: PathBuf },
    /// The home changed so that its parts did not fit together, in every attempt.
    #[error("the home changed while it was backed up: {what}")]
    Restless { what: String },
    /// A file of the home could not be read.
    #[error("failed to read {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The archive could not be written.
    #[error("failed to write the backup {}", path.display())]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The file is no archive of flock, or is cut off.
    #[error("{} is no whole backup of a home: {what}", file.display())]
    NoArchive { file: PathBuf, what: &'static str },
    /// The archive has another content than it says.
    #[error("the backup {} is damaged: {what}", file.display())]
    Damaged { file: PathBuf, what: String },
    /// A newer flock made the archive.
    #[error("the backup {} was made by flock {flock}, which is newer than this one: {what}", file.display())]
    Newer {
        file: PathBuf,
        /// The version that made it.
        flock: String,
        /// What this flock does not know.
        what: String,
    },
    /// Something is in the folder that is to become the home.
    #[error("{} is not empty", home.display())]
    NotEmpty { home: PathBuf, file: PathBuf },
    /// The restored home could not be put into its place.
    #[error("failed to put the restored home in the place of {}", home.display())]
    Place {
        home: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The database on a server could not be copied.
    #[error(transparent)]
    Copy(#[from] MoveError),
    #[error(transparent)]
    Home(#[from] HomeError),
    #[error(transparent)]
    Beneath(#[from] BeneathError),
}

impl BackupError {
    /// Returns a function that makes the error of a file that can't be read.
    pub(super) fn read(path: &Path) -> impl Fn(io::Error) -> Self {
        move |source| Self::Read { path: path.to_owned(), source }
    }

    /// Returns a function that makes the error of an archive that can't be written.
    pub(super) fn write(path: &Path) -> impl Fn(io::Error) -> Self {
        move |source| Self::Write { path: path.to_owned(), source }
    }
}

impl Explain for BackupError {
    fn kind(&self) -> Kind {
        match self {
            Self::Inside { .. } => Kind::Usage,
            Self::Exists { .. } | Self::Busy { .. } | Self::NotEmpty { .. } => Kind::Conflict,
            Self::Newer { .. } => Kind::NewerHome,
            Self::Read { source, .. } | Self::Write { source, .. } if is_of_disk(source) => Kind::Unreadable,
            Self::Store(error) => error.kind(),
            Self::Copy(error) => error.kind(),
            Self::Home(error) => error.kind(),
            _ => Kind::Failed,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Inside { .. } => Some("flock backup ~/".to_owned()),
            Self::Joined { files, .. } => Some(format!("flock --home {} backup", files.display())),
            Self::Exists { .. } => Some("flock backup".to_owned()),
            Self::Full { folder, .. } => Some(format!("df -h {}", folder.display())),
            Self::Busy { .. } => Some("wait until it has ended, and try again".to_owned()),
            Self::Restless { .. } => Some("flock backup".to_owned()),
            Self::NoArchive { .. } | Self::Damaged { .. } => {
                Some("use another backup, or copy the file again".to_owned())
            }
            Self::Newer { .. } => Some("flock update".to_owned()),
            Self::NotEmpty { file, .. } => {
                Some(format!("flock restore {} --replace, or another --home", file.display()))
            }
            Self::Read { source, .. } | Self::Write { source, .. } if is_of_disk(source) => {
                Some(KERNEL_LOG_HINT.to_owned())
            }
            Self::Write { path, source } => match source.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::FileTooLarge | io::ErrorKind::QuotaExceeded => {
                    Some(format!("df -h {}", crate::home::existing(path).display()))
                }
                _ => Some(format!("ls -ld {}", crate::home::existing(path).display())),
            },
            Self::Read { path, .. } => Some(format!("ls -ld {}", crate::home::existing(path).display())),
            // A mount point can't be renamed, and some file systems can't let two folders change places.
            Self::Place { home, .. } => Some(format!(
                "restore into a folder that is not mounted, with another --home than {}",
                home.display()
            )),
            Self::Store(error) => error.hint(),
            Self::Copy(error) => error.hint(),
            Self::Home(error) => error.hint(),
            Self::Beneath(error) => error.hint(),
        }
    }
}
