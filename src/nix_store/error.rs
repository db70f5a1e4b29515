//! The errors of the package store, each with the command that helps.

use std::path::PathBuf;

use crate::error::{Explain, Kind};
use crate::id::AgentId;
use crate::sandbox::SandboxError;

/// An error of the store.
#[derive(Debug, thiserror::Error)]
pub enum NixError {
    /// The text is not the name of a package.
    #[error(
        "{0:?} is not a package: use the name of an attribute of the flake, of letters, digits and . _ + -"
    )]
    NotAnAttribute(String),
    /// The configured flake cannot be used.
    #[error("the flake {flake:?} can't be used: {reason}")]
    Flake {
        /// The flake as configured.
        flake: String,
        reason: String,
    },
    /// The files of a flake on this machine could not be read.
    #[error("failed to read the flake at {}", path.display())]
    FlakeFolder {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    /// The agent's profile does not contain this package.
    #[error("{agent} does not have the package {package}")]
    NotInstalled {
        /// The owner of the profile.
        agent: AgentId,
        package: String,
    },
    /// The agent's name looks like a generation of another agent's profile.
    #[error("{0} can't have packages: its name looks like a generation of another agent's profile")]
    NoProfile(AgentId),
    /// The record of the pinned package set cannot be read.
    #[error("the record of the pinned package set in {} can't be read: {reason}", path.display())]
    PinRecord {
        /// The path of the record.
        path: PathBuf,
        reason: String,
    },
    /// The flake's content differs from the one it was pinned to. Nothing of it is used.
    #[error("the content of the flake {flake} differs from the pinned content")]
    Changed {
        /// The flake as configured.
        flake: String,
    },
    /// The flake has no pin yet.
    #[error("the package set {flake} is not pinned")]
    NotPinned {
        /// The flake as configured.
        flake: String,
    },
    /// A revision was given for a flake without revisions.
    #[error("the flake {flake} has no revisions, so none can be chosen")]
    NoRevision {
        /// The flake as configured.
        flake: String,
    },
    /// The flake has no package of this name.
    #[error("{package} is not a package of the flake")]
    NotAPackage { package: String },
    /// A build container is not confined as it must be. Nothing was run in it.
    #[error("flock builds no packages, because the build container is not confined: {finding}")]
    NotConfined {
        /// The difference or the way out that was found.
        finding: String,
    },
    /// A build container ended before its work was done.
    #[error(
        "the build container was lost, for example because a build needed more memory than allowed: {reason}"
    )]
    Lost { reason: String },
    /// A lock of the home could not be acquired.
    #[error(transparent)]
    Home(#[from] crate::home::HomeError),
    /// A command of Nix failed.
    #[error("nix failed to {what}: {tail}")]
    Nix {
        /// The attempted action, for example `install hello`.
        what: String,
        /// The last lines of its output.
        tail: String,
    },
    /// The action exceeded its time limit.
    #[error("nix did not {what} within {} minutes", limit.as_secs() / 60)]
    TimedOut {
        /// The attempted action, for example `install hello`.
        what: String,
        limit: std::time::Duration,
    },
    /// The caller cancelled the action.
    #[error("nix was stopped before it could {what}")]
    Cancelled {
        /// The attempted action, for example `install hello`.
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
            Self::PinRecord { .. }
            | Self::Changed { .. }
            | Self::NotPinned { .. }
            | Self::NoRevision { .. } => Some("flock nix pin --update".to_owned()),
            Self::NotAPackage { .. } => Some("flock nix install AGENT hello".to_owned()),
            Self::Home(error) => error.hint(),
            Self::Cancelled { .. } | Self::NoProfile(_) => None,
            Self::Sandbox(error) => error.hint(),
        }
    }
}
