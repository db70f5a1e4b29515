//! Sandboxes in a Kubernetes cluster: a pod for each agent, whose workspace is a volume of the cluster. The pod is created at
//! first use, made anew if it differs from its specification, and used over the streams of the helper inside.
//!
//! None of this was ever tried on a real cluster: the tests have a stand-in, which validates objects by the published
//! definitions and runs pods as containers.

pub mod access;
mod attached_pod;
mod brief_command;
pub mod client;
pub(crate) mod cluster_check;
pub mod deviations;
mod freeze;
mod listing;
pub mod objects;
pub mod pod_state;
mod provision;
pub(crate) mod relocation;
mod slot;
pub mod stream;
mod transfer;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex};

use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use crate::config::{Agent, Network, SandboxMode};
use crate::home::beneath::Root;
use crate::home::elsewhere::{self, Mark};
use crate::home::{Home, instance};
use crate::id::AgentId;
use crate::provider::BoxFuture;
use crate::sandbox::docker::ConfigSource;
use crate::sandbox::egress::{self, ConfiguredEgress, Dialer, EgressPolicy, SystemDialer};
use crate::sandbox::engines::{Engines, PlacedCluster, PlannedMove};
use crate::sandbox::mount::MountSource;
use crate::sandbox::probe::ProbeResult;
use crate::sandbox::spec::IDENTITY_FILES;
use crate::sandbox::workspace_files::RemoteFiles;
use crate::sandbox::{
    BackgroundJob, Command, CommandExit, CommandOutcome, JobReply, JobRequest, Output, Relocation, Sandbox,
    SandboxError, binds, making, workspace, workspace_volume,
};
use crate::sync::lock;

use objects::{SandboxFacts, SandboxObjects};
use provision::PodMaker;
use slot::{LivePod, Slot};

/// Largest text of an identity file in bytes. All of them have to fit into one object of a cluster, which may have a MiB.
const MAX_IDENTITY: u64 = 180 << 10;

/// The sandboxes of one home in its clusters.
pub struct KubernetesSandbox {
    home: Home,
    config: ConfigSource,
    engines: Arc<Engines>,
    /// An agent's slot is never replaced by another one, because its locks guard the agent's pod.
    slots: Mutex<HashMap<AgentId, Arc<Slot>>>,
    /// The wanted freeze state of each agent. It is also applied to sandboxes that are created later.
    standing: Mutex<super::FreezeCheck>,
    egress: Arc<dyn EgressPolicy>,
    dial: Arc<dyn Dialer>,
    mounts: MountSource,
}

/// Everything that an agent's pod depends on.
struct PodPlan {
    agent: Agent,
    cluster: PlacedCluster,
    objects: SandboxObjects,
    /// The place of the workspace. If it is new, the workspace is on this machine yet.
    mark: Mark,
    is_new: bool,
}

impl KubernetesSandbox {
    /// Creates the value without calling a cluster.
    #[must_use]
    pub fn new(home: Home, config: ConfigSource, engines: Arc<Engines>) -> Self {
        Self {
            home,
            egress: Arc::new(ConfiguredEgress(Arc::clone(&config))),
            dial: Arc::new(SystemDialer::default()),
            config,
            engines,
            slots: Mutex::default(),
            standing: Mutex::new(Arc::new(|_| false)),
            mounts: Arc::new(|_| Box::pin(async { Vec::new() })),
        }
    }

    /// Replaces the egress policy, which is the configuration alone by default.
    #[must_use]
    pub fn with_egress(self, egress: Arc<dyn EgressPolicy>) -> Self {
        Self { egress, ..self }
    }

    /// Sets the source of the approved mounts, with which no agent can be in a cluster.
    #[must_use]
    pub fn with_mounts(self, mounts: MountSource) -> Self {
        Self { mounts, ..self }
    }

    /// Returns the result of the last probe of each agent's sandbox, sorted by agent.
    #[must_use]
    pub fn probes(&self) -> Vec<(AgentId, ProbeResult)> {
        let slots = lock(&self.slots);
        let mut probes: Vec<_> =
            slots.iter().filter_map(|(agent, slot)| Some((agent.clone(), slot.probed()?))).collect();
        probes.sort_by(|(a, _), (b, _)| a.cmp(b));
        probes
    }

    /// Probes an agent's sandbox now, after creating it if necessary.
    ///
    /// # Errors
    ///
    /// Returns [`SandboxError::NotConfined`] if the probe finds something open, and fails if the sandbox can't be made ready.
    pub async fn probe(&self, agent: &AgentId) -> Result<ProbeResult, SandboxError> {
        let slot = self.slot(agent);
        let live = self.live(agent, &slot).await?;
        let plan = self.plan(agent).await?;
        let probed = self.maker().probe_pod(agent, &plan.cluster, &live.client).await?;
        slot.record_probe(Some(probed.clone()));
        probed.verdict(agent)?;
        Ok(probed)
    }

    fn maker(&self) -> PodMaker {
        PodMaker { egress: Arc::clone(&self.egress), dial: Arc::clone(&self.dial) }
    }

    fn slot(&self, agent: &AgentId) -> Arc<Slot> {
        let standing = Arc::clone(&lock(&self.standing));
        let mut slots = lock(&self.slots);
        let slot = slots.entry(agent.clone()).or_insert_with(|| {
            let slot = Slot::default();
            slot.set_frozen(standing(agent));
            Arc::new(slot)
        });
        Arc::clone(slot)
    }

    /// Collects everything that the agent's pod depends on from the current configuration.
    async fn plan(&self, agent: &AgentId) -> Result<PodPlan, SandboxError> {
        let config = (self.config)();
        let Some(found) = config.agent(agent) else { return Err(SandboxError::Unknown(agent.clone())) };
        if found.sandbox == SandboxMode::Off {
            return Err(SandboxError::Off(agent.clone()));
        }
        let cluster = self.engines.cluster_of(found).await?;
        let refused = |what: &str| {
            let what = format!("{what} in a cluster, which does not have this machine's files");
            SandboxError::Refused { agent: agent.clone(), what, granted: true }
        };
        if !(self.mounts)(agent.clone()).await.is_empty() {
            return Err(refused("an approved mount"));
        }
        if config.projects.iter().any(|project| project.has_agent(agent)) {
            return Err(refused("a project"));
        }
        let (home, found) = (self.home.clone(), found.clone());
        let facts = tokio::task::spawn_blocking(move || HostFacts::read(&home, found)).await;
        let facts = facts.map_err(|error| SandboxError::Host {
            path: self.home.root().to_owned(),
            source: std::io::Error::other(error),
        })??;
        let (mark, is_new) = match facts.mark {
            None => (objects::new_mark(&cluster.name, agent), true),
            Some(mark) if mark.engine == cluster.name => (mark, false),
            Some(other) => {
                let what = format!("is on the engine {}", other.engine);
                return Err(SandboxError::Workspace { agent: agent.clone(), what });
            }
        };
        let runtime = facts.agent.docker.runtime.clone().or_else(|| cluster.runtime.clone());
        let objects = SandboxObjects::build(&SandboxFacts {
            instance: &facts.instance,
            files: &facts.files,
            agent: &facts.agent,
            cluster: &cluster.settings,
            claim: &mark.volume,
            runtime: runtime.as_deref(),
            identity: &facts.identity,
        })?;
        Ok(PodPlan { agent: facts.agent, cluster, objects, mark, is_new })
    }

    /// Returns a pod that is ready for commands: the warm one, or one that was just created or repaired.
    async fn live(&self, agent: &AgentId, slot: &Arc<Slot>) -> Result<Arc<LivePod>, SandboxError> {
        let plan = self.plan(agent).await?;
        if slot.is_frozen() {
            return Err(SandboxError::Frozen(agent.clone()));
        }
        // One that is in a cluster that was removed meanwhile has another client than the plan.
        if let Some(live) = slot.live().filter(|live| Arc::ptr_eq(&live.cluster, &plan.cluster.client)) {
            if live.digest == plan.objects.digest() {
                return Ok(live);
            }
            // One whose helper does not tell hangs. A new pod solves that.
            if matches!(live.work().await, Ok(Some(_))) {
                tracing::info!(%agent, "its sandbox has changed settings and is made anew when nothing runs");
                return Ok(live);
            }
        }
        let making = making::take(&slot.making).await;
        // The configuration may have changed during the wait, and whoever held the lock may have made the pod.
        let plan = Arc::new(self.plan(agent).await?);
        let is_it = |live: &Arc<LivePod>| {
            live.digest == plan.objects.digest() && Arc::ptr_eq(&live.cluster, &plan.cluster.client)
        };
        if let Some(live) = slot.live().filter(is_it) {
            return Ok(live);
        }
        slot.forget();
        let (client, probed) = self.maker().make_or_clean(agent, &plan, slot, &making).await?;
        slot.record_probe(Some(probed));
        let live = Arc::new(LivePod {
            client,
            cluster: Arc::clone(&plan.cluster.client),
            digest: plan.objects.digest().to_owned(),
            active: Default::default(),
        });
        slot.set(Arc::clone(&live));
        // A freeze may have come in while the pod was made.
        if slot.is_frozen() {
            self.settle(agent, slot).await?;
            return Err(SandboxError::Frozen(agent.clone()));
        }
        Ok(live)
    }

    /// Returns the environment of a command: the proxy's variables, then the configured ones, then the command's own.
    fn environment(&self, agent: &AgentId, own: Vec<(String, String)>) -> Vec<(String, String)> {
        let config = (self.config)();
        let Some(found) = config.agent(agent) else { return own };
        let mut all = match found.network {
            Network::None => Vec::new(),
            Network::Proxy => egress::environment(),
        };
        all.extend(found.docker.env.iter().map(|(name, value)| (name.clone(), value.clone())));
        all.extend(own);
        all
    }

    async fn files(&self, agent: &AgentId, starts: bool) -> Result<Option<RemoteFiles>, SandboxError> {
        let config = (self.config)();
        let Some(found) = config.agent(agent) else { return Err(SandboxError::Unknown(agent.clone())) };
        if elsewhere::engine_of(&found.workspace).is_none() {
            return Ok(None);
        }
        let slot = self.slot(agent);
        if !starts && (slot.is_frozen() || slot.live().is_none()) {
            return Ok(None);
        }
        let live = self.live(agent, &slot).await?;
        let busy = live.active.begin();
        Ok(Some(RemoteFiles::new(Arc::clone(&live.client), Handle::current()).holding(busy)))
    }
}

impl Sandbox for KubernetesSandbox {
    fn ensure<'a>(&'a self, agent: &'a AgentId) -> BoxFuture<'a, Result<(), SandboxError>> {
        Box::pin(async move {
            let slot = self.slot(agent);
            self.live(agent, &slot).await.map(drop)
        })
    }

    fn run<'a>(
        &'a self,
        agent: &'a AgentId,
        mut command: Command,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<CommandOutcome, SandboxError>> {
        Box::pin(async move {
            let slot = self.slot(agent);
            let live = tokio::select! {
                live = self.live(agent, &slot) => live?,
                () = cancel.cancelled() => {
                    let (output, took) = (Output::default(), std::time::Duration::ZERO);
                    return Ok(CommandOutcome { end: CommandExit::Cancelled, output, took });
                }
            };
            let _busy = live.active.begin();
            command.env = self.environment(agent, command.env);
            // It is not repeated: the connection may break after it began.
            match live.client.run(&command, cancel).await {
                Ok(outcome) => Ok(outcome),
                Err(error) => Err(self.explained(agent, error).await),
            }
        })
    }

    fn spawn<'a>(
        &'a self,
        agent: &'a AgentId,
        mut command: Command,
    ) -> BoxFuture<'a, Result<BackgroundJob, SandboxError>> {
        Box::pin(async move {
            let slot = self.slot(agent);
            let live = self.live(agent, &slot).await?;
            let _busy = live.active.begin();
            command.env = self.environment(agent, command.env);
            match live.client.spawn(&command).await {
                Ok(job) => Ok(job),
                Err(error) => Err(self.explained(agent, error).await),
            }
        })
    }

    fn jobs<'a>(
        &'a self,
        agent: &'a AgentId,
        request: JobRequest,
    ) -> BoxFuture<'a, Result<JobReply, SandboxError>> {
        Box::pin(async move {
            let slot = self.slot(agent);
            let live = self.live(agent, &slot).await?;
            match live.client.jobs(request).await {
                Ok(reply) => Ok(reply),
                Err(error) => Err(self.explained(agent, error).await),
            }
        })
    }

    fn remote_files<'a>(
        &'a self,
        agent: &'a AgentId,
        starts: bool,
    ) -> BoxFuture<'a, Result<Option<RemoteFiles>, SandboxError>> {
        Box::pin(self.files(agent, starts))
    }

    fn remove<'a>(&'a self, agent: &'a AgentId) -> BoxFuture<'a, Result<(), SandboxError>> {
        Box::pin(self.remove_pod(agent))
    }

    fn relocate<'a>(&'a self, planned: &'a PlannedMove) -> BoxFuture<'a, Result<Relocation, SandboxError>> {
        Box::pin(self.relocate_idle(planned))
    }

    fn pause<'a>(&'a self, agent: &'a AgentId) -> BoxFuture<'a, Result<(), SandboxError>> {
        Box::pin(self.freeze(agent, true))
    }

    fn resume<'a>(&'a self, agent: &'a AgentId) -> BoxFuture<'a, Result<(), SandboxError>> {
        Box::pin(self.freeze(agent, false))
    }
}

/// The things of this machine that an agent's pod depends on.
struct HostFacts {
    instance: String,
    /// The id of the files that the home shares with other gateways; without others, its instance id.
    files: String,
    agent: Agent,
    /// The identity files by name.
    identity: BTreeMap<String, String>,
    /// `None` if the workspace is on this machine.
    mark: Option<Mark>,
}

impl HostFacts {
    fn read(home: &Home, mut agent: Agent) -> Result<Self, SandboxError> {
        // The package store, which the configuration names for all sandboxes, is not there. Any other bind is refused.
        agent.docker.binds.retain(|bind| binds::check(home, bind, None, binds::resolve).is_err());
        let failed = |path: &Path, source| SandboxError::Host { path: path.to_owned(), source };
        // The gateway may never have run.
        let instance = instance::settle(home)
            .and_then(|_| instance::read(home))
            .map_err(|error| failed(&home.instance(), std::io::Error::other(error)))?;
        let files = workspace_volume::ids(home).into_iter().next().unwrap_or_else(|| instance.clone());
        let mark = elsewhere::read(&agent.workspace);
        let mut identity = BTreeMap::new();
        if !agent.id.is_nobody() {
            workspace::prepare_identity(&agent.identity).map_err(|(path, source)| failed(&path, source))?;
            let root = Root::open(&agent.identity)
                .map_err(|error| failed(&agent.identity, std::io::Error::other(error)))?;
            for name in IDENTITY_FILES {
                let path = agent.identity.join(name);
                let bytes = root.read(Path::new(name), MAX_IDENTITY);
                let bytes = bytes.map_err(|error| failed(&path, std::io::Error::other(error)))?;
                identity.insert(name.to_owned(), String::from_utf8_lossy(&bytes).into_owned());
            }
        }
        Ok(Self { instance, files, agent, identity, mark })
    }
}
