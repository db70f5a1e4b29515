//! The agents that wait for a place, by priority; of one priority, the one that was served longest ago first.

use std::collections::BTreeSet;

use super::Priority;
use crate::id::AgentId;

/// Which priorities an agent waits with, and when it was served last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wait {
    /// By [`Priority`], in its order.
    pub(super) levels: [bool; 3],
    /// A number that grows with each place that is given.
    pub(super) served: u64,
}

/// Waiting agents.
#[derive(Clone, Debug, Default)]
pub(super) struct Lanes([BTreeSet<(u64, AgentId)>; 3]);

impl Lanes {
    pub(super) fn enter(&mut self, agent: &AgentId, wait: Wait) {
        for (lane, _) in self.0.iter_mut().zip(wait.levels).filter(|(_, waits)| *waits) {
            lane.insert((wait.served, agent.clone()));
        }
    }

    pub(super) fn leave(&mut self, agent: &AgentId, wait: Wait) {
        for (lane, _) in self.0.iter_mut().zip(wait.levels).filter(|(_, waits)| *waits) {
            lane.remove(&(wait.served, agent.clone()));
        }
    }

    /// Whose turn it is, and with what.
    pub(super) fn first(&self) -> Option<(Priority, &AgentId)> {
        let levels = [Priority::Human, Priority::Mention, Priority::Message];
        levels.into_iter().zip(&self.0).find_map(|(level, lane)| Some((level, &lane.first()?.1)))
    }
}
