//! Supervision: the background process that keeps gateways running, and what the command line needs to
//! talk to both.
//!
//! What is decided is in [`state`] and [`restart`], pure; [`task`] is the loop around them, [`child`] a
//! process, [`mod@unit`] what can be run. Processes are told apart by [`pid`] files and their [`mark`];
//! [`tether`] ends a gateway whose supervisor has died, and [`leftover`] what is left all the same.
//! [`launch`] and [`halt`] are starting and stopping as seen from outside, [`control`] is the socket in
//! between, [`loopback`] the small HTTP client for the gateway, [`health`] the proof that it is this home's.

pub mod child;
pub mod control;
pub mod ending;
pub mod figures;
pub mod follow;
pub mod halt;
pub mod health;
pub mod journal;
pub mod launch;
pub mod leftover;
pub mod loopback;
pub mod mark;
mod output;
pub mod pid;
pub mod port;
pub mod restart;
pub mod service;
pub mod settled;
pub mod state;
pub mod task;
pub mod tether;
pub mod unit;
pub mod ward;

use std::io;
use std::path::PathBuf;

use crate::error::{Explain, Kind};
use crate::home::{HomeError, existing};

/// The supervisor's own name: of its PID file and its log.
pub const SUPERVISOR: &str = "supervisor";

/// Why supervision failed.
#[derive(Debug, thiserror::Error)]
pub enum SuperviseError {
    /// The home failed.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// Signals can't be taken.
    #[error("failed to listen for signals")]
    Signals(#[source] io::Error),
    /// There is no place for the control socket.
    #[error("failed to find a place for the control socket")]
    NoPlace(#[source] io::Error),
    /// The control socket can't be made.
    #[error("failed to listen at {}", path.display())]
    Listen {
        /// Where.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// What it runs ended in a way that starting it again can't mend.
    #[error("{name} can't run: {reason}")]
    Failed {
        /// Its name.
        name: String,
        /// What its exit code says.
        kind: Kind,
        /// What it said.
        reason: String,
    },
}

impl Explain for SuperviseError {
    fn kind(&self) -> Kind {
        match self {
            Self::Home(error) => error.kind(),
            Self::Signals(_) => Kind::Internal,
            Self::NoPlace(_) | Self::Listen { .. } => Kind::Failed,
            Self::Failed { kind, .. } => *kind,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Home(error) => error.hint(),
            Self::NoPlace(_) => Some("set XDG_RUNTIME_DIR, or use a home with a shorter path".to_owned()),
            Self::Listen { path, .. } => Some(format!("ls -ld {}", existing(path).display())),
            Self::Failed { name, .. } => Some(format!("flock logs {name}")),
            Self::Signals(_) => Some("flock doctor".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_names_what_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let source = io::Error::from(io::ErrorKind::PermissionDenied);
        let error = SuperviseError::Listen { path: dir.path().join("run/control.sock"), source };
        assert_eq!(error.hint(), Some(format!("ls -ld {}", dir.path().display())));
    }
}
