//! The state of one agent's sandbox: the container in use, the plan it was made from, and the last probe.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::config::{Agent, Config, DockerSettings, Network};
use crate::home::Home;
use crate::id::AgentId;
use crate::sandbox::egress;
use crate::sandbox::engine::Engine;
use crate::sandbox::engines::PlacedEngine;
use crate::sandbox::helper::{Environment, HelperClient, HelperError, PausableClock};
use crate::sandbox::image;
use crate::sandbox::mount::{ApprovedMount, Mounts};
use crate::sandbox::probe::ProbeResult;
use crate::sandbox::program_mounts::ProgramMount;
use crate::sandbox::project_mount::ProjectMount;
use crate::sandbox::spec::IdentityMount;
use crate::sandbox::{BackgroundJob, SandboxError, workspace};

use super::activity_count::ActivityCount;

/// An agent's sandbox, whether its container exists or not.
#[derive(Default)]
pub(crate) struct Slot {
    /// Held while the container is created or removed.
    pub making: Arc<tokio::sync::Mutex<()>>,
    /// Held while the container is frozen or thawed.
    pub freezing: tokio::sync::Mutex<()>,
    frozen: watch::Sender<bool>,
    live: Mutex<Option<Arc<LiveContainer>>>,
    probed: Mutex<Option<ProbeResult>>,
    /// Counter of the programs that are being ended.
    pub endings: ActivityCount,
    /// Background jobs that ended together with the previous container.
    lost: Mutex<Vec<BackgroundJob>>,
}

impl Slot {
    pub fn live(&self) -> Option<Arc<LiveContainer>> {
        locked(&self.live).clone()
    }

    pub fn set(&self, live: Arc<LiveContainer>) {
        *locked(&self.live) = Some(live);
    }

    /// Drops the container. The connection to it closes when the last command that uses it has ended.
    pub fn forget(&self) {
        *locked(&self.live) = None;
    }

    /// Drops the container if the condition is met, and returns it.
    pub fn forget_if(&self, is_it: impl FnOnce(&LiveContainer) -> bool) -> Option<Arc<LiveContainer>> {
        locked(&self.live).take_if(|live| is_it(live))
    }

    /// Drops everything that is known of a container that was removed.
    pub fn clear(&self) {
        self.forget();
        *locked(&self.probed) = None;
        locked(&self.lost).clear();
    }

    pub fn probed(&self) -> Option<ProbeResult> {
        locked(&self.probed).clone()
    }

    /// Returns `true` if the sandbox has to be frozen. The container may not have followed yet.
    pub fn is_frozen(&self) -> bool {
        *self.frozen.borrow()
    }

    pub(crate) fn set_frozen(&self, frozen: bool) {
        self.frozen.send_replace(frozen);
    }

    pub fn patience(&self) -> PausableClock {
        PausableClock::new(self.frozen.subscribe())
    }

    /// Records background jobs that end together with their container.
    pub fn lose(&self, jobs: Vec<BackgroundJob>) {
        *locked(&self.lost) = jobs;
    }

    /// Returns the job of this number if it ended with the previous container.
    pub fn lost(&self, id: u32) -> Option<BackgroundJob> {
        locked(&self.lost).iter().find(|job| job.id == id).cloned()
    }

    pub(crate) fn record_probe(&self, probed: ProbeResult) {
        *locked(&self.probed) = Some(probed);
    }
}

/// A container in use, and the way to reach it.
pub struct LiveContainer {
    /// The container's id.
    pub container: String,
    /// The plan it was made from.
    pub plan: ContainerPlan,
    /// The way commands reach it.
    pub line: CommandTransport,
    made: Instant,
    /// The commands and programs for which a caller waits.
    pub active: ActivityCount,
}

/// The work that runs in a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Workload {
    /// Nothing runs.
    None,
    /// Only background jobs run.
    Jobs(Vec<BackgroundJob>),
    /// A command or program runs for which a caller waits.
    Awaited,
}

/// The way commands reach a container.
pub(crate) enum CommandTransport {
    /// The helper, over the attached streams.
    Helper(Arc<HelperClient>),
    /// The engine's exec, if the streams cannot be attached.
    Exec,
}

impl LiveContainer {
    pub fn new(container: String, plan: ContainerPlan, line: CommandTransport) -> Self {
        Self { container, plan, line, made: Instant::now(), active: ActivityCount::default() }
    }

    pub fn is_alive(&self) -> bool {
        match &self.line {
            CommandTransport::Helper(client) => client.is_alive(),
            // A dead container shows at the next command. After a while the container is looked at again, so that the
            // streams are tried again.
            CommandTransport::Exec => self.made.elapsed() < EXEC_RETRY_AFTER,
        }
    }

    /// Ends the connection for this reason, which the commands that use it get as their error.
    pub fn disconnect(&self, reason: &str) {
        if let CommandTransport::Helper(client) = &self.line {
            client.disconnect(reason);
        }
    }

    /// Returns the engine that the container is in.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.plan.engine.engine
    }

    /// Returns `true` if the container is alive and was made from this plan.
    pub fn fits(&self, plan: &ContainerPlan) -> bool {
        self.is_alive() && self.plan == *plan
    }

    /// Returns `true` if the container has a mount that is no longer approved.
    pub(crate) fn has_revoked_mount(&self, plan: &ContainerPlan) -> bool {
        self.plan.mounts.approved.iter().any(|mount| !plan.mounts.approved.contains(mount))
    }

    /// Returns `true` if the agent program needs something that the container was made without.
    pub fn lacks(&self, plan: &ContainerPlan) -> bool {
        (plan.asks_flock && !self.plan.asks_flock)
            || plan.fittings.iter().any(|fitting| !self.plan.fittings.contains(fitting))
    }

    /// Returns the work that runs in the container.
    ///
    /// # Errors
    ///
    /// Fails if the helper does not tell its background jobs.
    pub async fn work(&self) -> Result<Workload, HelperError> {
        if !self.active.is_zero() {
            return Ok(Workload::Awaited);
        }
        // There are no background jobs without the helper.
        let CommandTransport::Helper(client) = &self.line else { return Ok(Workload::None) };
        let jobs = client.running_jobs().await?;
        // A command may have begun while the helper was asked for its jobs.
        if !self.active.is_zero() {
            return Ok(Workload::Awaited);
        }
        Ok(if jobs.is_empty() { Workload::None } else { Workload::Jobs(jobs) })
    }

    /// Returns the helper, for operations that need it. `why` ends the error message if there is none.
    pub fn helper(&self, agent: &AgentId, why: &str) -> Result<&Arc<HelperClient>, SandboxError> {
        match &self.line {
            CommandTransport::Helper(client) => Ok(client),
            CommandTransport::Exec => Err(SandboxError::Lost {
                agent: agent.clone(),
                reason: format!("its streams can't be attached, and {why}"),
            }),
        }
    }
}

/// Everything of the configuration and the workspace that a container depends on. A changed configuration is noticed by
/// comparing two plans, without a call to the engine.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ContainerPlan {
    /// The agent's configuration, without the settings that do not concern the container.
    pub agent: Agent,
    /// The image's name, as configured or with this home's own tag.
    pub image: String,
    /// The host folders and files approved for the agent.
    pub mounts: Mounts,
    /// The mounts needed by the agent program that runs the agent's turns.
    pub fittings: Vec<ProgramMount>,
    /// The projects that the agent is assigned to.
    pub projects: Vec<ProjectMount>,
    /// `true` if a program in the container asks flock for models, tools or a project's repository.
    pub asks_flock: bool,
    /// The engine that the agent is placed on.
    pub engine: PlacedEngine,
    identity: Option<Vec<IdentityMount>>,
}

impl ContainerPlan {
    pub fn new(
        home: &Home,
        config: &Config,
        agent: &Agent,
        approved: Vec<ApprovedMount>,
        fittings: Vec<ProgramMount>,
        engine: PlacedEngine,
    ) -> Self {
        let mounts = Mounts::new(config, approved);
        let image = image::of_agent(home, config, agent);
        let assigned = config.projects.iter().filter(|project| project.has_agent(&agent.id));
        let projects: Vec<_> = assigned.filter_map(|project| ProjectMount::new(home, project)).collect();
        let is_program_inside = agent.is_run_by_program() && !agent.runs_on_host();
        let asks_flock = is_program_inside || !projects.is_empty();
        // Keep only the settings that need another container. A change of the model or the tool policy must not replace
        // it.
        let agent = Agent {
            model: None,
            effort: None,
            fallbacks: Vec::new(),
            archetype: None,
            allow: Vec::new(),
            deny: Vec::new(),
            // Checked for each connection.
            egress: Vec::new(),
            runtime: String::new(),
            docker: DockerSettings {
                // Watched from outside, and not a property of the container.
                disk: None,
                runtime: agent.docker.runtime.clone().or_else(|| engine.runtime.clone()),
                ..agent.docker.clone()
            },
            // They chose the engine already.
            labels: Vec::new(),
            ..agent.clone()
        };
        let identity = workspace::identity(&agent.identity).ok();
        Self { agent, image, mounts, fittings, projects, asks_flock, engine, identity }
    }

    /// Reads the identity files again after the workspace was prepared, because preparing it may create them.
    pub fn settled(mut self) -> Self {
        self.identity = workspace::identity(&self.agent.identity).ok();
        self
    }

    /// Returns the environment of a command: the proxy's variables, then the configured ones, then the command's own.
    pub fn environment(&self, own: Vec<(String, String)>) -> Vec<(String, String)> {
        let configured = self.agent.docker.env.iter().map(|(name, value)| (name.clone(), value.clone()));
        let mut all = match self.agent.network {
            Network::None => Vec::new(),
            Network::Proxy => egress::environment(),
        };
        // Later values of a name override earlier ones.
        all.extend(configured);
        all.extend(own);
        all
    }

    /// Returns the same environment for a process that the helper does not start. The helper also adds its defaults for
    /// home and path, so they are included here.
    pub(crate) fn exec_environment(&self, own: Vec<(String, String)>) -> Vec<(String, String)> {
        let mut all: Vec<(String, String)> = Vec::new();
        for (name, value) in Environment::default().variables.into_iter().chain(self.environment(own)) {
            // The engine's exec gets a list, so an earlier value of the same name has to go.
            all.retain(|(earlier, _)| *earlier != name);
            all.push((name, value));
        }
        all
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Time for which commands go through the engine's exec before the streams are tried again.
const EXEC_RETRY_AFTER: Duration = Duration::from_secs(60);

#[cfg(test)]
pub(super) mod tests {
    use futures_util::FutureExt as _;
    use serde_json::json;

    use super::*;
    use crate::id::EngineName;
    use crate::sandbox::testing;

    /// A container of the agent `coder`, with the helper of a test.
    pub(in crate::sandbox::docker) fn live(engine: PlacedEngine, client: HelperClient) -> LiveContainer {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().join("home"), None);
        let document = json!({"gateway": {"auth": {"token": "t"}}});
        let config = crate::config::parse::config(&document, &home).unwrap();
        let agent = testing::agent("coder", folder.path().join("workspace"));
        let plan = ContainerPlan::new(&home, &config, &agent, Vec::new(), Vec::new(), engine);
        LiveContainer::new("box".to_owned(), plan, CommandTransport::Helper(Arc::new(client)))
    }

    #[tokio::test]
    async fn a_command_that_begins_while_the_helper_is_asked_is_work() {
        let folder = tempfile::tempdir().unwrap();
        let (_child, client) = testing::helper(folder.path(), folder.path()).await;
        let engine = Arc::new(Engine::at("unix:///nowhere.sock"));
        let live = live(PlacedEngine { name: EngineName::local(), engine, runtime: None }, client);
        assert_eq!(live.work().await.unwrap(), Workload::None);
        let mut work = Box::pin(live.work());
        assert!((&mut work).now_or_never().is_none(), "the helper is asked");
        let command = live.active.begin();
        assert_eq!(work.await.unwrap(), Workload::Awaited);
        drop(command);
        assert_eq!(live.work().await.unwrap(), Workload::None);
    }
}
