//! Sandboxes in Docker: a container for each agent, made when it is first needed, mended when it is not what
//! it should be, and used over the streams of the helper inside.
//!
//! A warm sandbox costs the engine nothing: whether its container still lives is known from the attached
//! streams, whether it is still the right one from comparing the configuration with what it was made from.

mod attach;
mod attend;
mod endings;
mod freeze;
mod make;
mod owned;
mod ready;
mod slot;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::config::{Config, SandboxMode};
use crate::home::Home;
use crate::id::AgentId;
use crate::provider::BoxFuture;
use crate::sandbox::egress::{ConfiguredEgress, Dial, EgressPolicy, Inside, Internet};
use crate::sandbox::engine::{self, Engine};
use crate::sandbox::exec::{self, Exec};
use crate::sandbox::fitting::{Fitting, Fittings, STATE_TARGET};
use crate::sandbox::helper::{Expected, HelperError, ProbeReport};
use crate::sandbox::mount::ApprovedMounts;
use crate::sandbox::probe::Probed;
use crate::sandbox::spec::HELPER_TARGET;
use crate::sandbox::{
    Command, End, Job, JobReply, JobRequest, Outcome, Output, Piece, Run, Sandbox, SandboxError,
};

pub(crate) use attach::attach;
pub(crate) use make::install_helper;

use attend::Unrun;
use freeze::Standing;
use ready::Need;
use slot::{Line, Live, Plan, Slot};

/// The configuration as it is at each look.
pub type ConfigSource = Arc<dyn Fn() -> Arc<Config> + Send + Sync>;

/// The sandboxes of one home in one Docker engine. Only one process of a home uses it at a time: the gateway
/// while it runs, else the command line.
pub struct DockerSandbox {
    home: Home,
    config: ConfigSource,
    engine: Arc<Engine>,
    slots: Mutex<HashMap<AgentId, Arc<Slot>>>,
    /// Who is to stand still; asked for sandboxes that come later.
    standing: Mutex<Standing>,
    egress: Arc<dyn EgressPolicy>,
    dial: Arc<dyn Dial>,
    inside: Option<Arc<dyn Inside>>,
    mounts: ApprovedMounts,
    fittings: Fittings,
}

impl DockerSandbox {
    /// Touches nothing yet.
    #[must_use]
    pub fn new(home: Home, config: ConfigSource, engine: Arc<Engine>) -> Self {
        Self {
            home,
            egress: Arc::new(ConfiguredEgress::new(Arc::clone(&config))),
            dial: Arc::new(Internet::default()),
            inside: None,
            config,
            engine,
            slots: Mutex::default(),
            standing: Mutex::new(Arc::new(|_| false)),
            mounts: Arc::new(|_| Vec::new()),
            fittings: Arc::new(|_| Vec::new()),
        }
    }

    /// The same, with another word on what agents may reach than the configuration alone.
    #[must_use]
    pub fn with_egress(self, egress: Arc<dyn EgressPolicy>) -> Self {
        Self { egress, ..self }
    }

    /// The same, with the mounts that were approved for agents. They are looked at before each command.
    #[must_use]
    pub fn with_mounts(self, mounts: ApprovedMounts) -> Self {
        Self { mounts, ..self }
    }

    /// The same, with what the programs need that run agents' turns. It is looked at before each command.
    #[must_use]
    pub fn with_fittings(self, fittings: Fittings) -> Self {
        Self { fittings, ..self }
    }

    /// The same, with another way out than this machine's own network.
    #[must_use]
    pub fn with_dial(self, dial: Arc<dyn Dial>) -> Self {
        Self { dial, ..self }
    }

    /// The same, with what of flock the programs may ask for that run agents' turns.
    #[must_use]
    pub fn with_inside(self, inside: Arc<dyn Inside>) -> Self {
        Self { inside: Some(inside), ..self }
    }

    /// The engine.
    #[must_use]
    pub const fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// What the last probe of each agent's sandbox found, and when.
    #[must_use]
    pub fn probes(&self) -> Vec<(AgentId, Probed)> {
        let slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let mut probes: Vec<_> =
            slots.iter().filter_map(|(agent, slot)| Some((agent.clone(), slot.probed()?))).collect();
        probes.sort_by(|(a, _), (b, _)| a.cmp(b));
        probes
    }

    /// Makes an agent's sandbox if need be and probes it now, warm or not.
    ///
    /// # Errors
    ///
    /// As [`Sandbox::ensure`].
    pub async fn probe(&self, agent: &AgentId) -> Result<Probed, SandboxError> {
        let slot = self.slot(agent);
        let live = self.live(agent, &slot).await?;
        let probed = self.probe_now(agent, &live).await?;
        slot.note_probe(probed.clone());
        probed.verdict(agent)?;
        Ok(probed)
    }

    fn slot(&self, agent: &AgentId) -> Arc<Slot> {
        let standing = self.standing();
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = slots.entry(agent.clone()).or_insert_with(|| {
            let slot = Slot::default();
            slot.set_frozen(standing(agent));
            Arc::new(slot)
        });
        Arc::clone(slot)
    }

    /// What the agent's container is to be made from, as the configuration is now.
    fn plan(&self, agent: &AgentId) -> Result<Plan, SandboxError> {
        let config = (self.config)();
        let Some(found) = config.agent(agent) else { return Err(SandboxError::Unknown(agent.clone())) };
        if found.sandbox == SandboxMode::Off {
            return Err(SandboxError::Off(agent.clone()));
        }
        Ok(Plan::new(&self.home, &config, found, (self.mounts)(agent), (self.fittings)(found)))
    }

    async fn probe_now(&self, agent: &AgentId, live: &Live) -> Result<Probed, SandboxError> {
        let report = match &live.line {
            Line::Helper(client) => client.probe(&[]).await.map_err(|error| error.of(agent))?,
            Line::Exec => {
                let exec = Exec {
                    container: live.container.clone(),
                    command: vec![HELPER_TARGET.to_owned(), "probe".to_owned()],
                    timeout: Duration::from_secs(20),
                    keep: 1 << 20,
                    ..Exec::default()
                };
                let outcome = exec::run(&self.engine, &exec, &CancellationToken::new()).await?;
                ProbeReport::parse(&outcome.output.head)
            }
        };
        let has_state = live.plan.fittings.iter().any(|fitting| matches!(fitting, Fitting::State(_)));
        let writable: &[&str] = if has_state { &[STATE_TARGET] } else { &[] };
        // The engine may be in a virtual machine of its own, so that it is asked; seldom, since most share this machine's kernel.
        let here = fs_err::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let kernel = match report.first("kernel") {
            Some(inside) if inside == here.trim() => inside.to_owned(),
            _ => self.engine.kernel().await?,
        };
        Ok(Probed::now(&report, &Expected { writable, kernel: Some(&kernel) }))
    }

    async fn run_in(
        &self,
        agent: &AgentId,
        live: &Live,
        mut command: Command,
        cancel: &CancellationToken,
    ) -> Result<Outcome, SandboxError> {
        let _busy = live.enter();
        match &live.line {
            Line::Helper(client) => {
                command.env = live.plan.environment(command.env);
                match client.run(&command, cancel).await {
                    Ok(outcome) => Ok(outcome),
                    Err(error) => Err(self.explained(agent, live, error).await),
                }
            }
            Line::Exec => {
                command.env = live.plan.whole_environment(command.env);
                exec::run(&self.engine, &by_exec(live, command), cancel).await
            }
        }
    }
}

impl Sandbox for DockerSandbox {
    fn ensure<'a>(&'a self, agent: &'a AgentId) -> BoxFuture<'a, Result<(), SandboxError>> {
        Box::pin(async move {
            let slot = self.slot(agent);
            self.live(agent, &slot).await.map(drop)
        })
    }

    fn run<'a>(
        &'a self,
        agent: &'a AgentId,
        command: Command,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Outcome, SandboxError>> {
        Box::pin(async move {
            let slot = self.slot(agent);
            let live = tokio::select! {
                live = self.live(agent, &slot) => live?,
                () = cancel.cancelled() => {
                    let output = Output::default();
                    return Ok(Outcome { end: End::Cancelled, output, took: Duration::ZERO });
                }
            };
            let again = matches!(live.line, Line::Exec).then(|| command.clone());
            match (self.run_in(agent, &live, command, cancel).await, again) {
                // The container is gone or stopped, and the command was never begun.
                (Err(error), Some(command)) if matches!(engine::refusal(&error), Some(404 | 409)) => {
                    slot.forget();
                    let live = self.live(agent, &slot).await?;
                    self.run_in(agent, &live, command, cancel).await
                }
                (answer, _) => answer,
            }
        })
    }

    fn spawn<'a>(
        &'a self,
        agent: &'a AgentId,
        mut command: Command,
    ) -> BoxFuture<'a, Result<Job, SandboxError>> {
        Box::pin(async move {
            let slot = self.slot(agent);
            let live = self.live(agent, &slot).await?;
            let _busy = live.enter();
            command.env = live.plan.environment(command.env);
            match live.helper(agent, FOR_JOBS)?.spawn(&command).await {
                Ok(job) => Ok(job),
                Err(error) => Err(self.explained(agent, &live, error).await),
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
            match live.helper(agent, FOR_JOBS)?.jobs(request).await {
                Ok(reply) => Ok(reply),
                Err(HelperError::NoJob(id)) => Err(match slot.lost(id) {
                    Some(job) => SandboxError::JobEnded { id, command: job.command },
                    None => SandboxError::NoJob(id),
                }),
                Err(error) => Err(self.explained(agent, &live, error).await),
            }
        })
    }

    fn attend<'a>(
        &'a self,
        agent: &'a AgentId,
        run: &'a Run,
        heard: &'a mut (dyn FnMut(Piece<'_>) + Send),
    ) -> BoxFuture<'a, Result<i32, SandboxError>> {
        Box::pin(async move {
            let slot = self.slot(agent);
            let mut again = true;
            loop {
                let live = self.live_for(agent, &slot, Need::Program).await?;
                // What was told to end may still hold what this one needs.
                slot.endings.wait().await;
                let _busy = live.enter();
                let attended = attend::attend(&self.engine, agent, &live, &slot.endings, run, heard).await;
                match attended {
                    Ok(code) => return Ok(code),
                    // The program was never begun.
                    Err(Unrun::Gone(_)) if again => {
                        again = false;
                        slot.forget();
                    }
                    Err(Unrun::Gone(error) | Unrun::Failed(error)) => return Err(error),
                }
            }
        })
    }

    fn remove<'a>(&'a self, agent: &'a AgentId) -> BoxFuture<'a, Result<(), SandboxError>> {
        Box::pin(async move {
            let slot = self.slot(agent);
            let _making = slot.making.lock().await;
            slot.forget();
            self.remove_container(agent).await?;
            self.slots.lock().unwrap_or_else(PoisonError::into_inner).remove(agent);
            Ok(())
        })
    }

    fn pause<'a>(&'a self, agent: &'a AgentId) -> BoxFuture<'a, Result<(), SandboxError>> {
        Box::pin(self.freeze(agent, true))
    }

    fn resume<'a>(&'a self, agent: &'a AgentId) -> BoxFuture<'a, Result<(), SandboxError>> {
        Box::pin(self.freeze(agent, false))
    }

    fn pause_all(&self) -> BoxFuture<'_, Result<(), SandboxError>> {
        Box::pin(self.follow(Arc::new(|_| true)))
    }

    fn resume_all(&self) -> BoxFuture<'_, Result<(), SandboxError>> {
        Box::pin(self.follow(Arc::new(|_| false)))
    }
}

fn by_exec(live: &Live, command: Command) -> Exec {
    let workdir = match command.workdir {
        Some(absolute) if absolute.starts_with('/') => absolute,
        Some(relative) => format!("/workspace/{relative}"),
        None => "/workspace".to_owned(),
    };
    Exec {
        container: live.container.clone(),
        // Some runtimes apply no filter to what the engine's exec starts: the helper sees to it.
        command: [HELPER_TARGET, "confine", "sh", "-c", &command.command].map(str::to_owned).to_vec(),
        workdir: Some(workdir),
        env: command.env.into_iter().map(|(name, value)| format!("{name}={value}")).collect(),
        timeout: command.timeout.unwrap_or(EXEC_LIMIT),
        keep: command.keep,
        ..Exec::default()
    }
}

/// Why only the helper will do.
const FOR_JOBS: &str = "background jobs need them";

/// Where neither the caller nor the helper sets one.
const EXEC_LIMIT: Duration = Duration::from_secs(3600);
