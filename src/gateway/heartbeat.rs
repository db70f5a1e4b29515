//! Says every two seconds that this gateway lives, and takes the leases of what it should take care of, if its database is on
//! a server.
//!
//! A gateway without others takes all of them. One of a group works on nothing else than what it holds (`Ownership`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::ability;
use super::departure::Departures;
use super::driver::TurnDriver;
use super::engine_contact::{self, EngineContacts, EngineReach};
use super::state::Gateway;
use crate::clock;
use crate::config::Config;
use crate::error::chain;
use crate::provider::Catalog;
use crate::store::{
    AuditEntry, Epoch, Lease, LeaseKind, LeaseSubject, LeaseTable, Level, NoticeKind, Store, StoreError,
};
use crate::swarm::Actor;
use crate::swarm::lease::{FleetView, LeaseKeeper, LeasePlan, LeaseView, RETRY_MS, next_beat};

/// The shortest pause between two looks at the leases, in milliseconds.
const SHORTEST_MS: i64 = 100;

/// The pause until the next look while something that is to be given up ends, in milliseconds.
const DEPARTURE_MS: i64 = 500;

/// Works until the gateway ends, also while it stops: what it still does must not be taken over meanwhile. It returns if there
/// is nobody to tell, or if the gateway was ended, which the store also tells everybody who waits for it.
pub(super) async fn run(gateway: Arc<Gateway>) {
    let store = gateway.swarm.store();
    let Some(epoch) = store.epoch() else { return };
    let (mut keeper, mut table) = (LeaseKeeper::new(epoch), LeaseTable::default());
    let mut abilities = Abilities::new(&gateway);
    let mut departures = Departures::default();
    let mut notices = store.notices();
    // Without others, it makes no difference which engines answer.
    let is_shared = gateway.swarm.ownership().is_shared();
    let unasked = if is_shared { engine_contact::unasked(&gateway).await } else { Arc::default() };
    let (told, mut contacts) = watch::channel(unasked);
    if is_shared {
        tokio::spawn(engine_contact::run(Arc::clone(&gateway), epoch, told));
    }
    let mut has_failed = false;
    loop {
        let known = Arc::clone(&contacts.borrow_and_update());
        let (leases, own) = ((&mut keeper, &mut table), (&mut abilities, &mut departures));
        let wait = match step(&gateway, epoch, leases, own, known).await {
            Ok(wait) => {
                has_failed = false;
                wait
            }
            Err(StoreError::Fenced { .. }) => return,
            Err(error) => {
                if !has_failed {
                    tracing::error!(error = chain(&error), "failed to say that this gateway lives");
                }
                has_failed = true;
                RETRY_MS
            }
        };
        let pause = |wait: i64| tokio::time::sleep(Duration::from_millis(wait.unsigned_abs()));
        // Many changes may follow one another.
        pause(SHORTEST_MS.min(wait)).await;
        tokio::select! {
            () = pause(wait - SHORTEST_MS.min(wait)) => {}
            _ = notices.next_of(&[NoticeKind::Gateway, NoticeKind::Lease]) => {}
            Ok(()) = contacts.changed() => {}
        }
    }
}

/// Gives a sign of life, and carries out what the keeper of the leases asks for. Returns the pause until the next one, in
/// milliseconds.
async fn step(
    gateway: &Arc<Gateway>,
    epoch: Epoch,
    (keeper, table): (&mut LeaseKeeper, &mut LeaseTable),
    (abilities, departures): (&mut Abilities, &mut Departures),
    contacts: Arc<EngineContacts>,
) -> Result<i64, StoreError> {
    let store = gateway.swarm.store();
    let sent = clock::boot_ms();
    let beat = store.gateways().beat(epoch, keeper.judging(), replaced).await?;
    keeper.beaten(sent, &beat);
    for ended in &beat.ended {
        tracing::warn!(epoch = ended.0, "a gateway gave no sign of life and was ended");
    }
    let wait = next_beat(epoch, &beat, keeper.judging());
    if let Some(changed) = store.leases().changed(table).await? {
        *table = changed;
    }
    let living: Vec<Epoch> = beat.living.iter().map(|living| living.epoch).collect();
    let reach = EngineReach::new(epoch, contacts, &beat.living);
    departures.tidy(gateway, &reach).await;
    let lacking = abilities.look(gateway);
    let is_able = |subject: &LeaseSubject| !lacking.contains_key(subject) && !departures.is_removing(subject);
    let mut plan = plan(gateway, keeper, &living, &table.leases, &is_able, &reach);
    let ownership = gateway.swarm.ownership();
    let publish = |keeper: &LeaseKeeper, leases: &BTreeMap<LeaseSubject, Lease>| {
        let (held, until) = (keeper.held(), keeper.acts_until());
        if ownership.is_shared() {
            store.syncer().fence().write_until(until);
        }
        ownership.update(LeaseView { held, leases, living: &beat.living, until });
    };
    publish(keeper, &table.leases);
    // From now on nothing begins on them. What has begun since the plan was made has to end first; the next plan has them
    // again.
    let busy = busy(&gateway.driver);
    plan.give_up.retain(|subject| !ownership.is_in_use(subject) && !busy.contains(subject));
    let mut given_up = BTreeSet::new();
    for subject in plan.give_up {
        if departures.has_ended(gateway, &subject, &reach).await {
            given_up.insert(subject);
        } else {
            plan.look_in = Some(DEPARTURE_MS);
        }
    }
    // The configuration has most of them for ever, so usually there is nothing to do.
    if !given_up.is_empty() {
        store.leases().give_up(epoch, given_up).await?;
    }
    // One that stops leaves the rest to others. They take what it has once it has ended.
    if !plan.take.is_empty() && !gateway.stop.is_cancelled() {
        let taken = store.leases().take(epoch, plan.take).await?;
        table.leases.extend(taken.iter().map(|lease| (lease.subject.clone(), lease.clone())));
        keeper.took(taken);
        publish(keeper, &table.leases);
    }
    Ok(plan.look_in.map_or(wait, |look| look.clamp(SHORTEST_MS, wait.max(SHORTEST_MS))))
}

/// Returns the row of the audit for a gateway that is ended because it gave no sign of life.
fn replaced(ended: Epoch) -> AuditEntry {
    let detail = format!("run {} gave no sign of life", ended.0);
    Actor::system().entry("gateway.replaced", "gateways", Level::Yellow, detail)
}

fn plan(
    gateway: &Gateway,
    keeper: &mut LeaseKeeper,
    living: &[Epoch],
    leases: &BTreeMap<LeaseSubject, Lease>,
    is_able: &dyn Fn(&LeaseSubject) -> bool,
    reach: &EngineReach,
) -> LeasePlan {
    let (mut wanted, busy) = (wanted(&gateway.config()), busy(&gateway.driver));
    let ownership = gateway.swarm.ownership();
    if ownership.is_shared() {
        wanted.extend(gateway.swarm.wanted_probes());
    }
    let view = FleetView {
        living,
        leases,
        wanted: &wanted,
        is_able,
        fitness: &|subject: &LeaseSubject| reach.fitness(subject),
        is_idle: &|subject: &LeaseSubject| {
            !busy.contains(subject) && !ownership.is_in_use(subject) && !reach.is_stuck(subject)
        },
    };
    keeper.plan(&view, clock::boot_ms())
}

/// The subjects that this gateway can take care of.
struct Abilities {
    catalog: Catalog,
    /// The reasons why it can't take care of some, as of the last look.
    lacking: BTreeMap<LeaseSubject, String>,
}

impl Abilities {
    fn new(gateway: &Gateway) -> Self {
        Self { catalog: Catalog::new(gateway.home().clone()), lacking: BTreeMap::new() }
    }

    /// Returns what this gateway lacks, and logs what is new. One without others has to do everything, whatever it lacks.
    fn look(&mut self, gateway: &Gateway) -> &BTreeMap<LeaseSubject, String> {
        if gateway.swarm.ownership().is_shared() {
            let lacking = ability::lacking(gateway.home(), &gateway.config(), &self.catalog);
            for (subject, reason) in &lacking {
                if self.lacking.get(subject) != Some(reason) {
                    let (kind, name) = (subject.kind.as_str(), subject.name.as_str());
                    tracing::warn!(kind, name, reason, "this gateway can't take it, and leaves it to others");
                }
            }
            self.lacking = lacking;
        }
        &self.lacking
    }
}

/// Returns everything that somebody has to take care of.
fn wanted(config: &Config) -> BTreeSet<LeaseSubject> {
    let subject = LeaseSubject::new;
    let agents = config.agents.iter().map(|agent| LeaseSubject::agent(&agent.id));
    let bridges = config.bridges.iter().map(|bridge| subject(LeaseKind::Bridge, &bridge.name));
    let trains = config.projects.iter().map(|project| subject(LeaseKind::Train, project.name.as_str()));
    // One at a URL has no folder, so every gateway may use it.
    let servers = config.mcp_servers.iter().filter(|server| server.remote.is_none());
    let servers = servers.map(|server| LeaseSubject::server(&server.name));
    agents.chain(bridges).chain(trains).chain(servers).chain([LeaseSubject::clock()]).collect()
}

/// Returns the agents whose turns run or wait here.
fn busy(driver: &TurnDriver) -> BTreeSet<LeaseSubject> {
    let turns = driver.list().into_iter();
    turns.map(|(_, turn)| LeaseSubject::agent(&turn.agent)).collect()
}

/// Longest time for saying that this gateway ends. Without it, others wait until they take it for dead.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// Says that this gateway ends, so that nobody waits for it. It can't change anything after that. Returns `true` if another
/// gateway had taken over before.
pub(super) async fn end(store: &Store) -> bool {
    let Some(epoch) = store.epoch() else { return false };
    match tokio::time::timeout(END_TIMEOUT, store.gateways().leave(epoch)).await {
        Ok(Ok(())) => {}
        Ok(Err(StoreError::Fenced { .. })) => return true,
        Ok(Err(error)) => tracing::warn!(error = chain(&error), "failed to say that this gateway ends"),
        Err(_) => tracing::warn!("the database did not take in time that this gateway ends"),
    }
    false
}
