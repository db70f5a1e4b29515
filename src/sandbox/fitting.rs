//! What a sandbox has beside its workspace for the program that runs its agent's turns: the program itself, a folder for
//! what it keeps, one for what it is told.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::config::Agent;
use crate::home::Home;
use crate::sandbox::binds;
use crate::sandbox::spec::{MountSpec, Source, WORKSPACE_TARGET};

/// Where programs are in a sandbox; read-only.
pub const PROGRAMS_TARGET: &str = "/opt/flock";
/// Where a program keeps what it wants to.
pub const STATE_TARGET: &str = "/state";
/// Where a program finds what flock writes for one turn; read-only.
pub const TURN_TARGET: &str = "/turn";

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fitting {
    /// A file or folder of a program's, which a person installed.
    Part {
        /// Where it is, with all links followed.
        source: PathBuf,
        /// Where in the sandbox.
        target: String,
        /// Which file or folder it is and when it was changed: one that was replaced is another, and a mount stays on
        /// the old.
        seen: (u64, i64),
    },
    /// A folder of flock's own that the program may write.
    State(PathBuf),
    /// A folder of flock's own that the program may read.
    Turn(PathBuf),
    /// Something empty of flock's own over something in the workspace.
    Cover {
        /// The empty file or folder.
        source: PathBuf,
        /// What it lies over, in the workspace.
        name: String,
        /// Whether it is a folder.
        is_folder: bool,
    },
}

/// What an agent's sandbox is fitted with, as it is at each look.
pub type Fittings = Arc<dyn Fn(&Agent) -> Vec<Fitting> + Send + Sync>;

impl Fitting {
    /// A part of a program, as it is now; `None` where it is not there.
    #[must_use]
    pub fn part(source: &Path, target: String) -> Option<Self> {
        let source = fs_err::canonicalize(source).ok()?;
        let found = fs_err::metadata(&source).ok()?;
        Some(Self::Part { source, target, seen: (found.ino(), found.mtime()) })
    }

    /// Which file or folder a part is.
    #[must_use]
    pub const fn seen(&self) -> Option<(u64, i64)> {
        match self {
            Self::Part { seen, .. } => Some(*seen),
            _ => None,
        }
    }

    /// As a mount.
    ///
    /// # Errors
    ///
    /// What no sandbox may have; the text completes "may not have …".
    pub fn mount(&self, home: &Home, engine_socket: Option<&Path>) -> Result<MountSpec, String> {
        let (source, target, writable) = match self {
            Self::Part { source, target, .. } => {
                let why = match binds::resolve(source) {
                    None => Some("it is not there"),
                    Some(found) => binds::forbidden(home, &found, engine_socket),
                };
                if let Some(why) = why {
                    return Err(format!("the program at {}: {why}", source.display()));
                }
                (source, target.clone(), false)
            }
            Self::State(source) => (source, STATE_TARGET.to_owned(), true),
            Self::Turn(source) => (source, TURN_TARGET.to_owned(), false),
            Self::Cover { source, name, .. } => (source, format!("{WORKSPACE_TARGET}/{name}"), false),
        };
        Ok(MountSpec { target, source: Source::Path(source.clone()), writable })
    }
}
