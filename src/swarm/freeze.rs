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

/// Who was frozen in the database when it was last looked at or written to. Held while that goes on.
pub(super) type Written = tokio::sync::Mutex<BTreeSet<AgentId>>;

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
        // Nothing else runs yet; and where it does, it is read again.
        if let Ok(mut written) = self.written.try_lock() {
            written.clone_from(&found);
        }
        Ok(found)
    }

    /// Takes over what another process wrote about who is frozen: the command line does where it finds no
    /// gateway. Gives who is told to stand still or to go on by that.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub async fn reload_frozen(&self) -> Result<Vec<AgentId>, StoreError> {
        let mut written = self.written.lock().await;
        let states = self.store.agent_states()?.into_iter();
        let now: BTreeSet<AgentId> =
            states.filter(|state| state.frozen_at.is_some()).map(|state| state.agent).collect();
        // Only what has changed in the database: whoever could not be written down as frozen stays it.
        let changed: Vec<AgentId> = now.symmetric_difference(&written).cloned().collect();
        if !changed.is_empty() {
            self.frozen.send_modify(|frozen| {
                frozen.retain(|agent| now.contains(agent) || !written.contains(agent));
                frozen.extend(now.difference(&written).cloned());
            });
        }
        *written = now;
        drop(written);
        for agent in &changed {
            self.tell_standing(agent)?;
        }
        Ok(changed)
    }

    /// Who is frozen, and every change of it.
    #[must_use]
    pub fn watch_frozen(&self) -> watch::Receiver<BTreeSet<AgentId>> {
        self.frozen.subscribe()
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

    /// Resolves when none of these agents is frozen.
    pub async fn all_thawed(&self, agents: &[AgentId]) {
        let none = |frozen: &BTreeSet<AgentId>| !agents.iter().any(|agent| frozen.contains(agent));
        // The sender lives as long as this swarm does.
        let _ = self.frozen.subscribe().wait_for(none).await;
    }

    /// Resolves when one of these agents is frozen.
    pub async fn any_frozen(&self, agents: &[AgentId]) {
        let any = |frozen: &BTreeSet<AgentId>| agents.iter().any(|agent| frozen.contains(agent));
        // The sender lives as long as this swarm does.
        let _ = self.frozen.subscribe().wait_for(any).await;
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
        let mut written = self.written.lock().await;
        let entry = entry(by, agent, true);
        let who = by.party.to_string();
        let changed = self.store.set_frozen(agent.clone(), Some(who), entry, unix_ms()).await?;
        written.insert(agent.clone());
        drop(written);
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
        let mut written = self.written.lock().await;
        let entry = entry(by, agent, false);
        let changed = self.store.set_frozen(agent.clone(), None, entry, unix_ms()).await?;
        self.frozen.send_modify(|frozen| {
            frozen.remove(agent);
        });
        written.remove(agent);
        drop(written);
        if changed {
            self.bell.publish("agent.thawed", &json!({"agent": agent, "by": by.party}));
        }
        self.tell_standing(agent)?;
        Ok(changed)
    }
}
