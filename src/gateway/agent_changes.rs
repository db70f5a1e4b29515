//! Compares the agents of two versions of the configuration. Pure.

use crate::config::Config;
use crate::id::AgentId;

/// The agents that only one of two versions of the configuration has.
pub(crate) struct AgentChanges {
    pub added: Vec<AgentId>,
    pub removed: Vec<AgentId>,
}

impl AgentChanges {
    /// Returns the changes from one version to the next.
    #[must_use]
    pub(crate) fn between(before: &Config, now: &Config) -> Self {
        let missing = |from: &Config, of: &Config| {
            let ids = of.agents.iter().map(|agent| &agent.id);
            ids.filter(|id| from.agent(id).is_none()).cloned().collect()
        };
        Self { added: missing(before, now), removed: missing(now, before) }
    }
}
