//! The shared Nix store: a container that alone writes it, its volume, and a profile of packages for each
//! agent. Sandboxes see the store read-only.

mod flake;
mod manifest;
mod package;
mod profile;
mod store;

use std::path::PathBuf;

use crate::error::{Explain, Kind};
use crate::id::AgentId;
use crate::sandbox::SandboxError;

pub use flake::DEFAULT_FLAKE;
pub use manifest::Installed;
pub use package::Attribute;
pub use store::{State, Store};

/// Why the store did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum NixError {
    /// Not the name of a package.
    #[error(
        "{0:?} is not a package: use the name of an attribute of the flake, of letters, digits and . _ + -"
    )]
    NotAnAttribute(String),
    /// The configured flake can't be used.
    #[error("the flake {flake:?} can't be used: {reason}")]
    Flake {
        /// As configured.
        flake: String,
        /// Why not.
        reason: String,
    },
    /// A file of a flake on this machine could not be read.
    #[error("failed to read the flake at {}", path.display())]
    FlakeFolder {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The agent does not have this package.
    #[error("{agent} does not have the package {package}")]
    NotInstalled {
        /// Whose profile.
        agent: AgentId,
        /// The package.
        package: String,
    },
    /// The agent's name can't be that of a profile.
    #[error("{0} can't have packages: its name is that of a profile's generation")]
    NoProfile(AgentId),
    /// Nix failed.
    #[error("nix failed to {what}: {tail}")]
    Nix {
        /// As in `install hello`.
        what: String,
        /// The end of what it printed.
        tail: String,
    },
    /// It took longer than it may.
    #[error("nix did not {what} within {} minutes", limit.as_secs() / 60)]
    TimedOut {
        /// As in `install hello`.
        what: String,
        /// How long it may take.
        limit: std::time::Duration,
    },
    /// The caller gave up.
    #[error("nix was stopped before it could {what}")]
    Cancelled {
        /// As in `install hello`.
        what: String,
    },
    /// The engine, the image or the container failed.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
}

impl Explain for NixError {
    fn kind(&self) -> Kind {
        match self {
            Self::NotAnAttribute(_) => Kind::Usage,
            Self::Sandbox(error) => error.kind(),
            _ => Kind::Failed,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::NotAnAttribute(_) => Some("flock nix install AGENT hello".to_owned()),
            Self::Flake { .. } | Self::FlakeFolder { .. } => {
                Some("flock config set plugins.entries.flock.config.nix.flake FLAKE".to_owned())
            }
            Self::NotInstalled { agent, .. } => Some(format!("flock nix list {agent}")),
            Self::Nix { .. } | Self::TimedOut { .. } => Some("flock doctor".to_owned()),
            Self::Cancelled { .. } | Self::NoProfile(_) => None,
            Self::Sandbox(error) => error.hint(),
        }
    }
}
