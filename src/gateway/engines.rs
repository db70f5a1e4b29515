//! The container engines of a home: how they are, what is placed on them, and the moves of agents between them.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future;
use serde::Serialize;
use serde_json::json;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::error::ApiError;
use super::lost_engines;
use super::package_moves::PackageMoves;
use super::state::Gateway;
use crate::checkpoint::lost::{LostEngine, Replacement};
use crate::checkpoint::{CheckpointError, Checkpoints};
use crate::clock::{self, unix_ms};
use crate::config::engines as settings;
use crate::config::{Agent, Config, EngineSettings, secret};
use crate::error::{Explain as _, chain};
use crate::home::{Home, HomeError, elsewhere};
use crate::id::{AgentId, EngineName};
use crate::nix_store::CarriedPackages;
use crate::sandbox::engine_check::{self, EngineCheck};
use crate::sandbox::engine_route::CertificateFile;
use crate::sandbox::engines::{AgentPlace, AskedEngine, PlannedMove, is_placed};
use crate::sandbox::kubernetes::access::ClusterAccess;
use crate::sandbox::kubernetes::{cluster_check, relocation};
use crate::sandbox::placed_sandbox::PlacedSandbox;
use crate::sandbox::{Relocation, Sandbox, SandboxError, containers, image, spec, volumes, workspace_volume};
use crate::store::Level;
use crate::swarm::{Actor, Swarm};

/// Time between two looks for agents that have to move, and for engines that were removed.
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
    pub memory: Option<u64>,
    /// The memory limits of its agents in bytes, added up.
    pub memory_used: u64,
    draining: bool,
    /// Minutes of silence after which its agents are placed on other engines. `None` is never.
    lost_after_minutes: Option<u64>,
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

/// What is known about the agents on engines.
#[derive(Debug, Default)]
pub(crate) struct KnownPlaces {
    /// The engine of each agent that is placed.
    pub placed: BTreeMap<AgentId, EngineName>,
    /// The agents whose engine does not fit any more.
    pub moves: HashMap<AgentId, PlannedMove>,
    /// The reasons why agents have not moved yet.
    pub waits: HashMap<AgentId, String>,
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
    let moves = moves?.into_iter().map(|planned| (planned.agent.clone(), planned)).collect();
    Ok(views(&config, asked, &KnownPlaces { placed, moves, waits: engines.waits() }))
}

/// Returns the engines that were asked, with their agents. Commands without a gateway show the same.
pub(crate) fn views(config: &Config, asked: Vec<AskedEngine>, known: &KnownPlaces) -> Vec<EngineView> {
    let KnownPlaces { placed, moves, waits } = known;
    let view = |found: AskedEngine| {
        let known = config.engines.iter().find(|engine| engine.name == found.name).cloned();
        let known = known.unwrap_or_else(|| EngineSettings::new(found.name.clone(), None));
        let is_there = |agent: &&Agent| {
            is_placed(agent) && placed.get(&agent.id).is_some_and(|name| *name == found.name)
        };
        let there: Vec<&Agent> = config.agents.iter().filter(is_there).collect();
        let problem = found.problem;
        let is_leaving = problem.is_some() && known.lost_after.is_some();
        let agents = there.iter().map(|agent| {
            let planned = moves.get(&agent.id);
            let stuck = planned.and_then(|planned| planned.to.as_ref().err()).map(ToString::to_string);
            PlacedAgentView {
                id: agent.id.clone(),
                moves_to: planned.and_then(|planned| planned.to.as_ref().ok()).cloned(),
                waits: stuck
                    .or_else(|| waits.get(&agent.id).filter(|_| planned.is_some() || is_leaving).cloned()),
            }
        });
        EngineView {
            address: found.address,
            lost_after_minutes: known.lost_after_minutes(),
            hint: problem.as_ref().and_then(|problem| advice(&known, problem)),
            runtime: known.runtime,
            labels: known.labels,
            memory: known.memory,
            memory_used: there.iter().map(|agent| spec::memory_limit(agent)).sum(),
            draining: known.is_draining,
            reachable: problem.is_none(),
            problem: problem.as_ref().map(|problem| chain(problem)),
            agents: agents.collect(),
            name: found.name,
        }
    };
    asked.into_iter().map(view).collect()
}

/// Returns what a person does about an engine that does not answer.
fn advice(known: &EngineSettings, problem: &SandboxError) -> Option<String> {
    let name = &known.name;
    if name.is_local() {
        return problem.hint();
    }
    let way = problem.way_hint().unwrap_or_else(|| "start the engine again".to_owned());
    let later = known.lost_after_minutes().map_or_else(String::new, |minutes| {
        format!("; after {minutes} minutes of silence its agents are placed elsewhere")
    });
    Some(format!("{way}{later}; to give it up: flock engine remove {name} --force"))
}

/// Returns the engines for the status, or `None` if only the machine's own is there.
///
/// # Errors
///
/// Returns an error if the database can't be read.
pub(crate) async fn for_status(swarm: &Swarm) -> Result<Option<Vec<EngineView>>, SandboxError> {
    if swarm.config().engines.is_empty() { Ok(None) } else { all(swarm).await.map(Some) }
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
    wanted.check_lost_after().map_err(|why| ApiError::invalid("usage", format!("lostAfterMinutes {why}")))?;
    if let Some(cluster) = &wanted.cluster {
        cluster.check().map_err(|(key, why)| ApiError::invalid("usage", format!("{key} {why}")))?;
    }
    let checks = check(swarm, &AgentPlace::of(swarm.home(), &wanted), &wanted).await;
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

/// Removes an engine with all that this home has in it. Returns warnings for people.
///
/// # Errors
///
/// Returns an error if agents are on the engine, or if it does not answer, unless `is_forced`: then the agents are placed
/// anew, what the home has in an engine that does not answer stays there, and workspaces in it get the files of the last
/// checkpoint. Returns an error in any case if it answers and has workspaces of this home, or if one can't be given up.
pub(crate) async fn remove(
    swarm: &Swarm,
    checkpoints: &Checkpoints,
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
    // What is in it can be brought back as long as it answers.
    let kept = match is_forced {
        false => workspaces.clone(),
        true if !workspaces.is_empty() && found.ping(true).await.is_ok() => {
            Box::pin(own_workspaces(swarm.home(), &found, &workspaces)).await
        }
        true => Vec::new(),
    };
    if !kept.is_empty() {
        return Err(has_workspaces(name, &kept, &there));
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
    // The person reads within seconds that it does not answer.
    let reached = found.ping(false).await;
    if reached.is_ok() {
        // It may answer again.
        let kept = Box::pin(own_workspaces(swarm.home(), &found, &workspaces)).await;
        if !kept.is_empty() {
            return Err(has_workspaces(name, &kept, &there));
        }
    }
    let cleaned = match reached {
        Ok(()) => clean(swarm, &found).await,
        Err(error) => Err(error),
    };
    if let Err(error) = cleaned {
        if !is_forced {
            stop_draining(swarm, &known).await;
            let text = format!("what this home has in the engine {name} can't be removed: {}", chain(&error));
            return Err(ApiError::conflict("engine_unreachable", text)
                .with_hint(format!("start the engine, or: flock engine remove {name} --force")));
        }
        left.push(format!("what this home has in the engine {name} may still be there: {}", chain(&error)));
    }
    let engine = LostEngine { name: name.clone(), by: by.party.to_string(), needs_newest: false };
    // Before the agents are placed anew: until then, no sandbox has the folders.
    let given_up =
        workspaces.iter().map(|agent| Box::pin(lose_workspace(swarm, checkpoints, &engine, agent)));
    left.extend(future::join_all(given_up).await);
    // An engine that is not in the configuration any more would never be asked for them again.
    if let Err(refusal) = none_kept(swarm.home(), name, &left) {
        if !is_forced {
            stop_draining(swarm, &known).await;
        }
        return Err(refusal);
    }
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

/// Returns the agents whose workspaces in an engine are this home's. A copy of a home has marks of volumes that stay the
/// original's, and loses nothing that is there when it gives them up.
async fn own_workspaces(home: &Home, found: &AgentPlace, agents: &[AgentId]) -> Vec<AgentId> {
    let mut own = Vec::new();
    for agent in agents {
        let Some(mark) = elsewhere::read(&home.workspace(agent)) else { continue };
        // An engine that does not tell may have the only copy of the files.
        if !matches!(found.refusal(home, agent, &mark).await, Ok(Some(_))) {
            own.push(agent.clone());
        }
    }
    own
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

/// Returns the refusal to remove an engine from which workspaces can be brought back.
fn has_workspaces(name: &EngineName, workspaces: &[AgentId], there: &[AgentId]) -> ApiError {
    let text = format!("the workspaces of these agents are in the engine {name}: {}", joined(workspaces));
    let hint = match workspaces.first().filter(|first| !there.contains(first)) {
        Some(first) => format!("flock remove {first} --purge"),
        None => format!("flock engine drain {name}"),
    };
    ApiError::conflict("conflict", text).with_hint(hint)
}

/// Refuses to remove an engine that still has workspaces, or has some again. `done` is what was done until now.
fn none_kept(home: &Home, name: &EngineName, done: &[String]) -> Result<(), ApiError> {
    let kept = workspace_volume::agents_in(home, name).map_err(ApiError::explained)?;
    if kept.is_empty() {
        return Ok(());
    }
    let mut text =
        format!("the engine {name} stays, because it has the workspaces of these agents: {}", joined(&kept));
    for line in done {
        text = format!("{text}; {line}");
    }
    Err(ApiError::conflict("conflict", text).with_hint(format!("flock engine show {name}")))
}

fn joined(agents: &[AgentId]) -> String {
    agents.iter().map(AgentId::as_str).collect::<Vec<_>>().join(", ")
}

async fn set_draining(swarm: &Swarm, known: &EngineSettings, is_draining: bool) -> Result<(), ApiError> {
    let (home, name) = (swarm.home().clone(), known.name.clone());
    edit(move || settings::set_draining(&home, &name, is_draining)).await
}

/// Lets an engine be used again that was to be removed, unless it was drained before.
async fn stop_draining(swarm: &Swarm, known: &EngineSettings) {
    if !known.is_draining && set_draining(swarm, known, false).await.is_err() {
        tracing::error!(engine = %known.name, "the engine is still drained; run `flock engine drain {} --stop`", known.name);
    }
}

/// Gives up the workspace of an agent in an engine that is lost, and brings its files back as far as a checkpoint has them.
/// Returns what has become of it, for people.
async fn lose_workspace(
    swarm: &Swarm,
    checkpoints: &Checkpoints,
    engine: &LostEngine,
    agent: &AgentId,
) -> String {
    let workspace = swarm.home().workspace(agent);
    let was = format!("the workspace of {agent} was in the engine {}", engine.name);
    let config = swarm.config();
    // One that was removed without its files has no turns that need them.
    let Some(known) = config.agent(agent).filter(|known| known.workspace == workspace) else {
        return empty_workspace(&workspace, &engine.name, agent, None);
    };
    match checkpoints.replace_lost(known, engine).await {
        Ok(Replacement::Restored { at }) => {
            format!("{was}; it has the files of its last checkpoint now, of {}", clock::local(at))
        }
        Ok(Replacement::Empty(None)) => {
            format!("{was} and is empty now, because no checkpoint has its files")
        }
        Ok(Replacement::Empty(Some(error))) => format!(
            "{was} and is empty now, because no checkpoint has its files, and none could be brought from the second place: {}; \
             to try again: flock storage pull {agent}",
            chain(&error)
        ),
        Ok(Replacement::Kept { .. }) => format!("the workspace of {agent} is not given up"),
        Ok(Replacement::Waiting(error)) => format!(
            "{was}, and its files are not back yet: {}; {agent} has no turn before that is done; to try again: \
             flock checkpoint {agent}",
            chain(&error)
        ),
        Err(error) => match reason_to_wait(agent, &error) {
            Some(reason) => format!("the workspace of {agent} is not given up, because {reason}"),
            None => empty_workspace(&workspace, &engine.name, agent, Some(&error)),
        },
    }
}

/// Returns the reason for which a workspace keeps its place in an engine that is lost: its checkpoints can't be used at this
/// moment, and the next attempt may find them.
pub(super) fn reason_to_wait(agent: &AgentId, error: &CheckpointError) -> Option<String> {
    let text = chain(error);
    match error {
        CheckpointError::Busy(_) | CheckpointError::Home(HomeError::Held { .. }) => {
            Some(format!("its checkpoints are in use: {text}; if {agent} is frozen: flock thaw {agent}"))
        }
        CheckpointError::Store(_) | CheckpointError::CutOff(_) | CheckpointError::Stopped => {
            Some(format!("its checkpoints can't be used now: {text}"))
        }
        _ => None,
    }
}

/// Puts an empty folder in the place of a workspace, if the engine that is lost still has it. Returns what has become of it, for
/// people. `error` is the reason for which it gets no files, if it should have some.
fn empty_workspace(
    workspace: &Path,
    engine: &EngineName,
    agent: &AgentId,
    error: Option<&CheckpointError>,
) -> String {
    if elsewhere::engine_of(workspace).as_ref() != Some(engine) {
        let why = error.map_or_else(String::new, |error| format!(": {}", chain(error)));
        return format!(
            "the workspace of {agent} is not in the engine {engine} any more, and stays as it is{why}"
        );
    }
    let was = format!("the workspace of {agent} was in the engine {engine}");
    let unusable =
        error.map(|error| format!("its checkpoints can't be used: {}", chain(error))).unwrap_or_default();
    match workspace_volume::abandon(workspace) {
        Ok(()) if error.is_none() => format!("{was} and is empty now"),
        Ok(()) => format!(
            "{was} and is empty now, because {unusable}; for an agent with the files of a checkpoint: \
             flock fork {agent} NAME --checkpoint NUMBER"
        ),
        Err(failed) if error.is_none() => format!("{was}, and could not be given up: {}", chain(&failed)),
        Err(failed) => format!("{was}, and could not be given up: {}; {unusable}", chain(&failed)),
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

/// Removes everything that the home has in an engine.
async fn clean(swarm: &Swarm, found: &AgentPlace) -> Result<(), SandboxError> {
    let found = match found {
        AgentPlace::Engine(found) => found,
        AgentPlace::Cluster(placed) => return relocation::remove_home(placed, swarm.home()).await,
    };
    let (engine, home) = (&found.engine, swarm.home());
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

/// Follows the changes of engines until the gateway stops.
pub(crate) async fn watch(gateway: Arc<Gateway>, sandboxes: Arc<PlacedSandbox>) {
    // Apart from the moves, which may wait for an engine that does not answer.
    tokio::spawn(lost_engines::watch(Arc::clone(&gateway), Arc::clone(&sandboxes)));
    tokio::spawn(leave_removed(sandboxes, gateway.stop.clone()));
    Box::pin(move_until_stop(&gateway)).await;
}

/// Leaves engines that were removed by any process that has written the configuration, until the gateway stops.
async fn leave_removed(sandboxes: Arc<PlacedSandbox>, stop: CancellationToken) {
    while stop.run_until_cancelled(tokio::time::sleep(INTERVAL)).await.is_some() {
        sandboxes.leave_removed();
    }
}

/// Moves agents whose engine does not fit any more, each when nothing of it runs, until the gateway stops.
async fn move_until_stop(gateway: &Arc<Gateway>) {
    let stop = &gateway.stop;
    // Beside each other: an engine that does not answer, or packages that are installed, delay only their own agents.
    let mut under_way: HashMap<AgentId, JoinHandle<()>> = HashMap::new();
    while stop.run_until_cancelled(tokio::time::sleep(INTERVAL)).await.is_some() {
        under_way.retain(|_, task| !task.is_finished());
        let Some(moves) = stop.run_until_cancelled(due_moves(&gateway.swarm)).await else { return };
        for planned in moves {
            if !under_way.contains_key(&planned.agent) {
                let agent = planned.agent.clone();
                under_way.insert(agent, tokio::spawn(move_until_stopped(gateway.clone(), planned)));
            }
        }
    }
}

async fn move_until_stopped(gateway: Arc<Gateway>, planned: PlannedMove) {
    let is_busy =
        |agent: &AgentId| gateway.driver.list().iter().any(|(_, turn)| turn.agent == *agent && !turn.waits());
    let (swarm, sandbox) = (&gateway.swarm, &*gateway.sandbox);
    let moved = Box::pin(move_one(swarm, sandbox, &gateway.package_moves, &planned, &is_busy));
    if gateway.stop.run_until_cancelled(moved).await.is_none() {
        tracing::info!(agent = %planned.agent, "the move of an agent waits for the next start");
    }
}

/// Moves the agents that have to leave their engine and do nothing at this moment, in a process without a gateway.
pub(crate) async fn move_agents(
    swarm: &Swarm,
    sandbox: &dyn Sandbox,
    is_busy: &(dyn Fn(&AgentId) -> bool + Send + Sync),
) {
    let packages = PackageMoves::new(swarm, CancellationToken::new());
    loop {
        let moves = due_moves(swarm).await;
        let moved =
            moves.iter().map(|planned| Box::pin(move_one(swarm, sandbox, &packages, planned, is_busy)));
        // Those whose packages were installed can move now.
        if !future::join_all(moved).await.contains(&true) {
            return;
        }
    }
}

/// Returns the moves of agents that this process takes care of.
async fn due_moves(swarm: &Swarm) -> Vec<PlannedMove> {
    match swarm.engines().moves(None).await {
        Ok(mut moves) => {
            moves.retain(|planned| swarm.ownership().has_agent(&planned.agent));
            moves
        }
        Err(error) => {
            tracing::error!(error = chain(&error), "failed to look for agents that have to move");
            Vec::new()
        }
    }
}

/// Moves an agent, or installs its packages where it goes. Returns `true` if it did the latter, so that it may move now.
async fn move_one(
    swarm: &Swarm,
    sandbox: &dyn Sandbox,
    packages: &PackageMoves,
    planned: &PlannedMove,
    is_busy: &(dyn Fn(&AgentId) -> bool + Send + Sync),
) -> bool {
    let agent = &planned.agent;
    // Until the end: another gateway would make a sandbox while the workspace is on its way.
    let Some(lease) = swarm.ownership().enter_agent(agent) else { return false };
    // Its files are those of two moments, and are only set right where they are.
    let is_interrupted = Checkpoints::interrupted(swarm.home(), &swarm.config()).contains(agent);
    let moved = match is_interrupted {
        true => Err("a rewind of its files was interrupted, and is completed first".to_owned()),
        false => try_move(sandbox, packages, planned, is_busy).await,
    };
    let waits = match moved {
        Ok(MoveAttempt::Made(Relocation::Done(to))) => {
            note_move(swarm, agent, Level::Green, format!("from {} to {to}", planned.from)).await;
            Box::pin(packages.arrived(planned, &to)).await;
            None
        }
        Ok(MoveAttempt::Made(Relocation::Waits(reason))) | Err(reason) => Some(reason),
        Ok(MoveAttempt::Lacks(to, lacking)) => {
            // Its turns go on while they are installed, and another gateway may take it over.
            drop(lease);
            let engines = swarm.engines();
            engines.prepare(agent, &to);
            let text = format!("its packages are being installed in {to}: {}", lacking.names());
            engines.note_wait(agent, Some(text));
            Box::pin(packages.install_ahead(swarm, agent, &to, lacking)).await;
            return true;
        }
    };
    swarm.engines().note_wait(agent, waits);
    false
}

/// Records that an agent is on another engine now, and tells watchers.
pub(super) async fn note_move(swarm: &Swarm, agent: &AgentId, level: Level, detail: String) {
    let entry = Actor::system().entry("engine.move", agent.as_str(), level, detail);
    if let Err(error) = swarm.store().audit().append(entry, unix_ms()).await {
        tracing::error!(%agent, error = chain(&error), "failed to record that an agent moved");
    }
    tell_of_change(swarm);
}

/// Tells watchers that other engines answer than before, or that agents are on other ones. The event names none of them, because
/// not everybody who watches may see engines.
pub(super) fn tell_of_change(swarm: &Swarm) {
    swarm.notifier().publish("engine.changed", &json!({}));
}

/// The outcome of an attempt to move an agent.
enum MoveAttempt {
    Made(Relocation),
    /// These packages have to be installed in this engine first.
    Lacks(EngineName, CarriedPackages),
}

async fn try_move(
    sandbox: &dyn Sandbox,
    packages: &PackageMoves,
    planned: &PlannedMove,
    is_busy: &(dyn Fn(&AgentId) -> bool + Send + Sync),
) -> Result<MoveAttempt, String> {
    if let Ok(to) = &planned.to {
        if is_busy(&planned.agent) {
            return Ok(MoveAttempt::Made(Relocation::Waits("a turn runs".to_owned())));
        }
        if let Some(lacking) = Box::pin(packages.lacking(planned, to)).await? {
            return Ok(MoveAttempt::Lacks(to.clone(), lacking));
        }
    }
    sandbox.relocate(planned).await.map(MoveAttempt::Made).map_err(|error| chain(&error))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::checkpoint::testing::{PlainServices, rewind_to};
    use crate::home::elsewhere::Mark;
    use crate::home::lock::Lock;
    use crate::home::write_fence::CutOff;
    use crate::sandbox::testing::{self, FilesOnly};
    use crate::store::LeaseSubject;
    use crate::swarm::lease::Ownership;
    use crate::swarm::testing::Team;

    #[tokio::test]
    async fn an_agent_moves_only_where_it_is_and_is_given_up_to_no_other_gateway_meanwhile() {
        let ownership = Ownership::for_test(&["coder"], &["tester"]);
        let team = Team::in_group(Arc::clone(&ownership));
        let swarm = &team.swarm;
        let packages = PackageMoves::new(swarm, CancellationToken::new());
        let is_kept = |agent: &AgentId| ownership.is_in_use(&LeaseSubject::agent(agent));
        let asked = Mutex::new(Vec::new());
        let is_busy = |agent: &AgentId| {
            asked.lock().unwrap().push((agent.to_string(), is_kept(agent)));
            true
        };
        for agent in ["coder", "tester"] {
            let to = Ok("far".parse().unwrap());
            let planned = PlannedMove { agent: agent.parse().unwrap(), from: EngineName::local(), to };
            assert!(!move_one(swarm, &FilesOnly::new(None), &packages, &planned, &is_busy).await);
            assert!(!is_kept(&planned.agent));
        }
        assert_eq!(asked.into_inner().unwrap(), [("coder".to_owned(), true)]);
    }

    struct Process;

    impl PlainServices for Process {}

    /// A team with the engine `far`.
    struct Scene {
        team: Team,
        checkpoints: Checkpoints,
        far: EngineName,
    }

    impl Scene {
        fn new(address: &str) -> Self {
            let team = Team::with(|config| config["engines"]["far"] = json!({"address": address}));
            let (live, store) = (Arc::clone(team.swarm.live()), Arc::clone(&team.store));
            let checkpoints = Checkpoints::new(live, store, Arc::clone(team.swarm.ownership()));
            checkpoints.serve(Arc::new(Process));
            Self { team, checkpoints, far: "far".parse().unwrap() }
        }

        /// Puts the workspace of an agent into an engine.
        fn mark(&self, agent: &AgentId, engine: &EngineName) {
            let workspace = self.team.swarm.home().workspace(agent);
            drop(elsewhere::mark(&workspace, &Mark::new(engine, agent)).unwrap());
        }

        /// Returns the engine that has the workspace of an agent.
        fn engine_of(&self, agent: &AgentId) -> Option<EngineName> {
            elsewhere::engine_of(&self.team.swarm.home().workspace(agent))
        }

        async fn remove(&self) -> Result<Vec<String>, ApiError> {
            let (swarm, by) = (&self.team.swarm, Actor::human("ann"));
            Box::pin(remove(swarm, &self.checkpoints, &by, &self.far, true)).await
        }
    }

    fn id(text: &str) -> AgentId {
        text.parse().unwrap()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn an_engine_that_answers_again_keeps_its_workspaces() {
        let pings = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&pings);
        let (engine, _socket) = testing::engine(move |line: &str| match line.contains("/_ping") {
            true if counted.fetch_add(1, Ordering::Relaxed) > 0 => (200, "OK"),
            _ => (500, r#"{"message":"it starts"}"#),
        });
        let (scene, coder) = (Scene::new(engine.endpoint()), id("coder"));
        scene.mark(&coder, &scene.far);
        scene.team.store.placements().put(coder.clone(), scene.far.clone(), 1).await.unwrap();
        let refused = scene.remove().await.unwrap_err();
        assert!(pings.load(Ordering::Relaxed) > 1, "it did not answer at first");
        assert_eq!(refused.code, "conflict");
        assert_eq!(refused.hint.as_deref(), Some("flock engine drain far"));
        assert_eq!(scene.engine_of(&coder), Some(scene.far.clone()));
        assert_eq!(scene.team.swarm.config().engines.len(), 1);
    }

    /// The volume of a home with the id `original`.
    const OF_ORIGINAL: &str = r#"{"Name":"x","Driver":"local","Mountpoint":"/x","Scope":"local","Options":{},
        "Labels":{"flock.instance":"original"}}"#;
    /// The volume of its copy.
    const OF_COPY: &str = r#"{"Name":"x","Driver":"local","Mountpoint":"/x","Scope":"local","Options":{},
        "Labels":{"flock.instance":"copy"}}"#;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_copy_of_a_home_gives_up_the_volumes_of_the_original_although_the_engine_answers() {
        let (engine, asked, _socket) = testing::asked_engine(|line: &str| match line {
            line if line.contains("/_ping") => (200, "OK"),
            line if line.contains("/volumes/flock-ws-coder-") => (200, OF_ORIGINAL),
            line if line.contains("/volumes/flock-ws-tester-") => (200, OF_COPY),
            _ => (500, r#"{"message":"it tells nothing else"}"#),
        });
        let (scene, coder, tester) = (Scene::new(engine.endpoint()), id("coder"), id("tester"));
        let home = scene.team.swarm.home();
        std::fs::write(home.instance(), "copy\n").unwrap();
        scene.mark(&coder, &scene.far);
        scene.mark(&tester, &scene.far);
        let refused = scene.remove().await.unwrap_err();
        assert_eq!(refused.message, "the workspaces of these agents are in the engine far: tester");
        assert_eq!(scene.engine_of(&coder), Some(scene.far.clone()));
        std::fs::remove_file(home.workspace(&tester)).unwrap();
        let told = scene.remove().await.unwrap();
        let expected = "the workspace of coder was in the engine far and is empty now";
        assert!(told.iter().any(|text| text.starts_with(expected)), "{told:?}");
        assert_eq!(scene.engine_of(&coder), None);
        assert!(scene.team.swarm.config().engines.is_empty());
        let asked = asked.lock().unwrap();
        assert!(asked.iter().all(|line| !line.starts_with("DELETE")), "its volume stays: {asked:?}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn an_engine_with_a_workspace_that_is_not_given_up_stays() {
        let pings = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&pings);
        let (engine, _socket) = testing::engine(move |_: &str| {
            counted.fetch_add(1, Ordering::Relaxed);
            (500, r#"{"message":"it is broken"}"#)
        });
        let (scene, coder, tester) = (Scene::new(engine.endpoint()), id("coder"), id("tester"));
        scene.mark(&coder, &scene.far);
        let folder = scene.team.swarm.home().checkpoints(&coder);
        std::fs::create_dir_all(&folder).unwrap();
        // It waits here after it has looked which workspaces are in the engine.
        let lock = Lock::try_acquire(&folder.join("lock")).unwrap();
        let meanwhile = async {
            testing::until("the engine was asked twice", || pings.load(Ordering::Relaxed) > 1).await;
            scene.mark(&tester, &scene.far);
            drop(lock);
        };
        let (refused, ()) = tokio::join!(scene.remove(), meanwhile);
        let refused = refused.unwrap_err();
        let text = &refused.message;
        assert!(
            text.starts_with("the engine far stays, because it has the workspaces of these agents: tester; "),
            "{text}"
        );
        assert!(text.contains("; the workspace of coder was in the engine far and is empty now"), "{text}");
        assert_eq!(refused.hint.as_deref(), Some("flock engine show far"));
        assert_eq!((scene.engine_of(&coder), scene.engine_of(&tester)), (None, Some(scene.far.clone())));
        assert_eq!(scene.team.swarm.config().engines.len(), 1);

        scene.remove().await.unwrap();
        assert_eq!(scene.engine_of(&tester), None);
        assert!(scene.team.swarm.config().engines.is_empty());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_workspace_that_another_engine_has_by_now_stays_there() {
        let scene = Scene::new("unix:///nothing/engine.sock");
        let (swarm, other) = (&scene.team.swarm, "other".parse::<EngineName>().unwrap());
        let engine = LostEngine { name: scene.far.clone(), by: "human:ann".to_owned(), needs_newest: false };
        for agent in [id("tester"), id("gone")] {
            scene.mark(&agent, &other);
            let told = Box::pin(lose_workspace(swarm, &scene.checkpoints, &engine, &agent)).await;
            let stays =
                format!("the workspace of {agent} is not in the engine far any more, and stays as it is");
            assert!(told.starts_with(&stays), "{told}");
            assert_eq!(scene.engine_of(&agent), Some(other.clone()));
        }
    }

    #[test]
    fn a_workspace_is_not_given_up_for_a_reason_that_may_pass() {
        let coder = id("coder");
        let held = HomeError::Held { path: "/x".into() };
        for error in [CheckpointError::Busy(coder.clone()), held.into()] {
            let reason = reason_to_wait(&coder, &error).unwrap();
            assert!(reason.ends_with("; if coder is frozen: flock thaw coder"), "{reason}");
        }
        assert!(reason_to_wait(&coder, &CheckpointError::Stopped).is_some());
        assert!(reason_to_wait(&coder, &CutOff.into()).is_some());
        assert!(reason_to_wait(&coder, &CheckpointError::None(id("coder"))).is_none());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn agents_of_an_engine_that_is_gone_go_on_with_the_files_of_their_last_checkpoint() {
        // Nothing is there.
        let scene = Scene::new("unix:///nothing/engine.sock");
        let Scene { team, checkpoints, far } = &scene;
        let (swarm, home) = (&team.swarm, team.swarm.home().clone());
        let [coder, tester, gone] = ["coder", "tester", "gone"].map(id);
        let agent = swarm.config().agent(&coder).unwrap().clone();
        std::fs::create_dir_all(&agent.workspace).unwrap();
        std::fs::write(agent.workspace.join("work"), "work").unwrap();
        checkpoints.make(&agent, "human:ann".to_owned(), None).await.unwrap();
        for agent in [&coder, &tester, &gone] {
            scene.mark(agent, far);
        }

        let told = scene.remove().await.unwrap();
        let told_of = |agent: &AgentId| {
            let begin = format!("the workspace of {agent} was in the engine far");
            told.iter().find_map(|text| text.strip_prefix(&begin)).unwrap()
        };
        assert!(
            told_of(&coder).starts_with("; it has the files of its last checkpoint now, of "),
            "{told:?}"
        );
        assert!(told_of(&tester).ends_with("because no checkpoint has its files"), "{told:?}");
        assert_eq!(told_of(&gone), " and is empty now");
        assert!(
            swarm.config().engines.is_empty() && elsewhere::marks(&home.workspaces()).unwrap().is_empty()
        );
        assert_eq!(std::fs::read_to_string(agent.workspace.join("work")).unwrap(), "work");

        checkpoints.rewind(&agent, rewind_to(Some(1))).await.unwrap();
        assert_eq!(std::fs::read_to_string(agent.workspace.join("work")).unwrap(), "work");
    }
}
