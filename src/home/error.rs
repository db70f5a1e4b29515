//! The errors of using a home, with their exit codes and hints.

use std::path::{Path, PathBuf};

use super::FORMAT;
use crate::error::{Explain, KERNEL_LOG_HINT, Kind, is_of_disk};

/// An error of using a home.
#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    /// The user has no home folder in which flock's could be.
    #[error("this user has no home folder, and neither --home nor FLOCK_HOME is given")]
    Nowhere,
    /// The path can't be that of a home.
    #[error("{} can't be a home: {reason}", path.display())]
    Unusable {
        path: PathBuf,
        /// The reason why not.
        reason: &'static str,
    },
    /// `flock init` was not run for this home.
    #[error("flock is not set up in {}", root.display())]
    NotInitialised {
        /// The folder of the home.
        root: PathBuf,
    },
    /// The home has no instance id.
    #[error("{} is missing or empty", path.display())]
    NoInstance {
        /// The file in which it is missing.
        path: PathBuf,
    },
    /// A newer version of flock created the home.
    #[error("{} has format {found}; this flock writes format {known}", root.display())]
    Newer {
        /// The folder of the home.
        root: PathBuf,
        /// The home's format number.
        found: u32,
        /// The newest format number that this flock knows.
        known: u32,
    },
    /// The file with the format number is invalid.
    #[error("{} does not hold a format number", path.display())]
    BadVersion {
        /// The path of that file.
        path: PathBuf,
    },
    /// Another process holds a lock.
    #[error("another process holds {}", path.display())]
    Held {
        /// The path of the lock file.
        path: PathBuf,
    },
    /// Other users have access to a folder, and that could not be changed.
    #[error("other users can look into {}, which could not be closed to them", path.display())]
    Open {
        path: PathBuf,
        /// The error of the change; `None` if the file system does not store permissions.
        #[source]
        source: Option<std::io::Error>,
    },
    /// An operation on a file or folder of the home failed.
    #[error("failed to {verb} {}", path.display())]
    Io {
        /// The operation, as in `write`.
        verb: &'static str,
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
}

impl HomeError {
    /// Returns a function that makes the error of an operation on this path.
    pub(crate) fn io(verb: &'static str, path: &Path) -> impl Fn(std::io::Error) -> Self {
        move |source| Self::Io { verb, path: path.to_owned(), source }
    }
}

impl Explain for HomeError {
    fn kind(&self) -> Kind {
        match self {
            Self::Nowhere | Self::Unusable { .. } => Kind::Usage,
            Self::NotInitialised { .. } => Kind::NotInitialised,
            Self::Newer { .. } => Kind::NewerHome,
            Self::Held { .. } => Kind::Conflict,
            Self::Io { source, .. } if is_of_disk(source) => Kind::Unreadable,
            Self::NoInstance { .. } | Self::BadVersion { .. } | Self::Io { .. } | Self::Open { .. } => {
                Kind::Failed
            }
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Nowhere | Self::Unusable { .. } => Some("flock --home DIR init".to_owned()),
            Self::NotInitialised { .. } => Some("flock init".to_owned()),
            Self::Newer { .. } => Some("install the newer flock, or use another --home".to_owned()),
            Self::BadVersion { path } => Some(format!("echo {FORMAT} > {}", path.display())),
            Self::Held { .. } => Some("flock status".to_owned()),
            Self::NoInstance { .. } => Some("flock doctor --fix".to_owned()),
            // The permissions could not be changed, most likely because another user owns the folder.
            Self::Open { path, source: Some(_) } => {
                let path = path.display();
                Some(format!("sudo chown $(id -u) {path} && chmod 700 {path}"))
            }
            Self::Open { .. } => {
                Some("use --home with a folder on a file system that keeps rights".to_owned())
            }
            Self::Io { source, .. } if is_of_disk(source) => Some(KERNEL_LOG_HINT.to_owned()),
            Self::Io { source, path, .. } => match source.kind() {
                std::io::ErrorKind::StorageFull => Some(format!("df -h {}", existing(path).display())),
                std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem => {
                    Some(format!("ls -ld {}", existing(path).display()))
                }
                _ => None,
            },
        }
    }
}

/// Returns the path, or its nearest existing ancestor. A hint can't tell the user to inspect a file that could not be
/// created.
pub(crate) fn existing(path: &Path) -> &Path {
    path.ancestors().find(|path| path.exists()).unwrap_or(path)
}
