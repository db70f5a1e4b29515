//! The agents of a configuration, in their order and by their ids.

use std::collections::HashMap;
use std::ops::{Deref, DerefMut};

use super::model::Agent;
use crate::id::AgentId;

/// The agents of a configuration, in the order of `gatewayAgents`. A turn looks agents up many times, so they are found
/// without a search.
#[derive(Clone, Debug, Default)]
pub struct AgentList {
    agents: Vec<Agent>,
    /// The place of each agent in the list.
    places: HashMap<AgentId, usize>,
}

impl AgentList {
    /// Returns the agent with this id.
    #[must_use]
    pub fn find(&self, id: &AgentId) -> Option<&Agent> {
        self.agents.get(*self.places.get(id)?)
    }
}

impl From<Vec<Agent>> for AgentList {
    fn from(agents: Vec<Agent>) -> Self {
        let places = agents.iter().enumerate().map(|(place, agent)| (agent.id.clone(), place)).collect();
        Self { agents, places }
    }
}

impl FromIterator<Agent> for AgentList {
    fn from_iter<I: IntoIterator<Item = Agent>>(agents: I) -> Self {
        agents.into_iter().collect::<Vec<_>>().into()
    }
}

impl PartialEq for AgentList {
    fn eq(&self, other: &Self) -> bool {
        self.agents == other.agents
    }
}

impl Deref for AgentList {
    type Target = [Agent];

    fn deref(&self) -> &[Agent] {
        &self.agents
    }
}

/// For the settings of an agent. Its id stays.
impl DerefMut for AgentList {
    fn deref_mut(&mut self) -> &mut [Agent] {
        &mut self.agents
    }
}

impl IntoIterator for AgentList {
    type Item = Agent;
    type IntoIter = std::vec::IntoIter<Agent>;

    fn into_iter(self) -> Self::IntoIter {
        self.agents.into_iter()
    }
}

impl<'a> IntoIterator for &'a AgentList {
    type Item = &'a Agent;
    type IntoIter = std::slice::Iter<'a, Agent>;

    fn into_iter(self) -> Self::IntoIter {
        self.agents.iter()
    }
}
