//! The parks: which credentials may not be asked, until when, and which call is the probe. It is a pure state machine:
//! it takes what happened and the time.
//!
//! ```text
//!            refused                      the time has come
//! free ───────────────────▶ parked ──────────────────────────▶ one probe ── answered ──▶ free
//!                             ▲ ▲                                 │   │
//!                             │ └──── refused, to the new time ───┘   │
//!                             └────── gave up: a short wait ──────────┘
//! ```
//!
//! A park belongs to a credential and a model, because many providers have a quota for each model: another model of the
//! same credential is tried once. The probe is one for the whole credential, and its answer ends all parks of the
//! credential whose time has come.

use std::collections::BTreeMap;

use crate::id::ModelRef;
use crate::provider::Credential;

const SECOND: i64 = 1_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;

/// Longest time for which nothing is tried, whatever a provider says: a week's window and a day. A wrong clock, here or
/// there, must not park for ever.
pub(crate) const MAX_WAIT: i64 = 8 * 24 * HOUR;
/// First wait if the provider named no time. It doubles with each refusal.
const FIRST_WAIT: i64 = 5 * MINUTE;
/// Upper limit of that wait.
const MAX_UNNAMED_WAIT: i64 = HOUR;
/// Shortest wait after a second refusal. It doubles too: a provider that names a time which has come already must not be
/// asked all the time.
const MIN_REPEATED_WAIT: i64 = 5 * SECOND;
/// Upper limit of that wait.
const MAX_REPEATED_WAIT: i64 = 5 * MINUTE;
/// Wait after a probe that told nothing.
pub(crate) const GIVE_UP_WAIT: i64 = 5 * SECOND;

/// A model that may not be asked with a credential. Times are in Unix milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Park {
    pub(crate) credential: Credential,
    pub(crate) model: ModelRef,
    /// Time of the first refusal.
    pub(crate) since: i64,
    /// Time of the last refusal or change.
    pub(crate) noted: i64,
    /// Time at which a call is tried.
    pub(crate) until: i64,
    /// `true` if the provider named that time.
    pub(crate) is_named: bool,
    /// Number of refusals, each after the time had come.
    pub(crate) refusals: u32,
    /// The provider's words.
    pub(crate) reason: String,
}

/// The answer to the question whether a call may be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It may: nothing is parked.
    Free,
    /// It may, as the probe with this number.
    Probe(u64),
    /// It may not before this time.
    Wait(i64),
}

/// A call that is under way and will tell if the quota can be used again.
#[derive(Clone, Debug)]
struct Probe {
    number: u64,
    model: ModelRef,
}

/// A refusal, with the wait that the provider named.
#[derive(Clone, Debug)]
pub(crate) struct Refusal<'a> {
    pub(crate) credential: &'a Credential,
    pub(crate) model: &'a ModelRef,
    pub(crate) wait: Option<i64>,
    pub(crate) reason: &'a str,
    /// Number of the probe that was refused, if it was one.
    pub(crate) probe: Option<u64>,
}

/// All parks of a home.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parks {
    parks: BTreeMap<(String, String), Park>,
    /// The probes by credential.
    probes: BTreeMap<String, Probe>,
    last: u64,
    /// Milliseconds by which this clock may be behind those of others that write parks.
    difference: i64,
}

fn key(credential: &str, model: &ModelRef) -> (String, String) {
    (credential.to_owned(), model.to_string())
}

impl Parks {
    /// Makes none yet. `difference` is the number of milliseconds by which the clocks of those that write parks may differ.
    pub(crate) fn shared(difference: i64) -> Self {
        Self { difference, ..Self::default() }
    }

    /// Takes over parks that an earlier run left.
    pub(crate) fn restore(&mut self, parks: Vec<Park>) {
        for park in parks {
            self.parks.insert(key(&park.credential.id, &park.model), park);
        }
    }

    /// Replaces all parks, and returns those that are not among the new ones. Probes stay: their ends tell about their
    /// credentials whatever became of the parks.
    pub(crate) fn replace(&mut self, parks: Vec<Park>) -> Vec<Park> {
        let mut before = std::mem::take(&mut self.parks);
        self.restore(parks);
        before.retain(|key, _| !self.parks.contains_key(key));
        before.into_values().collect()
    }

    /// Returns all parks.
    pub(crate) fn list(&self) -> impl Iterator<Item = &Park> {
        self.parks.values()
    }

    /// Returns the park of a model, also if its time has come.
    pub(crate) fn find(&self, credential: &str, model: &ModelRef) -> Option<&Park> {
        self.parks.get(&key(credential, model))
    }

    /// Returns `true` while a probe of this credential is under way.
    pub(crate) fn is_probing(&self, credential: &str) -> bool {
        self.probes.contains_key(credential)
    }

    /// Returns the time before which a call of this model would not be let through. `None` if it would be.
    pub(crate) fn blocked(&mut self, credential: &str, model: &ModelRef, now: i64) -> Option<i64> {
        self.settle_clock(now);
        let park = self.find(credential, model)?;
        if now < park.until {
            return Some(park.until);
        }
        self.is_probing(credential).then(|| now.saturating_add(GIVE_UP_WAIT))
    }

    /// Decides if a call may be made now. A probe has to be ended by [`Self::refused`], [`Self::answered`] or
    /// [`Self::gave_up`].
    pub(crate) fn admit(&mut self, credential: &str, model: &ModelRef, now: i64) -> Admission {
        if let Some(until) = self.blocked(credential, model, now) {
            return Admission::Wait(until);
        }
        if self.find(credential, model).is_none() {
            return Admission::Free;
        }
        self.last += 1;
        let probe = Probe { number: self.last, model: model.clone() };
        self.probes.insert(credential.to_owned(), probe);
        Admission::Probe(self.last)
    }

    /// Records that a quota is used up, and returns the park.
    pub(crate) fn refused(&mut self, refusal: &Refusal<'_>, now: i64) -> &Park {
        self.settle_clock(now);
        let Refusal { credential, model, .. } = refusal;
        let is_probe =
            self.probes.get(&credential.id).is_some_and(|probe| Some(probe.number) == refusal.probe);
        if is_probe {
            self.probes.remove(&credential.id);
        }
        let before = self.find(&credential.id, model);
        // Calls that were under way together are refused together. They count as one refusal.
        let is_repeated = before.is_none_or(|before| is_probe || now >= before.until);
        let refusals = before.map_or(0, |before| before.refusals).saturating_add(u32::from(is_repeated));
        let wait = refusal.wait.unwrap_or_else(|| doubled(FIRST_WAIT, refusals, MAX_UNNAMED_WAIT));
        let least = match refusals {
            0 | 1 => 0,
            more => doubled(MIN_REPEATED_WAIT, more - 1, MAX_REPEATED_WAIT),
        };
        let until = now.saturating_add(wait.clamp(least, MAX_WAIT));
        // Of several windows the last one counts, unless a probe has just shown what holds now.
        let known = before.filter(|_| !is_repeated).map(|before| before.until);
        let park = Park {
            credential: before.map_or_else(|| (*credential).clone(), |before| before.credential.clone()),
            model: (*model).clone(),
            since: before.map_or(now, |before| before.since),
            noted: now,
            until: known.map_or(until, |known| known.max(until)),
            is_named: refusal.wait.is_some(),
            refusals,
            reason: refusal.reason.to_owned(),
        };
        self.parks.entry(key(&credential.id, model)).insert_entry(park).into_mut()
    }

    /// Ends a probe whose model answered, and returns the parks that it ends.
    pub(crate) fn answered(&mut self, number: u64, now: i64) -> Vec<Park> {
        self.settle_clock(now);
        let Some((credential, probe)) = self.end_probe(number) else { return Vec::new() };
        let over: Vec<_> = self
            .parks
            .iter()
            .filter(|((of, _), park)| *of == credential && (park.until <= now || park.model == probe.model))
            .map(|(key, _)| key.clone())
            .collect();
        over.iter().filter_map(|key| self.parks.remove(key)).collect()
    }

    /// Ends a probe that told nothing about the quota, and returns its park.
    pub(crate) fn gave_up(&mut self, number: u64, now: i64) -> Option<&Park> {
        self.settle_clock(now);
        let (credential, probe) = self.end_probe(number)?;
        let park = self.parks.get_mut(&key(&credential, &probe.model))?;
        (park.noted, park.until) = (now, now.saturating_add(GIVE_UP_WAIT));
        Some(park)
    }

    /// Makes the time of these parks come now, and returns them.
    pub(crate) fn resume(&mut self, wanted: impl Fn(&Park) -> bool, now: i64) -> Vec<Park> {
        self.settle_clock(now);
        let wanted = self.parks.values_mut().filter(|park| wanted(park));
        wanted
            .map(|park| {
                (park.noted, park.until, park.refusals) = (now, park.until.min(now), 0);
                park.clone()
            })
            .collect()
    }

    /// Forgets the parks that are not wanted, and returns them.
    pub(crate) fn retain(&mut self, wanted: impl Fn(&Park) -> bool) -> Vec<Park> {
        let over: Vec<_> =
            self.parks.iter().filter(|(_, park)| !wanted(park)).map(|(key, _)| key.clone()).collect();
        over.iter().filter_map(|key| self.parks.remove(key)).collect()
    }

    fn end_probe(&mut self, number: u64) -> Option<(String, Probe)> {
        let credential = self
            .probes
            .iter()
            .find(|(_, probe)| probe.number == number)
            .map(|(credential, _)| credential.clone())?;
        self.probes.remove_entry(&credential)
    }

    /// Moves the parks if the clock was set back: each waits at most as long as it should when it was made. Those of a clock
    /// that is a little ahead stay: its gateway would try them too early, and would move them again.
    fn settle_clock(&mut self, now: i64) {
        let latest = now.saturating_add(self.difference);
        for park in self.parks.values_mut().filter(|park| latest < park.noted) {
            let wait = park.until.saturating_sub(park.noted).clamp(0, MAX_WAIT);
            (park.noted, park.until) = (now, now.saturating_add(wait));
        }
    }
}

/// Returns the wait after this many refusals, counted from 1.
fn doubled(first: i64, refusals: u32, most: i64) -> i64 {
    first.saturating_mul(1 << refusals.saturating_sub(1).min(20)).min(most)
}

#[cfg(test)]
#[path = "parks_tests.rs"]
mod tests;
