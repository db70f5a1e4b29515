//! Another version of flock itself: its source is fetched and built beside the program in use, tried on a copy of the
//! home, and put in its place by one rename.
//!
//! [`choice`] decides where from and whether there is something new; [`build`] fetches and compiles; [`trial`] runs what
//! was built; [`place`] says whether the program in use may be replaced; [`swap`] replaces it; [`underway`] remembers over
//! a `kill -9` how far a change came. All of it blocks.

pub mod build;
pub mod choice;
mod error;
pub mod failed;
pub mod place;
pub mod program;
pub mod swap;
pub mod trial;
pub mod underway;

use std::fs::File;
use std::path::Path;

pub use error::OwnError;
pub use program::Program;

use super::error::io;
use crate::home::lock::Lock;
use crate::home::{Home, HomeError};

/// Where flock's source is unless a person says otherwise. Those who distribute flock set it when they build it.
pub const UPSTREAM: Option<&str> = option_env!("FLOCK_UPSTREAM");

/// The name of the log.
pub const LOG: &str = "update-flock";

/// The one process that changes flock's program, of this home and of every other that uses the same file.
#[derive(Debug)]
pub struct Updater {
    _home: Lock,
    // Closing it gives the lock on the folder back.
    _folder: File,
}

impl Updater {
    /// Becomes the one. `program` is the file to be replaced.
    ///
    /// # Errors
    ///
    /// [`OwnError::Busy`] if another process is it.
    pub fn begin(home: &Home, program: &Path) -> Result<Self, OwnError> {
        let own = match Lock::try_acquire(&home.program_lock()) {
            Ok(lock) => lock,
            Err(HomeError::Held { .. }) => return Err(OwnError::Busy),
            Err(error) => return Err(error.into()),
        };
        let folder = program.parent().unwrap_or(Path::new("/"));
        let file = File::open(folder).map_err(io("open the folder", folder))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(std::fs::TryLockError::WouldBlock) => return Err(OwnError::Busy),
            Err(std::fs::TryLockError::Error(source)) => {
                return Err(io("lock the folder", folder)(source).into());
            }
        }
        let inner = home.program();
        fs_err::create_dir_all(&inner).map_err(io("make the folder", &inner))?;
        Ok(Self { _home: own, _folder: file })
    }
}
