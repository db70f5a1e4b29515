//! Updates flock itself. The source is fetched and built beside the program in use, tried on a copy of the home, and
//! put in use by one rename.
//!
//! [`choice`] decides where the source comes from and if there is anything new. [`build`] fetches and compiles.
//! [`trial`] runs the result. [`place`] decides if the program in use may be replaced. [`swap`] replaces it.
//! [`pending_change`] records how far a change got, so that it survives a `kill -9`. All functions block.

pub(crate) mod build;
pub(crate) mod choice;
mod error;
pub(crate) mod pending_change;
pub(crate) mod place;
pub(crate) mod program;
pub(crate) mod swap;
pub(crate) mod trial;

use std::fs::File;
use std::path::Path;

pub(crate) use error::SelfUpdateError;
pub(crate) use program::ProgramRecord;

use super::error::io;
use crate::home::lock::Lock;
use crate::home::{Home, HomeError};

/// Default repository of flock's source. Distributors of flock set it when they build it.
pub(crate) const UPSTREAM: Option<&str> = option_env!("FLOCK_UPSTREAM");

/// Name of the log.
pub(crate) const LOG: &str = "update-flock";

/// Permission to change flock's program, for this home and every other home that uses the same file. One process has it
/// at a time.
#[derive(Debug)]
pub(crate) struct UpdateLock {
    _home: Lock,
    // Closing the file releases the lock on the folder.
    _folder: File,
}

impl UpdateLock {
    /// Takes both locks, without waiting. `program` is the file that will be replaced.
    ///
    /// # Errors
    ///
    /// Returns [`SelfUpdateError::Busy`] if another process holds one of the locks.
    pub(crate) fn begin(home: &Home, program: &Path) -> Result<Self, SelfUpdateError> {
        let own = match Lock::try_acquire(&home.program_lock()) {
            Ok(lock) => lock,
            Err(HomeError::Held { .. }) => return Err(SelfUpdateError::Busy),
            Err(error) => return Err(error.into()),
        };
        // The folder of the program is locked too, because another home may use the same program. The file itself
        // cannot be locked for this: it is replaced.
        let folder = program.parent().unwrap_or(Path::new("/"));
        let file = File::open(folder).map_err(io("open the folder", folder))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(std::fs::TryLockError::WouldBlock) => return Err(SelfUpdateError::Busy),
            Err(std::fs::TryLockError::Error(source)) => {
                return Err(io("lock the folder", folder)(source).into());
            }
        }
        let inner = home.program();
        fs_err::create_dir_all(&inner).map_err(io("make the folder", &inner))?;
        Ok(Self { _home: own, _folder: file })
    }
}
