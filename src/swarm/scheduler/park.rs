//! The part of the scheduler that holds the agents of a credential whose quota is used up. At the reset it starts one
//! turn. When that turn's model answers, the others go on one after the other.

use std::collections::BTreeSet;

use super::breaker::Breaker;
use super::{Effect, Priority, Scheduler};
use crate::id::{AgentId, SessionKey};

impl Scheduler {
    /// Holds these agents, and no others, until a probe at this time of the machine's clock.
    pub(super) fn park(&mut self, credential: &str, agents: &BTreeSet<AgentId>, until: i64, now: i64) {
        let until = self.clock.taken(until);
        let park = self.parks.entry(credential.to_owned()).or_insert_with(|| Breaker::parked(now, until));
        park.probe_at = until;
        let is_held = |parked: &Option<String>| parked.as_deref() == Some(credential);
        let changed: Vec<AgentId> = self
            .agents
            .iter()
            .filter(|(id, agent)| !agent.is_gone && agents.contains(*id) != is_held(&agent.parked))
            .map(|(id, _)| id.clone())
            .collect();
        for id in changed {
            if let Some(agent) = self.agents.get_mut(&id) {
                agent.parked = agents.contains(&id).then(|| credential.to_owned());
            }
            self.settle(&id, now);
        }
    }

    /// Lets the agents of a credential go on: those with something urgent first, then who was served longest ago. They
    /// are spread over a short time, so that they don't use up the new quota in one moment.
    pub(super) fn unpark(&mut self, credential: &str, now: i64) {
        let Some(park) = self.parks.get(credential) else { return };
        let prober = park.probe.as_ref().map(SessionKey::agent).cloned();
        let mut held: Vec<((usize, u64), AgentId)> = self
            .agents
            .iter()
            .filter(|(_, agent)| agent.parked.as_deref() == Some(credential))
            .map(|(id, agent)| {
                let levels = [Priority::Human, Priority::Mention, Priority::Message];
                let level = levels.iter().position(|level| agent.oldest(*level).is_some());
                ((level.unwrap_or(levels.len()), agent.served), id.clone())
            })
            .collect();
        held.sort_unstable();
        // Agents with nothing to do, and the one that has gone on already, take no place in the order.
        let waits = |((level, _), id): &&((usize, u64), AgentId)| *level < 3 && Some(id) != prober.as_ref();
        let count = i64::try_from(held.iter().filter(waits).count()).unwrap_or(i64::MAX).max(1);
        let gap = self.settings.resume_gap.min(self.settings.resume_spread / count);
        let mut place = 0;
        for one in &held {
            if let Some(agent) = self.agents.get_mut(&one.1) {
                agent.parked = None;
                agent.resumes_at = now.saturating_add(gap.saturating_mul(place));
            }
            place += i64::from(waits(&one));
            // This leaves the park's lanes, so the park has to be there still.
            self.settle(&one.1, now);
        }
        self.parks.remove(credential);
    }

    /// Returns the names of the parks for which a turn waits, or is the probe.
    #[must_use]
    pub fn awaited_parks(&self) -> BTreeSet<String> {
        let is_awaited = |park: &Breaker| park.probe.is_some() || park.held.first().is_some();
        let awaited = self.parks.iter().filter(|(_, park)| is_awaited(park));
        awaited.map(|(credential, _)| credential.clone()).collect()
    }

    /// Starts the probes of parked credentials that are due.
    pub(super) fn probe_parks(&mut self, now: i64, effects: &mut Vec<Effect>) {
        let ripe: Vec<String> = self
            .parks
            .iter()
            .filter(|(_, park)| park.probe.is_none() && park.probe_at <= now)
            .map(|(credential, _)| credential.clone())
            .collect();
        for credential in ripe {
            let held = self.parks.get(&credential).and_then(|park| park.held.first());
            let Some((level, agent)) = held.filter(|(level, _)| self.has_room(*level)) else { continue };
            let Some(key) = self.agents.get(agent).and_then(|agent| agent.oldest(level)).cloned() else {
                continue;
            };
            if let Some(park) = self.parks.get_mut(&credential) {
                park.probe = Some(key.clone());
            }
            self.start(&key, now, effects);
        }
    }

    /// Records that a turn ended. If it was a probe and its credential is still parked, another one follows after a short
    /// wait, or at the time that was named meanwhile.
    pub(super) fn end_park_probe(&mut self, key: &SessionKey, now: i64) {
        let wait = self.settings.probe.after(1);
        for park in self.parks.values_mut().filter(|park| park.probe.as_ref() == Some(key)) {
            park.probe = None;
            park.probe_at = park.probe_at.max(now.saturating_add(wait));
        }
    }
}
