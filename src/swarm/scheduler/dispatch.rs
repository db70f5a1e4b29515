//! The part of the scheduler that moves sessions and agents between their waiting places and a slot.

use super::ready_queue::Lane;
use super::session::WaitState;
use super::{Effect, Priority, Scheduler, Urgency};
use crate::id::{AgentId, SessionKey};

impl Scheduler {
    /// Puts a session at the place where its undelivered messages have to wait, or forgets it if there are none.
    pub(super) fn place(&mut self, key: &SessionKey, now: i64) {
        let was = self.dequeue(key);
        let Some(session) = self.sessions.get_mut(key) else { return };
        let Some(agent) = self.agents.get_mut(key.agent()) else { return };
        let Some(work) = session.unseen else {
            self.sessions.remove(key);
            return;
        };
        if let Some(retry_at) = session.retry_at.filter(|at| *at > now) {
            session.spot = WaitState::Retry;
            agent.retrying.insert(key.clone());
            self.session_timers.set(key, Some(retry_at));
            return;
        }
        // A session that a tick released keeps its number in the queue, even if more messages arrive.
        match (was, work.urgency) {
            (WaitState::Queued { level, order }, _) => {
                self.enqueue(key, level.min(work.priority), order, now);
            }
            (_, Urgency::Now) => {
                let order = self.number();
                self.enqueue(key, work.priority, order, now);
            }
            (_, Urgency::Tick) => {
                session.spot = WaitState::Plain;
                agent.plain.insert(key.clone());
            }
        }
    }

    /// Removes a session from its waiting place and returns that place.
    pub(super) fn dequeue(&mut self, key: &SessionKey) -> WaitState {
        let Some(session) = self.sessions.get_mut(key) else { return WaitState::Nowhere };
        let spot = std::mem::take(&mut session.spot);
        if let Some(agent) = self.agents.get_mut(key.agent()) {
            match spot {
                WaitState::Nowhere => {}
                WaitState::Retry => _ = agent.retrying.remove(key),
                WaitState::Plain => _ = agent.plain.remove(key),
                WaitState::Queued { level, order } => {
                    agent.queue[level as usize].remove(&(order, key.clone()));
                }
            }
        }
        self.session_timers.set(key, None);
        spot
    }

    fn enqueue(&mut self, key: &SessionKey, level: Priority, order: u64, now: i64) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        let Some(agent) = self.agents.get_mut(key.agent()) else { return };
        session.spot = WaitState::Queued { level, order };
        agent.queue[level as usize].insert((order, key.clone()));
        // A plain message rises to the priority of a mention after this time.
        let rises_at = now.saturating_add(self.settings.patience);
        self.session_timers.set(key, (level == Priority::Message).then_some(rises_at));
    }

    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// Handles the timer of a session: its backoff has ended, or its plain message rises.
    pub(super) fn waited(&mut self, key: &SessionKey, now: i64) {
        match self.sessions.get(key).map(|session| session.spot) {
            Some(WaitState::Queued { level: Priority::Message, order }) => {
                self.dequeue(key);
                self.enqueue(key, Priority::Mention, order, now);
            }
            _ => self.place(key, now),
        }
        self.settle(key.agent(), now);
    }

    /// Makes the sessions that a tick released wait for another tick.
    pub(super) fn recall(&mut self, id: &AgentId) {
        let Some(agent) = self.agents.get(id) else { return };
        let queued: Vec<SessionKey> =
            agent.queue.iter().flatten().map(|(_, session)| session.clone()).collect();
        for key in queued {
            let work = self.sessions.get(&key).and_then(|session| session.unseen);
            if work.is_some_and(|work| work.urgency == Urgency::Tick) {
                self.dequeue(&key);
                if let (Some(session), Some(agent)) = (self.sessions.get_mut(&key), self.agents.get_mut(id)) {
                    session.spot = WaitState::Plain;
                    agent.plain.insert(key);
                }
            }
        }
    }

    /// Updates everything that depends on an agent's state: its tick, its entry in the lanes, and its timer.
    pub(super) fn settle(&mut self, id: &AgentId, now: i64) {
        let Some(agent) = self.agents.get_mut(id) else { return };
        // A pause whose time is over is forgotten here, without an event.
        agent.paused_until = agent.paused_until.filter(|until| *until > now);
        if agent.is_free(now) && agent.tick_at().is_some_and(|at| at <= now) {
            self.tick(id, now);
        }
        self.stand(id, now);
        let change = self.agents.get(id).and_then(|agent| agent.next_change(now));
        self.agent_timers.set(id, change);
    }

    /// Moves all sessions that wait for a tick to the queue for a slot.
    fn tick(&mut self, id: &AgentId, now: i64) {
        let plain = self.agents.get_mut(id).map(|agent| std::mem::take(&mut agent.plain));
        for key in plain.into_iter().flatten() {
            let work = self.sessions.get(&key).and_then(|session| session.unseen);
            let order = self.number();
            self.enqueue(&key, work.map_or(Priority::Message, |work| work.priority), order, now);
        }
    }

    /// Updates an agent's entry in the lanes.
    fn stand(&mut self, id: &AgentId, now: i64) {
        let Some(agent) = self.agents.get_mut(id) else { return };
        let is_down = |provider: &&String| self.breakers.contains_key(*provider);
        let lane = match &agent.parked {
            Some(credential) => Lane::Parked(credential.clone()),
            None => agent.profile.provider.as_ref().filter(is_down).cloned().map_or(Lane::Open, Lane::Down),
        };
        let wait = agent.wait(now);
        let place = wait.map(|wait| (lane, wait));
        if agent.place == place {
            return;
        }
        // The old entry is removed with the values under which it was made, which may differ from the new ones.
        let before = std::mem::replace(&mut agent.place, place.clone());
        for (place, is_new) in [(before, false), (place, true)] {
            let Some((lane, wait)) = place else { continue };
            let lanes = match lane {
                Lane::Open => Some(&mut self.lanes),
                Lane::Down(provider) => self.breakers.get_mut(&provider).map(|breaker| &mut breaker.held),
                Lane::Parked(credential) => self.parks.get_mut(&credential).map(|park| &mut park.held),
            };
            match lanes {
                Some(lanes) if is_new => lanes.enter(id, wait),
                Some(lanes) => lanes.leave(id, wait),
                None => {}
            }
        }
    }

    /// Starts turns while slots are free.
    pub(super) fn fill(&mut self, now: i64, effects: &mut Vec<Effect>) {
        // Probes first: their agents stand in the breaker's lanes and would otherwise find no free slot.
        self.probe(now, effects);
        self.probe_parks(now, effects);
        while let Some((level, agent)) = self.lanes.first().filter(|(level, _)| self.has_room(*level)) {
            let Some(key) = self.agents.get(agent).and_then(|agent| agent.oldest(level)).cloned() else {
                debug_assert!(false, "an agent stands in a lane with nothing to run");
                break;
            };
            self.start(&key, now, effects);
        }
    }

    pub(super) fn start(&mut self, key: &SessionKey, now: i64, effects: &mut Vec<Effect>) {
        self.dequeue(key);
        let served = self.number();
        let Some(session) = self.sessions.get_mut(key) else { return };
        let Some(agent) = self.agents.get_mut(key.agent()) else { return };
        session.is_running = true;
        session.taken = session.unseen.take();
        session.provider.clone_from(&agent.profile.provider);
        let work = session.taken;
        agent.running.insert(key.clone());
        agent.served = served;
        // Only turns for plain messages count as ticks. An urgent turn does not delay the next one.
        if work.is_some_and(|work| work.urgency == Urgency::Tick) {
            agent.last_tick = Some(now);
        }
        self.running += 1;
        let priority = work.map_or(Priority::Message, |work| work.priority);
        effects.push(Effect::Start { session: key.clone(), priority });
        self.settle(key.agent(), now);
    }
}
