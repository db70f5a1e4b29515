//! Freezing: an agent that a person froze begins nothing, and its running turn goes no step further, until
//! somebody thaws it. So is, with the whole home, who is added to it later. It holds over restarts.

use serde_json::json;
use tokio::sync::watch;

use super::{By, Swarm, SwarmError};
use crate::clock::{self, unix_ms};
use crate::id::AgentId;
use crate::store::{AuditEntry, Freeze, Frozen, Level, StoreError};

/// Who was frozen in the database when it was last looked at or written to. Held while that goes on.
pub(super) type Written = tokio::sync::Mutex<Frozen>;

/// The audit's row of a freeze or a thaw.
#[must_use]
pub fn entry(by: &By, agent: &AgentId, frozen: bool) -> AuditEntry {
    let action = if frozen { "agent.freeze" } else { "agent.thaw" };
    by.entry(action, agent.as_str(), Level::Yellow, String::new())
}

/// The audit's row of a freeze or a thaw of all.
#[must_use]
pub fn home_entry(by: &By, frozen: bool) -> AuditEntry {
    let action = if frozen { "home.freeze" } else { "home.thaw" };
    by.entry(action, "all", Level::Yellow, String::new())
}

impl Swarm {
    /// Reads who is frozen. To be called before the first turn.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub fn load_frozen(&self) -> Result<(), StoreError> {
        let found = self.store.frozen()?;
        self.frozen.send_replace(found.clone());
        // Nothing else runs yet; and where it does, it is read again.
        if let Ok(mut written) = self.written.try_lock() {
            *written = found;
        }
        Ok(())
    }

    /// Takes over what another process wrote about who is frozen: the command line does where it finds no
    /// gateway. Gives who is told to stand still or to go on by that.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub async fn reload_frozen(&self) -> Result<Vec<AgentId>, StoreError> {
        let mut written = self.written.lock().await;
        let now = self.store.frozen()?;
        if now == *written {
            return Ok(Vec::new());
        }
        let differs = |agent: &AgentId| now.holds(agent) != written.holds(agent);
        let changed: Vec<AgentId> = self.agents().into_iter().filter(differs).collect();
        self.frozen.send_modify(|frozen| *frozen = frozen.taking(&now, &written));
        *written = now;
        drop(written);
        for agent in &changed {
            self.tell_standing(agent)?;
        }
        Ok(changed)
    }

    fn agents(&self) -> Vec<AgentId> {
        self.config().agents.iter().map(|agent| agent.id.clone()).collect()
    }

    /// Who is frozen, and every change of it.
    #[must_use]
    pub fn watch_frozen(&self) -> watch::Receiver<Frozen> {
        self.frozen.subscribe()
    }

    /// Which agents are frozen.
    #[must_use]
    pub fn frozen(&self) -> Vec<AgentId> {
        let frozen = self.frozen.borrow();
        self.agents().into_iter().filter(|agent| frozen.holds(agent)).collect()
    }

    /// Whether this agent is frozen.
    #[must_use]
    pub fn is_frozen(&self, agent: &AgentId) -> bool {
        self.frozen.borrow().holds(agent)
    }

    /// Says of a frozen agent since when it is and who froze it, as in `coder is frozen since 12:00 by human:ann`.
    #[must_use]
    pub fn frozen_text(&self, agent: &AgentId) -> Option<String> {
        let frozen = self.frozen.borrow();
        let freeze = frozen.of(agent)?;
        Some(format!("{agent} is frozen since {} by {}", clock::local(freeze.at), freeze.by))
    }

    /// Resolves when the agent is not frozen, without any wait where it is not.
    pub async fn thawed(&self, agent: &AgentId) {
        if !self.is_frozen(agent) {
            return;
        }
        // The sender lives as long as this swarm does.
        let _ = self.frozen.subscribe().wait_for(|frozen| !frozen.holds(agent)).await;
    }

    /// Resolves when none of these agents is frozen.
    pub async fn all_thawed(&self, agents: &[AgentId]) {
        let none = |frozen: &Frozen| !agents.iter().any(|agent| frozen.holds(agent));
        // The sender lives as long as this swarm does.
        let _ = self.frozen.subscribe().wait_for(none).await;
    }

    /// Resolves when one of these agents is frozen.
    pub async fn any_frozen(&self, agents: &[AgentId]) {
        let any = |frozen: &Frozen| agents.iter().any(|agent| frozen.holds(agent));
        // The sender lives as long as this swarm does.
        let _ = self.frozen.subscribe().wait_for(any).await;
    }

    /// Freezes an agent; says whether it was not frozen before.
    ///
    /// # Errors
    ///
    /// As [`SwarmError`] says. It is held all the same then, until this process ends.
    pub async fn freeze(&self, by: &By, agent: &AgentId) -> Result<bool, SwarmError> {
        self.freeze_as(by, agent, by.party.to_string(), String::new()).await
    }

    /// Freezes an agent by flock itself; the reason stands where others have the name of who froze it.
    ///
    /// # Errors
    ///
    /// As [`Swarm::freeze`].
    pub async fn freeze_because(&self, agent: &AgentId, why: &str) -> Result<bool, SwarmError> {
        let by = By::system();
        self.freeze_as(&by, agent, format!("{}: {why}", by.party), why.to_owned()).await
    }

    async fn freeze_as(
        &self,
        by: &By,
        agent: &AgentId,
        shown: String,
        detail: String,
    ) -> Result<bool, SwarmError> {
        self.require_agent(agent)?;
        let now = unix_ms();
        let freeze = Freeze { at: now, by: shown };
        // Before it is written: a step that would begin meanwhile is held.
        self.frozen.send_modify(|frozen| frozen.freeze(Some(agent), freeze.clone()));
        let mut written = self.written.lock().await;
        let entry = AuditEntry { detail, ..entry(by, agent, true) };
        let changed = self.store.set_frozen(agent.clone(), Some(freeze.by.clone()), entry, now).await?;
        written.freeze(Some(agent), freeze);
        drop(written);
        self.tell_frozen(by, agent, true, changed)?;
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
        self.frozen.send_modify(|frozen| frozen.thaw(Some(agent)));
        written.thaw(Some(agent));
        drop(written);
        self.tell_frozen(by, agent, false, changed)?;
        Ok(changed)
    }

    /// Freezes the whole home: its agents, and those that are added later. Says for each agent whether it was
    /// not frozen before.
    ///
    /// # Errors
    ///
    /// As [`SwarmError`] says. They are held all the same then, until this process ends.
    pub async fn freeze_home(&self, by: &By) -> Result<Vec<(AgentId, bool)>, SwarmError> {
        let now = unix_ms();
        let freeze = Freeze { at: now, by: by.party.to_string() };
        self.frozen.send_modify(|frozen| frozen.freeze(None, freeze.clone()));
        let mut written = self.written.lock().await;
        let agents = self.entries(by, true);
        let who = Some(freeze.by.clone());
        let changed = self.store.set_home_frozen(who, home_entry(by, true), agents.clone(), now).await?;
        written.freeze(None, freeze);
        drop(written);
        self.tell_all_frozen(by, true, agents, changed)
    }

    /// Thaws the whole home, also who was frozen alone. Says for each agent whether it was frozen.
    ///
    /// # Errors
    ///
    /// As [`SwarmError`] says.
    pub async fn thaw_home(&self, by: &By) -> Result<Vec<(AgentId, bool)>, SwarmError> {
        let mut written = self.written.lock().await;
        let agents = self.entries(by, false);
        let entry = home_entry(by, false);
        let changed = self.store.set_home_frozen(None, entry, agents.clone(), unix_ms()).await?;
        self.frozen.send_modify(|frozen| frozen.thaw(None));
        written.thaw(None);
        drop(written);
        self.tell_all_frozen(by, false, agents, changed)
    }

    fn entries(&self, by: &By, frozen: bool) -> Vec<(AgentId, AuditEntry)> {
        let agents = self.agents().into_iter();
        agents.map(|agent| (agent.clone(), entry(by, &agent, frozen))).collect()
    }

    fn tell_all_frozen(
        &self,
        by: &By,
        frozen: bool,
        agents: Vec<(AgentId, AuditEntry)>,
        changed: Vec<bool>,
    ) -> Result<Vec<(AgentId, bool)>, SwarmError> {
        let all: Vec<(AgentId, bool)> = agents.into_iter().map(|(agent, _)| agent).zip(changed).collect();
        for (agent, changed) in &all {
            self.tell_frozen(by, agent, frozen, *changed)?;
        }
        Ok(all)
    }

    fn tell_frozen(&self, by: &By, agent: &AgentId, frozen: bool, changed: bool) -> Result<(), StoreError> {
        if changed {
            let name = if frozen { "agent.frozen" } else { "agent.thawed" };
            self.bell.publish(name, &json!({"agent": agent, "by": by.party}));
        }
        self.tell_standing(agent)
    }
}
