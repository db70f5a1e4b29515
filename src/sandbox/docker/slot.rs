//! What is known of one agent's sandbox: the container that is in use, what it was made from, and what the
//! last probe found.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::config::{Agent, Config, DockerSettings, Network};
use crate::home::Home;
use crate::id::AgentId;
use crate::sandbox::egress;
use crate::sandbox::fitting::Fitting;
use crate::sandbox::helper::{Environment, HelperClient, Patience};
use crate::sandbox::image::{self, Recipe};
use crate::sandbox::mount::{ApprovedMount, Mounts};
use crate::sandbox::probe::Probed;
use crate::sandbox::spec::IdentityFile;
use crate::sandbox::{Job, JobRequest, SandboxError, workspace};

use super::endings::Endings;

/// An agent's sandbox, there or not.
#[derive(Default)]
pub struct Slot {
    /// Held by whoever makes or removes the container.
    pub making: tokio::sync::Mutex<()>,
    /// Held by whoever freezes or thaws the container.
    pub freezing: tokio::sync::Mutex<()>,
    frozen: watch::Sender<bool>,
    live: Mutex<Option<Arc<Live>>>,
    probed: Mutex<Option<Probed>>,
    /// The programs that are being ended.
    pub endings: Endings,
    /// Background jobs that were ended with a container before this one.
    lost: Mutex<Vec<Job>>,
}

impl Slot {
    pub fn live(&self) -> Option<Arc<Live>> {
        locked(&self.live).clone()
    }

    pub fn set(&self, live: Arc<Live>) {
        *locked(&self.live) = Some(live);
    }

    /// Lets go of the container; the connection to it ends with the last command that uses it.
    pub fn forget(&self) {
        *locked(&self.live) = None;
    }

    pub fn probed(&self) -> Option<Probed> {
        locked(&self.probed).clone()
    }

    /// Whether it is to be frozen. The container follows.
    pub fn is_frozen(&self) -> bool {
        *self.frozen.borrow()
    }

    pub fn set_frozen(&self, frozen: bool) {
        self.frozen.send_replace(frozen);
    }

    pub fn patience(&self) -> Patience {
        Patience::new(self.frozen.subscribe())
    }

    /// These background jobs end with their container.
    pub fn lose(&self, jobs: Vec<Job>) {
        *locked(&self.lost) = jobs;
    }

    /// The job with this number, if it ended with the container before this one.
    pub fn lost(&self, id: u32) -> Option<Job> {
        locked(&self.lost).iter().find(|job| job.id == id).cloned()
    }

    pub fn note_probe(&self, probed: Probed) {
        *locked(&self.probed) = Some(probed);
    }
}

/// A container in use.
pub struct Live {
    /// Its id.
    pub container: String,
    /// What it was made from.
    pub plan: Plan,
    /// How commands reach it.
    pub line: Line,
    made: Instant,
    active: watch::Sender<usize>,
}

/// What runs in a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// Nothing.
    None,
    /// Background jobs alone.
    Jobs(Vec<Job>),
    /// Something that somebody waits for.
    Awaited,
}

/// How commands reach a container.
pub enum Line {
    /// The helper, over the attached streams.
    Helper(HelperClient),
    /// The engine's exec, where the streams can't be had.
    Exec,
}

impl Live {
    pub fn new(container: String, plan: Plan, line: Line) -> Self {
        Self { container, plan, line, made: Instant::now(), active: watch::Sender::new(0) }
    }

    pub fn is_alive(&self) -> bool {
        match &self.line {
            Line::Helper(client) => client.is_alive(),
            // A command will tell; and after a while the streams are tried again.
            Line::Exec => self.made.elapsed() < EXEC_LIFE,
        }
    }

    /// Whether it is there and what the configuration asks for.
    pub fn fits(&self, plan: &Plan) -> bool {
        self.is_alive() && self.plan == *plan
    }

    /// Whether it was made with something of the host that is not approved any more.
    pub fn holds_more(&self, plan: &Plan) -> bool {
        self.plan.mounts.approved.iter().any(|mount| !plan.mounts.approved.contains(mount))
    }

    /// Whether the program that runs the agent's turns needs something that it was not made with.
    pub fn lacks(&self, plan: &Plan) -> bool {
        (plan.asks_flock && !self.plan.asks_flock)
            || plan.fittings.iter().any(|fitting| !self.plan.fittings.contains(fitting))
    }

    /// What runs in it.
    pub async fn work(&self) -> Work {
        if *self.active.borrow() > 0 {
            return Work::Awaited;
        }
        let Line::Helper(client) = &self.line else { return Work::None };
        let mut jobs = client.jobs(JobRequest::List).await.map_or_else(|_| Vec::new(), |reply| reply.jobs);
        jobs.retain(|job| job.end.is_none());
        if jobs.is_empty() { Work::None } else { Work::Jobs(jobs) }
    }

    /// Resolves when nothing runs in it that somebody waits for.
    pub async fn idle(&self) {
        // It can't be closed: `self` keeps it open.
        drop(self.active.subscribe().wait_for(|active| *active == 0).await);
    }

    /// Counts a command as running until the value is dropped.
    pub fn enter(&self) -> Busy<'_> {
        self.active.send_modify(|active| *active += 1);
        Busy(&self.active)
    }

    /// The helper, for what only it can do; `why` says so.
    pub fn helper(&self, agent: &AgentId, why: &str) -> Result<&HelperClient, SandboxError> {
        match &self.line {
            Line::Helper(client) => Ok(client),
            Line::Exec => Err(SandboxError::Lost {
                agent: agent.clone(),
                reason: format!("its streams can't be attached, and {why}"),
            }),
        }
    }
}

/// A running command, for as long as this lives.
pub struct Busy<'a>(&'a watch::Sender<usize>);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|active| *active = active.saturating_sub(1));
    }
}

/// All of the configuration and the workspace that a container depends on. Comparing two is how a changed
/// one is noticed without asking the engine.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The agent as configured.
    pub agent: Agent,
    /// The image's name.
    pub image: String,
    /// What of the host was approved for it.
    pub mounts: Mounts,
    /// What the program that runs its turns needs.
    pub fittings: Vec<Fitting>,
    /// Whether a program in it asks flock for its models and tools.
    pub asks_flock: bool,
    identity: Option<Vec<IdentityFile>>,
}

impl Plan {
    pub fn new(
        home: &Home,
        config: &Config,
        agent: &Agent,
        approved: Vec<ApprovedMount>,
        fittings: Vec<Fitting>,
    ) -> Self {
        let mounts = Mounts::new(config, approved);
        let image = agent.docker.image.clone();
        let image = image.unwrap_or_else(|| image::reference(home, config, Recipe::Sandbox));
        let asks_flock = agent.is_run_by_program() && !agent.runs_on_host();
        // Only what makes another container: a change of model or policy is none of the sandbox's business.
        let agent = Agent {
            model: None,
            effort: None,
            fallbacks: Vec::new(),
            archetype: None,
            allow: Vec::new(),
            deny: Vec::new(),
            // Asked for each connection.
            egress: Vec::new(),
            runtime: String::new(),
            // Watched, and no property of the container.
            docker: DockerSettings { disk: None, ..agent.docker.clone() },
            ..agent.clone()
        };
        let identity = workspace::identity(&agent.identity).ok();
        Self { agent, image, mounts, fittings, asks_flock, identity }
    }

    /// The plan again, after the workspace was made ready.
    pub fn settled(mut self) -> Self {
        self.identity = workspace::identity(&self.agent.identity).ok();
        self
    }

    /// The configured environment of commands, and over it the command's own.
    pub fn environment(&self, own: Vec<(String, String)>) -> Vec<(String, String)> {
        let configured = self.agent.docker.env.iter().map(|(name, value)| (name.clone(), value.clone()));
        let mut all = match self.agent.network {
            Network::None => Vec::new(),
            Network::Proxy => egress::environment(),
        };
        all.extend(configured);
        all.extend(own);
        all
    }

    /// The same for what the helper does not start: it gives its commands a home and a path, too.
    pub fn whole_environment(&self, own: Vec<(String, String)>) -> Vec<(String, String)> {
        let mut all: Vec<(String, String)> = Vec::new();
        for (name, value) in Environment::default().variables.into_iter().chain(self.environment(own)) {
            all.retain(|(earlier, _)| *earlier != name);
            all.push((name, value));
        }
        all
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How long commands go through the engine's exec before the streams are tried again.
const EXEC_LIFE: Duration = Duration::from_secs(60);
