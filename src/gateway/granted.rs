//! What agents were granted, for the proxy and for whoever makes containers: both ask each time.

use std::sync::{Arc, OnceLock};

use crate::config::Network;
use crate::error::chain;
use crate::id::AgentId;
use crate::sandbox::docker::ConfigSource;
use crate::sandbox::egress::{ConfiguredEgress, Connection, EgressPolicy, EgressRule};
use crate::sandbox::mount::{ApprovedMount, ApprovedMounts};
use crate::swarm::Swarm;

/// The grants of a team that is still to come: sandboxes are made before it.
pub struct Granted {
    swarm: OnceLock<Arc<Swarm>>,
    configured: ConfiguredEgress,
}

impl Granted {
    /// Nothing is granted but what the configuration says, until [`Self::connect`].
    #[must_use]
    pub fn new(config: ConfigSource) -> Arc<Self> {
        Arc::new(Self { swarm: OnceLock::new(), configured: ConfiguredEgress::new(config) })
    }

    /// From here on the grants of this team count.
    pub fn connect(&self, swarm: Arc<Swarm>) {
        // Only the first one does.
        drop(self.swarm.set(swarm));
    }

    /// The mounts that were granted.
    #[must_use]
    pub fn mounts(self: &Arc<Self>) -> ApprovedMounts {
        let granted = Arc::clone(self);
        Arc::new(move |agent| {
            let Some(swarm) = granted.swarm.get() else { return Vec::new() };
            swarm.granted_mounts(agent).unwrap_or_else(|error| {
                tracing::error!(%agent, error = chain(&error), "what was granted can't be read, so nothing is");
                Vec::<ApprovedMount>::new()
            })
        })
    }
}

impl EgressPolicy for Granted {
    fn rules(&self, agent: &AgentId) -> Vec<EgressRule> {
        let Some(swarm) = self.swarm.get() else { return self.configured.rules(agent) };
        if swarm.config().agent(agent).is_none_or(|agent| agent.network != Network::Proxy) {
            return Vec::new();
        }
        match swarm.egress_rules(agent) {
            // What can't be read lets nothing pass.
            Ok(rules) => rules.iter().filter_map(|rule| rule.parse().ok()).collect(),
            Err(error) => {
                tracing::error!(%agent, error = chain(&error), "what was granted can't be read");
                self.configured.rules(agent)
            }
        }
    }

    fn note(&self, agent: &AgentId, connection: &Connection) {
        self.configured.note(agent, connection);
    }
}
