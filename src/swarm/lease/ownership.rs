//! The knowledge of this process, which gateway takes care of what, and the guards of what it is at work on.
//!
//! The heartbeat writes it, and everybody who is about to work on a subject asks it. A gateway without others owns everything,
//! and asking costs nothing then.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use tokio::sync::watch;

use crate::clock;
use crate::id::AgentId;
use crate::store::{Epoch, Lease, LeaseKind, LeaseSubject, LivingGateway, PeerAddress, Store};
use crate::sync::lock;

/// The gateway that takes care of a subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// This one.
    Here,
    Elsewhere(Arc<LivingGateway>),
    /// None at this moment. One takes it within seconds.
    Nobody,
}

/// The owners of all subjects, as this gateway knows them.
#[derive(Debug)]
pub struct Ownership {
    /// `None` for a gateway that has no others beside it.
    group: Option<Mutex<Known>>,
    /// Counts the changes.
    changes: watch::Sender<u64>,
}

#[derive(Debug)]
struct Known {
    me: Epoch,
    /// The subjects that this gateway may begin to work on.
    held: BTreeSet<LeaseSubject>,
    /// The held agents whose interrupted work was taken up here.
    settled: BTreeSet<AgentId>,
    owners: BTreeMap<LeaseSubject, Epoch>,
    living: BTreeMap<Epoch, Arc<LivingGateway>>,
    /// The time until which it may begin anything, by the clock of [`clock::boot_ms`].
    until: i64,
    /// The number of guards for each subject that this gateway is at work on.
    uses: BTreeMap<LeaseSubject, usize>,
}

/// The state of the leases after a sign of life.
pub struct LeaseView<'v> {
    pub held: BTreeSet<LeaseSubject>,
    pub leases: &'v BTreeMap<LeaseSubject, Lease>,
    pub living: &'v [LivingGateway],
    /// The time until which this gateway may act, by the clock of [`clock::boot_ms`].
    pub until: i64,
}

/// A guard for work on a subject. The subject is not given up before the guard is dropped.
#[derive(Debug)]
pub struct LeaseUse(Option<(Arc<Ownership>, LeaseSubject)>);

impl Drop for LeaseUse {
    fn drop(&mut self) {
        let Some((ownership, subject)) = self.0.take() else { return };
        let Some(group) = &ownership.group else { return };
        let mut known = lock(group);
        if let Some(count) = known.uses.get_mut(&subject) {
            *count -= 1;
            if *count == 0 {
                known.uses.remove(&subject);
            }
        }
    }
}

impl Ownership {
    /// Creates that of a process with this database. One in a group owns nothing before its first sign of life.
    #[must_use]
    pub fn new(store: &Store) -> Arc<Self> {
        Self::of(store.epoch().filter(|_| store.is_in_group()))
    }

    /// Creates that of a gateway, or with `None` that of one without others.
    pub(super) fn of(me: Option<Epoch>) -> Arc<Self> {
        let group = me.map(|me| {
            Mutex::new(Known {
                me,
                held: BTreeSet::new(),
                settled: BTreeSet::new(),
                owners: BTreeMap::new(),
                living: BTreeMap::new(),
                until: 0,
                uses: BTreeMap::new(),
            })
        });
        Arc::new(Self { group, changes: watch::Sender::default() })
    }

    /// Returns `true` if other gateways may be beside this one. Otherwise it owns everything.
    #[must_use]
    pub const fn is_shared(&self) -> bool {
        self.group.is_some()
    }

    /// Returns the milliseconds by which the clock of another gateway may differ from this one's: none if there is no other.
    #[must_use]
    pub const fn clock_difference(&self) -> i64 {
        if self.is_shared() { clock::MAX_DIFFERENCE } else { 0 }
    }

    /// Returns who takes care of a subject.
    #[must_use]
    pub fn of_subject(&self, subject: &LeaseSubject) -> Owner {
        let Some(group) = &self.group else { return Owner::Here };
        let known = lock(group);
        if known.held.contains(subject) || known.uses.contains_key(subject) {
            return Owner::Here;
        }
        match known.owners.get(subject) {
            // Its lease is on its way out.
            Some(owner) if *owner == known.me => Owner::Nobody,
            Some(owner) => known.living.get(owner).cloned().map_or(Owner::Nobody, Owner::Elsewhere),
            None => Owner::Nobody,
        }
    }

    /// Returns who takes care of an agent, with its sessions and its files.
    #[must_use]
    pub fn of_agent(&self, agent: &AgentId) -> Owner {
        if self.group.is_none() { Owner::Here } else { self.of_subject(&LeaseSubject::agent(agent)) }
    }

    /// Returns `true` if this gateway takes care of the agent and has taken up what was interrupted elsewhere.
    #[must_use]
    pub fn has_agent(&self, agent: &AgentId) -> bool {
        self.group.as_ref().is_none_or(|group| lock(group).settled.contains(agent))
    }

    /// Returns `true` if this gateway takes care of the subject.
    #[must_use]
    pub fn holds(&self, subject: &LeaseSubject) -> bool {
        self.group.as_ref().is_none_or(|group| lock(group).held.contains(subject))
    }

    /// Returns `true` if the agent's lease is here, be its interrupted work taken up or not. It says so also after a silence in
    /// which another gateway may have taken over, so whoever changes something for the agent asks [`Self::enter_agent`].
    #[must_use]
    pub fn holds_agent(&self, agent: &AgentId) -> bool {
        self.group.is_none() || self.holds(&LeaseSubject::agent(agent))
    }

    /// Returns the number of subjects of each kind that this gateway holds. `None` for one without others: it takes care of all.
    #[must_use]
    pub(crate) fn counts(&self) -> Option<BTreeMap<LeaseKind, usize>> {
        let known = lock(self.group.as_ref()?);
        let mut counts = BTreeMap::new();
        for subject in &known.held {
            *counts.entry(subject.kind).or_default() += 1;
        }
        Some(counts)
    }

    /// Begins work on a subject. Returns `None` if this gateway may not: another one takes care of it, or this one was
    /// silent for so long that others may take it.
    #[must_use]
    pub fn enter(self: &Arc<Self>, subject: LeaseSubject) -> Option<LeaseUse> {
        let Some(group) = &self.group else { return Some(LeaseUse(None)) };
        let mut known = lock(group);
        if !known.held.contains(&subject) || clock::boot_ms() >= known.until {
            return None;
        }
        *known.uses.entry(subject.clone()).or_default() += 1;
        drop(known);
        Some(LeaseUse(Some((Arc::clone(self), subject))))
    }

    /// Begins work for an agent, as [`Self::enter`] does.
    #[must_use]
    pub fn enter_agent(self: &Arc<Self>, agent: &AgentId) -> Option<LeaseUse> {
        if self.group.is_none() { Some(LeaseUse(None)) } else { self.enter(LeaseSubject::agent(agent)) }
    }

    /// Returns `true` if something is at work on the subject here.
    #[must_use]
    pub fn is_in_use(&self, subject: &LeaseSubject) -> bool {
        self.group.as_ref().is_some_and(|group| lock(group).uses.contains_key(subject))
    }

    /// Returns the agents whose leases are here and whose interrupted work was not taken up yet.
    #[must_use]
    pub fn unsettled_agents(&self) -> BTreeSet<AgentId> {
        let Some(group) = &self.group else { return BTreeSet::new() };
        let known = lock(group);
        known.agents().filter(|agent| !known.settled.contains(agent)).collect()
    }

    /// Returns the agents that [`Self::has_agent`] is `true` for; `None` for all.
    #[must_use]
    pub fn settled_agents(&self) -> Option<BTreeSet<AgentId>> {
        self.group.as_ref().map(|group| lock(group).settled.clone())
    }

    /// Says that the interrupted work of these agents was taken up. Those whose leases went away meanwhile are left out.
    pub fn settle_agents(&self, agents: &BTreeSet<AgentId>) {
        let Some(group) = &self.group else { return };
        let mut known = lock(group);
        let held: BTreeSet<AgentId> = known.agents().filter(|agent| agents.contains(agent)).collect();
        known.settled.extend(held);
        drop(known);
        self.changes.send_modify(|count| *count += 1);
    }

    /// Returns the other gateways that live, in the order of their starts.
    #[must_use]
    pub fn others(&self) -> Vec<LivingGateway> {
        let Some(group) = &self.group else { return Vec::new() };
        let known = lock(group);
        known.living.values().filter(|other| other.epoch != known.me).map(|other| (**other).clone()).collect()
    }

    /// Waits until another gateway does not live any more, as far as this one knows.
    pub async fn until_gone(&self, gateway: Epoch) {
        self.until(|| self.group.as_ref().is_none_or(|group| !lock(group).living.contains_key(&gateway)))
            .await;
    }

    /// Follows the changes of owners and gateways.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Waits until this gateway has the subject, or for ever if that never comes.
    pub async fn until_held(&self, subject: &LeaseSubject) {
        self.until(|| self.holds(subject)).await;
    }

    /// Waits until this gateway has the subject no more. A gateway without others never loses one.
    pub async fn until_lost(&self, subject: &LeaseSubject) {
        self.until(|| !self.holds(subject)).await;
    }

    /// Waits until the condition is true, which is looked at with each change. Whoever counts a change holds no lock that the
    /// condition takes.
    async fn until(&self, is_so: impl Fn() -> bool) {
        // An error means that the sender is gone, and it lives as long as this does.
        drop(self.changes().wait_for(|_| is_so()).await);
    }

    /// Waits until the interrupted work of an agent was taken up. Returns `false` if its lease goes away before.
    pub async fn until_settled(&self, agent: &AgentId) -> bool {
        let mut changes = self.changes();
        while !self.has_agent(agent) {
            if !self.holds_agent(agent) {
                return false;
            }
            drop(changes.changed().await);
        }
        true
    }

    /// Takes note of a sign of life, and of who owns what since. From now on nothing begins on what is not held any more.
    pub fn update(&self, view: LeaseView<'_>) {
        let Some(group) = &self.group else { return };
        let living: BTreeMap<_, _> =
            view.living.iter().map(|other| (other.epoch, Arc::new(other.clone()))).collect();
        let owned = view.leases.values().filter_map(|row| Some((row.subject.clone(), row.owner?)));
        let owners: BTreeMap<_, _> = owned.collect();
        let mut known = lock(group);
        // A sign of life changes the times until which gateways live. That alone is no news, unless this one may act again.
        let is_news = known.until <= clock::boot_ms()
            || known.held != view.held
            || known.owners != owners
            || !reachable(&known.living).eq(reachable(&living));
        known.until = known.until.max(view.until);
        (known.held, known.owners, known.living) = (view.held, owners, living);
        let held: BTreeSet<AgentId> = known.agents().collect();
        known.settled.retain(|agent| held.contains(agent));
        drop(known);
        if is_news {
            self.changes.send_modify(|count| *count += 1);
        }
    }
}

/// Returns the gateways with the places where they take requests.
fn reachable(
    living: &BTreeMap<Epoch, Arc<LivingGateway>>,
) -> impl Iterator<Item = (Epoch, Option<&PeerAddress>)> {
    living.values().map(|gateway| (gateway.epoch, gateway.peer.as_ref()))
}

impl Known {
    /// Returns the agents whose leases are held.
    fn agents(&self) -> impl Iterator<Item = AgentId> {
        self.held.iter().filter_map(LeaseSubject::as_agent)
    }
}

#[cfg(test)]
impl Ownership {
    /// Creates that of a gateway of a group which has these agents, while the gateway `second` has the others.
    pub(crate) fn for_test(here: &[&str], elsewhere: &[&str]) -> Arc<Self> {
        let subjects = |agents: &[&str]| -> BTreeSet<LeaseSubject> {
            agents.iter().map(|agent| LeaseSubject::agent(&agent.parse().unwrap())).collect()
        };
        Self::of_subjects_for_test(subjects(here), &subjects(elsewhere))
    }

    /// Does the same for subjects of any kind.
    pub(crate) fn of_subjects_for_test(
        here: BTreeSet<LeaseSubject>,
        elsewhere: &BTreeSet<LeaseSubject>,
    ) -> Arc<Self> {
        let (me, other) = (Epoch(1), Epoch(2));
        let rows = |subjects: &BTreeSet<LeaseSubject>, owner: Epoch| -> BTreeMap<LeaseSubject, Lease> {
            let row =
                |subject: &LeaseSubject| Lease { subject: subject.clone(), owner: Some(owner), token: 1 };
            subjects.iter().map(|subject| (subject.clone(), row(subject))).collect()
        };
        let agents: BTreeSet<AgentId> = here.iter().filter_map(LeaseSubject::as_agent).collect();
        let mut leases = rows(&here, me);
        leases.extend(rows(elsewhere, other));
        let living = [(me, "first"), (other, "second")].map(|(epoch, name)| LivingGateway {
            home: name.to_owned(),
            name: name.to_owned(),
            address: format!("127.0.0.1:{}", epoch.0),
            ..crate::store::testing::living_gateway(epoch)
        });
        let ownership = Self::of(Some(me));
        let until = clock::boot_ms() + 600_000;
        ownership.update(LeaseView { held: here, leases: &leases, living: &living, until });
        ownership.settle_agents(&agents);
        ownership
    }

    /// Makes the time be over until which this gateway may begin anything, as if the database had been away for long.
    pub(crate) fn lapse(&self) {
        if let Some(group) = &self.group {
            lock(group).until = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::testing::living_gateway;

    const ME: Epoch = Epoch(1);
    const OTHER: Epoch = Epoch(2);

    fn gateway(epoch: Epoch) -> LivingGateway {
        LivingGateway {
            home: epoch.0.to_string(),
            address: "127.0.0.1:1".to_owned(),
            ..living_gateway(epoch)
        }
    }

    fn id(agent: &str) -> AgentId {
        agent.parse().unwrap()
    }

    /// Gives the agents to their owners, of which this gateway holds those of `held`.
    fn update(ownership: &Ownership, owners: &[(&str, Option<Epoch>)], held: &[&str], until: i64) {
        let leases = owners.iter().map(|(agent, owner)| {
            let subject = LeaseSubject::agent(&id(agent));
            (subject.clone(), Lease { subject, owner: *owner, token: 1 })
        });
        let held = held.iter().map(|agent| LeaseSubject::agent(&id(agent))).collect();
        let living = [gateway(ME), gateway(OTHER)];
        ownership.update(LeaseView { held, leases: &leases.collect(), living: &living, until });
    }

    #[test]
    fn a_gateway_without_others_owns_everything_at_once() {
        let ownership = Ownership::of(None);
        assert!(!ownership.is_shared() && ownership.has_agent(&id("coder")));
        assert_eq!(ownership.of_agent(&id("coder")), Owner::Here);
        let held = ownership.enter_agent(&id("coder"));
        assert!(held.is_some() && !ownership.is_in_use(&LeaseSubject::agent(&id("coder"))));
        update(&ownership, &[("coder", Some(OTHER))], &[], 0);
        assert_eq!(ownership.of_agent(&id("coder")), Owner::Here);
        assert_eq!((ownership.settled_agents(), ownership.others()), (None, Vec::new()));
        assert_eq!(ownership.counts(), None);
    }

    #[test]
    fn what_a_gateway_holds_is_counted_by_kind() {
        let held =
            [LeaseSubject::agent(&id("coder")), LeaseSubject::agent(&id("third")), LeaseSubject::clock()];
        let elsewhere = BTreeSet::from([LeaseSubject::agent(&id("tester"))]);
        let ownership = Ownership::of_subjects_for_test(BTreeSet::from(held), &elsewhere);
        let counts = BTreeMap::from([(LeaseKind::Agent, 2), (LeaseKind::Clock, 1)]);
        assert_eq!(ownership.counts(), Some(counts));
    }

    #[test]
    fn work_begins_only_on_what_is_held_in_time_and_keeps_it_here() {
        let ownership = Ownership::of(Some(ME));
        assert!(ownership.enter_agent(&id("coder")).is_none());
        let later = clock::boot_ms() + 60_000;
        update(
            &ownership,
            &[("coder", Some(ME)), ("tester", Some(OTHER)), ("third", None)],
            &["coder"],
            later,
        );
        assert_eq!(ownership.of_agent(&id("coder")), Owner::Here);
        assert_eq!(ownership.of_agent(&id("tester")), Owner::Elsewhere(Arc::new(gateway(OTHER))));
        assert_eq!(ownership.of_agent(&id("third")), Owner::Nobody);
        assert_eq!(ownership.of_agent(&id("fourth")), Owner::Nobody);
        assert!(ownership.enter_agent(&id("tester")).is_none());
        let (first, second) = (ownership.enter_agent(&id("coder")), ownership.enter_agent(&id("coder")));
        assert!(first.is_some() && second.is_some());
        // It is about to be given up: nothing more begins, and what runs keeps it.
        update(&ownership, &[("coder", Some(ME))], &[], later);
        assert!(ownership.enter_agent(&id("coder")).is_none());
        drop(first);
        assert!(ownership.is_in_use(&LeaseSubject::agent(&id("coder"))));
        assert_eq!(ownership.of_agent(&id("coder")), Owner::Here);
        drop(second);
        assert!(!ownership.is_in_use(&LeaseSubject::agent(&id("coder"))));
        assert_eq!(ownership.of_agent(&id("coder")), Owner::Nobody);
    }

    #[test]
    fn a_gateway_that_was_silent_for_too_long_begins_nothing() {
        let ownership = Ownership::of(Some(ME));
        update(&ownership, &[("coder", Some(ME))], &["coder"], clock::boot_ms());
        assert!(ownership.enter_agent(&id("coder")).is_none());
        update(&ownership, &[("coder", Some(ME))], &["coder"], clock::boot_ms() + 60_000);
        assert!(ownership.enter_agent(&id("coder")).is_some());
    }

    #[tokio::test]
    async fn an_agent_is_there_once_its_interrupted_work_was_taken_up() {
        let ownership = Ownership::of(Some(ME));
        let later = clock::boot_ms() + 60_000;
        let agents = BTreeSet::from([id("coder")]);
        let mut changes = ownership.changes();
        update(&ownership, &[("coder", Some(ME))], &["coder"], later);
        assert!(changes.has_changed().unwrap());
        changes.mark_unchanged();
        assert_eq!(ownership.unsettled_agents(), agents);
        assert!(!ownership.has_agent(&id("coder")) && ownership.holds_agent(&id("coder")));
        ownership.settle_agents(&BTreeSet::from([id("coder"), id("tester")]));
        assert_eq!(ownership.settled_agents(), Some(agents));
        assert!(ownership.until_settled(&id("coder")).await);
        assert!(!ownership.until_settled(&id("tester")).await);
        changes.mark_unchanged();
        // The same once more is no news, also if it is later.
        update(&ownership, &[("coder", Some(ME))], &["coder"], later + 1);
        assert!(!changes.has_changed().unwrap());
        // Away and back: its work may have been interrupted elsewhere meanwhile.
        update(&ownership, &[("coder", Some(OTHER))], &[], later);
        ownership.until_lost(&LeaseSubject::agent(&id("coder"))).await;
        update(&ownership, &[("coder", Some(ME))], &["coder"], later);
        ownership.until_held(&LeaseSubject::agent(&id("coder"))).await;
        assert!(!ownership.has_agent(&id("coder")));
    }
}
