//! Freezing agents. A frozen agent begins no turn, and its running turn makes no further step until somebody thaws it.
//! Freezing the whole home also freezes agents that are added later. A freeze survives restarts.

use serde_json::json;
use tokio::sync::watch;

use super::{Actor, Swarm, SwarmError};
use crate::clean;
use crate::clock::{self, unix_ms};
use crate::id::AgentId;
use crate::store::{AuditEntry, Freeze, FreezeChange, FreezeState, Level, StoreError};

/// The frozen agents as last read from or written to the database. The lock is held during such a read or write.
pub(super) type FrozenOnDisk = tokio::sync::Mutex<FreezeState>;

/// Number of characters that the reason for a freeze may have.
pub(crate) const MAX_REASON: usize = 300;

/// Returns a reason in the form in which it is stored: one line of at most [`MAX_REASON`] characters. A text of which
/// nothing can be seen is none.
#[must_use]
pub(crate) fn reason(text: &str) -> Option<String> {
    Some(clean::summary(text, MAX_REASON)).filter(|line| !line.is_empty())
}

/// Returns the audit row for freezing an agent, or for another reason of its freeze.
fn freeze_entry(by: &Actor, agent: &AgentId, freeze: &Freeze) -> AuditEntry {
    by.entry("agent.freeze", agent.as_str(), Level::Yellow, freeze.reason.clone().unwrap_or_default())
}

/// Returns the audit row for thawing an agent.
fn thaw_entry(by: &Actor, agent: &AgentId) -> AuditEntry {
    by.entry("agent.thaw", agent.as_str(), Level::Yellow, String::new())
}

impl Swarm {
    /// Loads the frozen agents. Must be called before the first turn.
    pub async fn load_frozen(&self) -> Result<(), StoreError> {
        let found = self.store.freezes().state().await?;
        self.frozen.send_replace(found.clone());
        // Nothing else runs at this point. If something did hold the lock, it reads the database itself.
        if let Ok(mut written) = self.written.try_lock() {
            *written = found;
        }
        Ok(())
    }

    /// Takes over changes that another process wrote. The command line writes them itself if no gateway runs. Returns
    /// the agents that are frozen or thawed by that.
    pub(crate) async fn reload_frozen(&self) -> Result<Vec<AgentId>, StoreError> {
        let mut written = self.written.lock().await;
        let now = self.store.freezes().state().await?;
        if now == *written {
            return Ok(Vec::new());
        }
        let differs = |agent: &AgentId| now.holds(agent) != written.holds(agent);
        let changed: Vec<AgentId> = self.agents().into_iter().filter(differs).collect();
        // Only the differences to the last known database state are applied: a freeze in this process that is not
        // written yet must stay.
        self.frozen.send_modify(|frozen| *frozen = frozen.merge_unsaved(&now, &written));
        *written = now;
        drop(written);
        for agent in &changed {
            self.notify_agent_state(agent).await?;
        }
        Ok(changed)
    }

    fn agents(&self) -> Vec<AgentId> {
        self.config().agents.iter().map(|agent| agent.id.clone()).collect()
    }

    /// Returns a receiver for the frozen agents and every change of them.
    #[must_use]
    pub(crate) fn watch_frozen(&self) -> watch::Receiver<FreezeState> {
        self.frozen.subscribe()
    }

    /// Returns the agents that are frozen.
    #[must_use]
    pub fn frozen(&self) -> Vec<AgentId> {
        let frozen = self.frozen.borrow();
        self.agents().into_iter().filter(|agent| frozen.holds(agent)).collect()
    }

    /// Returns `true` if this agent is frozen.
    #[must_use]
    pub fn is_frozen(&self, agent: &AgentId) -> bool {
        self.frozen.borrow().holds(agent)
    }

    /// Describes an agent's freeze, for example `coder is frozen since 12:00 by human:ann: it loops`. Returns `None` if
    /// it is not frozen.
    #[must_use]
    pub(crate) fn frozen_text(&self, agent: &AgentId) -> Option<String> {
        let frozen = self.frozen.borrow();
        let freeze = frozen.of(agent)?;
        let (since, reason) = (clock::local(freeze.at), freeze.reason_text());
        Some(format!("{agent} is frozen since {since} by {}{reason}", freeze.by))
    }

    /// Waits until the agent is not frozen. Returns at once if it is not.
    pub(crate) async fn thawed(&self, agent: &AgentId) {
        self.wait_all_thawed(std::slice::from_ref(agent)).await;
    }

    /// Waits until none of these agents is frozen.
    pub(crate) async fn wait_all_thawed(&self, agents: &[AgentId]) {
        let none = |frozen: &FreezeState| !agents.iter().any(|agent| frozen.holds(agent));
        // An error means that the sender is gone, and it lives as long as this `Swarm`.
        let _ = self.frozen.subscribe().wait_for(none).await;
    }

    /// Waits until one of these agents is frozen.
    pub(crate) async fn wait_any_frozen(&self, agents: &[AgentId]) {
        let any = |frozen: &FreezeState| agents.iter().any(|agent| frozen.holds(agent));
        // An error means that the sender is gone, and it lives as long as this `Swarm`.
        let _ = self.frozen.subscribe().wait_for(any).await;
    }

    /// Freezes an agent. Returns `true` if it was not frozen before. A frozen agent gets the reason, if there is one, as
    /// its new reason.
    ///
    /// # Errors
    ///
    /// Returns [`SwarmError::NoAgent`] if there is no such agent, or a store error. After a store error the agent is
    /// still held until this process ends.
    pub(crate) async fn freeze(
        &self,
        by: &Actor,
        agent: &AgentId,
        reason: Option<String>,
    ) -> Result<bool, SwarmError> {
        self.require_agent(agent)?;
        let now = unix_ms();
        let freeze = Freeze { at: now, by: by.party.to_string(), reason };
        // Before the write, so that a step that begins during the write is held already.
        self.frozen.send_modify(|frozen| frozen.freeze(Some(agent), freeze.clone()));
        let mut written = self.written.lock().await;
        let entry = freeze_entry(by, agent, &freeze);
        let change = self.store.freezes().set(agent.clone(), Some(freeze.clone()), entry, now).await?;
        // Again: a thaw that held the lock first has cleared memory after the freeze above.
        self.frozen.send_modify(|frozen| frozen.freeze(Some(agent), freeze.clone()));
        written.freeze(Some(agent), freeze);
        drop(written);
        self.publish_freeze(by, agent, true, change).await?;
        Ok(change == FreezeChange::State)
    }

    /// Thaws an agent. Returns `true` if it was frozen.
    ///
    /// # Errors
    ///
    /// Returns [`SwarmError::NoAgent`] if there is no such agent, or a store error.
    pub(crate) async fn thaw(&self, by: &Actor, agent: &AgentId) -> Result<bool, SwarmError> {
        self.require_agent(agent)?;
        let mut written = self.written.lock().await;
        let entry = thaw_entry(by, agent);
        let change = self.store.freezes().set(agent.clone(), None, entry, unix_ms()).await?;
        // After the write, unlike a freeze: if the write fails, the agent stays held.
        self.frozen.send_modify(|frozen| frozen.thaw(Some(agent)));
        written.thaw(Some(agent));
        drop(written);
        self.publish_freeze(by, agent, false, change).await?;
        Ok(change == FreezeChange::State)
    }

    /// Freezes the whole home: all agents, and those that are added later. Returns for each agent `true` if it was not
    /// frozen before.
    ///
    /// # Errors
    ///
    /// Returns a store error if the freeze can't be written. The agents are still held until this process ends.
    pub(crate) async fn freeze_home(
        &self,
        by: &Actor,
        reason: Option<String>,
    ) -> Result<Vec<(AgentId, bool)>, SwarmError> {
        let now = unix_ms();
        let freeze = Freeze { at: now, by: by.party.to_string(), reason };
        self.frozen.send_modify(|frozen| frozen.freeze(None, freeze.clone()));
        let mut written = self.written.lock().await;
        let agents = self.entries(|agent| freeze_entry(by, agent, &freeze));
        let detail = freeze.reason.clone().unwrap_or_default();
        let entry = by.entry("home.freeze", "all", Level::Yellow, detail);
        let frozen = Some(freeze.clone());
        let changes = self.store.freezes().set_home(frozen, entry, agents.clone(), now).await?;
        // Again, as for one agent: a thaw may have come between.
        self.frozen.send_modify(|frozen| frozen.freeze(None, freeze.clone()));
        written.freeze(None, freeze);
        drop(written);
        self.publish_home_freeze(by, true, agents, changes).await
    }

    /// Thaws the whole home, including agents that were frozen one by one. Returns for each agent `true` if it was
    /// frozen.
    ///
    /// # Errors
    ///
    /// Returns a store error if the thaw can't be written. The agents stay frozen then.
    pub(crate) async fn thaw_home(&self, by: &Actor) -> Result<Vec<(AgentId, bool)>, SwarmError> {
        let mut written = self.written.lock().await;
        let agents = self.entries(|agent| thaw_entry(by, agent));
        let entry = by.entry("home.thaw", "all", Level::Yellow, String::new());
        let changes = self.store.freezes().set_home(None, entry, agents.clone(), unix_ms()).await?;
        self.frozen.send_modify(|frozen| frozen.thaw(None));
        written.thaw(None);
        drop(written);
        self.publish_home_freeze(by, false, agents, changes).await
    }

    fn entries(&self, entry: impl Fn(&AgentId) -> AuditEntry) -> Vec<(AgentId, AuditEntry)> {
        self.agents().into_iter().map(|agent| (agent.clone(), entry(&agent))).collect()
    }

    async fn publish_home_freeze(
        &self,
        by: &Actor,
        frozen: bool,
        agents: Vec<(AgentId, AuditEntry)>,
        changes: Vec<FreezeChange>,
    ) -> Result<Vec<(AgentId, bool)>, SwarmError> {
        let mut changed = Vec::new();
        for ((agent, _), change) in agents.into_iter().zip(changes) {
            self.publish_freeze(by, &agent, frozen, change).await?;
            changed.push((agent, change == FreezeChange::State));
        }
        Ok(changed)
    }

    async fn publish_freeze(
        &self,
        by: &Actor,
        agent: &AgentId,
        frozen: bool,
        change: FreezeChange,
    ) -> Result<(), StoreError> {
        // Another reason is told like a freeze, so that everybody who shows the freeze reads it again.
        if change != FreezeChange::Nothing {
            let name = if frozen { "agent.frozen" } else { "agent.thawed" };
            self.notifier.publish(name, &json!({"agent": agent, "by": by.party}));
        }
        self.notify_agent_state(agent).await
    }
}
