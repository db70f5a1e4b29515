//! The shared Nix store: a container that alone writes it, its volume, and a profile of packages for each
//! agent. Sandboxes see the store read-only. Packages are evaluated, fetched and built in throw-away containers,
//! from which nothing but their checked outputs gets into the store.

mod container;
mod derivation;
mod flake;
mod manifest;
mod nar;
mod package;
mod path;
pub mod pin;
mod profile;
mod realise;
mod source;
mod store;
mod substituter;

use std::path::PathBuf;

use crate::error::{Explain, Kind};
use crate::id::AgentId;
use crate::sandbox::SandboxError;

pub use container::{CORES, DISK_KIB, MEMORY, PIDS, user as build_user};
pub use flake::Flake;
pub use manifest::Installed;
pub use package::Attribute;
pub use pin::Pin;
pub use store::{State, Store};
pub use substituter::Substituter;

/// Where packages are evaluated and built, in words that complete "it is …": part of what a person approves.
#[must_use]
pub fn confinement() -> String {
    format!(
        "evaluated and built in throw-away containers as user {}, without capabilities, with {} GiB of memory, {CORES} \
         cores and {PIDS} processes at most; only what is fetched for it reaches a network, and only public hosts",
        build_user(),
        MEMORY >> 30
    )
}

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
    /// What the package set was fixed to can't be read.
    #[error("{} does not say what the package set is pinned to: {reason}", path.display())]
    PinRecord {
        /// The record.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// The content of a flake is not the one that it was pinned to. Nothing of it is used.
    #[error("the flake {flake} has another content than it was pinned to")]
    Changed {
        /// As configured.
        flake: String,
    },
    /// A revision was given for a flake that has none.
    #[error("the flake {flake} has no revisions that could be named")]
    NoRevision {
        /// As configured.
        flake: String,
    },
    /// The flake has no package of that name.
    #[error("{package} is not a package of the flake")]
    NotAPackage {
        /// The name.
        package: String,
    },
    /// A build container does not hold in what runs in it. Nothing was run there.
    #[error("packages are not built here: the container for builds is not confined: {finding}")]
    NotConfined {
        /// What is open.
        finding: String,
    },
    /// A build container ended before its work.
    #[error("the build container was lost, as where a build needs more memory than it may have: {reason}")]
    Lost {
        /// Why.
        reason: String,
    },
    /// A lock of the home could not be had.
    #[error(transparent)]
    Home(#[from] crate::home::HomeError),
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
            Self::NotAnAttribute(_) | Self::NoRevision { .. } => Kind::Usage,
            Self::Sandbox(error) => error.kind(),
            Self::Home(error) => error.kind(),
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
            Self::Nix { .. } | Self::TimedOut { .. } | Self::NotConfined { .. } | Self::Lost { .. } => {
                Some("flock doctor".to_owned())
            }
            Self::PinRecord { .. } | Self::Changed { .. } | Self::NoRevision { .. } => {
                Some("flock nix pin --update".to_owned())
            }
            Self::NotAPackage { .. } => Some("flock nix install AGENT hello".to_owned()),
            Self::Home(error) => error.hint(),
            Self::Cancelled { .. } | Self::NoProfile(_) => None,
            Self::Sandbox(error) => error.hint(),
        }
    }
}
