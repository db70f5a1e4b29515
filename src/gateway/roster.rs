//! The agents of the newest usable configuration, and who came or went since the last look.

use std::sync::{Arc, Mutex, PoisonError};

use crate::config::{Config, Live};
use crate::home::Home;
use crate::id::AgentId;

/// The configuration as it is now.
pub struct Roster {
    live: Arc<Live>,
    seen: Mutex<Arc<Config>>,
}

/// What a look at the configuration showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// There is an agent that was not there.
    Added(AgentId),
    /// An agent is gone.
    Removed(AgentId),
    /// Something else is different.
    Other,
}

impl Roster {
    /// A roster that follows this configuration.
    #[must_use]
    pub fn new(live: Arc<Live>) -> Self {
        let seen = Mutex::new(live.current());
        Self { live, seen }
    }

    /// The configuration, and what changed since anybody last asked.
    pub fn look(&self) -> (Arc<Config>, Vec<Change>) {
        let now = self.live.current();
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if Arc::ptr_eq(&now, &seen) {
            return (now, Vec::new());
        }
        let before = std::mem::replace(&mut *seen, Arc::clone(&now));
        drop(seen);
        let changes = changes(&before, &now);
        (now, changes)
    }

    /// The home that it is of.
    #[must_use]
    pub fn home(&self) -> &Home {
        self.live.home()
    }

    /// Why the file as it is now is not used, if it is not.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        self.live.problem()
    }
}

fn changes(before: &Config, now: &Config) -> Vec<Change> {
    let missing = |from: &Config, of: &Config| -> Vec<AgentId> {
        of.agents
            .iter()
            .filter(|agent| from.agent(&agent.id).is_none())
            .map(|agent| agent.id.clone())
            .collect()
    };
    let mut changes: Vec<Change> = missing(now, before).into_iter().map(Change::Removed).collect();
    changes.extend(missing(before, now).into_iter().map(Change::Added));
    if changes.is_empty() {
        changes.push(Change::Other);
    }
    changes
}
