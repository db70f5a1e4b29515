//! Mounts that a sandbox gets for the agent program that runs its agent's turns: the program itself, a folder for its
//! state, and a folder with the files of the turn.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::config::Agent;
use crate::home::Home;
use crate::sandbox::binds;
use crate::sandbox::spec::{MountSource, MountSpec, WORKSPACE_TARGET};

/// Folder of the sandbox that holds agent programs, read-only.
pub(crate) const PROGRAMS_TARGET: &str = "/opt/flock";
/// Folder of the sandbox in which an agent program keeps its state.
pub(crate) const STATE_TARGET: &str = "/state";
/// Folder of the sandbox with the files that flock writes for one turn, read-only.
pub(crate) const TURN_TARGET: &str = "/turn";

/// Folder of an MCP server's sandbox with its secrets, one file each, read-only.
pub(crate) const SECRETS_TARGET: &str = "/secrets";

/// Folder of an MCP server's sandbox with its package, read-only.
pub(crate) const PACKAGE_TARGET: &str = "/package";
/// Folder of an MCP server's sandbox with Node, read-only.
pub(crate) const NODE_TARGET: &str = "/opt/flock/node";

/// A single mount for an agent program or an MCP server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProgramMount {
    /// A file or folder of an agent program that a person installed.
    Part {
        /// The path on the host with all symbolic links resolved.
        source: PathBuf,
        /// The path in the sandbox.
        target: String,
        /// Inode and modification time. They change when the file is replaced, and a bind mount would keep showing the
        /// old file.
        seen: (u64, i64),
    },
    /// A folder of flock's home that the program may write to.
    State(PathBuf),
    /// A folder of flock's home that the program may only read.
    Turn(PathBuf),
    /// The folder with the secrets of an MCP server, which it may only read.
    Secrets(PathBuf),
    /// A folder of flock's home with a program that flock fetched, which the sandbox may only read.
    Fetched {
        source: PathBuf,
        /// The path in the sandbox.
        target: String,
        /// Inode and modification time, as of a part.
        seen: (u64, i64),
    },
    /// An empty file or folder of flock's home, mounted over something in the workspace to hide it.
    Cover {
        source: PathBuf,
        /// The name in the workspace that it hides.
        name: String,
        /// `true` if it is a folder.
        is_folder: bool,
    },
}

/// A function that returns the current program mounts of an agent's sandbox.
pub(crate) type ProgramMounts = Arc<dyn Fn(&Agent) -> Vec<ProgramMount> + Send + Sync>;

impl ProgramMount {
    /// Returns the mount for a file or folder of a program, or `None` if it does not exist.
    #[must_use]
    pub fn part(source: &Path, target: String) -> Option<Self> {
        let source = fs_err::canonicalize(source).ok()?;
        let found = fs_err::metadata(&source).ok()?;
        Some(Self::Part { source, target, seen: (found.ino(), found.mtime()) })
    }

    /// Returns the mount for a folder of the home with a fetched program, or `None` if it does not exist.
    #[must_use]
    pub(crate) fn fetched(source: PathBuf, target: String) -> Option<Self> {
        let found = fs_err::metadata(&source).ok()?;
        Some(Self::Fetched { source, target, seen: (found.ino(), found.mtime()) })
    }

    /// Returns inode and modification time of a program's part, or `None` for the other kinds.
    #[must_use]
    pub const fn seen(&self) -> Option<(u64, i64)> {
        match self {
            Self::Part { seen, .. } | Self::Fetched { seen, .. } => Some(*seen),
            _ => None,
        }
    }

    /// Converts it into a mount.
    ///
    /// # Errors
    ///
    /// Returns the reason if a part of the program is missing or in a forbidden place of the host. The text completes
    /// "may not have …".
    pub(crate) fn mount(&self, home: &Home, engine_socket: Option<&Path>) -> Result<MountSpec, String> {
        let (source, target, writable) = match self {
            Self::Part { source, target, .. } => {
                // Only this source was chosen by a person. The other folders are flock's own and always inside its
                // home, which `forbidden` would reject.
                let why = match binds::resolve(source) {
                    None => Some("it is not there"),
                    Some(found) => binds::forbidden(home, &found, engine_socket),
                };
                if let Some(why) = why {
                    return Err(format!("the program at {}: {why}", source.display()));
                }
                (source, target.clone(), false)
            }
            Self::Fetched { source, target, .. } => (source, target.clone(), false),
            Self::State(source) => (source, STATE_TARGET.to_owned(), true),
            Self::Turn(source) => (source, TURN_TARGET.to_owned(), false),
            Self::Secrets(source) => (source, SECRETS_TARGET.to_owned(), false),
            Self::Cover { source, name, .. } => (source, format!("{WORKSPACE_TARGET}/{name}"), false),
        };
        Ok(MountSpec { target, source: MountSource::Path(source.clone()), writable })
    }
}
