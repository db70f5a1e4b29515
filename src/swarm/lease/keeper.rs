//! The leases that a gateway holds, and what it does about them. Its owner carries out each step and reports the result:
//!
//! 1. a sign of life: [`LeaseKeeper::judging`], then [`LeaseKeeper::beaten`];
//! 2. a look at all leases: [`LeaseKeeper::plan`];
//! 3. giving up, then taking what the plan says: [`LeaseKeeper::took`].
//!
//! What it holds is never more than what the database says it owns, unless it was ended: a subject leaves before it is given
//! up, and comes after it was taken. The answers to both may be lost. So a row of its own that it does not hold is given
//! back, and not picked up: after a lost answer nothing tells if the subject was on its way in or out.

use std::collections::{BTreeMap, BTreeSet};

use super::contact::{Contact, Hold};
use super::plan::{FleetView, LeasePlan, LeasePlanner};
use crate::store::{Beat, Epoch, Judging, Lease, LeaseSubject};

/// The leases of this gateway. Its times are milliseconds of a clock of this machine that is never set and goes on while the
/// machine is suspended.
#[derive(Clone, Debug)]
pub struct LeaseKeeper {
    me: Epoch,
    contact: Contact,
    hold: Hold,
    planner: LeasePlanner,
    /// The subjects with their tokens.
    held: BTreeMap<LeaseSubject, i64>,
}

impl LeaseKeeper {
    /// Creates the keeper of a gateway that holds nothing yet.
    #[must_use]
    pub fn new(me: Epoch) -> Self {
        Self {
            me,
            contact: Contact::default(),
            hold: Hold::default(),
            planner: LeasePlanner::default(),
            held: BTreeMap::new(),
        }
    }

    /// Returns the right with which the next sign of life is given.
    #[must_use]
    pub fn judging(&self) -> Judging {
        self.contact.judging()
    }

    /// Takes note of a sign of life that was sent at `sent` and answered.
    pub fn beaten(&mut self, sent: i64, beat: &Beat) {
        self.contact.beaten(beat);
        self.hold.beaten(sent);
    }

    /// Returns what to give up and to take. What is to be given up is not held any more.
    pub fn plan(&mut self, view: &FleetView<'_>, now: i64) -> LeasePlan {
        let owns = |subject: &LeaseSubject, token: i64| {
            view.leases.get(subject).is_some_and(|row| row.owner == Some(self.me) && row.token == token)
        };
        // A server that was restored to an earlier state may not know of a take.
        self.held.retain(|subject, token| owns(subject, *token));
        let held = self.held.keys().collect();
        let mut plan = self.planner.plan(self.me, &held, view, now);
        for row in view.leases.values().filter(|row| row.owner == Some(self.me)) {
            if !self.held.contains_key(&row.subject) {
                plan.give_up.insert(row.subject.clone());
            }
        }
        for subject in &plan.give_up {
            self.held.remove(subject);
        }
        plan
    }

    /// Takes note of leases that were taken.
    pub fn took(&mut self, taken: Vec<Lease>) {
        self.held.extend(taken.into_iter().map(|lease| (lease.subject, lease.token)));
    }

    /// Returns the token of a subject if this gateway holds its lease.
    #[must_use]
    pub fn holds(&self, subject: &LeaseSubject) -> Option<i64> {
        self.held.get(subject).copied()
    }

    /// Returns the token of a subject if this gateway may act on it now, also outside of the database.
    #[must_use]
    pub fn acts_on(&self, subject: &LeaseSubject, now: i64) -> Option<i64> {
        self.holds(subject).filter(|_| self.hold.is_valid(now))
    }

    /// Returns the time until which this gateway may act outside of the database.
    #[must_use]
    pub fn acts_until(&self) -> i64 {
        self.hold.until().unwrap_or(i64::MIN)
    }

    /// Returns the subjects that it holds.
    #[must_use]
    pub fn held(&self) -> BTreeSet<LeaseSubject> {
        self.held.keys().cloned().collect()
    }
}
