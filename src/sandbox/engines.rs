//! The engines of a home, and which of them each agent's sandbox is in. A home without other engines has the machine's
//! own for everything, and then nothing is looked up.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use futures_util::future;
use tokio::sync::OnceCell;

use crate::clock;
use crate::config::{Agent, ClusterAddress, ClusterSettings, Config, EngineSettings, SandboxMode};
use crate::home::Home;
use crate::home::elsewhere::{self, Mark};
use crate::id::{AgentId, EngineName};
use crate::sandbox::docker::ConfigSource;
use crate::sandbox::engine::Engine;
use crate::sandbox::kubernetes::client::ClusterClient;
use crate::sandbox::kubernetes::relocation;
use crate::sandbox::placement::{self, AgentNeeds, EngineOffer, EngineState, NoEngine, Placement, Search};
use crate::sandbox::{SandboxError, containers, names, spec, workspace_volume};
use crate::store::{Store, StoreError};
use crate::sync::lock;

/// The engine of every agent that is placed.
type PlacedAgents = BTreeMap<AgentId, EngineName>;

/// Clients by the name and the address of their engines.
type Clients<T> = Mutex<HashMap<(EngineName, String), Arc<T>>>;

/// The place where it is recorded which engine an agent is on.
pub enum PlacementRecords {
    /// The database of the process that has it open.
    Store(Arc<Store>),
    /// The home's database, which is opened when an engine besides the machine's own is configured. Only for a process
    /// beside which no gateway runs.
    Home(OnceCell<Arc<Store>>),
    /// What was read before. Agents can't be placed.
    Read(PlacedAgents),
}

/// An engine with its name and the runtime of agents that name none.
#[derive(Clone, Debug, PartialEq)]
pub struct PlacedEngine {
    pub name: EngineName,
    pub engine: Arc<Engine>,
    /// The OCI runtime, or `None` for the engine's default.
    pub runtime: Option<String>,
}

/// A Kubernetes cluster with its name and its settings.
#[derive(Clone)]
pub struct PlacedCluster {
    pub name: EngineName,
    pub client: Arc<ClusterClient>,
    pub settings: ClusterSettings,
    /// The runtime class of agents that name none, or `None` for the cluster's default.
    pub runtime: Option<String>,
}

impl PlacedCluster {
    /// Returns the cluster that these settings describe, or `None` if they describe a Docker engine.
    #[must_use]
    pub(crate) fn of(home: &Home, settings: &EngineSettings) -> Option<Self> {
        let connect = |address| Arc::new(ClusterClient::new(home.clone(), settings.name.clone(), address));
        Self::connected(settings, connect)
    }

    fn connected(
        found: &EngineSettings,
        connect: impl FnOnce(ClusterAddress) -> Arc<ClusterClient>,
    ) -> Option<Self> {
        let (address, settings) = found.as_cluster()?;
        let (name, settings, runtime) = (found.name.clone(), settings.clone(), found.runtime.clone());
        Some(Self { name, client: connect(address), settings, runtime })
    }
}

/// The place of an agent's sandbox.
#[derive(Clone)]
pub enum AgentPlace {
    /// A Docker engine.
    Engine(PlacedEngine),
    Cluster(PlacedCluster),
}

impl AgentPlace {
    /// Returns the engine or the cluster that these settings describe, with a client of its own.
    #[must_use]
    pub(crate) fn of(home: &Home, settings: &EngineSettings) -> Self {
        PlacedCluster::of(home, settings).map_or_else(
            || {
                let (name, address) = (settings.name.clone(), settings.address.clone().unwrap_or_default());
                let engine = Arc::new(Engine::named(home, name.clone(), address));
                Self::Engine(PlacedEngine { name, engine, runtime: settings.runtime.clone() })
            },
            Self::Cluster,
        )
    }

    /// Returns the name of the engine or the cluster.
    #[must_use]
    pub(crate) const fn name(&self) -> &EngineName {
        match self {
            Self::Engine(found) => &found.name,
            Self::Cluster(found) => &found.name,
        }
    }

    /// Asks if it answers. With `is_first`, an engine on another machine has the time that the first connection may take.
    ///
    /// # Errors
    ///
    /// Returns the reason if it does not answer within some seconds.
    pub(crate) async fn ping(&self, is_first: bool) -> Result<(), SandboxError> {
        match self {
            Self::Engine(found) if is_first => found.engine.first_ping().await,
            Self::Engine(found) => found.engine.ping().await,
            Self::Cluster(found) => found.client.ping().await.map(drop),
        }
    }

    /// Returns why a home may not use the volume that the workspace of its agent is: another home has made it. Returns `None` if
    /// it may, or if there is none.
    ///
    /// # Errors
    ///
    /// Returns an error if the place does not tell.
    pub(crate) async fn refusal(
        &self,
        home: &Home,
        agent: &AgentId,
        mark: &Mark,
    ) -> Result<Option<SandboxError>, SandboxError> {
        match self {
            Self::Engine(found) => workspace_volume::refusal(&found.engine, home, agent, mark).await,
            Self::Cluster(found) => relocation::refusal(found, home, agent, mark).await,
        }
    }

    /// Returns the engine, for what only Docker engines have.
    fn engine(self, agent: &AgentId) -> Result<PlacedEngine, SandboxError> {
        match self {
            Self::Engine(found) => Ok(found),
            Self::Cluster(found) => {
                Err(SandboxError::InCluster { agent: agent.clone(), engine: found.name, what: "packages" })
            }
        }
    }
}

/// An engine or a cluster, with its answer to the question if it answers.
pub(crate) struct AskedEngine {
    pub name: EngineName,
    pub address: String,
    /// The reason why it does not answer.
    pub problem: Option<SandboxError>,
}

/// An agent whose engine does not fit any more.
#[derive(Clone, Debug)]
pub struct PlannedMove {
    pub agent: AgentId,
    pub from: EngineName,
    /// The engine that it goes to, or the reason why it has to stay.
    pub to: Result<EngineName, NoEngine>,
}

/// The engines of one home.
pub struct Engines {
    home: Home,
    config: ConfigSource,
    local: Arc<Engine>,
    records: PlacementRecords,
    /// The clients of the other engines, so that their connections are kept.
    clients: Clients<Engine>,
    /// The clients of the clusters.
    clusters: Clients<ClusterClient>,
    /// Held while an agent is placed, so that two do not take the same memory. No engine is called meanwhile.
    placing: tokio::sync::Mutex<()>,
    /// The agents that have to move and can't yet, each with the reason.
    waiting: Mutex<HashMap<AgentId, String>>,
    /// The engines in which packages were installed for agents that move there.
    prepared: Mutex<HashMap<AgentId, EngineName>>,
}

impl Engines {
    /// Creates the value without calling an engine.
    #[must_use]
    pub fn new(home: Home, config: ConfigSource, local: Arc<Engine>, records: PlacementRecords) -> Self {
        Self {
            home,
            config,
            local,
            records,
            clients: Mutex::default(),
            clusters: Mutex::default(),
            placing: tokio::sync::Mutex::default(),
            waiting: Mutex::default(),
            prepared: Mutex::default(),
        }
    }

    /// Returns the machine's own engine.
    #[must_use]
    pub const fn local(&self) -> &Arc<Engine> {
        &self.local
    }

    /// Returns all Docker engines, the machine's own first, the others by name.
    #[must_use]
    pub fn all(&self) -> Vec<PlacedEngine> {
        let config = (self.config)();
        let others = config.engines.iter().filter(|engine| !engine.name.is_local());
        let local = EngineName::local();
        std::iter::once(self.named(&config, &local))
            .chain(others.map(|engine| self.named(&config, &engine.name)))
            .flatten()
            .collect()
    }

    /// Returns the Docker engine of this name, or `None` if the configuration has none.
    #[must_use]
    pub fn find(&self, name: &EngineName) -> Option<PlacedEngine> {
        self.named(&(self.config)(), name)
    }

    fn named(&self, config: &Config, name: &EngineName) -> Option<PlacedEngine> {
        let settings = config.engines.iter().find(|engine| engine.name == *name);
        if settings.is_some_and(|settings| settings.cluster.is_some()) {
            return None;
        }
        let runtime = settings.and_then(|settings| settings.runtime.clone());
        let engine = match settings.and_then(|settings| settings.address.as_ref()) {
            Some(address) => {
                let mut clients = lock(&self.clients);
                let key = (name.clone(), address.clone());
                let make = || Arc::new(Engine::named(&self.home, name.clone(), address));
                Arc::clone(clients.entry(key).or_insert_with(make))
            }
            None if name.is_local() => Arc::clone(&self.local),
            None => return None,
        };
        Some(PlacedEngine { name: name.clone(), engine, runtime })
    }

    /// Returns all clusters, by name.
    #[must_use]
    pub fn clusters(&self) -> Vec<PlacedCluster> {
        let config = (self.config)();
        config.engines.iter().filter_map(|engine| self.cluster_named(&config, &engine.name)).collect()
    }

    /// Returns the cluster of this name, or `None` if the configuration has none.
    #[must_use]
    pub fn cluster(&self, name: &EngineName) -> Option<PlacedCluster> {
        self.cluster_named(&(self.config)(), name)
    }

    fn cluster_named(&self, config: &Config, name: &EngineName) -> Option<PlacedCluster> {
        let found = config.engines.iter().find(|engine| engine.name == *name)?;
        PlacedCluster::connected(found, |address| {
            let key = (name.clone(), address.to_string());
            let make = || Arc::new(ClusterClient::new(self.home.clone(), name.clone(), address));
            Arc::clone(lock(&self.clusters).entry(key).or_insert_with(make))
        })
    }

    /// Takes out the clients of Docker engines that are not in the configuration any more, or have another address there. Others
    /// may still use them.
    pub(crate) fn take_removed(&self) -> Vec<Arc<Engine>> {
        let config = (self.config)();
        take_others(&self.clients, |name, address| {
            let is_it = |engine: &&EngineSettings| engine.name == *name && engine.cluster.is_none();
            let found = config.engines.iter().find(is_it);
            found.and_then(|engine| engine.address.as_deref()) == Some(address)
        })
    }

    /// Takes out the clients of clusters in the same way.
    pub(crate) fn take_removed_clusters(&self) -> Vec<Arc<ClusterClient>> {
        let config = (self.config)();
        take_others(&self.clusters, |name, address| {
            let found = config.engines.iter().find(|engine| engine.name == *name);
            found.and_then(EngineSettings::as_cluster).is_some_and(|(found, _)| found.to_string() == address)
        })
    }

    /// Returns the engine or the cluster of this name, or `None` if the configuration has none.
    #[must_use]
    pub(crate) fn find_any(&self, name: &EngineName) -> Option<AgentPlace> {
        self.place_named(&(self.config)(), name)
    }

    fn place_named(&self, config: &Config, name: &EngineName) -> Option<AgentPlace> {
        let cluster = self.cluster_named(config, name).map(AgentPlace::Cluster);
        cluster.or_else(|| self.named(config, name).map(AgentPlace::Engine))
    }

    /// Returns the cluster of an agent's sandbox. An agent that is on no engine is placed.
    ///
    /// # Errors
    ///
    /// Returns [`SandboxError::NoPlace`] if it is on a Docker engine or no engine fits, and [`SandboxError::Placements`] if
    /// the database fails.
    pub(crate) async fn cluster_of(&self, agent: &Agent) -> Result<PlacedCluster, SandboxError> {
        if agent.id.is_nobody() {
            // The trial of a cluster: its configuration has no other.
            if let Some(only) = self.clusters().into_iter().next() {
                return Ok(only);
            }
        }
        match self.place_of(agent).await? {
            AgentPlace::Cluster(found) => Ok(found),
            AgentPlace::Engine(_) => {
                Err(SandboxError::NoPlace { agent: agent.id.clone(), source: NoEngine(Vec::new()) })
            }
        }
    }

    /// Returns the Docker engine of an agent's sandbox. An agent that is on none is placed.
    ///
    /// # Errors
    ///
    /// Fails as [`Engines::place_of`] does, and if the agent is in a cluster.
    pub(crate) async fn of(&self, agent: &Agent) -> Result<PlacedEngine, SandboxError> {
        self.place_of(agent).await?.engine(&agent.id)
    }

    /// Returns the place of an agent's sandbox. An agent that has none is placed.
    ///
    /// # Errors
    ///
    /// Returns [`SandboxError::NoPlace`] if no engine fits, and [`SandboxError::Placements`] if the database fails.
    pub async fn place_of(&self, agent: &Agent) -> Result<AgentPlace, SandboxError> {
        let config = (self.config)();
        if config.engines.is_empty() && !agent.labels.is_empty() {
            // The machine's own engine has no labels without an entry.
            let offers = Occupancy::new(&config, &PlacedAgents::new()).offers(&[]);
            let no_place = |source| SandboxError::NoPlace { agent: agent.id.clone(), source };
            placement::place(&needs(&self.home, &config, agent), &offers, None).map_err(no_place)?;
        }
        match self.known(&agent.id).await? {
            Some(found) => self.where_its_files_are(agent, found).await,
            None => self.place(agent).await,
        }
    }

    /// Returns the engine that has the agent's workspace, if that is another one than where the agent is placed: the engine was
    /// taken out of the configuration by hand, and is there again.
    async fn where_its_files_are(
        &self,
        agent: &Agent,
        found: AgentPlace,
    ) -> Result<AgentPlace, SandboxError> {
        if (self.config)().engines.is_empty() {
            return Ok(found);
        }
        let marked = elsewhere::engine_of(&agent.workspace).filter(|name| name != found.name());
        let Some(other) = marked.and_then(|name| self.find_any(&name)) else { return Ok(found) };
        self.put(&agent.id, other.name()).await?;
        tracing::warn!(agent = %agent.id, engine = %other.name(), "an agent is placed where its workspace is");
        Ok(other)
    }

    /// Returns the engine on which an agent's container is, if there is one. It is the machine's own for an agent that is
    /// placed nowhere.
    ///
    /// # Errors
    ///
    /// Returns [`SandboxError::Placements`] if the database fails, and an error if the agent is in a cluster.
    pub async fn of_id(&self, agent: &AgentId) -> Result<PlacedEngine, SandboxError> {
        self.place_of_id(agent).await?.engine(agent)
    }

    /// Returns the place of an agent's sandbox, if it has one. It is the machine's own engine for an agent that is placed
    /// nowhere.
    ///
    /// # Errors
    ///
    /// Returns [`SandboxError::Placements`] if the database fails.
    pub async fn place_of_id(&self, agent: &AgentId) -> Result<AgentPlace, SandboxError> {
        Ok(self.known(agent).await?.unwrap_or_else(|| AgentPlace::Engine(self.own())))
    }

    /// Returns the agent's place, or `None` if it is to be placed.
    async fn known(&self, agent: &AgentId) -> Result<Option<AgentPlace>, SandboxError> {
        let config = (self.config)();
        if config.engines.is_empty() || agent.is_nobody() {
            return Ok(Some(AgentPlace::Engine(self.own())));
        }
        let placed = match &self.records {
            PlacementRecords::Read(placed) => placed.get(agent).cloned(),
            _ => self.store().await?.placements().find(agent).await.map_err(placements_error)?,
        };
        // An engine that was removed from the configuration can't be reached any more.
        Ok(placed.and_then(|name| self.place_named(&config, &name)))
    }

    fn own(&self) -> PlacedEngine {
        self.find(&EngineName::local()).unwrap_or_else(|| PlacedEngine {
            name: EngineName::local(),
            engine: Arc::clone(&self.local),
            runtime: None,
        })
    }

    /// Returns the engine of every agent that is placed.
    ///
    /// # Errors
    ///
    /// Returns [`SandboxError::Placements`] if the database fails.
    pub async fn placements(&self) -> Result<PlacedAgents, SandboxError> {
        match &self.records {
            PlacementRecords::Read(placed) => Ok(placed.clone()),
            _ => self.store().await?.placements().list().await.map_err(placements_error),
        }
    }

    async fn store(&self) -> Result<&Arc<Store>, SandboxError> {
        match &self.records {
            PlacementRecords::Store(store) => Ok(store),
            PlacementRecords::Home(cell) => {
                let open = || async { Store::open(&self.home).map(Arc::new) };
                cell.get_or_try_init(open).await.map_err(placements_error)
            }
            PlacementRecords::Read(_) => Err(SandboxError::Placements(
                "the gateway places agents, so this has to wait for their first command".into(),
            )),
        }
    }

    /// Records the engine of an agent, in place of the one that it was on.
    async fn put(&self, agent: &AgentId, engine: &EngineName) -> Result<(), SandboxError> {
        let store = self.store().await?;
        let put = store.placements().put(agent.clone(), engine.clone(), clock::unix_ms()).await;
        put.map_err(placements_error)
    }

    /// Does the same if the agent and the others on that engine are still where they were `seen`. Returns `false` if they are not.
    async fn put_as_seen(
        &self,
        agent: &AgentId,
        engine: &EngineName,
        seen: &BTreeMap<AgentId, EngineName>,
    ) -> Result<bool, SandboxError> {
        let store = self.store().await?;
        let put = store.placements().put_as_seen(agent.clone(), engine.clone(), seen, clock::unix_ms()).await;
        put.map_err(placements_error)
    }

    /// Places an agent beside another one, if it is not placed yet. Both then have the same package store.
    ///
    /// # Errors
    ///
    /// Returns [`SandboxError::Placements`] if the database fails.
    pub(crate) async fn place_beside(
        &self,
        agent: &AgentId,
        other: &AgentId,
    ) -> Result<PlacedEngine, SandboxError> {
        let beside = self.of_id(other).await?;
        if (self.config)().engines.is_empty() {
            return Ok(beside);
        }
        let _placing = self.placing.lock().await;
        match self.known(agent).await? {
            Some(found) => found.engine(agent),
            None => {
                self.put(agent, &beside.name).await?;
                Ok(beside)
            }
        }
    }

    /// Waits until the agents that are being placed at this moment are placed. Later ones are placed by the present
    /// configuration.
    pub(crate) async fn settle(&self) {
        drop(self.placing.lock().await);
    }

    async fn place(&self, agent: &Agent) -> Result<AgentPlace, SandboxError> {
        let (mut answering, mut silent) = (Vec::new(), Vec::new());
        let (name, placing) = loop {
            let placing = self.placing.lock().await;
            // Another call may have placed it meanwhile.
            if let Some(found) = self.known(&agent.id).await? {
                return Ok(found);
            }
            let config = (self.config)();
            // The workspace of an agent that was removed and added again may still be in an engine of another machine.
            let marked = elsewhere::engine_of(&agent.workspace);
            if let Some(name) = marked.filter(|name| self.place_named(&config, name).is_some()) {
                self.put(&agent.id, &name).await?;
                break (name, placing);
            }
            let placed = self.placements().await?;
            let offers = Occupancy::new(&config, &placed).offers(&silent);
            let no_place = |source| SandboxError::NoPlace { agent: agent.id.clone(), source };
            let needs = needs(&self.home, &config, agent);
            match placement::search(&needs, &offers, &answering).map_err(no_place)? {
                Search::Found(name) => {
                    // Another gateway may have given the memory away meanwhile.
                    if self.put_as_seen(&agent.id, &name, &placed).await? {
                        break (name, placing);
                    }
                }
                Search::Ask(names) => {
                    // Without the lock, so that a silent engine keeps nobody waiting but this agent.
                    drop(placing);
                    for (name, answers) in self.ask_some(names).await {
                        let told = if answers { &mut answering } else { &mut silent };
                        told.push(name);
                    }
                }
            }
        };
        drop(placing);
        tracing::info!(agent = %agent.id, engine = %name, "an agent is placed on an engine");
        if !name.is_local() {
            self.remove_unplaced(&agent.id).await;
        }
        let found = self.place_named(&(self.config)(), &name);
        Ok(found.unwrap_or_else(|| AgentPlace::Engine(self.own())))
    }

    /// Removes a container that the agent had on the machine's own engine before there were others. `flock engine add`
    /// records the agents that are there, so this is for a configuration that was edited by hand.
    async fn remove_unplaced(&self, agent: &AgentId) {
        let removed = async {
            let name = names::sandbox(&self.home, agent);
            match containers::find_own(&self.local, &self.home, &name).await? {
                Some(found) => containers::remove(&self.local, &found.id).await,
                None => Ok(()),
            }
        };
        if let Err(error) = removed.await {
            let error = crate::error::chain(&error);
            tracing::warn!(%agent, error, "its container on the machine's own engine may still exist");
        }
    }

    /// Asks these engines at the same time if they answer.
    async fn ask_some(&self, names: Vec<EngineName>) -> Vec<(EngineName, bool)> {
        let asked = names.into_iter().map(|name| async move {
            let answers = match self.find_any(&name) {
                Some(found) => found.ping(false).await.is_ok(),
                // It was removed meanwhile.
                None => false,
            };
            (name, answers)
        });
        future::join_all(asked).await
    }

    /// Asks all engines at the same time, and returns those that do not answer.
    pub(crate) async fn silent(&self) -> Vec<EngineName> {
        self.ask().await.into_iter().filter_map(|found| found.problem.map(|_| found.name)).collect()
    }

    /// Asks all engines and clusters at the same time if they answer, the machine's own engine first. It takes some seconds if
    /// one of them does not.
    pub(crate) async fn ask(&self) -> Vec<AskedEngine> {
        let engines = self.all().into_iter().map(|found| async move {
            let problem = found.engine.ping().await.err();
            AskedEngine { name: found.name, address: found.engine.endpoint().to_owned(), problem }
        });
        let clusters = self.clusters().into_iter().map(|found| async move {
            let problem = found.client.ping().await.err();
            AskedEngine { name: found.name, address: found.client.address().to_string(), problem }
        });
        let (engines, clusters) = tokio::join!(future::join_all(engines), future::join_all(clusters));
        engines.into_iter().chain(clusters).collect()
    }

    /// Returns the agents whose engine does not fit any more: it is drained, or their labels or limits have changed. `only`
    /// restricts it to one agent.
    ///
    /// # Errors
    ///
    /// Returns [`SandboxError::Placements`] if the database fails.
    pub async fn moves(&self, only: Option<&AgentId>) -> Result<Vec<PlannedMove>, SandboxError> {
        let config = (self.config)();
        if config.engines.is_empty() {
            return Ok(Vec::new());
        }
        let placed = self.placements().await?;
        let (occupancy, prepared) = (Occupancy::new(&config, &placed), lock(&self.prepared).clone());
        let decide = |silent: &[EngineName]| {
            let agents = config.agents.iter().filter(|agent| only.is_none_or(|only| agent.id == *only));
            agents
                .filter_map(|agent| occupancy.planned(&self.home, silent, agent, prepared.get(&agent.id)))
                .collect::<Vec<_>>()
        };
        // In the common case every agent stays, and no engine has to be asked.
        if decide(&[]).is_empty() {
            return Ok(Vec::new());
        }
        Ok(decide(&self.silent().await))
    }

    /// Places an agent whose engine is lost on another one. It must have nothing there that it could not go on without.
    ///
    /// # Errors
    ///
    /// Fails as [`Self::beside_lost`] does. The agent then stays where it is.
    pub(crate) async fn leave_lost(
        &self,
        agent: &Agent,
        lost: &EngineName,
    ) -> Result<EngineName, SandboxError> {
        let silent = self.silent().await;
        let _placing = self.placing.lock().await;
        loop {
            let seen = self.placements().await?;
            let to = self.beside_lost(agent, lost, &silent).await?;
            if self.put_as_seen(&agent.id, &to, &seen).await? {
                return Ok(to);
            }
        }
    }

    /// Returns the engine on which an agent can go on whose own is lost, if these are [silent](Self::silent). It is not placed there
    /// yet.
    ///
    /// # Errors
    ///
    /// Returns [`SandboxError::NoPlace`] if no other engine fits, and [`SandboxError::Placements`] if the database fails.
    pub(crate) async fn beside_lost(
        &self,
        agent: &Agent,
        lost: &EngineName,
        silent: &[EngineName],
    ) -> Result<EngineName, SandboxError> {
        let (config, placed) = ((self.config)(), self.placements().await?);
        let mut offers = Occupancy::new(&config, &placed).offers(silent);
        // It may answer again at this moment.
        offers.retain(|offer| offer.name != *lost);
        let chosen = placement::place(&needs(&self.home, &config, agent), &offers, None);
        chosen.map(named).map_err(|source| SandboxError::NoPlace { agent: agent.id.clone(), source })
    }

    /// Notes why an agent has not moved yet, or that it waits for nothing.
    pub(crate) fn note_wait(&self, agent: &AgentId, reason: Option<String>) {
        let mut waiting = lock(&self.waiting);
        match reason {
            Some(reason) => waiting.insert(agent.clone(), reason),
            None => waiting.remove(agent),
        };
    }

    /// Notes in which engine packages are installed for an agent that moves there. It goes to this one as long as it fits,
    /// although another one may have fewer agents by then.
    pub(crate) fn prepare(&self, agent: &AgentId, engine: &EngineName) {
        lock(&self.prepared).insert(agent.clone(), engine.clone());
    }

    /// Returns the reasons for which agents have not moved yet.
    pub(crate) fn waits(&self) -> HashMap<AgentId, String> {
        lock(&self.waiting).clone()
    }

    /// Records that an agent whose container was removed goes to another engine. The decision is made again, because the
    /// memory may have been given to another agent. If the planned engine does not fit any more, the agent stays: its packages
    /// are in no other one. Returns the agent's engine.
    ///
    /// # Errors
    ///
    /// Returns [`SandboxError::NoPlace`] if nothing fits any more, and [`SandboxError::Placements`] if the database fails.
    pub(crate) async fn commit_move(&self, planned: &PlannedMove) -> Result<EngineName, SandboxError> {
        let silent = self.silent().await;
        let _placing = self.placing.lock().await;
        let (config, placed) = ((self.config)(), self.placements().await?);
        let Some(agent) = config.agent(&planned.agent) else {
            return Err(SandboxError::Unknown(planned.agent.clone()));
        };
        let wanted = planned.to.as_ref().ok();
        match Occupancy::new(&config, &placed).planned(&self.home, &silent, agent, wanted) {
            Some(PlannedMove { to: Ok(to), .. })
                if wanted == Some(&to) && self.put_as_seen(&agent.id, &to, &placed).await? =>
            {
                lock(&self.prepared).remove(&agent.id);
                Ok(to)
            }
            Some(PlannedMove { to: Ok(_), .. }) => Ok(planned.from.clone()),
            Some(PlannedMove { to: Err(source), .. }) => {
                Err(SandboxError::NoPlace { agent: agent.id.clone(), source })
            }
            // The drain was ended meanwhile.
            None => Ok(planned.from.clone()),
        }
    }
}

/// Returns the engine that was chosen for an agent that is on none.
fn named(chosen: Placement) -> EngineName {
    match chosen {
        Placement::Place(name) | Placement::Move(name) => name,
        // Without a current engine the decision is neither of these.
        Placement::Stay | Placement::Stuck(_) => EngineName::local(),
    }
}

/// Takes out the clients that do not stay.
fn take_others<T>(clients: &Clients<T>, stays: impl Fn(&EngineName, &str) -> bool) -> Vec<Arc<T>> {
    let mut clients = lock(clients);
    let all = std::mem::take(&mut *clients).into_iter();
    let (kept, removed): (HashMap<_, _>, HashMap<_, _>) =
        all.partition(|((name, address), _)| stays(name, address));
    *clients = kept;
    removed.into_values().collect()
}

/// Returns the reason for which the connections to the sandboxes of an engine end.
pub(super) fn removed(name: &EngineName) -> String {
    format!("its engine {name} was removed from the configuration")
}

/// Returns `true` if flock makes a sandbox for the agent. OpenClaw makes those of its agents itself, in the machine's own
/// engine.
#[must_use]
pub(crate) fn is_placed(agent: &Agent) -> bool {
    agent.sandbox == SandboxMode::All && !agent.runs_on_host()
}

/// Returns the needs of an agent.
fn needs(home: &Home, config: &Config, agent: &Agent) -> AgentNeeds {
    let only_here = if agent.is_run_by_program() {
        Some("an agent program")
    } else if config.projects.iter().any(|project| project.has_agent(&agent.id)) {
        Some("a project")
    } else if agent.workspace != home.workspace(&agent.id) {
        Some("a workspace outside of the home")
    } else {
        None
    };
    AgentNeeds { labels: agent.labels.clone(), memory: spec::memory_limit(agent), only_here }
}

/// The engines of a configuration, and what the agents there use of them.
struct Occupancy<'c> {
    config: &'c Config,
    placed: &'c PlacedAgents,
    /// The machine's own engine, if the configuration has no entry for it.
    local: Option<EngineSettings>,
    /// The memory limits of the agents on each engine, added up, and their number.
    used: HashMap<&'c EngineName, (u128, usize)>,
}

impl<'c> Occupancy<'c> {
    /// Adds up once for all decisions, so that a look at all agents of a large team takes time in proportion to it.
    fn new(config: &'c Config, placed: &'c PlacedAgents) -> Self {
        let mut used: HashMap<&EngineName, (u128, usize)> = HashMap::new();
        for agent in config.agents.iter().filter(|agent| is_placed(agent)) {
            if let Some(engine) = placed.get(&agent.id) {
                let (memory, agents) = used.entry(engine).or_default();
                *memory += u128::from(spec::memory_limit(agent));
                *agents += 1;
            }
        }
        let has_local = config.engines.iter().any(|engine| engine.name.is_local());
        let local = (!has_local).then(|| EngineSettings::new(EngineName::local(), None));
        Self { config, placed, local, used }
    }

    fn engines(&self) -> impl Iterator<Item = &EngineSettings> {
        self.config.engines.iter().chain(&self.local)
    }

    /// Returns an engine as a place for an agent. What `except` uses of its engine does not count.
    fn offer(
        &self,
        engine: &EngineSettings,
        silent: &[EngineName],
        except: Option<(&Agent, &EngineName)>,
    ) -> EngineOffer {
        let (mut memory, mut agents) = self.used.get(&engine.name).copied().unwrap_or_default();
        if let Some((agent, _)) = except.filter(|(_, on)| **on == engine.name) {
            memory = memory.saturating_sub(u128::from(spec::memory_limit(agent)));
            agents = agents.saturating_sub(1);
        }
        EngineOffer {
            name: engine.name.clone(),
            labels: engine.labels.clone(),
            memory: engine.memory,
            used: u64::try_from(memory).unwrap_or(u64::MAX),
            agents,
            state: match engine.is_draining {
                _ if silent.contains(&engine.name) => EngineState::Unreachable,
                true => EngineState::Draining,
                false => EngineState::Ready,
            },
            is_remote: engine.is_remote(),
        }
    }

    /// Returns all engines as places for an agent that is on none.
    fn offers(&self, silent: &[EngineName]) -> Vec<EngineOffer> {
        self.engines().map(|engine| self.offer(engine, silent, None)).collect()
    }

    /// Returns the move of an agent of the configuration that is placed, or `None` if it stays. It goes to the engine `wanted` if
    /// that one fits.
    fn planned(
        &self,
        home: &Home,
        silent: &[EngineName],
        agent: &Agent,
        wanted: Option<&EngineName>,
    ) -> Option<PlannedMove> {
        let from = self.placed.get(&agent.id).filter(|_| is_placed(agent))?;
        let (needs, except) = (needs(home, self.config, agent), Some((agent, from)));
        // An agent on an engine that is gone is placed at its next command.
        let own = self.engines().find(|engine| engine.name == *from)?;
        // Nearly every agent stays, which its own engine alone decides.
        let own = self.offer(own, silent, except);
        if placement::place(&needs, &[own], Some(from)) == Ok(Placement::Stay) {
            return None;
        }
        let mut offers: Vec<EngineOffer> =
            self.engines().map(|engine| self.offer(engine, silent, except)).collect();
        let decided = placement::place(&needs, &offers, Some(from));
        offers.retain(|offer| offer.name == *from || wanted == Some(&offer.name));
        let to = match decided {
            Ok(Placement::Move(best)) => match placement::place(&needs, &offers, Some(from)) {
                Ok(Placement::Move(wanted)) => Ok(wanted),
                _ => Ok(best),
            },
            Ok(Placement::Stuck(reasons)) => Err(reasons),
            Ok(Placement::Stay | Placement::Place(_)) | Err(_) => return None,
        };
        Some(PlannedMove { agent: agent.id.clone(), from: from.clone(), to })
    }
}

fn placements_error(error: StoreError) -> SandboxError {
    SandboxError::Placements(Box::new(error))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tempfile::TempDir;

    use super::*;
    use crate::home::elsewhere::Mark;
    use crate::sandbox::testing;

    struct Scene {
        engines: Engines,
        config: tokio::sync::watch::Sender<Arc<Config>>,
        /// The requests that `local` and `second` got.
        asked: [Arc<Mutex<Vec<String>>>; 2],
        _folders: Vec<TempDir>,
    }

    /// A home with three agents and an engine `second`. No engine has a container.
    fn scene() -> Scene {
        let answer = |line: &str| match line.contains("/_ping") {
            true => (200, "OK"),
            false => (404, r#"{"message":"there is none"}"#),
        };
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().join("home"), None);
        home.make_folders().unwrap();
        let (local, of_local, one) = testing::asked_engine(answer);
        let (second, of_second, two) = testing::asked_engine(answer);
        let agent = |id: &str| json!({"id": id, "role": "worker"});
        let document = json!({
            "gateway": {"auth": {"token": "t"}},
            "plugins": {"entries": {"flock": {"config": {
                "gatewayAgents": [agent("ada"), agent("bob"), agent("eve")],
                "engines": {"second": {"address": second.endpoint()}},
            }}}},
        });
        let config = Arc::new(crate::config::parse::config(&document, &home).unwrap());
        let (sender, receiver) = tokio::sync::watch::channel(config);
        let source: ConfigSource = Arc::new(move || Arc::clone(&receiver.borrow()));
        let records = PlacementRecords::Home(OnceCell::new());
        let engines = Engines::new(home, source, Arc::new(local), records);
        Scene { engines, config: sender, asked: [of_local, of_second], _folders: vec![folder, one, two] }
    }

    impl Scene {
        fn configure(&self, change: impl FnOnce(&mut Config)) {
            self.config.send_modify(|config| change(Arc::make_mut(config)));
        }

        async fn place(&self, id: &str) -> String {
            let config = self.config.borrow().clone();
            let agent = config.agent(&id.parse().unwrap()).unwrap();
            self.engines.of(agent).await.unwrap().name.to_string()
        }
    }

    #[tokio::test]
    async fn without_other_engines_nothing_is_looked_up() {
        let scene = scene();
        scene.configure(|config| config.engines.clear());
        assert_eq!(scene.place("ada").await, "local");
        scene.configure(|config| config.agents[1].labels = vec!["gpu".to_owned()]);
        let config = scene.config.borrow().clone();
        let error = scene.engines.of(&config.agents[1]).await.unwrap_err();
        assert_eq!(
            crate::error::chain(&error),
            "agent bob can't be placed: no engine fits: local does not have the label gpu"
        );
        assert!(!scene.engines.home.database().exists());
        assert!(scene.engines.moves(None).await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn agents_are_spread_and_stay_and_leave_a_drained_engine() {
        let scene = scene();
        assert!(scene.engines.silent().await.is_empty());
        assert_eq!(scene.place("ada").await, "local");
        assert_eq!(scene.place("bob").await, "second");
        assert_eq!(scene.place("eve").await, "local");
        scene.configure(|config| config.engines[0].is_draining = true);
        assert_eq!(scene.place("bob").await, "second", "it moves when nothing runs, not at its next command");
        let moves = scene.engines.moves(None).await.unwrap();
        assert_eq!(moves.len(), 1);
        assert_eq!((moves[0].agent.as_str(), moves[0].from.as_str()), ("bob", "second"));
        assert_eq!(scene.engines.commit_move(&moves[0]).await.unwrap(), EngineName::local());
        assert_eq!(scene.place("bob").await, "local");
        assert!(scene.engines.moves(None).await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn only_engines_that_fit_are_asked_and_none_for_an_agent_that_is_placed() {
        let scene = scene();
        scene.configure(|config| config.engines[0].is_draining = true);
        assert_eq!(scene.place("ada").await, "local");
        let asked = |at: usize| lock(&scene.asked[at]).len();
        let before = asked(0);
        assert!(before > 0 && asked(1) == 0);
        assert_eq!(scene.place("ada").await, "local");
        assert_eq!((asked(0), asked(1)), (before, 0));
    }

    #[tokio::test]
    async fn an_agent_goes_where_its_packages_were_installed_and_to_no_other_engine() {
        let scene = scene();
        let third: EngineName = "third".parse().unwrap();
        let address = scene.config.borrow().engines[0].address.clone();
        scene.configure(|config| config.engines.push(EngineSettings::new(third.clone(), address)));
        for (agent, engine) in [("ada", "local"), ("bob", "second"), ("eve", "third")] {
            scene.engines.put(&agent.parse().unwrap(), &engine.parse().unwrap()).await.unwrap();
        }
        let planned = async || scene.engines.moves(None).await.unwrap().remove(0);
        scene.configure(|config| config.engines[0].is_draining = true);
        assert_eq!(planned().await.to.unwrap(), EngineName::local());
        scene.engines.prepare(&"bob".parse().unwrap(), &third);
        let bob = planned().await;
        assert_eq!(bob.to.clone().unwrap(), third);
        // It does not fit any more, so the agent waits for the packages in another one.
        scene.configure(|config| config.engines[1].is_draining = true);
        assert_eq!(scene.engines.commit_move(&bob).await.unwrap().as_str(), "second");
        assert_eq!(planned().await.to.unwrap(), EngineName::local());
        scene.configure(|config| config.engines[1].is_draining = false);
        assert_eq!(scene.engines.commit_move(&bob).await.unwrap(), third);
        assert_eq!(scene.place("bob").await, "third");
    }

    #[tokio::test]
    async fn an_agent_of_an_engine_that_was_removed_is_placed_anew() {
        let scene = scene();
        let beside =
            scene.engines.place_beside(&"eve".parse().unwrap(), &"ada".parse().unwrap()).await.unwrap();
        assert_eq!(beside.name, EngineName::local());
        assert_eq!(scene.place("bob").await, "second");
        scene.configure(|config| config.engines[0].name = "third".parse().unwrap());
        assert_eq!(scene.place("bob").await, "third");
        scene.configure(|config| config.agents[0].labels = vec!["gpu".to_owned()]);
        let config = scene.config.borrow().clone();
        let error = scene.engines.of(&config.agents[0]).await.unwrap_err();
        assert!(matches!(error, SandboxError::NoPlace { .. }), "{error:?}");
    }

    #[tokio::test]
    async fn a_client_is_kept_until_its_engine_is_removed_or_has_another_address() {
        let scene = scene();
        let (second, far): (EngineName, EngineName) = ("second".parse().unwrap(), "far".parse().unwrap());
        let address = "k8s://stand-in/flock".to_owned();
        scene.configure(|config| {
            let cluster =
                ClusterSettings { image: "image".to_owned(), storage: 1 << 30, storage_class: None };
            let settings = EngineSettings::new(far.clone(), Some(address));
            config.engines.push(EngineSettings { cluster: Some(cluster), ..settings });
        });
        let (engine, cluster) =
            (scene.engines.find(&second).unwrap().engine, scene.engines.cluster(&far).unwrap().client);
        assert!(scene.engines.take_removed().is_empty() && scene.engines.take_removed_clusters().is_empty());
        assert!(Arc::ptr_eq(&engine, &scene.engines.find(&second).unwrap().engine));
        assert!(Arc::ptr_eq(&cluster, &scene.engines.cluster(&far).unwrap().client));
        scene.configure(|config| config.engines[0].address = Some("unix:///elsewhere.sock".to_owned()));
        let removed = scene.engines.take_removed();
        assert!(removed.len() == 1 && Arc::ptr_eq(&removed[0], &engine));
        let other = scene.engines.find(&second).unwrap().engine;
        scene.configure(|config| config.engines.clear());
        let removed = scene.engines.take_removed();
        assert!(removed.len() == 1 && Arc::ptr_eq(&removed[0], &other));
        let removed = scene.engines.take_removed_clusters();
        assert!(removed.len() == 1 && Arc::ptr_eq(&removed[0], &cluster));
        assert!(scene.engines.take_removed().is_empty() && scene.engines.take_removed_clusters().is_empty());
    }

    #[tokio::test]
    async fn an_agent_is_where_its_workspace_is() {
        let scene = scene();
        assert_eq!(scene.place("ada").await, "local");
        let config = scene.config.borrow().clone();
        let ada = config.agent(&"ada".parse().unwrap()).unwrap();
        let mark = |engine: &str| Mark::new(&engine.parse().unwrap(), &ada.id);
        std::fs::create_dir_all(scene.engines.home.workspaces()).unwrap();
        elsewhere::mark(&ada.workspace, &mark("gone")).unwrap();
        assert_eq!(scene.place("ada").await, "local", "its command fails, and says where the files are");
        std::fs::remove_file(&ada.workspace).unwrap();
        elsewhere::mark(&ada.workspace, &mark("second")).unwrap();
        assert_eq!(scene.place("ada").await, "second");
        std::fs::remove_file(&ada.workspace).unwrap();
        assert_eq!(scene.place("ada").await, "second", "it stays");
    }
}
