//! The state of the scheduler and the effect of each event on it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::agent::{Agent, Pace, Profile};
use super::breaker::Breaker;
use super::clock::MonotonicClock;
use super::ready_queue::ReadyQueue;
use super::session::{PendingMessages, Session};
use super::timers::Timers;
use super::{Effect, Priority, SchedulerEvent, Settings, TurnEnd};
use crate::id::{AgentId, SessionKey};

/// Decides which session runs next. The same events at the same times always give the same effects.
#[derive(Clone, Debug, Default)]
pub struct Scheduler {
    pub(super) settings: Settings,
    pub(super) clock: MonotonicClock,
    /// Time of the first event.
    started_at: Option<i64>,
    pub(super) agents: HashMap<AgentId, Agent>,
    /// Contains only sessions that run or wait.
    pub(super) sessions: HashMap<SessionKey, Session>,
    /// The agents of each provider.
    pub(super) providers: BTreeMap<String, BTreeSet<AgentId>>,
    /// The breakers of the providers that are down.
    pub(super) breakers: BTreeMap<String, Breaker>,
    /// The credentials whose quota is used up.
    pub(super) parks: BTreeMap<String, Breaker>,
    /// The agents that could start a turn now.
    pub(super) lanes: ReadyQueue,
    pub(super) agent_timers: Timers<AgentId>,
    pub(super) session_timers: Timers<SessionKey>,
    pub(super) running: usize,
    /// The last number that was given to a queue entry or a start.
    pub(super) numbers: u64,
}

impl Scheduler {
    /// Creates a scheduler without agents.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self { settings, ..Self::default() }
    }

    /// Processes an event and returns the effects. `now` is Unix time in milliseconds. A clock that is set back does no
    /// harm.
    pub fn on(&mut self, event: SchedulerEvent, now: i64) -> Vec<Effect> {
        let now = self.advance(now);
        let mut effects = Vec::new();
        match event {
            SchedulerEvent::Agent { agent, mode, asleep, frozen, provider, last_turn_at } => {
                let profile = Profile { mode, asleep, frozen, provider };
                self.agent(&agent, profile, last_turn_at, now);
            }
            SchedulerEvent::Gone(agent) => self.gone(&agent),
            SchedulerEvent::Unseen { session, priority, urgency } => {
                self.unseen(session, PendingMessages { priority, urgency }, now, &mut effects);
            }
            SchedulerEvent::Seen(session) => self.seen(&session, now),
            SchedulerEvent::Answered(session) => self.answered(&session, now),
            SchedulerEvent::Ended { session, how } => self.ended(&session, how, now),
            SchedulerEvent::Paused { agent, until } => {
                let until = until.map_or(i64::MAX, |until| self.clock.taken(until));
                self.pause(&agent, Some(until), now);
            }
            SchedulerEvent::Resumed(agent) => self.pause(&agent, None, now),
            SchedulerEvent::Parked { credential, agents, until } => {
                self.park(&credential, &agents, until, now);
            }
            SchedulerEvent::Unparked { credential } => self.unpark(&credential, now),
        }
        self.fill(now, &mut effects);
        effects
    }

    /// Returns the effects that are due at this time.
    pub fn due(&mut self, now: i64) -> Vec<Effect> {
        let now = self.advance(now);
        let mut effects = Vec::new();
        self.fill(now, &mut effects);
        effects
    }

    /// Returns the time, by the machine's clock, at which [`Scheduler::due`] has to be called next. `None` if nothing
    /// waits for a time. Each event may change it.
    #[must_use]
    pub fn next_deadline(&self) -> Option<i64> {
        let probe = self.breakers.values().chain(self.parks.values()).filter_map(|breaker| {
            let (level, _) = breaker.held.first()?;
            (breaker.probe.is_none() && self.has_room(level)).then_some(breaker.probe_at)
        });
        let timers = [self.agent_timers.first(), self.session_timers.first()];
        probe.chain(timers.into_iter().flatten()).min().map(|at| self.clock.shown(at))
    }

    fn advance(&mut self, now: i64) -> i64 {
        let now = self.clock.read(now);
        self.started_at.get_or_insert(now);
        while let Some(agent) = self.agent_timers.pop(now) {
            self.settle(&agent, now);
        }
        while let Some(session) = self.session_timers.pop(now) {
            self.waited(&session, now);
        }
        now
    }

    fn agent(&mut self, id: &AgentId, profile: Profile, last_turn_at: Option<i64>, now: i64) {
        let known = self.agents.get(id).filter(|agent| !agent.is_gone);
        // A repeated event must not reset the agent's tick.
        if known.is_some_and(|agent| agent.profile == profile) {
            return;
        }
        self.set_agent_provider(id, profile.provider.as_deref());
        match self.agents.get_mut(id) {
            Some(agent) if !agent.is_gone => {
                let before = std::mem::replace(&mut agent.profile, profile);
                let after = &agent.profile;
                if before.asleep != after.asleep {
                    agent.asleep_since = after.asleep.then_some(now);
                }
                if (before.mode, before.asleep) != (after.mode, after.asleep) {
                    // Its ticks follow another rhythm now, so sessions released by the old one wait again.
                    self.recall(id);
                }
            }
            before => {
                let pace = Pace::of(id, &self.settings);
                let mut agent = Agent::new(profile, pace);
                // A clock that was set back may give a time in the future, which would delay the first tick.
                let taken = last_turn_at.map(|at| self.clock.taken(at).min(now));
                agent.last_tick = taken;
                agent.quiet_until = self.started_at.unwrap_or(now).saturating_add(pace.offset);
                if let Some(before) = before {
                    // The agent was removed and added again while turns of it still run.
                    agent.running.clone_from(&before.running);
                    agent.served = before.served;
                }
                self.agents.insert(id.clone(), agent);
            }
        }
        self.settle(id, now);
    }

    fn gone(&mut self, id: &AgentId) {
        self.set_agent_provider(id, None);
        let Some(agent) = self.agents.get_mut(id) else { return };
        agent.is_gone = true;
        let queued = agent.queue.iter().flatten().map(|(_, session)| session);
        let waiting: Vec<SessionKey> =
            agent.retrying.iter().chain(&agent.plain).chain(queued).cloned().collect();
        let running = agent.running.clone();
        for session in waiting {
            self.dequeue(&session);
            self.sessions.remove(&session);
        }
        for key in &running {
            self.sessions.entry(key.clone()).and_modify(|session| {
                (session.unseen, session.taken) = (None, None);
            });
        }
        // The agent is held from now on, so the time does not matter.
        self.settle(id, i64::MIN);
        if running.is_empty() {
            self.agents.remove(id);
        }
    }

    fn unseen(&mut self, key: SessionKey, work: PendingMessages, now: i64, effects: &mut Vec<Effect>) {
        let id = key.agent().clone();
        if self.agents.get(&id).is_none_or(|agent| agent.is_gone) {
            return;
        }
        let session = self.sessions.entry(key.clone()).or_default();
        let is_other = session.add(work);
        if session.is_running {
            effects.push(Effect::Steer { session: key });
        } else if is_other {
            self.place(&key, now);
            self.settle(&id, now);
        }
    }

    fn seen(&mut self, key: &SessionKey, now: i64) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        session.unseen = None;
        if !session.is_running {
            self.place(key, now);
            self.settle(key.agent(), now);
        }
    }

    fn ended(&mut self, key: &SessionKey, how: TurnEnd, now: i64) {
        let Some(session) = self.sessions.get_mut(key).filter(|session| session.is_running) else { return };
        let Some(agent) = self.agents.get_mut(key.agent()) else { return };
        session.is_running = false;
        agent.running.remove(key);
        self.running -= 1;
        let provider = session.provider.take();
        // If the agent has no known provider, the failure can't be attributed to one and counts as the agent's own.
        let how = if how == TurnEnd::Unavailable && provider.is_none() { TurnEnd::Failed } else { how };
        match how {
            TurnEnd::Done => {
                session.taken = None;
                (session.failures, session.retry_at) = (0, None);
                agent.record_success();
            }
            TurnEnd::Cancelled => session.taken = None,
            TurnEnd::Empty => {
                session.taken = None;
                // Messages are reported but no turn gets them. Without a wait, the scheduler would start empty turns
                // for ever.
                if session.unseen.is_some() {
                    session.back_off(now, self.settings.retry);
                }
            }
            TurnEnd::Unavailable => session.give_back(),
            TurnEnd::Parked => {
                session.give_back();
                // Nothing holds the agent, so it would be started again at once.
                if agent.parked.is_none() {
                    session.back_off(now, self.settings.retry);
                }
            }
            TurnEnd::Failed | TurnEnd::Refused => {
                session.give_back();
                session.back_off(now, self.settings.retry);
                if how == TurnEnd::Failed {
                    agent.failed(now, &self.settings);
                }
            }
        }
        self.end_park_probe(key, now);
        let Some(agent) = self.agents.get_mut(key.agent()) else { return };
        if agent.is_gone {
            let is_last = agent.running.is_empty();
            self.sessions.remove(key);
            if is_last {
                self.agents.remove(key.agent());
            }
        } else {
            self.place(key, now);
            self.settle(key.agent(), now);
        }
        if let Some(provider) = provider {
            self.learn(&provider, key, how, now);
        }
    }

    fn pause(&mut self, id: &AgentId, until: Option<i64>, now: i64) {
        if let Some(agent) = self.agents.get_mut(id) {
            agent.paused_until = until;
            self.settle(id, now);
        }
    }

    /// Returns `true` if a slot is free for a turn of this priority.
    pub(super) fn has_room(&self, level: Priority) -> bool {
        let all = self.settings.together.max(1);
        let kept = if level == Priority::Human { 0 } else { self.settings.for_people.min(all - 1) };
        self.running < all - kept
    }
}
