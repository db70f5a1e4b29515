//! Access to the gateway, the sandboxes and the state of agents. The gateway acts if it runs, otherwise this process.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::mpsc;

use super::Failure;
use crate::cli::database;
use crate::clock;
use crate::config::{Config, Live};
use crate::error::Kind;
use crate::home::lock::Lock;
use crate::home::{Home, HomeError, instance};
use crate::id::{AgentId, EngineName};
use crate::nix_store::{PackageStore, PackageStores};
use crate::runtime::program::folders::mount_resolver;
use crate::sandbox::Sandbox as _;
use crate::sandbox::docker::{ConfigSource, DockerSandbox};
use crate::sandbox::engine::Engine;
use crate::sandbox::engines::{Engines, PlacedCluster, PlacementRecords};
use crate::sandbox::kubernetes::KubernetesSandbox;
use crate::sandbox::placed_sandbox::PlacedSandbox;
use crate::store::{self, Freeze, FreezeState, LivingGateway, Store as Database, StoreError};
use crate::supervise::control::ControlConnection;
use crate::supervise::env_marker::EnvMarker;
use crate::supervise::gateway_client::{Call, Client, GatewayClientError};
use crate::supervise::health::{self, HealthError, HomeIdentity, Imposter};
use crate::supervise::pid_file;
use crate::supervise::unit::GATEWAY;
use crate::swarm::{Notifier, Swarm, SwarmParts};
use crate::ui::TextStyle;

/// Time that a gateway may take to identify itself. On a busy machine it can be seconds. A dead one refuses at once.
const IDENTITY_TIMEOUT: Duration = Duration::from_secs(10);

/// Time for which the gateway's lock has to stay held to prove that a gateway lives.
const INSTANT: Duration = Duration::from_millis(200);

/// Time for an answer that a verb can do without.
const SHORT_TIMEOUT: Duration = Duration::from_secs(3);

/// Time that making a sandbox may take. On a new engine its images are made first.
const SANDBOX_TIMEOUT: Duration = Duration::from_secs(900);

/// Returns the running gateway of this home, or `None`. Another program on the port gets no token and counts as none.
///
/// # Errors
///
/// Returns an error if a gateway runs but can't be used: it does not answer, or has another token than the
/// configuration.
pub(crate) async fn gateway(home: &Home, config: &Config) -> Result<Option<Client>, Failure> {
    // A home without an id has no gateway that could prove to be its own.
    let instance = match instance::read(home) {
        Err(HomeError::NoInstance { .. }) => String::new(),
        read => read?,
    };
    let identity = HomeIdentity { instance, token: config.token.clone() };
    if let Some(client) = gateway_at(config.port, &identity).await? {
        return Ok(Some(client));
    }
    // After a change of the configured port the gateway keeps its old one until it is restarted.
    match served_port(home).await.filter(|port| *port != config.port) {
        Some(port) => gateway_at(port, &identity).await,
        None => Ok(None),
    }
}

/// Returns `true` if a gateway of this home lives, however it was started and whether or not it answers.
#[must_use]
pub(crate) fn lives(home: &Home) -> bool {
    let path = home.gateway_lock();
    // Another verb that looks holds the lock for an instant, so only a lock that stays held proves a gateway. Without
    // the file there was never one, and taking the lock would create it.
    path.exists() && matches!(Lock::acquire(&path, INSTANT), Err(HomeError::Held { .. }))
}

/// Checks that no gateway of this home lives, and none of other homes with its database, so that this process may write to the
/// database and to the agents' files.
///
/// A gateway that is starting or does not answer would not notice the change in time.
///
/// # Errors
///
/// Returns an error if a gateway lives, or if the database can't be read.
pub(crate) fn require_no_gateway(home: &Home) -> Result<(), Failure> {
    // A move holds the gateway's lock as well, and would be taken for one.
    if Lock::is_held(&home.move_lock()).unwrap_or(true) {
        let text = "the home's database is being moved to another place; nothing was changed";
        return Err(Failure::new(Kind::Conflict, text).hint("try again when that is done"));
    }
    // The PID file of a copied home names a process of the original home, which holds no lock in the copy. A gateway of
    // an older version holds no lock either, but its environment has the mark of its supervisor.
    let is_held = Lock::is_held(&home.gateway_lock()).unwrap_or(true);
    let record = pid_file::read(&home.pid_file(GATEWAY));
    let (who, hint) = match record
        .filter(|record| is_held || EnvMarker::new(home, GATEWAY).is_on(record.process))
    {
        Some(record) => (format!("the gateway (pid {})", record.process.pid), "try again, or: flock restart"),
        // Only a supervisor writes a PID file.
        None if lives(home) => {
            ("a gateway that no supervisor runs".to_owned(), "end it where it was started, and try again")
        }
        None => return require_no_others(home),
    };
    let text = format!("{who} runs but does not answer; nothing was changed");
    Err(Failure::new(Kind::Conflict, text).hint(hint))
}

/// Checks that no gateway of another home has the agents. Only a database on a server can have one.
fn require_no_others(home: &Home) -> Result<(), Failure> {
    let Some(other) = other_gateway(home)? else { return Ok(()) };
    let text = format!(
        "this home's gateway does not run, and the one of {} at {} takes care of the agents",
        other.name, other.address
    );
    Err(Failure::new(Kind::Conflict, text).hint("flock start"))
}

/// Returns a gateway of another home in the same group that lives.
///
/// # Errors
///
/// Returns an error if the database can't be read.
pub(crate) fn other_gateway(home: &Home) -> Result<Option<LivingGateway>, Failure> {
    if store::server_address(home)?.is_none() {
        return Ok(None);
    }
    let found = database::read_view(home, async |reader| {
        if reader.gateway_group().revision().await?.is_none() {
            return Ok(None);
        }
        let (now, living) = reader.gateways().living().await?;
        let own = instance::read(home).ok();
        Ok(living.into_iter().find(|other| Some(&other.home) != own.as_ref() && other.beat_until > now))
    })?;
    Ok(found.flatten())
}

/// Returns the error that a command needs a gateway and none runs.
pub(crate) fn not_running() -> Failure {
    Failure::new(Kind::NotRunning, "the gateway is not running").hint("flock start")
}

/// Returns the reason for which the gateway at this port is unhealthy. `None` if it is healthy or does not answer.
pub(crate) async fn trouble(home: &Home, port: u16) -> Option<String> {
    let config = crate::config::read(home).ok()?;
    let identity = HomeIdentity::of(home, &config).ok()?;
    health::ask(port, &identity, SHORT_TIMEOUT).await.ok()?.reason
}

async fn gateway_at(port: u16, identity: &HomeIdentity) -> Result<Option<Client>, Failure> {
    match health::ask(port, identity, IDENTITY_TIMEOUT).await {
        Ok(_) => Ok(Some(Client::new(port).with_token(&identity.token))),
        // Each of these proves that something else listens there, or nothing. The other errors may come from our own
        // gateway.
        Err(
            HealthError::Foreign { .. }
            | HealthError::Imposter(Imposter::OtherHome { .. })
            | HealthError::Loopback(GatewayClientError::Unreachable { .. } | GatewayClientError::Status { .. }),
        ) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns the port that the gateway was started on, as its supervisor reports it. `None` if it does not run.
pub(crate) async fn served_port(home: &Home) -> Option<u16> {
    let status = ControlConnection::status(home, SHORT_TIMEOUT).await?;
    let unit = status.unit(GATEWAY)?;
    // Without a process the port is only a plan.
    unit.pid.and(unit.port)
}

/// Returns the message for a gateway that answers on another port than the configured one.
#[must_use]
pub(crate) fn port_message(served: u16, configured: u16) -> String {
    format!(
        "the gateway listens on port {served}; the configured port {configured} takes effect after `flock restart`"
    )
}

/// Lets the running gateway make the agent's sandbox.
///
/// # Errors
///
/// Returns the gateway's own error.
pub(crate) async fn prepare(gateway: &Client, id: &AgentId) -> Result<(), Failure> {
    gateway.ask(Call::post(&format!("/api/agents/{id}/prepare")), SANDBOX_TIMEOUT).await?;
    Ok(())
}

/// Lets the running gateway release the agent: its turns end and its sandbox is removed.
///
/// # Errors
///
/// Returns the gateway's own error. An agent that the gateway does not know counts as released.
pub(crate) async fn release(gateway: &Client, id: &AgentId) -> Result<(), Failure> {
    match gateway.ask(Call::delete(&format!("/api/agents/{id}")), SANDBOX_TIMEOUT).await {
        Ok(_) | Err(GatewayClientError::Status { status: 404, .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Makes the agent's sandbox from this process.
///
/// # Errors
///
/// Returns an error if the engine does not answer, or if the sandbox is not as confined as it must be.
pub(crate) async fn make(home: &Home, config: &Config, id: &AgentId) -> Result<(), Failure> {
    let source = fixed_config(config);
    let docker = DockerSandbox::new(home.clone(), Arc::clone(&source), Arc::new(Engine::from_env()))
        .with_program_mounts(mount_resolver(home));
    let clusters = KubernetesSandbox::new(home.clone(), Arc::clone(&source), Arc::clone(docker.engines()));
    PlacedSandbox::new(Arc::new(docker), Arc::new(clusters), source).ensure(id).await?;
    Ok(())
}

/// Removes the agent's sandbox from this process.
///
/// # Errors
///
/// Returns an error if the engine does not answer or refuses.
pub(crate) async fn remove_sandbox(home: &Home, config: &Config, id: &AgentId) -> Result<(), Failure> {
    placed(home, fixed_config(config), Arc::new(engines(home, config))).remove(id).await?;
    Ok(())
}

/// Returns the sandboxes of a home for this process, wherever they are.
pub(crate) fn placed(home: &Home, config: ConfigSource, engines: Arc<Engines>) -> PlacedSandbox {
    let local = engines.local().clone();
    let docker =
        DockerSandbox::new(home.clone(), Arc::clone(&config), local).with_engines(Arc::clone(&engines));
    let clusters = KubernetesSandbox::new(home.clone(), Arc::clone(&config), engines);
    PlacedSandbox::new(Arc::new(docker), Arc::new(clusters), config)
}

/// Returns the engine after it has answered once.
///
/// # Errors
///
/// Returns an error if it does not answer.
pub(crate) async fn engine() -> Result<Arc<Engine>, Failure> {
    let engine = Engine::from_env();
    engine.version().await?;
    Ok(Arc::new(engine))
}

/// Returns the Docker engines of the configuration besides the machine's own; none if the configuration can't be read.
pub(crate) fn other_engines(home: &Home) -> Vec<Engine> {
    let engines = crate::config::read(home).map(|config| config.engines).unwrap_or_default().into_iter();
    // A cluster has no containers of its own.
    let others = engines.filter(|engine| !engine.name.is_local() && engine.cluster.is_none());
    others.map(|engine| Engine::named(home, engine.name, engine.address.unwrap_or_default())).collect()
}

/// Returns the clusters of the configuration; none if it can't be read.
pub(crate) fn clusters(home: &Home) -> Vec<PlacedCluster> {
    let engines = crate::config::read(home).map(|config| config.engines).unwrap_or_default();
    engines.iter().filter_map(|engine| PlacedCluster::of(home, engine)).collect()
}

/// Returns the engines of a home, with the placements of agents as they are now.
pub(crate) fn engines(home: &Home, config: &Config) -> Engines {
    let placed = if config.engines.is_empty() {
        None
    } else {
        // Without a database nobody is placed.
        database::read_view(home, async |reader| reader.placements().list().await).ok().flatten()
    };
    engines_with(home, config, placed.unwrap_or_default())
}

/// Returns the engines of a home, with these placements of agents.
pub(crate) fn engines_with(home: &Home, config: &Config, placed: BTreeMap<AgentId, EngineName>) -> Engines {
    let records = PlacementRecords::Read(placed);
    Engines::new(home.clone(), fixed_config(config), Arc::new(Engine::from_env()), records)
}

/// Returns the package stores of a home, one in each engine.
pub(crate) fn stores(home: &Home, config: &Config) -> PackageStores {
    PackageStores::new(home.clone(), fixed_config(config), Arc::new(engines(home, config)))
}

/// Returns the package store that an agent's sandbox reads, after its engine has answered once.
///
/// # Errors
///
/// Returns an error if the engine does not answer, or if the agent is on no engine yet.
pub(crate) async fn store_of(
    home: &Home,
    config: &Config,
    id: &AgentId,
) -> Result<Arc<PackageStore>, Failure> {
    let stores = stores(home, config);
    let is_placed = config.engines.is_empty() || stores.engines().placements().await?.contains_key(id);
    if !is_placed {
        let text = format!("agent {id} is on no engine yet; its first command places it");
        return Err(Failure::new(Kind::Conflict, text).hint("flock engine list"));
    }
    let found = stores.engines().of_id(id).await?;
    found.engine.version().await?;
    Ok(stores.on(&found))
}

/// Returns the home's package store in an engine.
pub(crate) fn store(home: &Home, config: &Config, engine: Arc<Engine>) -> PackageStore {
    PackageStore::new(home.clone(), fixed_config(config), engine)
}

/// Returns the team for actions of this process. It has no listeners, since no scheduler runs here.
///
/// # Errors
///
/// Returns an error if the configuration or the database can't be used.
pub(crate) fn swarm(home: &Home) -> Result<Swarm, Failure> {
    let store = Arc::new(Database::open(home)?);
    let (notifications, _) = mpsc::unbounded_channel();
    let notifier = Notifier::new(notifications, Arc::new(|_, _| {}));
    let live = Arc::new(Live::open(home.clone())?);
    Ok(Swarm::new(SwarmParts { live, store, notifier }))
}

/// Returns the frozen agents. A server that does not answer costs a few seconds.
///
/// # Errors
///
/// Returns an error if the database can't be read. Whoever does something must then not take an agent for one that is not frozen.
pub(crate) fn frozen(home: &Home) -> Result<FreezeState, StoreError> {
    let read = database::read_view(home, async |reader| reader.freezes().state().await);
    Ok(read?.unwrap_or_default())
}

/// The sleep of an agent.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub(crate) struct SleepState {
    /// Start of the sleep, in Unix milliseconds.
    pub since: i64,
    /// The agent's own reason.
    pub reason: String,
}

/// Returns the agents whose budget is used up, from the running gateway: `{id: {since, until, reason}}`.
///
/// Without a gateway no agent is paused.
pub(crate) async fn paused(home: &Home, config: &Config) -> HashMap<String, Value> {
    let Ok(Some(gateway)) = gateway(home, config).await else { return HashMap::new() };
    let Ok(said) = gateway.get_json::<Value>("/api/agents", SHORT_TIMEOUT).await else {
        return HashMap::new();
    };
    let agents = said["agents"].as_array().into_iter().flatten();
    let paused = agents.filter(|agent| !agent["paused"].is_null());
    paused
        .map(|agent| (agent["id"].as_str().unwrap_or_default().to_owned(), agent["paused"].clone()))
        .collect()
}

/// Returns a text and its tone for an agent that is frozen, paused or asleep, or `None` if it can work.
pub(crate) fn inactive_text(
    freeze: Option<&Freeze>,
    paused: Option<&Value>,
    asleep: Option<&SleepState>,
) -> Option<(TextStyle, String)> {
    // A freeze comes first: it is a decision of a person, and the other two end without one.
    if let Some(freeze) = freeze {
        return Some((TextStyle::Bad, frozen_text(freeze)));
    }
    if let Some(paused) = paused {
        let until = paused["until"].as_i64().map(|at| format!(" until {}", clock::local(at)));
        return Some((TextStyle::Warn, format!("budget used up{}", until.unwrap_or_default())));
    }
    asleep.map(|asleep| (TextStyle::Dim, format!("asleep since {}", clock::local(asleep.since))))
}

/// Formats a freeze, such as `FROZEN since 12:00 by human:ann: it loops`.
pub(crate) fn frozen_text(freeze: &Freeze) -> String {
    format!("FROZEN since {} by {}{}", clock::local(freeze.at), freeze.by, freeze.reason_text())
}

/// Formats a freeze of the whole home, with the command that ends it.
pub(crate) fn home_frozen_text(freeze: &Freeze) -> String {
    format!(
        "the whole home is FROZEN since {} by {}, including agents that are added later{}; to thaw it: flock thaw --all",
        clock::local(freeze.at),
        freeze.by,
        freeze.reason_text()
    )
}

/// Returns a configuration source that never changes. A verb ends before it could follow a change.
pub(super) fn fixed_config(config: &Config) -> ConfigSource {
    let config = Arc::new(config.clone());
    Arc::new(move || Arc::clone(&config))
}
