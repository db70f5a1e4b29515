//! Supervision: the background process that keeps the gateways running, and the clients of both.
//!
//! - Decisions are in [`state`] and [`restart`], which are pure. [`task`] is the loop around them, [`supervised_process`] one process
//!   with its effects, [`child`] the process itself, and [`mod@unit`] the trait of what can be run.
//! - Processes are identified by [`pid_file`] files and a [`env_marker`] in their environment. [`parent_watch`] makes a gateway stop
//!   when its supervisor dies, and [`orphans`] kills the orphans that remain.
//! - [`launch`] and [`halt`] start and stop a supervisor from outside, over the [`control`] socket. [`gateway_client`] is the
//!   HTTP client for the gateway, and [`health`] proves that it is this home's gateway.

pub mod child;
pub mod control;
pub mod env_marker;
pub mod exit_reason;
pub mod gateway_client;
pub mod halt;
pub mod health;
pub mod journal;
pub(crate) mod launch;
pub(crate) mod log_follower;
pub(crate) mod log_line;
pub(crate) mod openclaw_wait;
pub(crate) mod orphans;
mod output;
pub(crate) mod parent_watch;
pub mod pid_file;
pub(crate) mod port;
pub(crate) mod resource_usage;
pub mod restart;
pub(crate) mod service;
pub mod state;
pub(crate) mod supervised_process;
pub mod task;
pub mod unit;

use std::io;
use std::path::PathBuf;

use crate::error::{Explain, Kind};
use crate::home::{HomeError, existing};

/// The name of the supervisor's PID file and log.
pub(crate) const SUPERVISOR: &str = "supervisor";

/// An error that ends the supervisor or keeps it from starting.
#[derive(Debug, thiserror::Error)]
pub enum SuperviseError {
    /// A file of the home could not be used.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// Handlers for signals could not be installed.
    #[error("failed to listen for signals")]
    Signals(#[source] io::Error),
    /// No folder is suitable for the control socket.
    #[error("failed to find a place for the control socket")]
    NoPlace(#[source] io::Error),
    /// The control socket could not be created.
    #[error("failed to listen at {}", path.display())]
    Listen {
        /// The path of the socket.
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// A supervised process ended in a way that a restart can't fix.
    #[error("{name} can't run: {reason}")]
    Failed {
        /// The name of the process.
        name: String,
        /// The kind that its exit code stands for.
        kind: Kind,
        /// The last line of its output that explains the end.
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
