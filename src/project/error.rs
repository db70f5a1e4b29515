//! Errors of the projects' repositories.

use std::path::{Path, PathBuf};

use crate::error::{Explain, Kind};
use crate::home::HomeError;
use crate::install::InstallError;

/// The reasons why an operation on a project's repository fails.
#[derive(Debug, thiserror::Error)]
pub enum ProjectError {
    /// An error of the home's own files.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// The address of the owner's repository is not usable.
    #[error(transparent)]
    Address(#[from] InstallError),
    /// An operation of libgit2 failed.
    #[error("failed to {verb} {}", path.display())]
    Git {
        /// Verb of the message, as in `open`.
        verb: &'static str,
        /// The folder of the repository.
        path: PathBuf,
        #[source]
        source: git2::Error,
    },
    /// An operation on a file or folder failed.
    #[error("failed to {verb} {}", path.display())]
    Io {
        /// Verb of the message, as in `write`.
        verb: &'static str,
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    /// The owner's repository does not answer, or the connection breaks.
    #[error("failed to fetch from {address}")]
    Fetch {
        address: String,
        #[source]
        source: git2::Error,
    },
    /// The owner's repository has no such branch.
    #[error("{address} has no branch {branch}")]
    NoBranch { address: String, branch: String },
    /// The owner's repository holds only a part of its history.
    #[error("{address} is a shallow clone: its history is cut off")]
    Shallow { address: String },
    /// The repository has no such reference or commit.
    #[error("there is no branch or commit {0}")]
    NoCommit(String),
    /// A reference is no longer where the caller expected it.
    #[error("{name} has moved meanwhile: it is at {found} and not at {expected}")]
    Moved { name: String, expected: String, found: String },
    /// Two commits have no common ancestor.
    #[error("{one} and {other} have no common history")]
    Unrelated { one: String, other: String },
    /// A tree is too large to be written to disk, or has a name that no folder may have.
    #[error("the files of commit {commit} can't be written: {reason}")]
    Tree { commit: String, reason: String },
}

impl ProjectError {
    /// Returns a function that adds the operation to an error of libgit2.
    pub(crate) fn git(verb: &'static str, path: &Path) -> impl Fn(git2::Error) -> Self {
        move |source| Self::Git { verb, path: path.to_owned(), source }
    }

    /// Returns a function that adds the operation to an error of the file system.
    pub(crate) fn io(verb: &'static str, path: &Path) -> impl Fn(std::io::Error) -> Self {
        move |source| Self::Io { verb, path: path.to_owned(), source }
    }
}

impl Explain for ProjectError {
    fn kind(&self) -> Kind {
        match self {
            Self::Home(error) => error.kind(),
            Self::Address(error) => error.kind(),
            Self::NoBranch { .. } | Self::NoCommit(_) | Self::Shallow { .. } => Kind::Usage,
            Self::Moved { .. } => Kind::Conflict,
            Self::Io { source, .. } if crate::error::is_of_disk(source) => Kind::Unreadable,
            _ => Kind::Failed,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Home(error) => error.hint(),
            Self::Address(error) => error.hint(),
            Self::Fetch { .. } => Some("try the same address with git ls-remote".to_owned()),
            Self::NoBranch { .. } => {
                Some("look at the names of its branches: git ls-remote --heads".to_owned())
            }
            Self::Shallow { .. } => Some("get the rest of it: git fetch --unshallow".to_owned()),
            Self::Io { source, .. } if crate::error::is_of_disk(source) => {
                Some(crate::error::KERNEL_LOG_HINT.to_owned())
            }
            _ => Some("flock doctor".to_owned()),
        }
    }
}
