//! Owns the scheduler and carries out what it decides, as the gateway's task does: it takes in all events that wait, asks
//! the database what is left for a session whose turn has ended, and looks every ten seconds for work that nobody announced.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use flock::id::SessionKey;
use flock::swarm::Swarm;
use flock::swarm::scheduler::{Effect, Priority, Scheduler, SchedulerEvent, Settings};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::task::JoinSet;

use super::Plan;
use super::figures::{self, Figures};
use super::time::Clock;
use super::turn::{self, Done, Turn};
use super::world::{self, Popularity};

/// Milliseconds between two looks for work that nobody announced, as in the gateway.
const LOOK_INTERVAL: i64 = 10_000;
/// Messages of agents that follow one of a person.
const TALK: u32 = 5;
/// Milliseconds that a turn takes.
const TURN: std::ops::Range<i64> = 5_000..90_000;

/// Something that happens at a time.
enum Due {
    /// A person posts a message.
    Post,
    /// The model of a turn has answered.
    Answer(Turn),
}

/// What the driver waited for.
enum Next {
    Event(SchedulerEvent),
    /// The time of the scheduler, or of a look, has come.
    Time,
    /// Nobody has anything to do any more.
    Quiet,
}

pub struct Driver {
    plan: Plan,
    swarm: Arc<Swarm>,
    scheduler: Scheduler,
    sender: UnboundedSender<SchedulerEvent>,
    events: UnboundedReceiver<SchedulerEvent>,
    clock: Clock,
    rng: StdRng,
    popularity: Popularity,
    /// The number keeps apart what happens in one millisecond.
    agenda: BTreeMap<(i64, u64), Due>,
    entries: u64,
    /// Messages of agents that are still to come in each channel.
    talk: Vec<u32>,
    working: JoinSet<Done>,
    /// Running sessions that new messages came for.
    steered: HashSet<SessionKey>,
    /// When a person began to post in a channel last.
    called: HashMap<usize, Instant>,
    /// Sessions that a person's message is to wake, with the beginning of its post.
    waking: HashMap<SessionKey, Instant>,
    looked_at: i64,
    mark: Option<i64>,
    turns: usize,
    samples: Samples,
}

#[derive(Default)]
struct Samples {
    /// The scheduler's part of each round.
    step: Vec<Duration>,
    /// Whole rounds, with the reads that they wait for.
    round: Vec<Duration>,
    look: Vec<Duration>,
    post: Vec<Duration>,
    agent_post: Vec<Duration>,
    /// From the beginning of a person's post to the start of each turn that it causes.
    wake: Vec<Duration>,
    /// The same until the turn has read its messages.
    ready: Vec<Duration>,
}

impl Driver {
    pub fn new(
        plan: Plan,
        swarm: Arc<Swarm>,
        sender: UnboundedSender<SchedulerEvent>,
        events: UnboundedReceiver<SchedulerEvent>,
    ) -> Self {
        let settings = Settings { together: plan.slots(), ..Settings::default() };
        let clock = Clock::start();
        Self {
            plan,
            swarm,
            scheduler: Scheduler::new(settings),
            sender,
            events,
            rng: StdRng::seed_from_u64(plan.seed + 1),
            popularity: Popularity::new(plan.channels()),
            agenda: BTreeMap::new(),
            entries: 0,
            talk: vec![0; plan.channels()],
            working: JoinSet::new(),
            steered: HashSet::new(),
            called: HashMap::new(),
            waking: HashMap::new(),
            looked_at: clock.now(),
            clock,
            mark: None,
            turns: 0,
            samples: Samples::default(),
        }
    }

    /// Runs until all posts were made and all turns have ended.
    pub async fn run(mut self, figures: &mut Figures) {
        let began = Instant::now();
        let mut effects = Vec::new();
        for event in self.swarm.agent_events().await.unwrap() {
            effects.extend(self.scheduler.on(event, self.clock.now()));
        }
        figures.set("first_agents_ms", began.elapsed().as_secs_f64() * 1000.0);
        let began = Instant::now();
        let found = self.swarm.waiting_work(&mut self.mark).await;
        figures.set("first_look_ms", began.elapsed().as_secs_f64() * 1000.0);
        figures.set("first_look_sessions_count", found.len() as f64);
        for event in found {
            effects.extend(self.scheduler.on(event, self.clock.now()));
        }
        self.carry_out(effects);
        let first = self.clock.now();
        for number in 1..=self.plan.posts {
            self.plan_for(first + number as i64 * self.plan.between_posts(), Due::Post);
        }
        loop {
            match self.next().await {
                Next::Event(event) => self.round(Some(event)).await,
                Next::Time => self.round(None).await,
                Next::Quiet => break,
            }
        }
        figures.set("simulated_s", self.clock.passed().as_secs_f64());
        figures.set("worked_s", self.clock.worked().as_secs_f64());
        figures.set("turns_count", self.turns as f64);
        // Everything that wakes somebody has been delivered, or somebody was forgotten.
        let left = self.swarm.waiting_work(&mut None).await;
        figures.set("undelivered_count", left.len() as f64);
        figures.set("memory_mib", figures::resident() as f64 / f64::from(1 << 20));
        let Samples { step, round, look, post, agent_post, wake, ready } = self.samples;
        for (name, sample) in [
            ("step", step),
            ("round", round),
            ("look", look),
            ("post", post),
            ("agent_post", agent_post),
            ("wake", wake),
            ("ready", ready),
        ] {
            figures.set_sample(name, sample);
        }
    }

    fn plan_for(&mut self, at: i64, due: Due) {
        self.entries += 1;
        self.agenda.insert((at, self.entries), due);
    }

    /// Waits for an event, or for the time at which the scheduler has something to decide.
    async fn next(&mut self) -> Next {
        loop {
            self.start_due();
            if let Ok(event) = self.events.try_recv() {
                return Next::Event(event);
            }
            if let Some(done) = self.working.try_join_next() {
                self.note(done.unwrap());
                // It may have sent an event before it ended.
                continue;
            }
            let look_at = self.looked_at + LOOK_INTERVAL;
            let deadline = self.scheduler.next_deadline();
            let due = self.agenda.first_key_value().map(|((at, _), _)| *at);
            let is_idle = self.working.is_empty();
            if is_idle && deadline.is_none() && due.is_none() {
                return Next::Quiet;
            }
            let now = self.clock.now();
            if look_at <= now || deadline.is_some_and(|at| at <= now) {
                return Next::Time;
            }
            let at = deadline.into_iter().chain(due).fold(look_at, i64::min);
            if is_idle {
                self.clock.skip_to(at);
                continue;
            }
            tokio::select! {
                event = self.events.recv() => return Next::Event(event.unwrap()),
                Some(done) = self.working.join_next() => self.note(done.unwrap()),
                () = tokio::time::sleep(self.clock.until(at)) => {}
            }
        }
    }

    /// Begins what is due.
    fn start_due(&mut self) {
        let now = self.clock.now();
        while self.agenda.first_key_value().is_some_and(|((at, _), _)| *at <= now) {
            let Some((_, due)) = self.agenda.pop_first() else { return };
            match due {
                Due::Post => self.post(),
                Due::Answer(turn) => self.answer(turn),
            }
        }
    }

    fn post(&mut self) {
        let number = self.popularity.choose(&mut self.rng);
        let text = world::text(&mut self.rng);
        self.talk[number] += TALK;
        self.called.insert(number, Instant::now());
        self.working.spawn(turn::post(Arc::clone(&self.swarm), world::channel(number), text));
    }

    fn answer(&mut self, mut turn: Turn) {
        turn.has_more = self.steered.remove(&turn.session);
        let number = world::channel_number(turn.session.peer());
        let mut says = None;
        if self.talk[number] > 0 && self.rng.random_bool(0.5) {
            self.talk[number] -= 1;
            let text = world::text(&mut self.rng);
            let other = world::members(self.plan, number).nth(self.rng.random_range(0..Plan::MEMBERS));
            says = match other {
                Some(other) if self.rng.random_bool(0.2) => Some(format!("@{} {text}", world::agent(other))),
                _ => Some(text),
            };
        }
        self.working.spawn(turn::end(Arc::clone(&self.swarm), turn, says, self.sender.clone()));
    }

    /// Takes in what a task has done.
    fn note(&mut self, done: Done) {
        match done {
            Done::Posted(took) => self.samples.post.push(took),
            Done::Begun { turn, ready } => {
                self.samples.ready.extend(ready);
                let at = self.clock.now() + self.rng.random_range(TURN);
                self.plan_for(at, Due::Answer(turn));
            }
            Done::Empty => {}
            Done::Ended { posted } => self.samples.agent_post.extend(posted),
        }
    }

    /// One round of decisions.
    async fn round(&mut self, first: Option<SchedulerEvent>) {
        let began = Instant::now();
        let now = self.clock.now();
        let mut step = Duration::ZERO;
        let mut effects = Vec::new();
        let mut next = first;
        while let Some(event) = next {
            match event {
                SchedulerEvent::Ended { session, how } => {
                    let left = self.swarm.remaining_work(&session).await;
                    self.decide(left, now, &mut step, &mut effects);
                    self.decide(SchedulerEvent::Ended { session, how }, now, &mut step, &mut effects);
                }
                event => {
                    if let SchedulerEvent::Unseen { session, priority: Priority::Human, .. } = &event
                        && let Some(called) = self.called.get(&world::channel_number(session.peer()))
                    {
                        self.waking.entry(session.clone()).or_insert(*called);
                    }
                    self.decide(event, now, &mut step, &mut effects);
                }
            }
            next = self.events.try_recv().ok();
        }
        if now - self.looked_at >= LOOK_INTERVAL {
            self.looked_at = now;
            let began = Instant::now();
            let found = self.swarm.waiting_work(&mut self.mark).await;
            self.samples.look.push(began.elapsed());
            for event in found {
                self.decide(event, now, &mut step, &mut effects);
            }
        }
        let deciding = Instant::now();
        effects.extend(self.scheduler.due(now));
        step += deciding.elapsed();
        self.carry_out(effects);
        self.samples.step.push(step);
        self.samples.round.push(began.elapsed());
    }

    fn decide(&mut self, event: SchedulerEvent, now: i64, step: &mut Duration, effects: &mut Vec<Effect>) {
        let began = Instant::now();
        effects.extend(self.scheduler.on(event, now));
        *step += began.elapsed();
    }

    fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Start { session, priority } => {
                    let called = self.waking.remove(&session);
                    self.samples.wake.extend(called.map(|called| called.elapsed()));
                    if priority == Priority::Message {
                        self.swarm.store().agents().record_turn(session.agent().clone(), self.clock.now());
                    }
                    self.turns += 1;
                    let (swarm, events) = (Arc::clone(&self.swarm), self.sender.clone());
                    self.working.spawn(turn::begin(swarm, session, called, events));
                }
                Effect::Steer { session } => {
                    let called = self.waking.remove(&session);
                    self.samples.wake.extend(called.map(|called| called.elapsed()));
                    self.steered.insert(session);
                }
            }
        }
    }
}
