//! The agents that wait for a slot, by priority. Within one priority, the agent that was served longest ago comes
//! first.

use std::collections::BTreeSet;

use super::Priority;
use crate::id::AgentId;

/// The lanes in which an agent waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    /// Those of agents that may start.
    Open,
    /// Those of a provider that is down.
    Down(String),
    /// Those of a credential whose quota is used up.
    Parked(String),
}

/// The priorities with which an agent waits, and the number of its last start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReadyEntry {
    /// Indexed by [`Priority`].
    pub(super) levels: [bool; 3],
    /// A number that grows with each start.
    pub(super) served: u64,
}

/// The waiting agents, one set for each priority.
#[derive(Clone, Debug, Default)]
pub(super) struct ReadyQueue([BTreeSet<(u64, AgentId)>; 3]);

impl ReadyQueue {
    pub(super) fn enter(&mut self, agent: &AgentId, wait: ReadyEntry) {
        for (lane, _) in self.0.iter_mut().zip(wait.levels).filter(|(_, waits)| *waits) {
            lane.insert((wait.served, agent.clone()));
        }
    }

    pub(super) fn leave(&mut self, agent: &AgentId, wait: ReadyEntry) {
        for (lane, _) in self.0.iter_mut().zip(wait.levels).filter(|(_, waits)| *waits) {
            lane.remove(&(wait.served, agent.clone()));
        }
    }

    /// Returns the agent that is next, and its priority.
    pub(super) fn first(&self) -> Option<(Priority, &AgentId)> {
        let levels = [Priority::Human, Priority::Mention, Priority::Message];
        levels.into_iter().zip(&self.0).find_map(|(level, lane)| Some((level, &lane.first()?.1)))
    }
}
