//! The view of a scheduler that `status` shows. Times are of the machine's clock.

use super::Scheduler;
use super::agent::Agent;
use crate::id::AgentId;

/// A provider that is down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProviderOutage {
    pub provider: String,
    /// Unix milliseconds.
    pub since: i64,
    /// Time of the next probe, if an agent of the provider has something to run then.
    pub probe_at: i64,
    /// Number of failed probes.
    pub failures: u32,
    /// `true` while a probe runs.
    pub is_probing: bool,
}

/// The state of one agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AgentSnapshot {
    pub agent: AgentId,
    /// Number of running turns.
    pub running: usize,
    /// Number of sessions that have undelivered messages and do not run.
    pub waiting: usize,
    /// Number of consecutive failed turns.
    pub failures: u32,
    /// The next time at which something starts or is retried without an event.
    pub next_at: Option<i64>,
}

/// The state of the team at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Snapshot {
    /// Number of running turns.
    pub running: usize,
    /// Number of sessions that have undelivered messages and do not run.
    pub waiting: usize,
    /// All agents, sorted by id.
    pub agents: Vec<AgentSnapshot>,
}

impl Scheduler {
    /// Returns the providers that are down.
    #[must_use]
    pub(crate) fn breakers(&self) -> Vec<ProviderOutage> {
        let down = self.breakers.iter().map(|(provider, breaker)| ProviderOutage {
            provider: provider.clone(),
            since: self.clock.shown(breaker.opened_at),
            probe_at: self.clock.shown(breaker.probe_at),
            failures: breaker.failures,
            is_probing: breaker.probe.is_some(),
        });
        down.collect()
    }

    /// Returns the state of every agent. It visits all agents, so it is meant for status queries and not for each step.
    #[must_use]
    pub(crate) fn snapshot(&self) -> Snapshot {
        let mut agents: Vec<AgentSnapshot> = self
            .agents
            .iter()
            .filter(|(_, agent)| !agent.is_gone)
            .map(|(id, agent)| self.standing(id, agent))
            .collect();
        agents.sort_unstable_by(|a, b| a.agent.cmp(&b.agent));
        let waiting = agents.iter().map(|agent| agent.waiting).sum();
        Snapshot { running: self.running, waiting, agents }
    }

    fn standing(&self, id: &AgentId, agent: &Agent) -> AgentSnapshot {
        let retry = agent.retrying.iter().filter_map(|key| self.session_timers.at(key));
        AgentSnapshot {
            agent: id.clone(),
            running: agent.running.len(),
            waiting: agent.waiting(),
            failures: agent.failures,
            next_at: retry.chain(self.agent_timers.at(id)).min().map(|at| self.clock.shown(at)),
        }
    }
}
