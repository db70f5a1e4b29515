//! Which subjects a gateway takes, and which it gives up so that all gateways have about as many.
//!
//! Each gateway plans for itself. Two that reach for the same subject do no harm, because the database gives it to one of
//! them. To make that rare, each free subject has a favourite among the living gateways, which all of them know.

use std::collections::{BTreeMap, BTreeSet};

use super::contact::BEAT_MS;
use crate::store::{Epoch, Lease, LeaseKind, LeaseSubject};

/// The time after which a gateway with room takes a free subject that another one was to take, in milliseconds.
const PATIENCE_MS: i64 = BEAT_MS / 2;
/// The time after which a gateway takes a free subject although it has its share: the others can't take it, or are slow.
const OVERDUE_MS: i64 = 3 * BEAT_MS;
/// The time after which a gateway takes a free subject although another one is fitter: that one can't take it either, for
/// another reason.
const LAST_RESORT_MS: i64 = 5 * BEAT_MS;
/// The time for which a gateway has more than its share before it gives something up.
const SETTLING_MS: i64 = 15_000;
/// The time for which it is remembered that nobody else took a free subject, in milliseconds.
const UNWANTED_MS: i64 = 300_000;
/// The most subjects that are taken at once.
const MOST_TAKEN: usize = 512;

/// The fitness of a gateway for a subject that it is able to take care of, by what it reaches at this moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fitness {
    /// It reaches what the subject needs, or no gateway does.
    #[default]
    Fit,
    /// Another gateway reaches it, and this one does not. It keeps what it has, and leaves what is free to that one.
    Unfit,
    /// The same for so long that it also gives the subject up.
    Misplaced,
}

/// What a gateway knows of all gateways.
pub struct FleetView<'v> {
    /// The living gateways, this one among them.
    pub living: &'v [Epoch],
    /// All leases, by their subjects.
    pub leases: &'v BTreeMap<LeaseSubject, Lease>,
    /// The subjects that the configuration has.
    pub wanted: &'v BTreeSet<LeaseSubject>,
    /// Returns `true` if this gateway has what the subject needs, such as its secrets and files.
    pub is_able: &'v dyn Fn(&LeaseSubject) -> bool,
    /// Returns the fitness of this gateway.
    pub fitness: &'v dyn Fn(&LeaseSubject) -> Fitness,
    /// Returns `true` if nothing of this gateway is at work on the subject.
    pub is_idle: &'v dyn Fn(&LeaseSubject) -> bool,
}

/// The changes that a gateway asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeasePlan {
    pub give_up: BTreeSet<LeaseSubject>,
    pub take: BTreeSet<LeaseSubject>,
    /// The time in milliseconds after which it may take more, if nobody else does meanwhile.
    pub look_in: Option<i64>,
}

/// What a gateway remembers from plan to plan. The times are milliseconds of a clock of this machine that is never set.
#[derive(Clone, Debug, Default)]
pub struct LeasePlanner {
    /// The free subjects, and when each was first seen to be free.
    free: BTreeMap<LeaseSubject, i64>,
    /// The kinds of which this gateway has too many, and since when.
    excess: BTreeMap<LeaseKind, i64>,
    /// The subjects that nobody else took while they were free, and when this gateway took them. For some time, and as long as
    /// no other gateway comes, it would be of no use to give them up again.
    unwanted_by_others: BTreeMap<LeaseSubject, i64>,
    /// The gateways that lived at the last plan.
    living: Vec<Epoch>,
}

impl LeasePlanner {
    /// Returns what the gateway `me` should take and give up. `held` are the subjects that it works on.
    pub fn plan(
        &mut self,
        me: Epoch,
        held: &BTreeSet<&LeaseSubject>,
        view: &FleetView<'_>,
        now: i64,
    ) -> LeasePlan {
        if self.living != view.living {
            self.unwanted_by_others.clear();
            view.living.clone_into(&mut self.living);
        }
        let is_free = |subject: &LeaseSubject| view.leases.get(subject).is_none_or(|row| row.owner.is_none());
        self.unwanted_by_others.retain(|_, since| now - *since < UNWANTED_MS);
        self.free.retain(|subject, _| view.wanted.contains(subject) && is_free(subject));
        let mut plan = LeasePlan::default();
        for &subject in held {
            let is_misplaced = || {
                (view.fitness)(subject) == Fitness::Misplaced
                    && !self.unwanted_by_others.contains_key(subject)
            };
            if (!view.wanted.contains(subject) || is_misplaced()) && (view.is_idle)(subject) {
                plan.give_up.insert(subject.clone());
            }
        }
        for kind in LeaseKind::ALL {
            let wanted: Vec<&LeaseSubject> =
                view.wanted.iter().filter(|subject| subject.kind == kind).collect();
            let mine: Vec<&LeaseSubject> =
                wanted.iter().copied().filter(|subject| held.contains(subject)).collect();
            let share = wanted.len().div_ceil(view.living.len().max(1));
            plan.give_up.extend(self.excess_of(me, kind, &mine, share, (view, now)));
            let free: Vec<&LeaseSubject> =
                wanted.into_iter().filter(|subject| is_free(subject) && (view.is_able)(subject)).collect();
            let room = share.saturating_sub(mine.len());
            self.take_free(me, &free, room, (view, now), &mut plan);
        }
        plan
    }

    /// Returns what to give up of a kind. Within an eighth above the share nothing moves, so that no subject goes back and
    /// forth.
    fn excess_of(
        &mut self,
        me: Epoch,
        kind: LeaseKind,
        mine: &[&LeaseSubject],
        share: usize,
        (view, now): (&FleetView<'_>, i64),
    ) -> Vec<LeaseSubject> {
        if mine.len() <= share {
            self.excess.remove(&kind);
            return Vec::new();
        }
        if mine.len() > share + share / 8 {
            self.excess.entry(kind).or_insert(now);
        }
        if self.excess.get(&kind).is_none_or(|since| now - since < SETTLING_MS) {
            return Vec::new();
        }
        let mut spare: Vec<&LeaseSubject> = mine
            .iter()
            .copied()
            .filter(|subject| !self.unwanted_by_others.contains_key(*subject) && (view.is_idle)(subject))
            .collect();
        // First those that another gateway would rather have.
        spare.sort_by_key(|subject| (favourite(subject, &self.living) == Some(me), weight(subject, me)));
        // A few at a time: each of them is at rest until another gateway has taken it.
        let count = (mine.len() - share).min(share / 8 + 1);
        spare.into_iter().take(count).cloned().collect()
    }

    /// Adds the free subjects that this gateway should take.
    fn take_free(
        &mut self,
        me: Epoch,
        free: &[&LeaseSubject],
        mut room: usize,
        (view, now): (&FleetView<'_>, i64),
        plan: &mut LeasePlan,
    ) {
        let mut known: Vec<(bool, u64, i64, &LeaseSubject)> = free
            .iter()
            .map(|subject| {
                let since = *self.free.entry((*subject).clone()).or_insert(now);
                let is_favourite = favourite(subject, &self.living) == Some(me);
                (!is_favourite, u64::MAX - weight(subject, me), now - since, *subject)
            })
            .collect();
        // Gateways begin with different ones.
        known.sort_unstable();
        for (is_of_another, _, waited, subject) in known {
            if plan.take.len() >= MOST_TAKEN {
                plan.look_in = Some(0);
                return;
            }
            let is_fit = (view.fitness)(subject) == Fitness::Fit;
            let last = if is_fit { OVERDUE_MS } else { LAST_RESORT_MS };
            if is_fit && room > 0 && (!is_of_another || waited >= PATIENCE_MS) {
                room -= 1;
                plan.take.insert(subject.clone());
            } else if waited >= last {
                self.unwanted_by_others.insert(subject.clone(), now);
                plan.take.insert(subject.clone());
            } else {
                let limit = if is_fit && room > 0 { PATIENCE_MS } else { last };
                let wait = limit - waited;
                plan.look_in = Some(plan.look_in.map_or(wait, |known| known.min(wait)));
            }
        }
    }
}

/// Returns the gateway that should take a subject: the one for which it weighs most. If a gateway comes or goes, no other
/// subjects than its own get another favourite.
fn favourite(subject: &LeaseSubject, living: &[Epoch]) -> Option<Epoch> {
    living.iter().copied().max_by_key(|epoch| (weight(subject, *epoch), *epoch))
}

/// Returns a number that is random, but the same in every process: FNV-1a, and a step that mixes the bits.
fn weight(subject: &LeaseSubject, epoch: Epoch) -> u64 {
    let bytes = subject.kind.as_str().bytes().chain([0]).chain(subject.name.bytes()).chain([0]);
    let bytes = bytes.chain(epoch.0.to_be_bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mixed = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    mixed ^ (mixed >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: Epoch = Epoch(1);

    fn agent(number: usize) -> LeaseSubject {
        LeaseSubject { kind: LeaseKind::Agent, name: format!("agent-{number}") }
    }

    /// The gateways of a test, with the leases that they have.
    struct Fleet {
        living: Vec<Epoch>,
        leases: BTreeMap<LeaseSubject, Lease>,
        wanted: BTreeSet<LeaseSubject>,
        busy: BTreeSet<LeaseSubject>,
        fitness: BTreeMap<LeaseSubject, Fitness>,
        planner: LeasePlanner,
    }

    impl Fleet {
        fn new(gateways: i64, wanted: usize) -> Self {
            Self {
                living: (1..=gateways).map(Epoch).collect(),
                leases: BTreeMap::new(),
                wanted: (0..wanted).map(agent).collect(),
                busy: BTreeSet::new(),
                fitness: BTreeMap::new(),
                planner: LeasePlanner::default(),
            }
        }

        fn give(&mut self, subject: LeaseSubject, owner: Option<Epoch>) {
            self.leases.insert(subject.clone(), Lease { subject, owner, token: 1 });
        }

        fn plan(&mut self, now: i64) -> LeasePlan {
            let (busy, fitness) = (&self.busy, &self.fitness);
            let view = FleetView {
                living: &self.living,
                leases: &self.leases,
                wanted: &self.wanted,
                is_able: &|_: &LeaseSubject| true,
                fitness: &|subject: &LeaseSubject| fitness.get(subject).copied().unwrap_or_default(),
                is_idle: &|subject: &LeaseSubject| !busy.contains(subject),
            };
            let held =
                self.leases.values().filter(|row| row.owner == Some(ME)).map(|row| &row.subject).collect();
            self.planner.plan(ME, &held, &view, now)
        }
    }

    #[test]
    fn a_single_gateway_takes_everything_at_once() {
        let mut fleet = Fleet::new(1, 600);
        assert_eq!(fleet.plan(0).take.len(), MOST_TAKEN);
        fleet.give(agent(3), Some(Epoch(9)));
        let plan = fleet.plan(0);
        assert!(!plan.take.contains(&agent(3)) && plan.give_up.is_empty());
    }

    #[test]
    fn a_free_subject_goes_to_its_favourite_then_to_who_has_room_then_to_anybody() {
        let mut fleet = Fleet::new(3, 30);
        let favourites: BTreeSet<_> =
            fleet.wanted.iter().filter(|one| favourite(one, &fleet.living) == Some(ME)).cloned().collect();
        let share = 10;
        let first = fleet.plan(1_000);
        assert!(first.take.is_subset(&favourites));
        assert_eq!(first.take.len(), favourites.len().min(share));
        assert!(first.look_in.is_some());
        let later = fleet.plan(1_000 + PATIENCE_MS);
        assert_eq!(later.take.len(), share, "it has room for others' favourites");
        let last = fleet.plan(1_000 + OVERDUE_MS);
        assert_eq!((last.take.len(), last.look_in), (30, None), "nobody else takes them");
    }

    #[test]
    fn each_gateway_has_its_favourites() {
        let living: Vec<Epoch> = (1..=4).map(Epoch).collect();
        let mut counts = BTreeMap::new();
        for number in 0..4_000 {
            *counts.entry(favourite(&agent(number), &living)).or_insert(0) += 1;
        }
        assert!(counts.values().all(|count| (800..1_200).contains(count)), "{counts:?}");
        // Without one of them, only its own go elsewhere.
        let rest = &living[..3];
        for number in 0..4_000 {
            let before = favourite(&agent(number), &living);
            assert!(before == Some(Epoch(4)) || favourite(&agent(number), rest) == before);
        }
    }

    #[test]
    fn a_gateway_gives_up_what_it_has_too_many_of_after_a_while_and_only_idle_ones() {
        let mut fleet = Fleet::new(2, 32);
        for number in 0..32 {
            fleet.give(agent(number), Some(ME));
        }
        fleet.busy = (0..30).map(agent).collect();
        assert!(fleet.plan(0).give_up.is_empty());
        assert!(fleet.plan(SETTLING_MS - 1).give_up.is_empty());
        let plan = fleet.plan(SETTLING_MS);
        assert_eq!(plan.give_up, BTreeSet::from([agent(30), agent(31)]));
        fleet.busy.clear();
        assert_eq!(fleet.plan(SETTLING_MS).give_up.len(), 3, "a few at a time");
        // At its share it stops, and a little more than the share is no reason.
        for number in 0..16 {
            fleet.give(agent(number), Some(Epoch(2)));
        }
        assert!(fleet.plan(SETTLING_MS).give_up.is_empty());
        fleet.give(agent(0), Some(ME));
        fleet.give(agent(1), Some(ME));
        for now in [SETTLING_MS, 9 * SETTLING_MS] {
            assert!(fleet.plan(now).give_up.is_empty());
        }
    }

    #[test]
    fn what_nobody_else_takes_is_not_given_up_again_and_again() {
        let mut fleet = Fleet::new(2, 2);
        fleet.give(agent(0), Some(ME));
        fleet.give(agent(1), Some(ME));
        fleet.plan(0);
        let given = fleet.plan(SETTLING_MS).give_up.pop_first().unwrap();
        fleet.give(given.clone(), None);
        let freed = SETTLING_MS + 1;
        assert!(fleet.plan(freed).take.is_empty());
        assert_eq!(fleet.plan(freed + OVERDUE_MS).take, BTreeSet::from([given.clone()]));
        fleet.give(given, Some(ME));
        for now in (freed..freed + 20 * SETTLING_MS).step_by(1_000) {
            let plan = fleet.plan(now + OVERDUE_MS);
            // The other one was never refused, so it is offered once.
            assert!(plan.give_up.len() <= 1 && plan.take.is_empty());
            if let Some(other) = plan.give_up.first() {
                assert!(!fleet.planner.unwanted_by_others.contains_key(other));
            }
        }
        assert!(!fleet.planner.unwanted_by_others.is_empty());
        // Another gateway may be able to take it.
        fleet.living.push(Epoch(3));
        fleet.plan(freed + OVERDUE_MS);
        assert!(fleet.planner.unwanted_by_others.is_empty());
    }

    #[test]
    fn a_gateway_leaves_what_another_one_reaches_to_it_and_takes_it_as_the_last_resort() {
        let mut fleet = Fleet::new(2, 4);
        fleet.fitness = BTreeMap::from([(agent(0), Fitness::Unfit), (agent(1), Fitness::Misplaced)]);
        fleet.give(agent(2), Some(ME));
        fleet.give(agent(3), Some(Epoch(2)));
        let first = fleet.plan(0);
        assert_eq!(
            (first.take.len(), first.look_in),
            (0, Some(LAST_RESORT_MS)),
            "there is room for one more"
        );
        assert!(fleet.plan(LAST_RESORT_MS - 1).take.is_empty());
        let last = fleet.plan(LAST_RESORT_MS);
        assert_eq!((last.take, last.look_in), (BTreeSet::from([agent(0), agent(1)]), None));
    }

    #[test]
    fn a_gateway_gives_up_what_another_one_has_reached_for_long() {
        let mut fleet = Fleet::new(2, 4);
        for number in 0..2 {
            fleet.give(agent(number), Some(ME));
        }
        for number in 2..4 {
            fleet.give(agent(number), Some(Epoch(2)));
        }
        fleet.fitness = BTreeMap::from([(agent(0), Fitness::Unfit), (agent(1), Fitness::Misplaced)]);
        fleet.busy.insert(agent(1));
        assert!(fleet.plan(0).give_up.is_empty());
        fleet.busy.clear();
        assert_eq!(fleet.plan(0).give_up, BTreeSet::from([agent(1)]));
        // The other one does not take it, for whatever reason.
        fleet.give(agent(1), None);
        fleet.plan(1);
        assert_eq!(fleet.plan(1 + LAST_RESORT_MS).take, BTreeSet::from([agent(1)]));
        fleet.give(agent(1), Some(ME));
        assert!(fleet.plan(LAST_RESORT_MS + UNWANTED_MS).give_up.is_empty());
        assert_eq!(fleet.plan(1 + LAST_RESORT_MS + UNWANTED_MS).give_up, BTreeSet::from([agent(1)]));
    }

    #[test]
    fn what_the_configuration_lost_is_given_up_once_it_is_idle() {
        let mut fleet = Fleet::new(1, 2);
        fleet.give(agent(0), Some(ME));
        fleet.give(agent(7), Some(ME));
        fleet.busy.insert(agent(7));
        assert!(fleet.plan(0).give_up.is_empty());
        fleet.busy.clear();
        assert_eq!(fleet.plan(0).give_up, BTreeSet::from([agent(7)]));
    }
}
