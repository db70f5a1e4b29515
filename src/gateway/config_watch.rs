//! The agents of the newest usable configuration, and the agents that were added or removed since the last look.

use std::sync::{Arc, Mutex, PoisonError};

use crate::config::{Config, Live};
use crate::home::Home;
use crate::id::AgentId;

/// A view of the live configuration that remembers which version was seen last.
pub struct ConfigWatch {
    live: Arc<Live>,
    seen: Mutex<Arc<Config>>,
}

/// One difference between two versions of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigChange {
    /// An agent exists that the previous version did not have.
    Added(AgentId),
    /// An agent of the previous version no longer exists.
    Removed(AgentId),
    /// Something other than the set of agents differs.
    Other,
}

impl ConfigWatch {
    /// Creates a roster that follows this configuration. Its current version counts as seen.
    #[must_use]
    pub fn new(live: Arc<Live>) -> Self {
        let seen = Mutex::new(live.current());
        Self { live, seen }
    }

    /// Returns the current configuration and the changes since the last call, by any caller.
    pub fn look(&self) -> (Arc<Config>, Vec<ConfigChange>) {
        let now = self.live.current();
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        // `Live` hands out the same `Arc` until the file changes, so comparing pointers is enough.
        if Arc::ptr_eq(&now, &seen) {
            return (now, Vec::new());
        }
        let before = std::mem::replace(&mut *seen, Arc::clone(&now));
        drop(seen);
        let changes = changes(&before, &now);
        (now, changes)
    }

    /// Returns the home that this configuration belongs to.
    #[must_use]
    pub fn home(&self) -> &Home {
        self.live.home()
    }

    /// Returns the reason why the current configuration file is not used, or `None` if it is used.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        self.live.problem()
    }
}

fn changes(before: &Config, now: &Config) -> Vec<ConfigChange> {
    let missing = |from: &Config, of: &Config| -> Vec<AgentId> {
        of.agents
            .iter()
            .filter(|agent| from.agent(&agent.id).is_none())
            .map(|agent| agent.id.clone())
            .collect()
    };
    let mut changes: Vec<ConfigChange> =
        missing(now, before).into_iter().map(ConfigChange::Removed).collect();
    changes.extend(missing(before, now).into_iter().map(ConfigChange::Added));
    if changes.is_empty() {
        changes.push(ConfigChange::Other);
    }
    changes
}
