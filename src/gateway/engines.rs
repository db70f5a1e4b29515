//! The container engines of a home: how they are, what is placed on them, and the moves of agents between them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future;
use serde::Serialize;

use super::error::ApiError;
use super::state::Gateway;
use crate::checkpoint::Checkpoints;
use crate::clock::unix_ms;
use crate::config::engines as settings;
use crate::config::{Agent, EngineSettings, secret};
use crate::error::{Explain as _, chain};
use crate::home::Home;
use crate::id::{AgentId, EngineName};
use crate::nix_store::PackageStores;
use crate::sandbox::engine_check::{self, EngineCheck};
use crate::sandbox::engine_route::CertificateFile;
use crate::sandbox::engines::{AgentPlace, AskedEngine, PlacedCluster, PlacedEngine, PlannedMove, is_placed};
use crate::sandbox::kubernetes::access::ClusterAccess;
use crate::sandbox::kubernetes::{cluster_check, relocation};
use crate::sandbox::{Relocation, Sandbox, SandboxError, containers, image, spec, volumes, workspace_volume};
use crate::store::{AuditEntry, Level};
use crate::swarm::{Actor, Swarm};

/// Time between two looks for agents that have to move.
const INTERVAL: Duration = Duration::from_secs(2);

/// An engine with its state and its agents.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EngineView {
    pub name: EngineName,
    address: String,
    runtime: Option<String>,
    labels: Vec<String>,
    /// Memory in bytes that the limits of its agents may add up to.
    memory: Option<u64>,
    /// The memory limits of its agents in bytes, added up.
    memory_used: u64,
    draining: bool,
    pub reachable: bool,
    /// The reason why it does not answer, and what to do.
    pub problem: Option<String>,
    pub hint: Option<String>,
    pub agents: Vec<PlacedAgentView>,
}

/// An agent on an engine.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PlacedAgentView {
    pub id: AgentId,
    /// The engine that it moves to, if it has to leave this one and another one fits.
    pub moves_to: Option<EngineName>,
    /// The reason why it has not moved yet.
    pub waits: Option<String>,
}

/// Returns all engines, the machine's own first. They are asked at the same time, for at most two seconds.
///
/// # Errors
///
/// Returns an error if the database can't be read.
pub(crate) async fn all(swarm: &Swarm) -> Result<Vec<EngineView>, SandboxError> {
    let engines = swarm.engines();
    let config = swarm.config();
    let placed = engines.placements().await?;
    let (asked, moves) = tokio::join!(engines.ask(), engines.moves(None));
    let moves: HashMap<AgentId, PlannedMove> =
        moves?.into_iter().map(|planned| (planned.agent.clone(), planned)).collect();
    let waits = engines.waits();
    let view = |found: AskedEngine| {
        let known = config.engines.iter().find(|engine| engine.name == found.name).cloned();
        let known = known.unwrap_or_else(|| EngineSettings::new(found.name.clone(), None));
        let is_there = |agent: &&Agent| {
            is_placed(agent) && placed.get(&agent.id).is_some_and(|name| *name == found.name)
        };
        let there: Vec<&Agent> = config.agents.iter().filter(is_there).collect();
        let agents = there.iter().map(|agent| {
            let planned = moves.get(&agent.id);
            let stuck = planned.and_then(|planned| planned.to.as_ref().err()).map(ToString::to_string);
            PlacedAgentView {
                id: agent.id.clone(),
                moves_to: planned.and_then(|planned| planned.to.as_ref().ok()).cloned(),
                waits: stuck.or_else(|| waits.get(&agent.id).filter(|_| planned.is_some()).cloned()),
            }
        });
        let problem = found.problem;
        EngineView {
            address: found.address,
            runtime: known.runtime,
            labels: known.labels,
            memory: known.memory,
            memory_used: there.iter().map(|agent| spec::memory_limit(agent)).sum(),
            draining: known.is_draining,
            reachable: problem.is_none(),
            hint: problem.as_ref().and_then(|problem| advice(&found.name, problem)),
            problem: problem.as_ref().map(|problem| chain(problem)),
            agents: agents.collect(),
            name: found.name,
        }
    };
    Ok(asked.into_iter().map(view).collect())
}

/// Returns what a person does about an engine that does not answer.
fn advice(name: &EngineName, problem: &SandboxError) -> Option<String> {
    if name.is_local() {
        return problem.hint();
    }
    let way = problem.way_hint().unwrap_or_else(|| "start the engine again".to_owned());
    Some(format!("{way}; to give it up: flock engine remove {name} --force"))
}

/// Returns the engines for the status, or `None` if only the machine's own is there.
pub(crate) async fn for_status(swarm: &Swarm) -> Option<Vec<EngineView>> {
    if swarm.config().engines.is_empty() {
        return None;
    }
    match all(swarm).await {
        Ok(found) => Some(found),
        Err(error) => {
            tracing::error!(error = chain(&error), "failed to look at the engines");
            None
        }
    }
}

/// Returns an engine of the configuration, or the machine's own.
///
/// # Errors
///
/// Returns an error with status 404 if there is none of this name.
pub(crate) fn find(swarm: &Swarm, name: &EngineName) -> Result<(AgentPlace, EngineSettings), ApiError> {
    let config = swarm.config();
    let known = config.engines.iter().find(|engine| engine.name == *name).cloned();
    let known = known.or_else(|| name.is_local().then(|| EngineSettings::new(name.clone(), None)));
    swarm.engines().find_any(name).zip(known).ok_or_else(|| {
        ApiError::not_found("engine_not_found", format!("there is no engine {name}"))
            .with_hint("flock engine list")
    })
}

/// Checks an engine, with a sandbox that is made in it.
pub(crate) async fn check(swarm: &Swarm, found: &AgentPlace, known: &EngineSettings) -> Vec<EngineCheck> {
    let found = match found {
        AgentPlace::Engine(found) => found,
        AgentPlace::Cluster(placed) => {
            return Box::pin(cluster_check::run(swarm.home(), &swarm.config(), known, placed)).await;
        }
    };
    let others: Vec<_> = swarm.engines().all().into_iter().filter(|other| other.name != found.name).collect();
    let others: Vec<_> = others.into_iter().map(|other| other.engine).collect();
    Box::pin(engine_check::run(swarm.home(), &swarm.config(), known, &found.engine, &others)).await
}

/// Adds an engine after it was checked. Agents that are placed nowhere are on the machine's own engine from then on.
///
/// # Errors
///
/// Returns an error if the name is taken, if the address can't be used, or if the engine can't hold sandboxes. The error
/// then says what it lacks, and the command that mends it.
pub(crate) async fn add(
    swarm: &Swarm,
    by: &Actor,
    wanted: EngineSettings,
) -> Result<Vec<EngineCheck>, ApiError> {
    let name = wanted.name.clone();
    if name.is_local() {
        let path = "plugins.entries.flock.config.engines.local.labels";
        return Err(ApiError::invalid("usage", "local is the machine's own engine, which is there already")
            .with_hint(format!("flock config set {path} '[\"LABEL\"]'")));
    }
    let address = wanted.address.clone().unwrap_or_default();
    if let Err(why) = settings::check_address(&address) {
        return Err(ApiError::invalid("usage", format!("the address {address:?} {why}")));
    }
    if let Some(label) = wanted.labels.iter().find(|label| !settings::is_label(label)) {
        let text = format!("{label:?} is not a label: {}", settings::LABEL_FORM);
        return Err(ApiError::invalid("usage", text));
    }
    if find(swarm, &name).is_ok() {
        return Err(ApiError::conflict("conflict", format!("there is an engine {name} already"))
            .with_hint(format!("flock engine show {name}")));
    }
    if let Some(cluster) = &wanted.cluster {
        cluster.check().map_err(|(key, why)| ApiError::invalid("usage", format!("{key} {why}")))?;
    }
    let found = match PlacedCluster::of(swarm.home(), &wanted) {
        Some(placed) => AgentPlace::Cluster(placed),
        None => {
            let engine =
                Arc::new(crate::sandbox::engine::Engine::named(swarm.home(), name.clone(), address.clone()));
            AgentPlace::Engine(PlacedEngine { name: name.clone(), engine, runtime: wanted.runtime.clone() })
        }
    };
    let checks = check(swarm, &found, &wanted).await;
    if let Some(bad) = checks.iter().find(|check| !check.ok) {
        let text = format!("the engine at {address} can't hold sandboxes: {}: {}", bad.name, bad.message);
        let refused = ApiError::conflict("engine_unfit", text);
        return Err(match &bad.hint {
            Some(hint) => refused.with_hint(hint.clone()),
            None => refused,
        });
    }
    // Before the engine is there, so that none of these agents is placed on it.
    let agents =
        swarm.config().agents.iter().filter(|agent| is_placed(agent)).map(|agent| agent.id.clone()).collect();
    let entry = by.entry("engine.add", name.as_str(), Level::Yellow, address);
    let seeded =
        swarm.store().placements().put_unplaced(agents, EngineName::local(), Some(entry), unix_ms()).await;
    seeded.map_err(ApiError::explained)?;
    let home = swarm.home().clone();
    edit(move || {
        crate::config::edit(&home, |document| {
            settings::put(document, &wanted);
            Ok(())
        })
    })
    .await?;
    Ok(checks)
}

/// Sets or ends the draining of an engine.
///
/// # Errors
///
/// Returns an error if the configuration or the database can't be changed.
pub(crate) async fn drain(
    swarm: &Swarm,
    by: &Actor,
    known: &EngineSettings,
    is_draining: bool,
) -> Result<(), ApiError> {
    let action = if is_draining { "engine.drain" } else { "engine.undrain" };
    let name = known.name.clone();
    if is_draining && known.name.is_local() {
        // Agents that were never placed are on the machine's own engine.
        let agents: Vec<AgentId> = swarm
            .config()
            .agents
            .iter()
            .filter(|agent| is_placed(agent))
            .map(|agent| agent.id.clone())
            .collect();
        let store = swarm.store().placements();
        store
            .put_unplaced(agents, EngineName::local(), None, unix_ms())
            .await
            .map_err(ApiError::explained)?;
    }
    let entry = by.entry(action, name.as_str(), Level::Yellow, String::new());
    swarm.store().audit().append(entry, unix_ms()).await.map_err(ApiError::explained)?;
    set_draining(swarm, known, is_draining).await
}

/// Removes an engine with all that this home has in it.
///
/// # Errors
///
/// Returns an error if agents are on the engine, or if it does not answer, unless `is_forced`: then the agents are placed
/// anew, and what the home has in an engine that does not answer stays there.
pub(crate) async fn remove(
    swarm: &Swarm,
    by: &Actor,
    name: &EngineName,
    is_forced: bool,
) -> Result<Vec<String>, ApiError> {
    if name.is_local() {
        return Err(ApiError::invalid("usage", "local is the machine's own engine, which is always there")
            .with_hint("flock engine drain local"));
    }
    let (found, known) = find(swarm, name)?;
    let mut there = placed_on(swarm, name).await?;
    let workspaces = workspace_volume::agents_in(swarm.home(), name).map_err(ApiError::explained)?;
    if let Some(first) = workspaces.first() {
        // What is in it can be brought back as long as it answers.
        let is_lost = is_forced && !answers(&found).await;
        if !is_lost {
            let text =
                format!("the workspaces of these agents are in the engine {name}: {}", joined(&workspaces));
            let is_known = there.contains(first);
            let hint = match is_known {
                true => format!("flock engine drain {name}"),
                false => format!("flock remove {first} --purge"),
            };
            return Err(ApiError::conflict("conflict", text).with_hint(hint));
        }
    }
    if !is_forced {
        none_left(name, &there)?;
        // An agent that is placed from now on is placed elsewhere, and one that was placed meanwhile is seen.
        if !known.is_draining {
            set_draining(swarm, &known, true).await?;
        }
        swarm.engines().settle().await;
        there = match placed_on(swarm, name).await {
            Ok(there) if there.is_empty() => there,
            found => {
                stop_draining(swarm, &known).await;
                none_left(name, &found?)?;
                Vec::new()
            }
        };
    }
    let mut left = Vec::new();
    if let Err(error) = clean(swarm, &found).await {
        if !is_forced {
            stop_draining(swarm, &known).await;
            let text = format!("what this home has in the engine {name} can't be removed: {}", chain(&error));
            return Err(ApiError::conflict("engine_unreachable", text)
                .with_hint(format!("start the engine, or: flock engine remove {name} --force")));
        }
        left.push(format!("what this home has in the engine {name} may still be there: {}", chain(&error)));
    }
    left.extend(workspaces.iter().map(|agent| lose_workspace(swarm.home(), name, agent)));
    let (home, gone) = (swarm.home().clone(), name.clone());
    edit(move || {
        settings::remove(&home, &gone)?;
        forget_certificates(&home, &gone);
        Ok(())
    })
    .await?;
    let detail = if there.is_empty() { String::new() } else { format!("with {}", joined(&there)) };
    let entry = by.entry("engine.remove", name.as_str(), Level::Yellow, detail);
    let forgotten = swarm.store().placements().forget_engine(name.clone(), entry, unix_ms()).await;
    forgotten.map_err(ApiError::explained)?;
    Ok(left)
}

/// Returns the agents on an engine.
async fn placed_on(swarm: &Swarm, name: &EngineName) -> Result<Vec<AgentId>, ApiError> {
    let placed = swarm.engines().placements().await.map_err(ApiError::explained)?;
    let config = swarm.config();
    // One that has no sandbox of flock's any more is moved by no drain.
    let is_there = |agent: &&Agent| is_placed(agent) && placed.get(&agent.id) == Some(name);
    Ok(config.agents.iter().filter(is_there).map(|agent| agent.id.clone()).collect())
}

fn none_left(name: &EngineName, there: &[AgentId]) -> Result<(), ApiError> {
    if there.is_empty() {
        return Ok(());
    }
    let text = format!("the engine {name} has agents: {}", joined(there));
    Err(ApiError::conflict("conflict", text).with_hint(format!("flock engine drain {name}")))
}

fn joined(agents: &[AgentId]) -> String {
    agents.iter().map(AgentId::as_str).collect::<Vec<_>>().join(", ")
}

async fn set_draining(swarm: &Swarm, known: &EngineSettings, is_draining: bool) -> Result<(), ApiError> {
    let (home, known) = (swarm.home().clone(), known.clone());
    edit(move || settings::set_draining(&home, &known, is_draining)).await
}

/// Lets an engine be used again that was to be removed, unless it was drained before.
async fn stop_draining(swarm: &Swarm, known: &EngineSettings) {
    if !known.is_draining && set_draining(swarm, known, false).await.is_err() {
        tracing::error!(engine = %known.name, "the engine is still drained; run `flock engine drain {} --stop`", known.name);
    }
}

/// Gives up the workspace of an agent in an engine that is lost, and says so.
fn lose_workspace(home: &Home, engine: &EngineName, agent: &AgentId) -> String {
    match workspace_volume::abandon(&home.workspace(agent)) {
        Ok(()) => format!(
            "the workspace of {agent} was in the engine {engine} and is empty now; to go back to its last checkpoint: \
             flock rewind {agent}"
        ),
        Err(error) => {
            format!("the workspace of {agent} was in the engine {engine}, and could not be given up: {error}")
        }
    }
}

/// Removes the files by which an engine was reached. A failure is logged: they open nothing but that engine.
fn forget_certificates(home: &Home, name: &EngineName) {
    let files = CertificateFile::ALL.map(|file| file.secret(name));
    for file in files.into_iter().chain([ClusterAccess::secret(name)]) {
        if let Err(error) = secret::remove(home, &file) {
            tracing::warn!(engine = %name, error = chain(&error), "a certificate could not be removed");
        }
    }
}

async fn answers(found: &AgentPlace) -> bool {
    match found {
        AgentPlace::Engine(found) => found.engine.first_ping().await.is_ok(),
        AgentPlace::Cluster(found) => found.client.ping().await.is_ok(),
    }
}

/// Removes everything that the home has in an engine.
async fn clean(swarm: &Swarm, found: &AgentPlace) -> Result<(), SandboxError> {
    let found = match found {
        AgentPlace::Engine(found) => found,
        AgentPlace::Cluster(placed) => {
            placed.client.ping().await?;
            return relocation::remove_home(placed, swarm.home()).await;
        }
    };
    let (engine, home) = (&found.engine, swarm.home());
    // It answers within two seconds, or the person reads at once that it does not.
    engine.ping().await?;
    containers::remove_all(engine, home).await?;
    for volume in volumes::list(engine, home).await? {
        volumes::remove(engine, &volume).await?;
    }
    for network in volumes::networks(engine, home).await? {
        volumes::remove_network(engine, &network).await?;
    }
    image::untag(engine, home).await.map(drop)
}

async fn edit(
    change: impl FnOnce() -> Result<(), crate::config::ConfigError> + Send + 'static,
) -> Result<(), ApiError> {
    // The configuration is a file, so it is written on a thread for blocking work.
    let edited = tokio::task::spawn_blocking(change).await;
    edited.map_err(ApiError::internal)?.map_err(ApiError::explained)
}

/// Moves agents whose engine does not fit any more, each when nothing of it runs, until the gateway stops.
pub(crate) async fn watch(gateway: Arc<Gateway>) {
    let stop = gateway.stop.clone();
    while stop.run_until_cancelled(tokio::time::sleep(INTERVAL)).await.is_some() {
        let driver = gateway.driver.clone();
        let is_busy = move |agent: &AgentId| {
            driver.list().iter().any(|(_, turn)| turn.agent == *agent && !turn.waits())
        };
        if stop.run_until_cancelled(move_agents(&gateway.swarm, &*gateway.sandbox, &is_busy)).await.is_none()
        {
            return;
        }
    }
}

/// Moves the agents that have to leave their engine and do nothing at this moment.
pub(crate) async fn move_agents(
    swarm: &Swarm,
    sandbox: &dyn Sandbox,
    is_busy: &(dyn Fn(&AgentId) -> bool + Send + Sync),
) {
    let engines = swarm.engines();
    let mut moves = match engines.moves(None).await {
        Ok(moves) => moves,
        Err(error) => {
            return tracing::error!(error = chain(&error), "failed to look for agents that have to move");
        }
    };
    moves.retain(|planned| swarm.ownership().has_agent(&planned.agent));
    if moves.is_empty() {
        return;
    }
    let config = swarm.live().clone();
    let source = Arc::new(move || config.current());
    let stores = PackageStores::new(swarm.home().clone(), source, engines.clone());
    // All at once: an engine that does not answer delays only its own agents.
    let moved = moves.iter().map(|planned| Box::pin(move_one(swarm, sandbox, &stores, planned, is_busy)));
    future::join_all(moved).await;
}

async fn move_one(
    swarm: &Swarm,
    sandbox: &dyn Sandbox,
    stores: &PackageStores,
    planned: &PlannedMove,
    is_busy: &(dyn Fn(&AgentId) -> bool + Send + Sync),
) {
    let agent = &planned.agent;
    // Until the end: another gateway would make a sandbox while the workspace is on its way.
    let Some(_lease) = swarm.ownership().enter_agent(agent) else { return };
    // Its files are those of two moments, and are only set right where they are.
    let is_interrupted = Checkpoints::interrupted(swarm.home(), &swarm.config()).contains(agent);
    let moved = match is_interrupted {
        true => {
            Ok(Relocation::Waits("a rewind of its files was interrupted, and is completed first".to_owned()))
        }
        false => try_move(sandbox, stores, planned, is_busy).await,
    };
    let waits = match moved {
        Ok(Relocation::Done(to)) => {
            let detail = format!("from {} to {to}", planned.from);
            let entry = AuditEntry::new("system", "engine.move", agent.as_str(), Level::Green, detail);
            if let Err(error) = swarm.store().audit().append(entry, unix_ms()).await {
                tracing::error!(%agent, error = chain(&error), "failed to record that an agent moved");
            }
            None
        }
        Ok(Relocation::Waits(reason)) => Some(reason),
        Err(reason) => Some(reason),
    };
    swarm.engines().note_wait(agent, waits);
}

async fn try_move(
    sandbox: &dyn Sandbox,
    stores: &PackageStores,
    planned: &PlannedMove,
    is_busy: &(dyn Fn(&AgentId) -> bool + Send + Sync),
) -> Result<Relocation, String> {
    if planned.to.is_ok() {
        if is_busy(&planned.agent) {
            return Ok(Relocation::Waits("a turn runs".to_owned()));
        }
        let packages = packages(stores, planned).await?;
        if !packages.is_empty() {
            let (agent, names) = (&planned.agent, packages.join(" "));
            return Ok(Relocation::Waits(format!(
                "its packages are in the store of {}; the command that ends this is flock nix remove {agent} {names}",
                planned.from
            )));
        }
    }
    sandbox.relocate(planned).await.map_err(|error| chain(&error))
}

/// Returns the packages that an agent has in the store of its engine.
async fn packages(stores: &PackageStores, planned: &PlannedMove) -> Result<Vec<String>, String> {
    let Some(from) = stores.engines().find(&planned.from) else { return Ok(Vec::new()) };
    let store = stores.on(&from);
    let state = store.state().await.map_err(|error| chain(&error))?;
    // A store that was never made has no packages, and is not made for this question.
    if state.state == "absent" {
        return Ok(Vec::new());
    }
    let installed = store.installed(&planned.agent).await.map_err(|error| chain(&error))?;
    Ok(installed.into_iter().map(|found| found.package).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::sandbox::testing::FilesOnly;
    use crate::store::LeaseSubject;
    use crate::swarm::lease::Ownership;
    use crate::swarm::testing::Team;

    #[tokio::test]
    async fn an_agent_moves_only_where_it_is_and_is_given_up_to_no_other_gateway_meanwhile() {
        let ownership = Ownership::for_test(&["coder"], &["tester"]);
        let team = Team::in_group(Arc::clone(&ownership));
        let (swarm, live) = (&team.swarm, team.swarm.live().clone());
        let source = Arc::new(move || live.current());
        let stores = PackageStores::new(swarm.home().clone(), source, swarm.engines().clone());
        let is_kept = |agent: &AgentId| ownership.is_in_use(&LeaseSubject::agent(agent));
        let asked = Mutex::new(Vec::new());
        let is_busy = |agent: &AgentId| {
            asked.lock().unwrap().push((agent.to_string(), is_kept(agent)));
            true
        };
        for agent in ["coder", "tester"] {
            let to = Ok("far".parse().unwrap());
            let planned = PlannedMove { agent: agent.parse().unwrap(), from: EngineName::local(), to };
            move_one(swarm, &FilesOnly::new(None), &stores, &planned, &is_busy).await;
            assert!(!is_kept(&planned.agent));
        }
        assert_eq!(asked.into_inner().unwrap(), [("coder".to_owned(), true)]);
    }
}
