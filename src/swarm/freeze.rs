//! Freezing: an agent that a person froze begins nothing, and its running turn goes no step further, until
//! somebody thaws it. It holds over restarts.

use std::collections::BTreeSet;

use serde_json::json;
use tokio::sync::watch;

use super::{By, Swarm, SwarmError};
use crate::clock::unix_ms;
use crate::id::AgentId;
use crate::store::{AuditEntry, Level, StoreError};

/// Who is frozen, for whoever waits for it to end.
pub(super) type Frozen = watch::Sender<BTreeSet<AgentId>>;

/// The audit's row of a freeze or a thaw.
#[must_use]
pub fn entry(by: &By, agent: &AgentId, frozen: bool) -> AuditEntry {
    let action = if frozen { "agent.freeze" } else { "agent.thaw" };
    by.entry(action, agent.as_str(), Level::Yellow, String::new())
}

impl Swarm {
    /// Reads who is frozen. To be called before the first turn.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub fn load_frozen(&self) -> Result<BTreeSet<AgentId>, StoreError> {
        let states = self.store.agent_states()?.into_iter();
        let found: BTreeSet<AgentId> =
            states.filter(|state| state.frozen_at.is_some()).map(|state| state.agent).collect();
        self.frozen.send_replace(found.clone());
        Ok(found)
    }

    /// Who is frozen.
    #[must_use]
    pub fn frozen(&self) -> Vec<AgentId> {
        self.frozen.borrow().iter().cloned().collect()
    }

    /// Resolves when the agent is not frozen, without any wait where it is not.
    pub async fn thawed(&self, agent: &AgentId) {
        if !self.frozen.borrow().contains(agent) {
            return;
        }
        // The sender lives as long as this swarm does.
        let _ = self.frozen.subscribe().wait_for(|frozen| !frozen.contains(agent)).await;
    }

    /// Freezes an agent; says whether it was not frozen before.
    ///
    /// # Errors
    ///
    /// As [`SwarmError`] says. It is held all the same then, until this process ends.
    pub async fn freeze(&self, by: &By, agent: &AgentId) -> Result<bool, SwarmError> {
        self.require_agent(agent)?;
        // Before it is written: a step that would begin meanwhile is held.
        self.frozen.send_modify(|frozen| {
            frozen.insert(agent.clone());
        });
        let entry = entry(by, agent, true);
        let who = by.party.to_string();
        let changed = self.store.set_frozen(agent.clone(), Some(who), entry, unix_ms()).await?;
        if changed {
            self.bell.publish("agent.frozen", &json!({"agent": agent, "by": by.party}));
        }
        self.tell_standing(agent)?;
        Ok(changed)
    }

    /// Thaws an agent; says whether it was frozen.
    ///
    /// # Errors
    ///
    /// As [`SwarmError`] says.
    pub async fn thaw(&self, by: &By, agent: &AgentId) -> Result<bool, SwarmError> {
        self.require_agent(agent)?;
        let entry = entry(by, agent, false);
        let changed = self.store.set_frozen(agent.clone(), None, entry, unix_ms()).await?;
        self.frozen.send_modify(|frozen| {
            frozen.remove(agent);
        });
        if changed {
            self.bell.publish("agent.thawed", &json!({"agent": agent, "by": by.party}));
        }
        self.tell_standing(agent)?;
        Ok(changed)
    }
}
