//! The part of the scheduler that tracks which providers are down. Times of a [`ProviderOutage`] are of the machine's
//! clock.

use super::breaker::Breaker;
use super::{Effect, Scheduler, TurnEnd};
use crate::id::{AgentId, SessionKey};

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

    /// Records which provider an agent uses from now on.
    pub(super) fn set_agent_provider(&mut self, id: &AgentId, provider: Option<&str>) {
        let before = self.agents.get(id).and_then(|agent| agent.profile.provider.clone());
        if let Some(before) = before.filter(|before| Some(before.as_str()) != provider)
            && let Some(agents) = self.providers.get_mut(&before)
        {
            // Without agents, nobody could probe the provider any more.
            agents.remove(id);
            if agents.is_empty() {
                self.providers.remove(&before);
                self.breakers.remove(&before);
            }
        }
        if let Some(provider) = provider {
            self.providers.entry(provider.to_owned()).or_default().insert(id.clone());
        }
    }

    /// Updates the provider's breaker from the outcome of a turn.
    pub(super) fn learn(&mut self, provider: &str, key: &SessionKey, how: TurnEnd, now: i64) {
        let waits = self.settings.probe;
        match self.breakers.get_mut(provider) {
            // Turns that began before the breaker opened give no new information.
            Some(breaker) if breaker.probe.as_ref() == Some(key) => match how {
                TurnEnd::Done => self.close(provider, now),
                // The turn asked no model, so another session probes at once.
                TurnEnd::Empty => breaker.probe = None,
                how => breaker.probed(how == TurnEnd::Unavailable, now, waits),
            },
            None if how == TurnEnd::Unavailable && self.providers.contains_key(provider) => {
                self.breakers.insert(provider.to_owned(), Breaker::open(now, waits));
                self.refresh_provider_agents(provider, now);
            }
            _ => {}
        }
    }

    /// Records that the model answered within a turn. A probe has succeeded at that point, even if its turn goes on for
    /// long.
    pub(super) fn answered(&mut self, key: &SessionKey, now: i64) {
        let provider = self.sessions.get(key).and_then(|session| session.provider.clone());
        if let Some(provider) = provider
            && self.breakers.get(&provider).is_some_and(|breaker| breaker.probe.as_ref() == Some(key))
        {
            self.close(&provider, now);
        }
    }

    fn close(&mut self, provider: &str, now: i64) {
        self.breakers.remove(provider);
        // Sessions whose tick had come during the outage wait for a new one, spread over time, so that the agents don't
        // all call the provider at once.
        for id in self.providers.get(provider).cloned().unwrap_or_default() {
            self.recall(&id);
            if let Some(agent) = self.agents.get_mut(&id) {
                agent.quiet_until = now.saturating_add(agent.pace.offset);
            }
        }
        self.refresh_provider_agents(provider, now);
    }

    fn refresh_provider_agents(&mut self, provider: &str, now: i64) {
        for id in self.providers.get(provider).cloned().unwrap_or_default() {
            self.settle(&id, now);
        }
    }

    /// Starts the probes that are due.
    pub(super) fn probe(&mut self, now: i64, effects: &mut Vec<Effect>) {
        let ripe: Vec<String> = self
            .breakers
            .iter()
            .filter(|(_, breaker)| breaker.probe.is_none() && breaker.probe_at <= now)
            .map(|(provider, _)| provider.clone())
            .collect();
        for provider in ripe {
            let held = self.breakers.get(&provider).and_then(|breaker| breaker.held.first());
            let Some((level, agent)) = held.filter(|(level, _)| self.has_room(*level)) else { continue };
            let Some(key) = self.agents.get(agent).and_then(|agent| agent.oldest(level)).cloned() else {
                continue;
            };
            if let Some(breaker) = self.breakers.get_mut(&provider) {
                breaker.probe = Some(key.clone());
            }
            self.start(&key, now, effects);
        }
    }
}
