//! The errors of making images, each with the command that helps.

use std::path::PathBuf;

use crate::error::{Explain, Kind};
use crate::sandbox::SandboxError;

/// The reason why an image could not be provided.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The engine cannot be reached or refused a call.
    #[error(transparent)]
    Engine(#[from] SandboxError),
    /// An image named in the configuration is missing and cannot be pulled.
    #[error("the image {image} is not there and can't be pulled")]
    Pull {
        image: String,
        /// The answer of the registry or the engine.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A program needed to make an image is not installed.
    #[error("no registry answers ({registry}), and {tool} is not installed to make the image without one")]
    Missing {
        tool: &'static str,
        /// The reason why nothing was pulled.
        registry: String,
    },
    /// Making a system needs root, and sudo is missing or asks for a password.
    #[error(
        "no registry answers ({registry}), and making an image without one needs root, which sudo did not give"
    )]
    NeedsRoot {
        /// The reason why nothing was pulled.
        registry: String,
    },
    /// The host has no package source from which a system could be made.
    #[error(
        "no registry answers ({registry}), and this host has no Debian or Ubuntu package source to make an image from"
    )]
    NoSources {
        /// The reason why nothing was pulled.
        registry: String,
    },
    #[error("{what} failed: {tail}")]
    Step {
        /// The failed step, for example `debootstrap`.
        what: &'static str,
        /// The last lines of its output.
        tail: String,
    },
    /// A step failed because the package sources did not give what it needs, which may pass.
    #[error("{what} failed: {tail}")]
    Download {
        /// The failed step, for example `debootstrap`.
        what: &'static str,
        /// The message that says what could not be downloaded.
        reason: String,
        /// The last lines of its output.
        tail: String,
    },
    /// A folder or file of the host could not be prepared.
    #[error("failed to prepare {}", path.display())]
    Host {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
}

impl Explain for ImageError {
    fn kind(&self) -> Kind {
        match self {
            Self::Engine(error) => error.kind(),
            _ => Kind::Failed,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Engine(error) => error.hint(),
            Self::Pull { image, .. } => Some(format!("docker pull {image}")),
            Self::Missing { tool, .. } => Some(format!("sudo apt-get install {tool}")),
            Self::NeedsRoot { .. } => Some("sudo -v && flock init".to_owned()),
            Self::NoSources { .. } => {
                Some("flock config set plugins.entries.flock.config.sandbox.image IMAGE".to_owned())
            }
            Self::Step { .. } => Some("flock doctor".to_owned()),
            Self::Download { .. } => Some(
                "look at what `sudo apt-get update` says about the sources in /etc/apt/sources.list and \
                 /etc/apt/sources.list.d, then try again"
                    .to_owned(),
            ),
            Self::Host { .. } => None,
        }
    }
}
