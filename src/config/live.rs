//! The configuration as a running gateway sees it: always the newest one that is usable.

use std::os::unix::fs::MetadataExt as _;
use std::sync::{Arc, RwLock};

use super::{Config, ConfigError, file};
use crate::error::chain;
use crate::home::Home;

/// A view of the configuration that follows the file. One `stat` for each look, no watcher: a watcher
/// misses renames on some file systems and needs a thread, a `stat` costs a microsecond.
#[derive(Debug)]
pub struct Live {
    home: Home,
    state: RwLock<State>,
}

#[derive(Debug)]
struct State {
    stamp: Option<Stamp>,
    config: Arc<Config>,
    problem: Option<String>,
}

/// What changes when the file is replaced or rewritten.
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
    /// If it is not usable: a gateway does not start on a guess.
    pub fn open(home: Home) -> Result<Self, ConfigError> {
        let stamp = stamp(&home);
        let config = Arc::new(file::read(&home)?);
        Ok(Self { home, state: RwLock::new(State { stamp, config, problem: None }) })
    }

    /// The home it belongs to.
    #[must_use]
    pub const fn home(&self) -> &Home {
        &self.home
    }

    /// The newest usable configuration.
    #[must_use]
    pub fn current(&self) -> Arc<Config> {
        let now = stamp(&self.home);
        {
            let state = self.state.read().unwrap_or_else(std::sync::PoisonError::into_inner);
            if state.stamp == now {
                return Arc::clone(&state.config);
            }
        }
        let mut state = self.state.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        if state.stamp != now {
            // The stamp is taken before the read: if the file changes in between, the next look reads again.
            match file::read(&self.home) {
                Ok(config) => {
                    state.config = Arc::new(config);
                    state.problem = None;
                }
                Err(error) => state.problem = Some(chain(&error)),
            }
            state.stamp = now;
        }
        Arc::clone(&state.config)
    }

    /// Why the file as it is now is not used, if it is not.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
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
