//! Helpers for the scheduler's tests.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::id::{AgentId, SessionKey, SessionKind};

pub(super) const SECOND: i64 = 1_000;
pub(super) const MINUTE: i64 = 60_000;
pub(super) const HOUR: i64 = 60 * MINUTE;
pub(super) const DAY: i64 = 24 * HOUR;

/// A realistic time of the machine's clock.
pub(super) const T: i64 = 1_790_000_000_000;

/// Settings without jitter and spread, so that tests can state exact times.
pub(super) fn exact() -> Settings {
    Settings { tick_jitter: 0, slow_jitter: 0, spread: 0, ..Settings::default() }
}

pub(super) fn id(agent: &str) -> AgentId {
    agent.parse().unwrap()
}

/// Returns the agent's session in a channel, written as `coder/main`.
pub(super) fn key(text: &str) -> SessionKey {
    let (agent, channel) = text.split_once('/').unwrap();
    SessionKey::new(&id(agent), SessionKind::Channel, channel)
}

pub(super) fn agent(agent: &str) -> SchedulerEvent {
    SchedulerEvent::Agent {
        agent: id(agent),
        mode: Mode::Active,
        asleep: false,
        frozen: false,
        provider: Some("acme".to_owned()),
        last_turn_at: None,
    }
}

pub(super) fn reactive(name: &str) -> SchedulerEvent {
    with_agent_state(agent(name), |mode, _, _| *mode = Mode::Reactive)
}

pub(super) fn asleep(event: SchedulerEvent) -> SchedulerEvent {
    with_agent_state(event, |_, asleep, _| *asleep = true)
}

pub(super) fn frozen(event: SchedulerEvent) -> SchedulerEvent {
    with_agent_state(event, |_, _, frozen| *frozen = true)
}

fn with_agent_state(
    mut event: SchedulerEvent,
    change: impl FnOnce(&mut Mode, &mut bool, &mut bool),
) -> SchedulerEvent {
    if let SchedulerEvent::Agent { mode, asleep, frozen, .. } = &mut event {
        change(mode, asleep, frozen);
    }
    event
}

pub(super) fn asking(mut event: SchedulerEvent, whom: Option<&str>) -> SchedulerEvent {
    if let SchedulerEvent::Agent { provider, .. } = &mut event {
        *provider = whom.map(str::to_owned);
    }
    event
}

pub(super) fn plain(session: &str) -> SchedulerEvent {
    SchedulerEvent::Unseen { session: key(session), priority: Priority::Message, urgency: Urgency::Tick }
}

pub(super) fn mention(session: &str) -> SchedulerEvent {
    SchedulerEvent::Unseen { session: key(session), priority: Priority::Mention, urgency: Urgency::Now }
}

pub(super) fn human(session: &str) -> SchedulerEvent {
    SchedulerEvent::Unseen { session: key(session), priority: Priority::Human, urgency: Urgency::Now }
}

pub(super) fn seen(session: &str) -> SchedulerEvent {
    SchedulerEvent::Seen(key(session))
}

pub(super) fn ended(session: &str, how: TurnEnd) -> SchedulerEvent {
    SchedulerEvent::Ended { session: key(session), how }
}

impl Scheduler {
    /// Returns the number of sessions that have undelivered messages and do not run.
    pub(super) fn waiting(&self) -> usize {
        let present = self.agents.values().filter(|agent| !agent.is_gone);
        let waiting = |agent: &super::agent::Agent| {
            agent.retrying.len() + agent.plain.len() + agent.queue.iter().map(BTreeSet::len).sum::<usize>()
        };
        present.map(waiting).sum()
    }

    /// Returns the number of consecutive failed turns of each agent, in the order of their ids.
    pub(super) fn failures(&self) -> Vec<u32> {
        let present = self.agents.iter().filter(|(_, agent)| !agent.is_gone);
        let sorted: BTreeMap<_, u32> = present.map(|(id, agent)| (id, agent.failures)).collect();
        sorted.into_values().collect()
    }
}

/// A scheduler that is called at each of its deadlines, with a record of what it started.
pub(super) struct TestScheduler {
    pub(super) scheduler: Scheduler,
    pub(super) now: i64,
}

impl TestScheduler {
    pub(super) fn new(settings: Settings, agents: impl IntoIterator<Item = SchedulerEvent>) -> Self {
        let mut team = Self { scheduler: Scheduler::new(settings), now: T };
        for agent in agents {
            assert_eq!(team.on(agent), [""; 0]);
        }
        team
    }

    /// Returns the effects of an event: `coder/main` is started, `+coder/main` gets something added to its turn.
    pub(super) fn on(&mut self, event: SchedulerEvent) -> Vec<String> {
        describe_effects(self.scheduler.on(event, self.now))
    }

    /// Returns the effects that happen without an event within the given time, each with its time from now.
    pub(super) fn pass(&mut self, time: i64) -> Vec<(i64, String)> {
        let (from, to) = (self.now, self.now + time);
        let mut all = Vec::new();
        while let Some(at) = self.scheduler.next_deadline().filter(|at| *at <= to) {
            assert!(at >= self.now, "a deadline of the past");
            self.now = at;
            let done = self.scheduler.due(at);
            assert!(
                !done.is_empty() || self.scheduler.next_deadline() != Some(at),
                "asked again for the same time"
            );
            all.extend(describe_effects(done).into_iter().map(|word| (at - from, word)));
        }
        self.now = to;
        assert_eq!(describe_effects(self.scheduler.due(to)), [""; 0], "nothing is due but at a deadline");
        all
    }
}

fn describe_effects(effects: Vec<Effect>) -> Vec<String> {
    let word = |key: SessionKey| format!("{}/{}", key.agent(), key.peer());
    let effects = effects.into_iter().map(|effect| match effect {
        Effect::Start { session, .. } => word(session),
        Effect::Steer { session } => format!("+{}", word(session)),
    });
    effects.collect()
}
