//! The state of each agent: its base mode, and if it sleeps or is frozen. Mode and sleep are separate: waking returns
//! an agent to its mode.

use std::collections::HashMap;

use serde_json::json;

use super::scheduler::{Mode, SchedulerEvent};
use super::{Actor, Swarm, SwarmError};
use crate::clock::unix_ms;
use crate::config::{Agent, Role};
use crate::id::AgentId;
use crate::store::{AgentState, FreezeState, Level, StoreError};
use crate::sync::lock;

/// Returns what starts an agent's turns. Workers check their channels by themselves. The other roles run only when they
/// are called.
#[must_use]
pub(crate) const fn mode(role: Role) -> Mode {
    match role {
        Role::Worker => Mode::Active,
        Role::Orchestrator | Role::Sysadmin => Mode::Reactive,
    }
}

fn agent_event(agent: &Agent, state: Option<&AgentState>, frozen: &FreezeState) -> SchedulerEvent {
    SchedulerEvent::Agent {
        agent: agent.id.clone(),
        mode: mode(agent.role),
        asleep: state.is_some_and(|state| state.asleep_at.is_some()),
        frozen: frozen.holds(&agent.id),
        // If another provider's model can answer instead, the agent is not held back when one provider is down.
        provider: agent
            .model
            .as_ref()
            .filter(|model| agent.fallbacks.iter().all(|other| other.provider() == model.provider()))
            .map(|model| model.provider().to_owned()),
        last_turn_at: state.and_then(|state| state.last_turn_at),
    }
}

impl Swarm {
    /// Returns the state of all agents, as events for the scheduler.
    pub async fn agent_events(&self) -> Result<Vec<SchedulerEvent>, StoreError> {
        let states: HashMap<AgentId, AgentState> = self
            .store
            .agents()
            .states()
            .await?
            .into_iter()
            .map(|state| (state.agent.clone(), state))
            .collect();
        *lock(&self.asleep) = states
            .values()
            .filter(|state| state.asleep_at.is_some())
            .map(|state| (state.agent.clone(), None))
            .collect();
        let frozen = self.store.freezes().state().await?;
        let config = self.config();
        let agents = config.agents.iter().map(|agent| agent_event(agent, states.get(&agent.id), &frozen));
        // The scheduler has to know the agents before it hears which of them wait for a quota.
        Ok(agents.chain(self.quota_events()).collect())
    }

    /// Tells the scheduler the current state of one agent, after it changed.
    pub(crate) async fn notify_agent_state(&self, agent: &AgentId) -> Result<(), StoreError> {
        let config = self.config();
        let Some(found) = config.agent(agent) else { return Ok(()) };
        let state = self.store.agents().state(agent).await?;
        let is_asleep = state.as_ref().is_some_and(|state| state.asleep_at.is_some());
        if is_asleep {
            // An existing entry is kept, because it knows the turn in which the agent went to sleep.
            lock(&self.asleep).entry(agent.clone()).or_insert(None);
        } else {
            lock(&self.asleep).remove(agent);
        }
        self.notifier.tell(agent_event(found, state.as_ref(), &self.store.freezes().state().await?));
        Ok(())
    }

    /// Puts an agent to sleep. Returns `true` if it was awake.
    pub(crate) async fn sleep(&self, by: &Actor, agent: &AgentId, reason: &str) -> Result<bool, SwarmError> {
        let reason: String = reason.chars().filter(|c| !c.is_control()).take(200).collect();
        let entry = by.entry("agent.sleep", agent.as_str(), Level::Green, reason.clone());
        let changed = self.store.agents().set_asleep(agent.clone(), Some(reason), entry, unix_ms()).await?;
        if changed {
            self.notifier.publish("agent.slept", &json!({"agent": agent}));
            // The turn that asked for the sleep is remembered: its own later posts must not wake the agent.
            lock(&self.asleep).insert(agent.clone(), by.turn);
            self.notify_agent_state(agent).await?;
        }
        Ok(changed)
    }

    /// Wakes an agent. Returns `true` if it slept.
    pub(crate) async fn wake(&self, by: &Actor, agent: &AgentId, why: &str) -> Result<bool, SwarmError> {
        if !lock(&self.asleep).contains_key(agent) {
            return Ok(false);
        }
        let entry = by.entry("agent.wake", agent.as_str(), Level::Green, why.to_owned());
        let changed = self.store.agents().set_asleep(agent.clone(), None, entry, unix_ms()).await?;
        if changed {
            self.notifier.publish("agent.woke", &json!({"agent": agent}));
        }
        self.notify_agent_state(agent).await?;
        Ok(changed)
    }
}
