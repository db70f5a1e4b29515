//! The quotas that are used up: which credentials are parked, who is told, and how they go on. [`Parks`] decides. With other
//! gateways, [`shared`] keeps what all of them know.

mod shared;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;
use serde_json::json;

use super::lease::LeaseUse;
use super::scheduler::SchedulerEvent;
use super::{Actor, Swarm};
use crate::agent::quota::parks::{Admission, GIVE_UP_WAIT, Park, Parks, Refusal};
use crate::agent::quota::{self, CallPermit, ProbeEnd, QuotaParked, QuotaRefusal};
use crate::clock::{self, unix_ms};
use crate::error::chain;
use crate::home::Home;
use crate::id::{AgentId, ChannelId, ModelRef};
use crate::provider::{Catalog, Credential};
use crate::store::{AuditEntry, Level, StoreError, StoredPark};
use crate::sync::lock;

/// Most agents that a message names.
const MAX_NAMED: usize = 10;

/// The parked credentials of a home.
pub(super) struct QuotaBoard {
    parks: std::sync::Mutex<Parks>,
    /// The agents that wait, each with the key of its park. As last told to the scheduler.
    held: std::sync::Mutex<BTreeMap<AgentId, String>>,
    /// The parks of keys that only other gateways have, as of the last look.
    foreign: std::sync::Mutex<Vec<StoredPark>>,
    /// The names of the parks for which turns wait here.
    waiting: std::sync::Mutex<BTreeSet<String>>,
    /// The credentials that calls would have tried here, and when, by the clock of [`clock::boot_ms`].
    asked: std::sync::Mutex<BTreeMap<String, i64>>,
    /// The parks of this gateway's keys in the database. Held while it is written, so that the writes keep their order.
    stored: tokio::sync::Mutex<BTreeMap<(String, String), StoredPark>>,
    is_loaded: AtomicBool,
    catalog: Catalog,
}

impl QuotaBoard {
    /// Makes one with no parks. `difference` is the number of milliseconds by which the clocks of gateways may differ.
    pub(super) fn new(home: &Home, difference: i64) -> Self {
        Self {
            parks: std::sync::Mutex::new(Parks::shared(difference)),
            held: std::sync::Mutex::default(),
            foreign: std::sync::Mutex::default(),
            waiting: std::sync::Mutex::default(),
            asked: std::sync::Mutex::default(),
            stored: tokio::sync::Mutex::default(),
            is_loaded: AtomicBool::new(false),
            catalog: Catalog::new(home.clone()),
        }
    }
}

/// A park, for people and programs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ParkedQuota {
    /// The credential's name: the provider's, or that of the program whose login it is.
    pub credential: String,
    /// The model that was refused.
    pub model: ModelRef,
    /// Unix milliseconds of the first refusal.
    pub since: i64,
    /// Unix milliseconds at which a call is tried.
    pub until: i64,
    /// `true` if the provider named that time.
    pub named: bool,
    /// Number of refusals, each after the time had come.
    pub refusals: u32,
    /// `true` while a call is tried.
    pub probing: bool,
    /// The provider's words.
    pub reason: String,
    /// The agents that wait for it.
    pub agents: Vec<AgentId>,
}

/// Returns the scheduler's name for a park.
fn key(park: &Park) -> String {
    format!("{} {}", park.credential.id, park.model)
}

fn stored(park: &Park) -> StoredPark {
    StoredPark {
        credential: park.credential.id.clone(),
        model: park.model.clone(),
        name: park.credential.name.clone(),
        since: park.since,
        noted: park.noted,
        until: park.until,
        named: park.is_named,
        refusals: park.refusals,
        reason: park.reason.clone(),
    }
}

fn restored(park: &StoredPark) -> Park {
    Park {
        credential: Credential { id: park.credential.clone(), name: park.name.clone() },
        model: park.model.clone(),
        since: park.since,
        noted: park.noted,
        until: park.until,
        is_named: park.named,
        refusals: park.refusals,
        reason: park.reason.clone(),
    }
}

impl Swarm {
    /// Reads the parks that an earlier run left, once, or those that the other gateways have now.
    ///
    /// # Errors
    ///
    /// Returns [`StoreError`] if they can't be read.
    pub(crate) async fn load_quotas(&self) -> Result<(), StoreError> {
        if self.ownership.is_shared() {
            return self.share_quotas().await;
        }
        let mut known = self.quotas.stored.lock().await;
        if self.quotas.is_loaded.load(Ordering::Acquire) {
            return Ok(());
        }
        let found = self.store.quota_parks().list().await?;
        lock(&self.quotas.parks).restore(found.iter().map(restored).collect());
        *known =
            found.into_iter().map(|park| ((park.credential.clone(), park.model.to_string()), park)).collect();
        self.quotas.is_loaded.store(true, Ordering::Release);
        Ok(())
    }

    /// Decides if a model may be asked with a credential now.
    ///
    /// # Errors
    ///
    /// Returns [`QuotaParked`] if the quota is used up, or another call is the probe, here or at another gateway.
    pub(crate) fn admit_call(
        self: &Arc<Self>,
        credential: &Credential,
        model: &ModelRef,
    ) -> Result<CallPermit, QuotaParked> {
        let now = unix_ms();
        let mut parks = lock(&self.quotas.parks);
        let is_due = parks.find(&credential.id, model).is_some()
            && parks.blocked(&credential.id, model, now).is_none();
        let right = if is_due { self.enter_probe(&credential.id) } else { None };
        if is_due && right.is_none() {
            let until = now.saturating_add(GIVE_UP_WAIT);
            return Err(QuotaParked { name: credential.name.clone(), until });
        }
        let admission = parks.admit(&credential.id, model, now);
        drop(parks);
        match admission {
            Admission::Free => Ok(CallPermit::free()),
            Admission::Wait(until) => Err(QuotaParked { name: credential.name.clone(), until }),
            Admission::Probe(number) => {
                tracing::info!(credential = credential.name, %model, "a quota is tried");
                let swarm = Arc::clone(self);
                Ok(CallPermit::probe(number, move |end| swarm.end_probe(number, end, right)))
            }
        }
    }

    /// Returns why a model can't be asked with a credential now, or `None` if it can.
    #[must_use]
    pub(crate) fn parked_call(&self, credential: &Credential, model: &ModelRef) -> Option<QuotaParked> {
        let now = unix_ms();
        let mut parks = lock(&self.quotas.parks);
        let until = parks.blocked(&credential.id, model, now).or_else(|| {
            let is_tried_elsewhere =
                parks.find(&credential.id, model).is_some() && !self.may_probe(&credential.id);
            is_tried_elsewhere.then(|| {
                // Whoever asks this makes no call then, and without a turn that waits nobody else would want to try it.
                self.want_probe(&credential.id);
                now.saturating_add(GIVE_UP_WAIT)
            })
        })?;
        Some(QuotaParked { name: credential.name.clone(), until })
    }

    /// Ends a probe. `right` keeps other gateways from trying the credential until all of them can know the result.
    fn end_probe(self: Arc<Self>, number: u64, end: ProbeEnd, right: Option<LeaseUse>) {
        let now = unix_ms();
        let over = match end {
            ProbeEnd::Answered => lock(&self.quotas.parks).answered(number, now),
            // A refused probe has ended already, and then this changes nothing.
            ProbeEnd::GaveUp => {
                lock(&self.quotas.parks).gave_up(number, now);
                Vec::new()
            }
        };
        // Told at once, so that the scheduler knows it before it hears that the turn has ended.
        self.tell_over(&over);
        if !over.is_empty() {
            // An agent may have waited for another park, although a model of this one can answer it now.
            for event in self.quota_events() {
                self.notifier.tell(event);
            }
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            self.save_quotas(None).await;
            drop(right);
        });
    }

    /// Tells everybody that these parks are over.
    fn tell_over(&self, over: &[Park]) {
        self.release(over);
        for park in over {
            tracing::info!(credential = park.credential.name, model = %park.model, "a quota can be used again");
            let data = json!({"credential": park.credential.name, "model": park.model, "since": park.since});
            self.notifier.publish("quota.resumed", &data);
        }
    }

    /// Lets the agents go on that wait for these parks here.
    fn release(&self, over: &[Park]) {
        for park in over {
            self.notifier.tell(SchedulerEvent::Unparked { credential: key(park) });
            lock(&self.quotas.held).retain(|_, held| *held != key(park));
        }
    }

    /// Records that a quota is used up. Its park is stored, and the scheduler and the channels of the agents that wait are
    /// told.
    pub(crate) async fn quota_refused(&self, refused: QuotaRefusal) {
        let QuotaRefusal { credential, model, signal, reason, probe, .. } = refused;
        let wait = signal.wait.map(|wait| i64::try_from(wait.as_millis()).unwrap_or(i64::MAX));
        let park = {
            let refusal = Refusal { credential: &credential, model: &model, wait, reason: &reason, probe };
            lock(&self.quotas.parks).refused(&refusal, unix_ms()).clone()
        };
        tracing::warn!(
            credential = park.credential.name,
            %model,
            until = clock::local(park.until),
            refusals = park.refusals,
            reason,
            "a quota is used up"
        );
        for event in self.quota_events() {
            self.notifier.tell(event);
        }
        self.save_quotas(None).await;
        let agents = self.held_by(&park);
        let data = json!({
            "credential": park.credential.name, "model": park.model, "until": park.until, "agents": agents,
        });
        self.notifier.publish("quota.parked", &data);
        if let Err(error) = self.announce_park(&park, &agents).await {
            tracing::error!(error = chain(&error), "failed to say that a quota is used up");
        }
    }

    /// Makes parks be tried now: of a credential by its name, of an agent, or all of them. Returns those that were parked.
    ///
    /// # Errors
    ///
    /// Returns [`StoreError`] if the database fails.
    pub(crate) async fn resume_quotas(
        &self,
        by: &Actor,
        credential: Option<&str>,
        agent: Option<&AgentId>,
    ) -> Result<Vec<ParkedQuota>, StoreError> {
        self.load_quotas().await?;
        let config = self.config();
        let own = agent.and_then(|agent| config.agent(agent)).map(|agent| {
            let models = quota::models_of(agent, &config, &self.quotas.catalog);
            models.into_iter().map(|(_, credential)| credential.id).collect::<BTreeSet<_>>()
        });
        // A name means the credential with all its parks, also those of another provider with the same key.
        let is_named = |park: &&Park| {
            credential.is_none_or(|name| park.credential.name == name || park.model.provider() == name)
        };
        let is_wanted = |id: &str| agent.is_none() || own.as_ref().is_some_and(|own| own.contains(id));
        let ids = |parks: &[Park]| -> BTreeSet<String> {
            let named = parks.iter().filter(is_named).map(|park| park.credential.id.clone());
            named.filter(|id| is_wanted(id)).collect()
        };
        let foreign = self.resume_foreign(&ids).await?;
        let resumed = {
            let mut parks = lock(&self.quotas.parks);
            let wanted = ids(&parks.list().cloned().collect::<Vec<_>>());
            parks.resume(|park| wanted.contains(&park.credential.id), unix_ms())
        };
        let all: Vec<&Park> = resumed.iter().chain(&foreign).collect();
        if all.is_empty() {
            return Ok(Vec::new());
        }
        let subject: BTreeSet<&str> = all.iter().map(|park| park.credential.name.as_str()).collect();
        let subject = subject.into_iter().collect::<Vec<_>>().join(" ");
        self.save_quotas(Some(by.entry("quota.resume", &subject, Level::Green, String::new()))).await;
        for event in self.quota_events() {
            self.notifier.tell(event);
        }
        let keys: BTreeSet<String> = all.into_iter().map(key).collect();
        let known = self.all_parks();
        Ok(known.iter().filter(|park| keys.contains(&key(park))).map(|park| self.describe(park)).collect())
    }

    /// Makes the parks be tried now that only other gateways can try, and returns them. `ids` chooses their credentials.
    async fn resume_foreign(
        &self,
        ids: &(impl Fn(&[Park]) -> BTreeSet<String> + Sync),
    ) -> Result<Vec<Park>, StoreError> {
        let mut foreign: Vec<Park> = lock(&self.quotas.foreign).iter().map(restored).collect();
        let wanted = ids(&foreign);
        foreign.retain(|park| wanted.contains(&park.credential.id));
        if !foreign.is_empty() {
            let keys = foreign.iter().map(|park| (park.credential.id.clone(), park.model.clone())).collect();
            self.store.quota_parks().resume(keys, unix_ms()).await?;
            self.share_quotas().await?;
        }
        Ok(foreign)
    }

    /// Returns all parks, also those of other gateways' keys.
    #[must_use]
    pub(crate) fn parked_quotas(&self) -> Vec<ParkedQuota> {
        self.all_parks().iter().map(|park| self.describe(park)).collect()
    }

    fn all_parks(&self) -> Vec<Park> {
        let mut parks: Vec<Park> = lock(&self.quotas.parks).list().cloned().collect();
        parks.extend(lock(&self.quotas.foreign).iter().map(restored));
        parks
    }

    fn describe(&self, park: &Park) -> ParkedQuota {
        ParkedQuota {
            credential: park.credential.name.clone(),
            model: park.model.clone(),
            since: park.since,
            until: park.until,
            named: park.is_named,
            refusals: park.refusals,
            probing: lock(&self.quotas.parks).is_probing(&park.credential.id),
            reason: park.reason.clone(),
            agents: self.held_by(park),
        }
    }

    fn held_by(&self, park: &Park) -> Vec<AgentId> {
        let (held, key) = (lock(&self.quotas.held), key(park));
        held.iter().filter(|(_, of)| **of == key).map(|(agent, _)| agent.clone()).collect()
    }

    /// Returns for the scheduler which agents wait for which park. Parks of keys that no agent has any more end here: a
    /// changed key has a quota of its own.
    pub(crate) fn quota_events(&self) -> Vec<SchedulerEvent> {
        let is_empty = lock(&self.quotas.parks).list().next().is_none();
        if is_empty && lock(&self.quotas.held).is_empty() {
            return Vec::new();
        }
        let config = self.config();
        let models: Vec<_> = config
            .agents
            .iter()
            .map(|agent| (agent, quota::models_of(agent, &config, &self.quotas.catalog)))
            .collect();
        let used: BTreeSet<&str> = models
            .iter()
            .flat_map(|(_, models)| models.iter().map(|(_, credential)| credential.id.as_str()))
            .collect();
        let (over, mut waits) = {
            let mut parks = lock(&self.quotas.parks);
            let over = parks.retain(|park| used.contains(park.credential.id.as_str()));
            let waits: BTreeMap<String, (i64, BTreeSet<AgentId>)> =
                parks.list().map(|park| (key(park), (self.probe_time(park), BTreeSet::new()))).collect();
            (over, waits)
        };
        let mut held = BTreeMap::new();
        for (agent, models) in models {
            if let Some(key) = self.park_of(agent, &models)
                && let Some((_, agents)) = waits.get_mut(&key)
            {
                agents.insert(agent.id.clone());
                held.insert(agent.id.clone(), key);
            }
        }
        *lock(&self.quotas.held) = held;
        self.tell_over(&over);
        let parked = waits.into_iter().map(|(credential, (until, agents))| SchedulerEvent::Parked {
            credential,
            agents,
            until,
        });
        parked.collect()
    }

    /// Returns the park that an agent waits for: of its models, the one that is tried first. `None` if one can be asked.
    fn park_of(&self, agent: &crate::config::Agent, models: &[(ModelRef, Credential)]) -> Option<String> {
        if models.is_empty() || quota::has_free_model(agent) {
            return None;
        }
        let parks = lock(&self.quotas.parks);
        let found: Option<Vec<&Park>> =
            models.iter().map(|(model, credential)| parks.find(&credential.id, model)).collect();
        found?.into_iter().min_by_key(|park| park.until).map(key)
    }

    /// Brings the database in line with the parks. If that fails, the parks are in force all the same, and the next change
    /// writes them.
    pub(crate) async fn save_quotas(&self, mut entry: Option<AuditEntry>) {
        let mut known = self.quotas.stored.lock().await;
        let wanted: BTreeMap<(String, String), StoredPark> = lock(&self.quotas.parks)
            .list()
            .map(|park| ((park.credential.id.clone(), park.model.to_string()), stored(park)))
            .collect();
        let changed: Vec<StoredPark> = wanted
            .iter()
            .filter(|(key, park)| known.get(*key) != Some(park))
            .map(|(_, park)| park.clone())
            .collect();
        // A key that is gone here may be at another gateway.
        let used = self.ownership.is_shared().then(|| self.used_credentials());
        let may_end = |credential: &str| used.as_ref().is_none_or(|used| used.contains(credential));
        let gone: Vec<(String, ModelRef)> = known
            .iter()
            .filter(|(key, park)| !wanted.contains_key(*key) && may_end(&park.credential))
            .map(|(_, park)| (park.credential.clone(), park.model.clone()))
            .collect();
        let store = self.store.quota_parks();
        let written = async {
            if !changed.is_empty() || entry.is_some() {
                store.put(changed, entry.take(), unix_ms()).await?;
            }
            if !gone.is_empty() {
                store.remove(gone, None, unix_ms()).await?;
            }
            Ok::<_, StoreError>(())
        };
        match written.await {
            Ok(()) => *known = wanted,
            Err(error) => tracing::error!(error = chain(&error), "failed to store which quotas are used up"),
        }
    }

    /// Says in a channel that a quota is used up, once for each park. `model` is one of the agent's.
    pub(crate) async fn post_park(&self, channel: &ChannelId, agent: &AgentId) -> Result<(), StoreError> {
        let key_of = lock(&self.quotas.held).get(agent).cloned();
        let park = lock(&self.quotas.parks).list().find(|park| Some(key(park)) == key_of).cloned();
        match park {
            Some(park) => self.post_park_notice(channel, &park, &self.held_by(&park)).await,
            None => Ok(()),
        }
    }

    /// Returns `true` if the agent waits for a quota.
    #[must_use]
    pub(crate) fn is_parked(&self, agent: &AgentId) -> bool {
        lock(&self.quotas.held).contains_key(agent)
    }

    /// Says in every channel with unread messages for one of the agents that a quota is used up.
    async fn announce_park(&self, park: &Park, agents: &[AgentId]) -> Result<(), StoreError> {
        for unseen in self.store.deliveries().unseen_of(agents).await? {
            self.post_park_notice(&unseen.channel, park, agents).await?;
        }
        Ok(())
    }

    async fn post_park_notice(
        &self,
        channel: &ChannelId,
        park: &Park,
        agents: &[AgentId],
    ) -> Result<(), StoreError> {
        // Parks of a credential that follow one another are one pause for those who read the channel.
        let since = {
            let parks = lock(&self.quotas.parks);
            let own = parks.list().filter(|other| other.credential.id == park.credential.id);
            own.map(|other| other.since).min().unwrap_or(park.since)
        };
        let name = format!("quota {} {since}", park.credential.id);
        self.post_budget_notice(channel, &clock::local_day(since), &name, &notice(park, agents)).await
    }
}

/// Returns what the channels are told.
fn notice(park: &Park, agents: &[AgentId]) -> String {
    let name = &park.credential.name;
    let until = clock::local(park.until);
    let who = match agents {
        [] => "The work that needs it waits".to_owned(),
        [one] => format!("{one} waits"),
        agents => {
            let named: Vec<&str> = agents.iter().take(MAX_NAMED).map(AgentId::as_str).collect();
            let more = agents.len().saturating_sub(MAX_NAMED);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!("{}{more} wait", named.join(", "))
        }
    };
    let said = if park.is_named { "" } else { "; the provider named no time" };
    format!(
        "The quota of {name} is used up. {who} and will go on without being asked. The next try is at {until}{said}; \
         `flock resume --credential {name}` tries earlier."
    )
}

#[cfg(test)]
#[path = "quota_tests.rs"]
mod tests;
