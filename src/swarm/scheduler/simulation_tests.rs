//! Simulates a team that posts, takes turns, fails and restarts, over several days of simulated time.

use std::collections::{BTreeMap, BTreeSet};

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use super::testing::*;
use super::*;
use crate::id::{AgentId, SessionKey, SessionKind};

const NONE: [&SessionKey; 0] = [];

/// Undelivered messages of a session.
#[derive(Clone, Copy, Debug)]
struct PendingSince {
    since: i64,
    priority: Priority,
    urgency: Urgency,
}

struct Simulation {
    scheduler: Scheduler,
    settings: Settings,
    now: i64,
    rng: StdRng,
    /// The agents, as the events that announce them.
    agents: BTreeMap<AgentId, SchedulerEvent>,
    channels: Vec<Vec<AgentId>>,
    /// Number of messages that are still to come in each channel before it is quiet.
    talk: Vec<u32>,
    undelivered: BTreeMap<SessionKey, PendingSince>,
    running: BTreeMap<SessionKey, PendingSince>,
    ends: BTreeSet<(i64, SessionKey, bool)>,
    /// Time and channel of people's posts.
    posts: BTreeSet<(i64, usize)>,
    down: std::ops::Range<i64>,
    last_plain: BTreeMap<SessionKey, i64>,
    last_turn: BTreeMap<AgentId, i64>,
    starts: Vec<i64>,
    asked: usize,
    /// The longest wait of something urgent, and of a person.
    longest: (i64, i64),
}

impl Simulation {
    /// Creates a team with this number of agents, a tenth of them reactive and a fifth asleep, and this number of
    /// channels with ten members each.
    fn new(settings: Settings, agents: usize, channels: usize) -> Self {
        let mut rng = StdRng::seed_from_u64(7);
        let names: Vec<AgentId> = (0..agents).map(|n| id(&format!("agent-{n}"))).collect();
        let announced = names.iter().enumerate().map(|(n, name)| {
            let event = if n % 10 == 9 { reactive(name.as_str()) } else { agent(name.as_str()) };
            (name.clone(), if n % 5 == 3 { asleep(event) } else { event })
        });
        let agents = announced.collect();
        let members = |rng: &mut StdRng| {
            (0..10).map(|_| names[rng.random_range(0..names.len())].clone()).collect::<BTreeSet<_>>()
        };
        let channels: Vec<Vec<AgentId>> =
            (0..channels).map(|_| members(&mut rng).into_iter().collect()).collect();
        let mut world = Self {
            scheduler: Scheduler::new(settings.clone()),
            settings,
            now: T,
            rng,
            agents,
            talk: vec![0; channels.len()],
            channels,
            undelivered: BTreeMap::new(),
            running: BTreeMap::new(),
            ends: BTreeSet::new(),
            posts: BTreeSet::new(),
            down: 0..0,
            last_plain: BTreeMap::new(),
            last_turn: BTreeMap::new(),
            starts: Vec::new(),
            asked: 0,
            longest: (0, 0),
        };
        world.start();
        world
    }

    /// Starts the process. Turns that ran before were cut off and are undelivered.
    fn start(&mut self) {
        self.scheduler = Scheduler::new(self.settings.clone());
        self.ends.clear();
        for (session, taken) in std::mem::take(&mut self.running) {
            self.undelivered.entry(session).or_insert(taken);
        }
        for (agent, event) in self.agents.clone() {
            let mut event = event;
            if let SchedulerEvent::Agent { last_turn_at, .. } = &mut event {
                *last_turn_at = self.last_turn.get(&agent).copied();
            }
            self.on(event);
        }
        for (session, PendingSince { priority, urgency, .. }) in self.undelivered.clone() {
            self.on(SchedulerEvent::Unseen { session, priority, urgency });
        }
    }

    fn on(&mut self, event: SchedulerEvent) {
        let effects = self.scheduler.on(event, self.now);
        self.carry_out(effects);
    }

    fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Start { session, priority } => self.begin(session, priority),
                // Half of the turns are at a point where a message can be added.
                Effect::Steer { session } => {
                    if self.rng.random_bool(0.5) {
                        self.undelivered.remove(&session);
                        self.on(SchedulerEvent::Seen(session));
                    }
                }
            }
        }
    }

    fn begin(&mut self, session: SessionKey, priority: Priority) {
        let waiting = self.undelivered.remove(&session).expect("started for nothing");
        assert_eq!(waiting.priority, priority);
        if waiting.urgency == Urgency::Tick {
            let before = self.last_plain.insert(session.clone(), self.now);
            assert!(before.is_none_or(|at| self.now - at >= self.settings.tick), "{session} ticks too often");
        } else {
            let waited = self.now - waiting.since;
            self.longest.0 = self.longest.0.max(waited);
            if priority == Priority::Human {
                self.longest.1 = self.longest.1.max(waited);
            }
        }
        self.starts.push(self.now);
        self.last_turn.insert(session.agent().clone(), self.now);
        let is_down = self.down.contains(&self.now);
        let takes = if is_down { 2 * SECOND } else { self.rng.random_range(SECOND..2 * MINUTE) };
        self.ends.insert((self.now + takes, session.clone(), is_down));
        let before = self.running.insert(session, waiting);
        assert!(before.is_none(), "a session runs twice");
        assert!(self.running.len() <= self.settings.together);
    }

    fn end(&mut self, session: &SessionKey, began_down: bool) {
        let Some(taken) = self.running.remove(session) else { return };
        let how = if began_down || self.down.contains(&self.now) {
            TurnEnd::Unavailable
        } else if self.rng.random_bool(0.05) {
            TurnEnd::Failed
        } else if self.rng.random_bool(0.02) {
            TurnEnd::Refused
        } else {
            TurnEnd::Done
        };
        if how == TurnEnd::Done {
            let channel: usize = session.peer().parse().unwrap();
            if self.talk[channel] > 0 && self.rng.random_bool(0.4) {
                self.talk[channel] -= 1;
                let is_mention = self.rng.random_bool(0.2);
                self.post(channel, Some(session.agent().clone()), is_mention);
            }
        } else {
            let waiting = self.undelivered.entry(session.clone()).or_insert(taken);
            waiting.since = waiting.since.min(taken.since);
            waiting.priority = waiting.priority.min(taken.priority);
            waiting.urgency = waiting.urgency.min(taken.urgency);
        }
        self.on(SchedulerEvent::Ended { session: session.clone(), how });
    }

    /// Posts a message of a person or an agent. It may mention one other member.
    fn post(&mut self, channel: usize, author: Option<AgentId>, is_mention: bool) {
        let members = self.channels[channel].clone();
        let mentioned = is_mention.then(|| self.rng.random_range(0..members.len()));
        for (n, member) in members.into_iter().enumerate() {
            if Some(&member) == author.as_ref() {
                continue;
            }
            let (priority, urgency) = match (&author, mentioned == Some(n)) {
                (None, _) => (Priority::Human, Urgency::Now),
                (Some(_), true) => (Priority::Mention, Urgency::Now),
                (Some(_), false) => (Priority::Message, Urgency::Tick),
            };
            let session = SessionKey::new(&member, SessionKind::Channel, &channel.to_string());
            let fresh = PendingSince { since: self.now, priority, urgency };
            let waiting = self.undelivered.entry(session.clone()).or_insert(fresh);
            waiting.priority = waiting.priority.min(priority);
            if urgency < waiting.urgency {
                *waiting = PendingSince { since: self.now, urgency, ..*waiting };
            }
            self.on(SchedulerEvent::Unseen { session, priority, urgency });
        }
    }

    /// Posts a person's message, which the channel then discusses for a while.
    fn ask(&mut self, channel: usize) {
        self.talk[channel] += 15;
        self.post(channel, None, false);
    }

    fn run(&mut self, time: i64) {
        let until = self.now + time;
        loop {
            let deadline = self.scheduler.next_deadline();
            let end = self.ends.first().map(|end| end.0);
            let post = self.posts.first().map(|post| post.0);
            let Some(at) = [deadline, end, post].into_iter().flatten().min().filter(|at| *at <= until) else {
                break;
            };
            self.now = self.now.max(at);
            if end == Some(at) {
                let (_, session, began_down) = self.ends.pop_first().unwrap();
                self.end(&session, began_down);
            } else if post == Some(at) {
                let (_, channel) = self.posts.pop_first().unwrap();
                self.ask(channel);
            } else {
                self.asked += 1;
                let effects = self.scheduler.due(self.now);
                self.carry_out(effects);
            }
        }
        self.now = until;
    }

    fn starts_since(&self, since: i64) -> usize {
        self.starts.len() - self.starts.partition_point(|at| *at < since)
    }

    /// Returns sessions that wait and should not. Only plain messages of reactive agents may.
    fn forgotten(&self) -> Vec<&SessionKey> {
        let is_reactive = |agent: &AgentId| {
            matches!(self.agents[agent], SchedulerEvent::Agent { mode: Mode::Reactive, .. })
        };
        let forgotten = self
            .undelivered
            .iter()
            .filter(|(session, waiting)| waiting.urgency == Urgency::Now || !is_reactive(session.agent()));
        forgotten.map(|(session, _)| session).collect()
    }
}

#[test]
fn an_idle_team_starts_no_turn() {
    let mut world = Simulation::new(Settings::default(), 500, 1_000);
    world.run(3 * DAY);
    assert_eq!((world.starts.len(), world.asked), (0, 0));
    // The same after some activity: once everything was seen, no model is called again.
    for channel in 0..20 {
        world.ask(channel);
    }
    world.run(DAY);
    assert!(world.starts.len() > 200, "{}", world.starts.len());
    assert_eq!(world.forgotten(), NONE);
    let (starts, asked) = (world.starts.len(), world.asked);
    world.run(3 * DAY);
    assert_eq!((world.starts.len() - starts, world.asked - asked), (0, 0));
    assert_eq!(world.scheduler.next_deadline(), None);
}

#[test]
fn no_message_is_left_undelivered_after_days() {
    let mut world = Simulation::new(Settings::default(), 300, 100);
    for day in 0..3 {
        for _ in 0..60 {
            let at = world.now + 9 * HOUR + world.rng.random_range(0..9 * HOUR);
            let channel = world.rng.random_range(0..100);
            world.posts.insert((at, channel));
        }
        world.run(13 * HOUR);
        if day == 1 {
            // The process is killed in the middle of the day and restarted.
            world.run(17 * SECOND);
            let before = world.starts.len();
            world.start();
            assert!(world.starts.len() - before <= world.settings.together);
            world.run(11 * HOUR - 17 * SECOND);
        } else {
            world.run(11 * HOUR);
        }
        assert_eq!(world.forgotten(), NONE, "at the end of day {day}");
    }
    assert!(world.starts.len() > 5_000, "{}", world.starts.len());
    assert!(world.longest.0 < 30 * MINUTE, "{:?}", world.longest);
}

#[test]
fn a_provider_outage_causes_only_probes() {
    let mut world = Simulation::new(Settings::default(), 300, 100);
    for channel in 0..30 {
        world.ask(channel);
    }
    world.run(MINUTE);
    world.down = world.now..world.now + HOUR;
    for channel in 30..100 {
        world.posts.insert((world.now + world.rng.random_range(0..50 * MINUTE), channel));
    }
    let (down, before) = (world.now, world.starts.len());
    world.run(HOUR);
    // Slots were free until the first turns failed. After that, a probe follows every 5, 10, 20 … 300 s.
    let tried = world.starts.len() - before;
    assert!((8..=40).contains(&tried), "{tried} turns were started while nothing could answer");
    assert!(world.starts_since(down + 10 * MINUTE) <= 12);
    assert!(world.undelivered.len() > 500);
    world.run(5 * MINUTE);
    assert_eq!(world.scheduler.breakers(), []);
    world.run(12 * HOUR);
    assert_eq!(world.forgotten(), NONE);
    let failing = world.scheduler.failures().into_iter().filter(|failures| *failures > 2).count();
    assert_eq!(failing, 0, "the outage was held against somebody");
}

#[test]
fn turns_after_a_restart_are_spread_over_time() {
    let settings = Settings { together: 20, ..Settings::default() };
    let mut world = Simulation::new(settings, 500, 600);
    for channel in 0..600 {
        world.talk[channel] = 0;
        let author = world.channels[channel][0].clone();
        world.post(channel, Some(author), channel % 10 == 0);
    }
    // Forget the earlier starts.
    world.starts.clear();
    world.last_plain.clear();
    world.last_turn.clear();
    world.start();
    let begun = world.now;
    assert!(world.starts.len() < 20, "one place is left for a person");
    world.run(DAY);
    assert_eq!(world.forgotten(), NONE);
    assert!(world.starts.len() > 4_000);
    assert!(world.starts.iter().all(|at| *at < begun + 6 * HOUR));
}
