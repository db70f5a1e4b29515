//! Packages that follow their agents: into the store of the engine that an agent moves to, and into this home's store when this
//! gateway has taken an agent over. They are installed beside the turns, for one agent after the other.

use std::collections::{BTreeSet, HashMap};
use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::state::Gateway;
use crate::clock::unix_ms;
use crate::error::{Explain as _, chain, to_mend};
use crate::id::{AgentId, EngineName};
use crate::nix_store::{self, CarriedPackages, NixError, PackageStores};
use crate::sandbox::engines::{PlannedMove, is_placed};
use crate::store::{AuditEntry, LeaseSubject, Level};
use crate::swarm::Swarm;
use crate::sync::lock;

/// Time until packages that could not be installed for a move are tried again.
const RETRY: Duration = Duration::from_secs(600);

/// Brings the packages of agents into the stores that their sandboxes will read.
pub(crate) struct PackageMoves {
    stores: PackageStores,
    /// Cancelled when the gateway stops.
    stop: CancellationToken,
    /// Held while the packages of an agent are installed.
    turn: tokio::sync::Mutex<()>,
    /// The last attempts for moves after which packages were still missing.
    attempts: Mutex<HashMap<AgentId, Attempt>>,
    installing: Mutex<Option<InstallingView>>,
}

/// An attempt to install the packages of an agent in the engine that it moves to.
struct Attempt {
    to: EngineName,
    packages: CarriedPackages,
    at: Instant,
    /// The reason why they are missing.
    reason: String,
}

/// The packages that are being installed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct InstallingView {
    agent: AgentId,
    packages: Vec<String>,
}

impl PackageMoves {
    /// Creates the value without calling an engine.
    pub(crate) fn new(swarm: &Swarm, stop: CancellationToken) -> Self {
        let live = swarm.live().clone();
        let source = Arc::new(move || live.current());
        let stores = PackageStores::new(swarm.home().clone(), source, swarm.engines().clone());
        Self {
            stores,
            stop,
            turn: tokio::sync::Mutex::default(),
            attempts: Mutex::default(),
            installing: Mutex::default(),
        }
    }

    /// Returns the packages that are being installed at this moment.
    pub(crate) fn installing(&self) -> Option<InstallingView> {
        lock(&self.installing).clone()
    }

    /// Returns the packages that have to be installed in the engine `to` before the agent can move there, or `None` if it can.
    ///
    /// # Errors
    ///
    /// Returns the reason why its packages can't follow it, with what a person can do.
    pub(crate) async fn lacking(
        &self,
        planned: &PlannedMove,
        to: &EngineName,
    ) -> Result<Option<CarriedPackages>, String> {
        let (agent, engines) = (&planned.agent, self.stores.engines());
        // An agent in a cluster has no packages.
        let Some(from) = engines.find(&planned.from) else { return Ok(None) };
        let carried = self.stores.on(&from).carried(agent).await.map_err(|error| chain(&error))?;
        if let Some(reason) = stays_behind(agent, to, &carried.others) {
            return Err(reason);
        }
        if carried.of_set.is_empty() {
            return Ok(None);
        }
        let end = ending(agent, &carried.names());
        let Some(target) = engines.find(to) else {
            return Err(format!("its packages can't follow it to {to}, which has no package store; {end}"));
        };
        let refused = |reason: &str| format!("its packages can't be installed in {to}: {reason}; {end}");
        let is_ready = self.stores.on(&target).is_ready_for(agent, &carried.of_set).await;
        let mut attempts = lock(&self.attempts);
        if is_ready.map_err(|error| refused(&to_mend(&chain(&error), error.hint().as_deref())))? {
            attempts.remove(agent);
            return Ok(None);
        }
        match attempts.get(agent) {
            Some(last) if last.to == *to && last.packages == carried && last.at.elapsed() < RETRY => {
                Err(refused(&last.reason))
            }
            _ => Ok(Some(carried)),
        }
    }

    /// Installs the packages of an agent in the engine that it moves to.
    pub(crate) async fn install_ahead(
        &self,
        swarm: &Swarm,
        agent: &AgentId,
        to: &EngineName,
        packages: CarriedPackages,
    ) {
        // Without it the next look says why.
        let Some(target) = self.stores.engines().find(to) else { return };
        let (store, cancel) = (self.stores.on(&target), self.stop.child_token());
        let work = store.install_ahead(agent, &packages.of_set, &cancel);
        let done = self.run(swarm, agent, &packages, &cancel, Box::pin(work)).await;
        record(swarm, agent, &format!("{} in the engine {to}", packages.names()), &done).await;
        let reason = match done {
            Err(NixError::Cancelled { .. }) => return,
            Err(error) => chain(&error),
            // The next look finds them, or they will not be installed again and again.
            Ok(()) => "they are missing although they were installed".to_owned(),
        };
        let attempt = Attempt { to: to.clone(), packages, at: Instant::now(), reason };
        lock(&self.attempts).insert(agent.clone(), attempt);
    }

    /// Takes note that an agent has moved. Its packages are recorded where it is, and removed where it was: if it comes back
    /// there, it has what it has then.
    pub(crate) async fn arrived(&self, planned: &PlannedMove, to: &EngineName) {
        let (agent, engines) = (&planned.agent, self.stores.engines());
        let (Some(from), Some(to)) = (engines.find(&planned.from), engines.find(to)) else { return };
        let (from, to) = (self.stores.on(&from), self.stores.on(&to));
        let done = async {
            if from.carried(agent).await?.of_set.is_empty() {
                return Ok(());
            }
            Box::pin(to.record_arrival(agent)).await?;
            Box::pin(from.clear_profile(agent, &[])).await
        };
        if let Err(error) = done.await {
            tracing::warn!(%agent, error = chain(&error), "failed to record the packages of an agent that moved");
        }
    }

    /// Installs the packages of the pinned set that an agent lacks in this home.
    async fn bring(&self, swarm: &Swarm, agent: &AgentId) {
        let (home, id) = (swarm.home().clone(), agent.clone());
        let looked = tokio::task::spawn_blocking(move || nix_store::packages_to_bring(&home, &id)).await;
        let Some(missing) = looked.ok().flatten().filter(|missing| !missing.of_set.is_empty()) else {
            return;
        };
        if !swarm.config().agent(agent).is_some_and(is_placed)
            || swarm.ownership().enter_agent(agent).is_none()
        {
            return;
        }
        let cancel = self.stop.child_token();
        let work = async {
            let store = self.stores.of(agent).await?;
            store.install_missing(agent, &missing.of_set, &cancel).await
        };
        let done = self.run(swarm, agent, &missing, &cancel, Box::pin(work)).await;
        record(swarm, agent, &format!("{} after a takeover", missing.names()), &done).await;
    }

    /// Runs an installation when no other one runs. It is cancelled when the gateway stops, or when the agent's lease goes away.
    /// The lease is not kept here meanwhile, because an installation may take long.
    async fn run(
        &self,
        swarm: &Swarm,
        agent: &AgentId,
        packages: &CarriedPackages,
        cancel: &CancellationToken,
        work: impl Future<Output = Result<(), NixError>> + Send,
    ) -> Result<(), NixError> {
        let lost = async {
            swarm.ownership().until_lost(&LeaseSubject::agent(agent)).await;
            cancel.cancel();
            pending::<Result<(), NixError>>().await
        };
        let done = async {
            let turn = cancel.run_until_cancelled(self.turn.lock()).await;
            let _turn = turn.ok_or_else(|| NixError::Cancelled { what: "install packages".to_owned() })?;
            let packages = packages.of_set.iter().map(ToString::to_string).collect();
            *lock(&self.installing) = Some(InstallingView { agent: agent.clone(), packages });
            let done = work.await;
            *lock(&self.installing) = None;
            done
        };
        tokio::select! {
            done = done => done,
            done = lost => done,
        }
    }
}

/// Returns the reason why an agent with packages of other sources does not move, or `None` if it has none. A person has decided
/// about the content of each, at a commit that the store does not tell.
fn stays_behind(agent: &AgentId, to: &EngineName, others: &[String]) -> Option<String> {
    let names: Vec<&str> = others.iter().filter_map(|package| package.rsplit('#').next()).collect();
    (!names.is_empty()).then(|| {
        format!(
            "these packages of its are not from the pinned set, so they don't follow it to {to}: {}; {}",
            others.join(", "),
            ending(agent, &names.join(" "))
        )
    })
}

fn ending(agent: &AgentId, names: &str) -> String {
    format!("the command that ends this is flock nix remove {agent} {names}")
}

/// Records an installation in the audit.
async fn record(swarm: &Swarm, agent: &AgentId, what: &str, done: &Result<(), NixError>) {
    let detail = match done {
        Ok(()) => what.to_owned(),
        Err(NixError::Cancelled { .. }) => return,
        Err(error) => {
            let error = chain(error);
            tracing::warn!(%agent, error, "the packages of an agent could not be brought along");
            format!("{what}: failed: {error}")
        }
    };
    let entry = AuditEntry::new("system", "packages.follow", agent.as_str(), Level::Green, detail);
    if let Err(error) = swarm.store().audit().append(entry, unix_ms()).await {
        tracing::error!(%agent, error = chain(&error), "failed to record that packages were installed");
    }
}

/// Looks once at each agent that this gateway of a group takes over, and installs what it lacks here, until the gateway stops.
pub(crate) async fn follow_agents(gateway: Arc<Gateway>) {
    let (swarm, stop) = (&gateway.swarm, &gateway.stop);
    if !swarm.ownership().is_shared() {
        return;
    }
    let mut changes = swarm.ownership().changes();
    let mut looked = BTreeSet::new();
    while !stop.is_cancelled() {
        // Before the look: a change that comes after it is not missed.
        changes.mark_unchanged();
        let here = swarm.ownership().settled_agents().unwrap_or_default();
        // One that goes away and comes back may lack something else.
        looked.retain(|agent| here.contains(agent));
        match here.into_iter().find(|agent| !looked.contains(agent)) {
            Some(agent) => {
                Box::pin(gateway.package_moves.bring(swarm, &agent)).await;
                looked.insert(agent);
            }
            None => match stop.run_until_cancelled(changes.changed()).await {
                Some(Ok(())) => {}
                Some(Err(_)) | None => return,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::sandbox::testing::until;
    use crate::swarm::lease::{LeaseView, Ownership};
    use crate::swarm::testing::Team;

    fn id(text: &str) -> AgentId {
        text.parse().unwrap()
    }

    /// A team whose agents `coder` and `sysadmin` are at this gateway and `tester` at another one. Two of them lack a package
    /// here, and the pin of the package set can't be read, so that no engine is called.
    fn team() -> Team {
        let team = Team::in_group(Ownership::for_test(&["coder", "sysadmin"], &["tester"]));
        let home = team.swarm.home();
        for agent in ["coder", "tester"] {
            std::fs::create_dir_all(home.agent(&id(agent))).unwrap();
            let list = r#"{"wanted":["jq","github:a/b#tree"]}"#;
            std::fs::write(home.package_list(&id(agent)), list).unwrap();
        }
        std::fs::write(home.nix_pin(), "{}").unwrap();
        team
    }

    async fn recorded(team: &Team) -> Vec<(String, String)> {
        let rows = team.store.audit().rows_about("packages.follow").await;
        rows.into_iter().map(|row| (row.subject, row.detail)).collect()
    }

    #[tokio::test]
    async fn packages_are_brought_for_agents_of_this_gateway_and_a_failure_is_in_the_audit() {
        let team = team();
        let packages = PackageMoves::new(&team.swarm, CancellationToken::new());
        for agent in ["orchestrator", "tester", "coder"] {
            Box::pin(packages.bring(&team.swarm, &id(agent))).await;
        }
        let found = recorded(&team).await;
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].0, "coder");
        let expected = "jq after a takeover: failed: the record of the pinned package set";
        assert!(found[0].1.starts_with(expected), "only packages of the set: {found:?}");
        assert_eq!(packages.installing(), None);
        // One that was silent for so long that others may have taken over begins nothing.
        team.swarm.ownership().lapse();
        Box::pin(packages.bring(&team.swarm, &id("coder"))).await;
        assert_eq!(recorded(&team).await.len(), 1);
    }

    #[tokio::test]
    async fn an_installation_ends_with_the_lease_of_its_agent_and_the_next_one_begins() {
        let team = team();
        let (swarm, packages) = (&team.swarm, PackageMoves::new(&team.swarm, CancellationToken::new()));
        let carried = CarriedPackages { of_set: vec!["jq".parse().unwrap()], others: Vec::new() };
        let (cancel, next) = (CancellationToken::new(), CancellationToken::new());
        let endless = async {
            cancel.cancelled().await;
            Err(NixError::Cancelled { what: "install jq".to_owned() })
        };
        let coder = id("coder");
        let first = packages.run(swarm, &coder, &carried, &cancel, endless);
        let sysadmin = id("sysadmin");
        let second = packages.run(swarm, &sysadmin, &carried, &next, async { Ok(()) });
        let lost = async {
            until("one is installed", || packages.installing().is_some()).await;
            let view = packages.installing().unwrap();
            assert_eq!((view.agent, view.packages), (id("coder"), vec!["jq".to_owned()]));
            let (leases, until) = (BTreeMap::new(), i64::MAX);
            let held = std::iter::once(LeaseSubject::agent(&id("sysadmin"))).collect();
            swarm.ownership().update(LeaseView { held, leases: &leases, living: &[], until });
        };
        let (first, second, ()) = tokio::join!(first, async { (second.await, packages.installing()) }, lost);
        assert!(matches!(first, Err(NixError::Cancelled { .. })), "{first:?}");
        assert!(matches!(second, (Ok(()), None)), "{second:?}");
    }

    #[tokio::test]
    async fn an_installation_ends_with_the_gateway() {
        let team = team();
        let stop = CancellationToken::new();
        let packages = PackageMoves::new(&team.swarm, stop.clone());
        stop.cancel();
        Box::pin(packages.bring(&team.swarm, &id("coder"))).await;
        assert!(recorded(&team).await.is_empty(), "nobody has to read of it");
    }

    #[test]
    fn an_agent_with_packages_of_other_sources_stays_and_they_are_named() {
        let (coder, far) = (id("coder"), "far".parse().unwrap());
        assert_eq!(stays_behind(&coder, &far, &[]), None);
        let others = ["github:a/b#tree".to_owned(), "github:c/d#py.numpy".to_owned()];
        assert_eq!(
            stays_behind(&coder, &far, &others).unwrap(),
            "these packages of its are not from the pinned set, so they don't follow it to far: github:a/b#tree, \
             github:c/d#py.numpy; the command that ends this is flock nix remove coder tree py.numpy"
        );
    }
}
