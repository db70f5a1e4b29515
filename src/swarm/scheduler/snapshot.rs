//! What `status` shows of a scheduler. Times by the machine's clock.

use super::Scheduler;
use super::agent::Agent;
use crate::id::AgentId;

/// A provider that is down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Down {
    /// Its id.
    pub provider: String,
    /// Since when.
    pub since: i64,
    /// When it is tried next, if then an agent of it has something to run.
    pub probe_at: i64,
    /// How often it was tried in vain.
    pub failures: u32,
    /// Whether it is being tried.
    pub is_probing: bool,
}

/// One agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Which.
    pub agent: AgentId,
    /// Its turns that run.
    pub running: usize,
    /// Its sessions with something undelivered and no turn.
    pub waiting: usize,
    /// Its turns in a row that failed.
    pub failures: u32,
    /// When something starts or is tried again by itself.
    pub next_at: Option<i64>,
}

/// The team at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Turns that run.
    pub running: usize,
    /// Sessions with something undelivered and no turn.
    pub waiting: usize,
    /// Every agent, by id.
    pub agents: Vec<Standing>,
}

impl Scheduler {
    /// The providers that are down.
    #[must_use]
    pub fn breakers(&self) -> Vec<Down> {
        let down = self.breakers.iter().map(|(provider, breaker)| Down {
            provider: provider.clone(),
            since: self.clock.shown(breaker.opened_at),
            probe_at: self.clock.shown(breaker.probe_at),
            failures: breaker.failures,
            is_probing: breaker.probe.is_some(),
        });
        down.collect()
    }

    /// Who runs and who waits. Looks at every agent: for people who ask, not for each step.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let mut agents: Vec<Standing> = self
            .agents
            .iter()
            .filter(|(_, agent)| !agent.is_gone)
            .map(|(id, agent)| self.standing(id, agent))
            .collect();
        agents.sort_unstable_by(|a, b| a.agent.cmp(&b.agent));
        let waiting = agents.iter().map(|agent| agent.waiting).sum();
        Snapshot { running: self.running, waiting, agents }
    }

    fn standing(&self, id: &AgentId, agent: &Agent) -> Standing {
        let retry = agent.retrying.iter().filter_map(|key| self.session_timers.at(key));
        Standing {
            agent: id.clone(),
            running: agent.running.len(),
            waiting: agent.waiting(),
            failures: agent.failures,
            next_at: retry.chain(self.agent_timers.at(id)).min().map(|at| self.clock.shown(at)),
        }
    }
}
