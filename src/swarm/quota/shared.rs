//! Parks that several gateways share by the database: what each of them knows of the others' parks, and which of them tries a
//! quota.
//!
//! Gateways with the same key have the same parks, and hear of each change by a notice. The lease of a credential decides who
//! of them makes the call that tries it. A gateway wants it while a turn or a client waits for the credential there, because
//! only such a gateway makes the call. Parks of keys that this gateway does not have are nothing to it but something to show.

use std::collections::{BTreeMap, BTreeSet};

use super::{QuotaBoard, Swarm, key, restored};
use crate::agent::quota;
use crate::agent::quota::parks::{MAX_WAIT, Park};
use crate::agent::quota::reconcile::reconcile;
use crate::clock::{self, unix_ms};
use crate::id::ModelRef;
use crate::store::{LeaseKind, LeaseSubject, StoreError, StoredPark};
use crate::swarm::lease::LeaseUse;
use crate::sync::lock;

/// The time in milliseconds for which a gateway wants to try a credential after a client has asked for it.
const ASKED_MS: i64 = 60_000;

/// The time in milliseconds after which a park of a key that this gateway does not have is removed if nobody tried it. No
/// gateway may have the key any more.
const UNUSED_MS: i64 = 24 * 3_600_000;

/// The right to try a credential.
fn subject(credential: &str) -> LeaseSubject {
    LeaseSubject::new(LeaseKind::Probe, credential)
}

/// Returns the parks that no gateway has tried for long after their time.
fn unused(parks: &[StoredPark], now: i64) -> Vec<(String, ModelRef)> {
    let is_unused = |park: &&StoredPark| park.until.saturating_add(UNUSED_MS) < now;
    parks.iter().filter(is_unused).map(|park| (park.credential.clone(), park.model.clone())).collect()
}

impl QuotaBoard {
    /// Takes over the parks of the database, in place of those that were `known` before. Returns those that have ended.
    fn take_over(&self, known: &BTreeMap<(String, String), StoredPark>, found: &[StoredPark]) -> Vec<Park> {
        let by_key = |parks: Vec<Park>| -> BTreeMap<String, Park> {
            parks.into_iter().map(|park| (key(&park), park)).collect()
        };
        let mut parks = lock(&self.parks);
        let known = by_key(known.values().map(restored).collect());
        let own = by_key(parks.list().cloned().collect());
        let found = by_key(found.iter().map(restored).collect());
        let keys: BTreeSet<&String> = known.keys().chain(own.keys()).chain(found.keys()).collect();
        let next: Vec<Park> = keys
            .into_iter()
            .filter_map(|key| reconcile(known.get(key), own.get(key), found.get(key)))
            .collect();
        parks.replace(next)
    }
}

impl Swarm {
    /// Brings the parks of this gateway in line with those of the others. A gateway without others does nothing.
    ///
    /// # Errors
    ///
    /// Returns [`StoreError`] if the database fails. Then this gateway goes on with what it knows.
    pub(crate) async fn share_quotas(&self) -> Result<(), StoreError> {
        if !self.ownership.is_shared() {
            return Ok(());
        }
        let mut known = self.quotas.stored.lock().await;
        let rows = self.store.quota_parks().list().await?;
        // It costs something to find out which keys there are, and usually no quota is used up.
        if rows.is_empty() && known.is_empty() && self.all_parks().is_empty() {
            return Ok(());
        }
        let used = self.used_credentials();
        let (found, foreign): (Vec<_>, Vec<_>) =
            rows.into_iter().partition(|park| used.contains(&park.credential));
        let over = self.quotas.take_over(&known, &found);
        *known =
            found.into_iter().map(|park| ((park.credential.clone(), park.model.to_string()), park)).collect();
        drop(known);
        let unused = unused(&foreign, unix_ms());
        *lock(&self.quotas.foreign) = foreign;
        // The gateway whose call was answered has told everybody else.
        self.release(&over);
        if !unused.is_empty() {
            self.store.quota_parks().remove(unused, None, unix_ms()).await?;
        }
        // What could not be written before.
        self.save_quotas(None).await;
        Ok(())
    }

    /// Returns the credentials with which this gateway can ask the models of agents.
    pub(super) fn used_credentials(&self) -> BTreeSet<String> {
        let config = self.config();
        let models =
            config.agents.iter().flat_map(|agent| quota::models_of(agent, &config, &self.quotas.catalog));
        models.map(|(_, credential)| credential.id).collect()
    }

    /// Begins to try a credential. Returns `None` if another gateway does that, or none does at the moment; then this one
    /// wants to.
    pub(super) fn enter_probe(&self, credential: &str) -> Option<LeaseUse> {
        let entered = self.ownership.enter(subject(credential));
        if entered.is_none() {
            self.want_probe(credential);
        }
        entered
    }

    /// Takes note that a call would have tried a credential here.
    pub(super) fn want_probe(&self, credential: &str) {
        lock(&self.quotas.asked).insert(credential.to_owned(), clock::boot_ms());
    }

    /// Returns `true` if no other gateway is the one that tries the credential.
    pub(super) fn may_probe(&self, credential: &str) -> bool {
        !self.ownership.is_shared() || self.ownership.holds(&subject(credential))
    }

    /// Returns the time at which the scheduler of this gateway tries a park. While another one does, that is so late that the
    /// next look at the parks comes before.
    pub(super) fn probe_time(&self, park: &Park) -> i64 {
        if self.may_probe(&park.credential.id) { park.until } else { unix_ms().saturating_add(MAX_WAIT) }
    }

    /// Takes note of the parks for which turns of this gateway wait, by the scheduler's names for them.
    pub(crate) fn set_quota_waiters(&self, parks: BTreeSet<String>) {
        *lock(&self.quotas.waiting) = parks;
    }

    /// Returns the credentials that this gateway wants to try once their time has come.
    pub(crate) fn wanted_probes(&self) -> BTreeSet<LeaseSubject> {
        let now = clock::boot_ms();
        let asked: BTreeSet<String> = {
            let mut asked = lock(&self.quotas.asked);
            asked.retain(|_, at| now.saturating_sub(*at) < ASKED_MS);
            asked.keys().cloned().collect()
        };
        let waiting = lock(&self.quotas.waiting).clone();
        let parks = lock(&self.quotas.parks);
        let is_wanted = |park: &&Park| asked.contains(&park.credential.id) || waiting.contains(&key(park));
        parks.list().filter(is_wanted).map(|park| subject(&park.credential.id)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_park_that_nobody_can_try_is_removed_after_a_day() {
        let park = |name: &str, until| StoredPark {
            credential: format!("key:{name}"),
            model: "lab/m".parse().unwrap(),
            name: name.to_owned(),
            since: 0,
            noted: 0,
            until,
            named: false,
            refusals: 1,
            reason: String::new(),
        };
        let parks = [park("old", 10), park("new", 11), park("far", i64::MAX)];
        assert_eq!(unused(&parks, UNUSED_MS + 11), [("key:old".to_owned(), "lab/m".parse().unwrap())]);
    }
}
