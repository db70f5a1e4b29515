//! Gateways on machines that stop, are cut off and have clocks of their own, around a database whose clock may jump. Requests
//! and answers get lost. The rules of the database are those of `store::gateway` and `store::lease`, whose tests hold the
//! real ones to them.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::store::testing::living_gateway;
use crate::store::{
    Beat, Epoch, GATEWAY_LATE_MS, GATEWAY_LIFETIME_MS, Judging, Lease, LeaseKind, LeaseSubject, LivingGateway,
};

/// The length of a step, in milliseconds.
const TICK: i64 = 100;
const MACHINES: usize = 3;
const AGENTS: usize = 24;

fn wanted() -> BTreeSet<LeaseSubject> {
    let agents = (0..AGENTS).map(|number| LeaseSubject { kind: LeaseKind::Agent, name: number.to_string() });
    let clock = LeaseSubject { kind: LeaseKind::Clock, name: String::new() };
    agents.chain([clock]).collect()
}

/// The database.
#[derive(Default)]
struct Database {
    /// By their epochs: the machine, the time until which it lives, and `true` once it was ended.
    gateways: BTreeMap<Epoch, (usize, i64, bool)>,
    leases: BTreeMap<LeaseSubject, Lease>,
}

/// A request of a gateway.
#[derive(Clone, Debug)]
enum Request {
    Beat(Judging),
    List,
    GiveUp(BTreeSet<LeaseSubject>),
    Take(BTreeSet<LeaseSubject>),
}

#[derive(Clone, Debug)]
enum Answer {
    Beat(Beat),
    Leases(BTreeMap<LeaseSubject, Lease>),
    GivenUp,
    Taken(Vec<Lease>),
    Fenced,
    /// The connection broke: nobody knows if the request was carried out.
    Nothing,
}

impl Database {
    fn is_living(&self, epoch: Epoch) -> bool {
        self.gateways.get(&epoch).is_some_and(|(_, _, has_ended)| !has_ended)
    }

    fn end(&mut self, epoch: Epoch) {
        if let Some((_, _, has_ended)) = self.gateways.get_mut(&epoch) {
            *has_ended = true;
        }
        for lease in self.leases.values_mut().filter(|lease| lease.owner == Some(epoch)) {
            lease.owner = None;
        }
    }

    fn register(&mut self, machine: usize, now: i64) -> Epoch {
        let epoch = Epoch(self.gateways.keys().last().map_or(1, |last| last.0 + 1));
        let earlier: Vec<Epoch> = self
            .gateways
            .iter()
            .filter(|(_, (of, _, has_ended))| *of == machine && !has_ended)
            .map(|(epoch, _)| *epoch)
            .collect();
        earlier.into_iter().for_each(|epoch| self.end(epoch));
        self.gateways.insert(epoch, (machine, now + GATEWAY_LIFETIME_MS, false));
        epoch
    }

    fn beat(&mut self, me: Epoch, judging: Judging, now: i64) -> Answer {
        if !self.is_living(me) {
            return Answer::Fenced;
        }
        let was_late = now - (self.gateways[&me].1 - GATEWAY_LIFETIME_MS) > GATEWAY_LATE_MS;
        let latest = now + GATEWAY_LIFETIME_MS;
        for (epoch, (_, until, _)) in &mut self.gateways {
            *until = if *epoch == me { latest } else { latest.min(*until) };
        }
        let is_silent = |(_, until, has_ended): &(usize, i64, bool)| !has_ended && *until <= now;
        let ended: Vec<Epoch> = if judging == Judging::Yes && !was_late {
            self.gateways.iter().filter(|(_, row)| is_silent(row)).map(|(epoch, _)| *epoch).collect()
        } else {
            Vec::new()
        };
        ended.iter().for_each(|epoch| self.end(*epoch));
        let living = self.gateways.iter().filter(|(_, (_, _, has_ended))| !has_ended);
        let living = living.map(|(epoch, (machine, beat_until, _))| LivingGateway {
            home: machine.to_string(),
            beat_until: *beat_until,
            ..living_gateway(*epoch)
        });
        Answer::Beat(Beat { now, was_late, ended, living: living.collect() })
    }

    fn carry_out(&mut self, me: Epoch, request: &Request, now: i64) -> Answer {
        match request {
            Request::Beat(judging) => self.beat(me, *judging, now),
            Request::List => Answer::Leases(self.leases.clone()),
            // The fence of the driver.
            _ if !self.is_living(me) => Answer::Fenced,
            Request::GiveUp(subjects) => {
                for subject in subjects {
                    if let Some(lease) = self.leases.get_mut(subject).filter(|row| row.owner == Some(me)) {
                        lease.owner = None;
                    }
                }
                Answer::GivenUp
            }
            Request::Take(subjects) => {
                let mut taken = Vec::new();
                for subject in subjects {
                    let free = Lease { subject: subject.clone(), owner: None, token: 0 };
                    let row = self.leases.entry(subject.clone()).or_insert(free);
                    if row.owner.is_none() {
                        row.owner = Some(me);
                        row.token += 1;
                        taken.push(row.clone());
                    }
                }
                Answer::Taken(taken)
            }
        }
    }
}

/// A machine with a gateway, unless that has died.
struct Machine {
    gateway: Option<Gateway>,
    /// The rate of its clock, in thousandths, and what it shows at the beginning.
    rate: i64,
    offset: i64,
    is_paused: bool,
    is_cut_off: bool,
}

struct Gateway {
    epoch: Epoch,
    keeper: LeaseKeeper,
    living: Vec<Epoch>,
    /// The request that is on its way, and the time at which it was sent.
    sent: Option<(i64, Request)>,
    answer: Option<Answer>,
    planned: Option<LeasePlan>,
    /// The time of the next sign of life.
    due: i64,
    wait: i64,
    is_answer_lost: bool,
}

struct World {
    now: i64,
    /// How far the database's clock is ahead.
    ahead: i64,
    database: Database,
    machines: Vec<Machine>,
    starts: usize,
    clocks_are_sane: bool,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Wait(i64),
    Pause(usize, bool),
    CutOff(usize, bool),
    /// The database can't be reached by anybody.
    Away(bool),
    LoseRequest(usize),
    LoseAnswer(usize),
    Die(usize),
    Start(usize),
    /// The database's clock is set.
    Clock(i64),
}

fn event(with_clock: bool) -> impl Strategy<Value = Event> {
    let machine = 0..MACHINES;
    prop_oneof![
        8 => (1..90_i64).prop_map(|ticks| Event::Wait(ticks * TICK)),
        2 => (machine.clone(), any::<bool>()).prop_map(|(machine, is_on)| Event::Pause(machine, is_on)),
        2 => (machine.clone(), any::<bool>()).prop_map(|(machine, is_on)| Event::CutOff(machine, is_on)),
        1 => any::<bool>().prop_map(Event::Away),
        2 => machine.clone().prop_map(Event::LoseRequest),
        2 => machine.clone().prop_map(Event::LoseAnswer),
        1 => machine.clone().prop_map(Event::Die),
        2 => machine.prop_map(Event::Start),
        1 => (-300_000..300_000_i64).prop_map(move |by| if with_clock { Event::Clock(by) } else { Event::Wait(TICK) }),
    ]
}

impl World {
    fn new(rates: &[i64], clocks_are_sane: bool) -> Self {
        let machines = rates.iter().zip(0..).map(|(rate, number)| Machine {
            gateway: None,
            rate: *rate,
            offset: number * 300_000,
            is_paused: false,
            is_cut_off: false,
        });
        let mut world = Self {
            now: 1_000_000,
            ahead: 0,
            database: Database::default(),
            machines: machines.collect(),
            starts: 0,
            clocks_are_sane,
        };
        for machine in 0..rates.len() {
            world.start(machine);
        }
        world
    }

    fn local(&self, machine: usize) -> i64 {
        let machine = &self.machines[machine];
        self.now * machine.rate / 1000 + machine.offset
    }

    fn start(&mut self, number: usize) {
        if self.machines[number].is_cut_off {
            return;
        }
        let epoch = self.database.register(number, self.now + self.ahead);
        self.starts += 1;
        self.machines[number].gateway = Some(Gateway {
            epoch,
            keeper: LeaseKeeper::new(epoch),
            living: Vec::new(),
            sent: None,
            answer: None,
            planned: None,
            due: self.local(number),
            wait: BEAT_MS,
            is_answer_lost: false,
        });
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Wait(time) => self.run(time),
            Event::Pause(machine, is_on) => self.machines[machine].is_paused = is_on,
            Event::CutOff(machine, is_on) => self.machines[machine].is_cut_off = is_on,
            Event::Away(is_on) => self.machines.iter_mut().for_each(|machine| machine.is_cut_off = is_on),
            Event::LoseRequest(machine) => {
                if let Some(gateway) = &mut self.machines[machine].gateway
                    && gateway.sent.is_some()
                {
                    gateway.answer = Some(Answer::Nothing);
                }
            }
            Event::LoseAnswer(machine) => {
                if let Some(gateway) = &mut self.machines[machine].gateway {
                    gateway.is_answer_lost = gateway.sent.is_some() && gateway.answer.is_none();
                }
            }
            Event::Die(machine) => self.machines[machine].gateway = None,
            Event::Start(machine) => {
                if self.machines[machine].gateway.is_none() {
                    self.start(machine);
                }
            }
            Event::Clock(by) => self.ahead += by,
        }
        self.check();
    }

    /// Lets time pass.
    fn run(&mut self, time: i64) {
        for _ in 0..time / TICK {
            self.now += TICK;
            for number in 0..self.machines.len() {
                self.serve(number);
                self.act(number);
            }
            self.check();
        }
    }

    /// Carries out the request of a gateway, which needs the way to the database and not the gateway itself.
    fn serve(&mut self, number: usize) {
        let now = self.now + self.ahead;
        let machine = &mut self.machines[number];
        if let (Some(gateway), false) = (&mut machine.gateway, machine.is_cut_off)
            && let (Some((_, request)), None) = (&gateway.sent, &gateway.answer)
        {
            let answer = self.database.carry_out(gateway.epoch, request, now);
            let is_lost = std::mem::take(&mut gateway.is_answer_lost);
            gateway.answer = Some(if is_lost { Answer::Nothing } else { answer });
        }
    }

    /// Lets a gateway take its next step.
    fn act(&mut self, number: usize) {
        let local = self.local(number);
        let machine = &mut self.machines[number];
        let (Some(gateway), false) = (&mut machine.gateway, machine.is_paused) else { return };
        let Some(answer) = gateway.answer.take() else {
            if gateway.sent.is_none() && gateway.due <= local {
                gateway.sent = Some((local, Request::Beat(gateway.keeper.judging())));
            }
            return;
        };
        let sent = gateway.sent.take().map_or(local, |(sent, _)| sent);
        let mut next = None;
        match answer {
            Answer::Beat(beat) => {
                gateway.keeper.beaten(sent, &beat);
                gateway.wait = next_beat(gateway.epoch, &beat, gateway.keeper.judging());
                gateway.living = beat.living.iter().map(|found| found.epoch).collect();
                next = Some(Request::List);
            }
            Answer::Leases(leases) => {
                let view = FleetView {
                    living: &gateway.living,
                    leases: &leases,
                    wanted: &wanted(),
                    is_able: &|_: &LeaseSubject| true,
                    fitness: &|_: &LeaseSubject| Fitness::Fit,
                    is_idle: &|_: &LeaseSubject| true,
                };
                let plan = gateway.keeper.plan(&view, local);
                gateway.wait = plan.look_in.map_or(gateway.wait, |wait| gateway.wait.min(wait.max(TICK)));
                next = Some(Request::GiveUp(plan.give_up.clone()));
                gateway.planned = Some(plan);
            }
            Answer::GivenUp => next = gateway.planned.take().map(|plan| Request::Take(plan.take)),
            Answer::Taken(taken) => {
                gateway.keeper.took(taken);
                gateway.due = local + gateway.wait;
            }
            Answer::Nothing => gateway.due = local + RETRY_MS,
            Answer::Fenced => {
                // Its supervisor starts it again.
                machine.gateway = None;
                return self.start(number);
            }
        }
        gateway.sent = next.map(|request| (local, request));
    }

    /// A subject has one owner at any time: in the database, among those that the fence lets write, and outside.
    fn check(&self) {
        let gateways: Vec<(i64, &Gateway)> = self
            .machines
            .iter()
            .enumerate()
            .filter_map(|(number, machine)| Some((self.local(number), machine.gateway.as_ref()?)))
            .collect();
        for subject in &wanted() {
            let row = self.database.leases.get(subject);
            let writers: Vec<(Epoch, i64)> = gateways
                .iter()
                .filter(|(_, gateway)| self.database.is_living(gateway.epoch))
                .filter_map(|(_, gateway)| Some((gateway.epoch, gateway.keeper.holds(subject)?)))
                .collect();
            assert!(writers.len() <= 1, "{subject:?}: {writers:?}");
            if let Some((epoch, token)) = writers.first() {
                let owner = row.map(|row| (row.owner, row.token));
                assert_eq!(owner, Some((Some(*epoch), *token)), "{subject:?}");
            }
            let acting: Vec<Epoch> = gateways
                .iter()
                .filter(|(local, gateway)| gateway.keeper.acts_on(subject, *local).is_some())
                .map(|(_, gateway)| gateway.epoch)
                .collect();
            assert!(acting.len() <= 1 || !self.clocks_are_sane, "{subject:?}: {acting:?}");
        }
        for lease in self.database.leases.values() {
            assert!(lease.owner.is_none_or(|owner| self.database.is_living(owner)), "{lease:?}");
        }
    }

    /// Ends all trouble.
    fn mend(&mut self) {
        for number in 0..self.machines.len() {
            self.machines[number].is_paused = false;
            self.machines[number].is_cut_off = false;
            if self.machines[number].gateway.is_none() {
                self.start(number);
            }
        }
    }

    /// Returns the number of agents that each living gateway has, if all subjects have an owner that works.
    fn loads(&self) -> Option<Vec<usize>> {
        let epochs: Vec<Epoch> =
            self.machines.iter().filter_map(|machine| Some(machine.gateway.as_ref()?.epoch)).collect();
        let mut loads = vec![0; epochs.len()];
        for subject in &wanted() {
            let owner = self.database.leases.get(subject)?.owner?;
            let place = epochs.iter().position(|epoch| *epoch == owner)?;
            loads[place] += usize::from(subject.kind == LeaseKind::Agent);
        }
        Some(loads)
    }

    fn is_even(&self) -> bool {
        let share = AGENTS.div_ceil(MACHINES);
        self.loads().is_some_and(|loads| loads.iter().all(|load| *load <= share + share / 8))
    }

    /// Ends all trouble, and checks that the gateways come to rest.
    fn check_rest(&mut self) {
        self.mend();
        self.run(60_000);
        assert!(self.loads().is_some(), "not everything has a living owner: {:?}", self.database.leases);
        // What one gateway took because another one was slow stays there for a while.
        for _ in 0..8 {
            if self.is_even() {
                break;
            }
            self.run(60_000);
        }
        assert!(self.is_even(), "{:?}", self.loads());
        self.run(60_000);
        let (leases, starts) = (self.database.leases.clone(), self.starts);
        self.run(30_000);
        assert_eq!(self.database.leases, leases, "nothing moves while nothing happens");
        assert_eq!(self.starts, starts, "nobody is ended while nothing happens");
    }
}

fn rates() -> impl Strategy<Value = Vec<i64>> {
    prop::collection::vec(900..=1_100_i64, MACHINES)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn a_subject_has_one_owner_whatever_stops_or_is_cut_off(
        rates in rates(),
        events in prop::collection::vec(event(false), 1..50),
    ) {
        let mut world = World::new(&rates, true);
        events.into_iter().for_each(|event| world.happen(event));
        world.check_rest();
    }

    #[test]
    fn a_clock_that_jumps_gives_a_subject_no_second_owner(
        rates in rates(),
        events in prop::collection::vec(event(true), 1..50),
    ) {
        let mut world = World::new(&rates, false);
        events.into_iter().for_each(|event| world.happen(event));
        world.check_rest();
    }

    #[test]
    fn the_work_of_a_dead_gateway_goes_on_within_ten_seconds(
        rates in prop::collection::vec(990..=1_010_i64, MACHINES),
        after in 0..40_i64,
        machine in 0..MACHINES,
    ) {
        let mut world = World::new(&rates, true);
        world.run(40_000 + after * TICK);
        prop_assert!(world.loads().is_some());
        world.happen(Event::Die(machine));
        let died = world.now;
        while world.loads().is_none() {
            world.run(TICK);
            prop_assert!(world.now - died < 10_000, "{:?}", world.database.leases);
        }
    }

    #[test]
    fn an_outage_of_the_database_ends_nobody(
        rates in rates(),
        ticks in prop_oneof![3 => 1..100_i64, 1 => 1..3_000_i64],
    ) {
        let mut world = World::new(&rates, true);
        world.run(40_000);
        let (leases, starts) = (world.database.leases.clone(), world.starts);
        world.happen(Event::Away(true));
        world.run(ticks * TICK);
        world.happen(Event::Away(false));
        world.run(30_000);
        prop_assert_eq!(world.starts, starts);
        prop_assert_eq!(&world.database.leases, &leases);
    }
}
