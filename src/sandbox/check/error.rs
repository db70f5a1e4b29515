//! The errors of checks. A check that fails is not one of them: it is a result.

use std::path::PathBuf;

use crate::error::{Explain, Kind};
use crate::home::HomeError;
use crate::sandbox::SandboxError;
use crate::sandbox::egress::RuleError;
use crate::sandbox::helper::HelperError;

/// The reason why checks could not be run.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The sandbox differs from its specification, or the probe found a way out. Nothing ran in it.
    #[error("no check runs, because its sandbox is not confined: {finding}")]
    NotConfined {
        /// The difference or the way out that was found.
        finding: String,
    },
    /// The helper inside stopped answering.
    #[error("the sandbox of the check was lost: {reason}")]
    Lost { reason: String },
    /// A file of the tree can't be read or written.
    #[error("failed to write {} of the delivered tree", path.display())]
    Tree {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    /// The tree or the result of the setup step is larger than flock handles.
    #[error("{what} is too large: at most {limit}")]
    TooLarge {
        what: &'static str,
        /// The limit, in words.
        limit: String,
    },
    /// A host that the setup step may reach is malformed.
    #[error("the setup step's egress list is not valid")]
    Egress(#[from] RuleError),
    /// A folder or file of the home can't be used.
    #[error("failed to prepare {}", path.display())]
    Host {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error(transparent)]
    Home(#[from] HomeError),
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
}

impl From<HelperError> for CheckError {
    fn from(error: HelperError) -> Self {
        Self::Lost { reason: error.to_string() }
    }
}

impl Explain for CheckError {
    fn kind(&self) -> Kind {
        match self {
            Self::Sandbox(error) => error.kind(),
            Self::Home(error) => error.kind(),
            _ => Kind::Failed,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Sandbox(error) => error.hint(),
            Self::Home(error) => error.hint(),
            Self::NotConfined { .. } | Self::Lost { .. } | Self::Host { .. } => {
                Some("flock doctor".to_owned())
            }
            Self::Tree { .. } | Self::TooLarge { .. } | Self::Egress(_) => None,
        }
    }
}
