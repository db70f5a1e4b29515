//! The configuration in a running gateway: always the newest one that is usable.

use std::os::unix::fs::MetadataExt as _;
use std::sync::{Arc, RwLock};

use super::{Config, ConfigError, file};
use crate::error::chain;
use crate::home::Home;

/// A view of the configuration that follows the file. Each look costs one `stat`, about a microsecond. There is no file
/// watcher, because a watcher misses renames on some file systems and needs a thread.
#[derive(Debug)]
pub struct Live {
    home: Home,
    state: RwLock<State>,
}

#[derive(Debug)]
struct State {
    // `None` if the file could not be found.
    stamp: Option<Stamp>,
    // The last usable configuration.
    config: Arc<Config>,
    // The error of the newest file, if it is not usable.
    problem: Option<String>,
}

/// The metadata that changes when the file is replaced or rewritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
}

impl Live {
    /// Reads the configuration for the first time.
    ///
    /// # Errors
    ///
    /// Returns the error of the first read if the configuration is not usable. A gateway does not start without one.
    pub fn open(home: Home) -> Result<Self, ConfigError> {
        let stamp = stamp(&home);
        let config = Arc::new(file::read(&home)?);
        Ok(Self { home, state: RwLock::new(State { stamp, config, problem: None }) })
    }

    #[must_use]
    pub const fn home(&self) -> &Home {
        &self.home
    }

    /// Returns the newest usable configuration.
    #[must_use]
    pub fn current(&self) -> Arc<Config> {
        let now = stamp(&self.home);
        {
            let state = self.state.read().unwrap_or_else(std::sync::PoisonError::into_inner);
            if state.stamp == now {
                return Arc::clone(&state.config);
            }
        }
        // Several readers may get here at once, so the first one to hold the lock reads and the others see its stamp.
        let mut state = self.state.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        if state.stamp != now {
            // The stamp is taken before the read. If the file changes in between, the next look reads it again.
            match file::read(&self.home) {
                Ok(config) => {
                    state.config = Arc::new(config);
                    state.problem = None;
                }
                Err(error) => state.problem = Some(chain(&error)),
            }
            // Also after a failure: a broken file is read once, not at every look.
            state.stamp = now;
        }
        Arc::clone(&state.config)
    }

    /// Returns the reason why the present file is not used, or `None` if it is in use.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        // The file is looked at first, so that the answer is about its present state.
        drop(self.current());
        self.state.read().unwrap_or_else(std::sync::PoisonError::into_inner).problem.clone()
    }
}

fn stamp(home: &Home) -> Option<Stamp> {
    let meta = std::fs::metadata(home.config()).ok()?;
    Some(Stamp {
        device: meta.dev(),
        inode: meta.ino(),
        size: meta.size(),
        modified: (meta.mtime(), meta.mtime_nsec()),
    })
}
