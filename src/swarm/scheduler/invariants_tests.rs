use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::testing::*;
use super::*;
use crate::id::SessionKey;

const AGENTS: [&str; 4] = ["a", "b", "c", "d"];
const PROVIDERS: [Option<&str>; 3] = [Some("acme"), Some("initech"), None];

/// One event of a random run, after a random time.
#[derive(Clone, Copy, Debug)]
enum Step {
    Agent {
        agent: usize,
        mode: Mode,
        asleep: bool,
        frozen: bool,
        provider: usize,
    },
    Gone(usize),
    Unseen {
        agent: usize,
        channel: usize,
        priority: Priority,
        urgency: Urgency,
    },
    Seen {
        agent: usize,
        channel: usize,
    },
    /// The end of a turn that runs, or of one that does not.
    Ended {
        nth: usize,
        how: TurnEnd,
    },
    Answered(usize),
    Paused {
        agent: usize,
        time: Option<i64>,
    },
    Resumed(usize),
    /// A quota is used up for these agents (one bit each), until after this time.
    Parked {
        credential: usize,
        agents: u8,
        time: i64,
    },
    Unparked(usize),
    /// A change of the machine's clock.
    Clock(i64),
}

fn step() -> impl Strategy<Value = (i64, Step)> {
    let agent = 0..AGENTS.len();
    let mode = prop_oneof![3 => Just(Mode::Active), 1 => Just(Mode::Reactive)];
    let priority = prop_oneof![Just(Priority::Human), Just(Priority::Mention), Just(Priority::Message)];
    let urgency = prop_oneof![Just(Urgency::Now), Just(Urgency::Tick)];
    let how = prop_oneof![
        4 => Just(TurnEnd::Done),
        2 => Just(TurnEnd::Failed),
        2 => Just(TurnEnd::Unavailable),
        1 => Just(TurnEnd::Refused),
        1 => Just(TurnEnd::Parked),
        1 => Just(TurnEnd::Cancelled),
        1 => Just(TurnEnd::Empty),
    ];
    let pause = prop::option::of(-MINUTE..2 * HOUR);
    let step = prop_oneof![
        2 => (agent.clone(), mode, any::<bool>(), prop::bool::weighted(0.2), 0..PROVIDERS.len())
            .prop_map(|(agent, mode, asleep, frozen, provider)| Step::Agent { agent, mode, asleep, frozen, provider }),
        1 => agent.clone().prop_map(Step::Gone),
        8 => (agent.clone(), 0..3usize, priority, urgency)
            .prop_map(|(agent, channel, priority, urgency)| Step::Unseen { agent, channel, priority, urgency }),
        1 => (agent.clone(), 0..3usize).prop_map(|(agent, channel)| Step::Seen { agent, channel }),
        8 => (0..8usize, how).prop_map(|(nth, how)| Step::Ended { nth, how }),
        1 => (0..8usize).prop_map(Step::Answered),
        1 => (agent.clone(), pause).prop_map(|(agent, time)| Step::Paused { agent, time }),
        1 => agent.prop_map(Step::Resumed),
        2 => (0..2usize, any::<u8>(), -MINUTE..2 * HOUR)
            .prop_map(|(credential, agents, time)| Step::Parked { credential, agents, time }),
        2 => (0..2usize).prop_map(Step::Unparked),
        1 => (-10 * HOUR..HOUR).prop_map(Step::Clock),
    ];
    (prop_oneof![Just(0), 0..5 * SECOND, 0..10 * MINUTE], step)
}

/// Checks the invariants of a scheduler from outside.
struct InvariantChecker {
    scheduler: Scheduler,
    settings: Settings,
    now: i64,
    /// The total by which the clock was set back.
    lost: i64,
    /// The running sessions, and if each runs for something urgent. `None` if that no longer matters.
    running: BTreeMap<SessionKey, Option<bool>>,
    frozen: BTreeSet<String>,
    known: BTreeSet<String>,
    /// The sessions with undelivered messages, and if one of them is urgent.
    unseen: BTreeMap<SessionKey, bool>,
    last_plain: BTreeMap<SessionKey, i64>,
    /// The agents of each parked credential, with the time of the probe on the clock that only grows.
    parked: BTreeMap<usize, (BTreeSet<String>, i64)>,
    /// The sessions that were started while their agent was parked.
    probes: BTreeMap<SessionKey, usize>,
}

impl InvariantChecker {
    fn new(settings: Settings) -> Self {
        Self {
            scheduler: Scheduler::new(settings.clone()),
            settings,
            now: T,
            lost: 0,
            running: BTreeMap::new(),
            frozen: BTreeSet::new(),
            known: BTreeSet::new(),
            unseen: BTreeMap::new(),
            last_plain: BTreeMap::new(),
            parked: BTreeMap::new(),
            probes: BTreeMap::new(),
        }
    }

    fn on(&mut self, event: SchedulerEvent) {
        let effects = self.scheduler.on(event, self.now);
        self.check(effects);
    }

    /// Lets time pass and calls the scheduler at each of its deadlines.
    fn pass(&mut self, time: i64) {
        let to = self.now + time;
        let mut asked = 0;
        while let Some(at) = self.scheduler.next_deadline().filter(|at| *at <= to) {
            self.now = self.now.max(at);
            let effects = self.scheduler.due(self.now);
            self.check(effects);
            asked += 1;
            assert!(asked < 1_000, "it wants to be asked without end");
        }
        self.now = to;
        let effects = self.scheduler.due(to);
        assert_eq!(effects, [], "something was due that no deadline said");
    }

    fn check(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Start { session, priority } => {
                    let agent = session.agent().to_string();
                    assert!(self.known.contains(&agent) && !self.frozen.contains(&agent), "{session}");
                    let urgent = self.unseen.remove(&session).expect("started for nothing");
                    let park = self.parked.iter().find(|(_, (agents, _))| agents.contains(&agent));
                    if let Some((credential, (_, at))) = park {
                        assert!(self.now + self.lost >= *at, "{session} probes too early");
                        assert!(!self.probes.values().any(|other| other == credential), "two probes at once");
                        self.probes.insert(session.clone(), *credential);
                    }
                    let before = self.running.insert(session.clone(), Some(urgent));
                    assert!(before.is_none(), "{session} runs twice");
                    let kept = if priority == Priority::Human { 0 } else { self.settings.for_people };
                    assert!(self.running.len() <= self.settings.together - kept, "too many at once");
                    if !urgent {
                        let time = self.now + self.lost;
                        if let Some(before) = self.last_plain.insert(session.clone(), time) {
                            assert!(time - before >= self.settings.tick, "{session} ticks too often");
                        }
                    }
                }
                Effect::Steer { session } => {
                    assert!(self.running.contains_key(&session) && self.unseen.contains_key(&session));
                }
            }
        }
        assert_eq!(self.scheduler.running, self.running.len());
    }

    fn take(&mut self, step: Step) {
        let name = |agent: usize| AGENTS[agent];
        let key = |agent: usize, channel: usize| key(&format!("{}/{channel}", AGENTS[agent]));
        match step {
            Step::Agent { agent, mode, asleep, frozen, provider } => {
                let name = name(agent).to_owned();
                self.known.insert(name.clone());
                if frozen {
                    self.frozen.insert(name.clone());
                } else {
                    self.frozen.remove(&name);
                }
                let provider = PROVIDERS[provider].map(str::to_owned);
                self.on(SchedulerEvent::Agent {
                    agent: id(&name),
                    mode,
                    asleep,
                    frozen,
                    provider,
                    last_turn_at: None,
                });
            }
            Step::Gone(agent) => {
                self.known.remove(name(agent));
                // Who adds it again tells the scheduler again what it waits for.
                self.parked.values_mut().for_each(|(agents, _)| _ = agents.remove(name(agent)));
                let agent = id(name(agent));
                // A removed agent loses its undelivered messages and its pace. They do not return with it.
                self.unseen.retain(|session, _| *session.agent() != agent);
                self.last_plain.retain(|session, _| *session.agent() != agent);
                for (_, taken) in self.running.iter_mut().filter(|(session, _)| *session.agent() == agent) {
                    *taken = None;
                }
                self.on(SchedulerEvent::Gone(agent));
            }
            Step::Unseen { agent, channel, priority, urgency } => {
                let session = key(agent, channel);
                if self.known.contains(name(agent)) {
                    *self.unseen.entry(session.clone()).or_default() |= urgency == Urgency::Now;
                }
                self.on(SchedulerEvent::Unseen { session, priority, urgency });
            }
            Step::Seen { agent, channel } => {
                self.unseen.remove(&key(agent, channel));
                self.on(SchedulerEvent::Seen(key(agent, channel)));
            }
            Step::Ended { nth, how } => match self.running.keys().nth(nth).cloned() {
                Some(session) => self.end(&session, how),
                None => self.on(ended("a/never", how)),
            },
            Step::Answered(nth) => {
                if let Some(session) = self.running.keys().nth(nth).cloned() {
                    self.on(SchedulerEvent::Answered(session));
                }
            }
            Step::Paused { agent, time } => {
                let until = time.map(|time| self.now + time);
                self.on(SchedulerEvent::Paused { agent: id(name(agent)), until });
            }
            Step::Resumed(agent) => self.on(SchedulerEvent::Resumed(id(name(agent)))),
            Step::Parked { credential, agents, time } => {
                let chosen = AGENTS.iter().enumerate().filter(|(at, _)| agents & (1 << at) != 0);
                // An agent waits for one credential at most.
                let free = |agent: &str| {
                    self.parked
                        .iter()
                        .all(|(other, (agents, _))| *other == credential || !agents.contains(agent))
                };
                let agents: BTreeSet<String> = chosen
                    .map(|(_, name)| (*name).to_owned())
                    .filter(|name| free(name) && self.known.contains(name))
                    .collect();
                let until = self.now + time;
                self.parked.insert(credential, (agents.clone(), until + self.lost));
                self.on(SchedulerEvent::Parked {
                    credential: credential.to_string(),
                    agents: agents.iter().map(|agent| id(agent)).collect(),
                    until,
                });
            }
            Step::Unparked(credential) => {
                self.parked.remove(&credential);
                self.probes.retain(|_, of| *of != credential);
                self.on(SchedulerEvent::Unparked { credential: credential.to_string() });
            }
            Step::Clock(change) => {
                self.now += change;
                self.lost += (-change).max(0);
                let effects = self.scheduler.due(self.now);
                self.check(effects);
            }
        }
    }

    /// Ends a turn. What it could not deliver is undelivered again.
    fn end(&mut self, session: &SessionKey, how: TurnEnd) {
        let taken = self.running.remove(session).flatten();
        self.probes.remove(session);
        if let Some(urgent) =
            taken.filter(|_| !matches!(how, TurnEnd::Done | TurnEnd::Cancelled | TurnEnd::Empty))
        {
            *self.unseen.entry(session.clone()).or_default() |= urgent;
        }
        self.on(SchedulerEvent::Ended { session: session.clone(), how });
    }

    /// Lets every agent run and every turn end well, so that everything is delivered.
    fn settle(&mut self) {
        for credential in 0..2 {
            self.take(Step::Unparked(credential));
        }
        for name in AGENTS {
            self.frozen.remove(name);
            self.known.insert(name.to_owned());
            self.on(agent(name));
            self.on(SchedulerEvent::Resumed(id(name)));
        }
        for _ in 0..200 {
            while let Some(session) = self.running.keys().next().cloned() {
                self.end(&session, TurnEnd::Done);
            }
            self.pass(10 * MINUTE);
        }
        while let Some(session) = self.running.keys().next().cloned() {
            self.end(&session, TurnEnd::Done);
        }
        assert!(self.unseen.is_empty(), "never delivered: {:?}", self.unseen);
        assert_eq!(self.scheduler.next_deadline(), None, "an idle team wants nothing");
        assert_eq!(self.scheduler.waiting(), 0);
        assert!(self.scheduler.sessions.is_empty());
    }
}

proptest! {
    #[test]
    fn invariants_hold_for_any_sequence_of_events(
        together in 2..5usize,
        steps in prop::collection::vec(step(), 0..150),
    ) {
        let mut watch = InvariantChecker::new(Settings { together, ..Settings::default() });
        for name in AGENTS {
            watch.take(Step::Agent {
                agent: AGENTS.iter().position(|other| *other == name).unwrap(),
                mode: Mode::Active,
                asleep: false,
                frozen: false,
                provider: 0,
            });
        }
        for (time, step) in steps {
            watch.pass(time);
            watch.take(step);
        }
        watch.settle();
    }

    #[test]
    fn the_same_events_have_the_same_effects(steps in prop::collection::vec(step(), 0..60)) {
        let run = || {
            let mut watch = InvariantChecker::new(Settings::default());
            let mut log = Vec::new();
            for (time, step) in steps.clone() {
                watch.pass(time);
                watch.take(step);
                log.push((watch.running.clone(), watch.scheduler.next_deadline()));
            }
            log
        };
        prop_assert_eq!(run(), run());
    }
}
