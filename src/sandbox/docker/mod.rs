//! Sandboxes in container engines. Each agent has one container in the engine that it is placed on, which is created at first use, repaired if it differs from its
//! specification, and used over the streams of the helper inside.
//!
//! A warm sandbox needs no call to the engine. The attached streams show if the container still lives, and a comparison
//! with the configuration it was made from shows if it is still the right one.

mod acquire;
pub(crate) mod activity_count;
mod attach;
mod freeze;
mod home_containers;
mod program_run;
mod provision;
mod relocation;
mod remote_files;
mod slot;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{OnceCell, mpsc};
use tokio_util::sync::CancellationToken;

use crate::config::{Config, SandboxMode};
use crate::home::Home;
use crate::id::AgentId;
use crate::provider::BoxFuture;
use crate::sandbox::egress::{ConfiguredEgress, Dialer, EgressPolicy, SandboxApi, SystemDialer};
use crate::sandbox::engine::{self, Engine};
use crate::sandbox::engines::{Engines, PlacementRecords, PlannedMove};
use crate::sandbox::exec::{self, EngineExec};
use crate::sandbox::helper::{HelperError, ProbeExpectations, ProbeReport};
use crate::sandbox::mount::MountSource;
use crate::sandbox::probe::ProbeResult;
use crate::sandbox::program_mounts::{ProgramMount, ProgramMounts, STATE_TARGET};
use crate::sandbox::spec::{HELPER_TARGET, WORKSPACE_TARGET};
use crate::sandbox::workspace_files::RemoteFiles;
use crate::sandbox::{
    BackgroundJob, Command, CommandExit, CommandOutcome, JobReply, JobRequest, Output, OutputChunk,
    ProgramCommand, Relocation, Sandbox, SandboxError,
};

pub(crate) use attach::attach;
pub(crate) use provision::install_helper;

use acquire::Purpose;
use activity_count::ActivityCount;
use program_run::{ProgramInput, ProgramRunError};
use slot::{CommandTransport, ContainerPlan, LiveContainer, Slot};

/// A function that returns the current configuration.
pub type ConfigSource = Arc<dyn Fn() -> Arc<Config> + Send + Sync>;

/// The sandboxes of one home in its engines. Only one process of a home uses it at a time: the gateway while it
/// runs, otherwise the command line.
pub struct DockerSandbox {
    home: Home,
    config: ConfigSource,
    engines: Arc<Engines>,
    /// An agent's slot is never replaced by another one, because its locks guard the agent's container.
    slots: Mutex<HashMap<AgentId, Arc<Slot>>>,
    /// The wanted freeze state of each agent. It is also applied to sandboxes that are created later.
    standing: Mutex<super::FreezeCheck>,
    egress: Arc<dyn EgressPolicy>,
    dial: Arc<dyn Dialer>,
    inside: Option<Weak<dyn SandboxApi>>,
    mounts: MountSource,
    fittings: ProgramMounts,
    /// Counter of the containers that are being killed in engines which their agents have left.
    abandoned: ActivityCount,
}

impl DockerSandbox {
    /// Creates the value without calling the engine, which is the machine's own. Agents are placed in the home's
    /// database, if other engines are configured.
    #[must_use]
    pub fn new(home: Home, config: ConfigSource, engine: Arc<Engine>) -> Self {
        let records = PlacementRecords::Home(OnceCell::new());
        let engines = Arc::new(Engines::new(home.clone(), Arc::clone(&config), engine, records));
        Self {
            home,
            egress: Arc::new(ConfiguredEgress(Arc::clone(&config))),
            dial: Arc::new(SystemDialer::default()),
            inside: None,
            config,
            engines,
            slots: Mutex::default(),
            standing: Mutex::new(Arc::new(|_| false)),
            mounts: Arc::new(|_| Box::pin(async { Vec::new() })),
            fittings: Arc::new(|_| Vec::new()),
            abandoned: ActivityCount::default(),
        }
    }

    /// Replaces the engines, which are those of the configuration by default.
    #[must_use]
    pub fn with_engines(self, engines: Arc<Engines>) -> Self {
        Self { engines, ..self }
    }

    /// Replaces the egress policy, which is the configuration alone by default.
    #[must_use]
    pub fn with_egress(self, egress: Arc<dyn EgressPolicy>) -> Self {
        Self { egress, ..self }
    }

    /// Sets the source of the approved mounts. It is read before each command.
    #[must_use]
    pub fn with_mounts(self, mounts: MountSource) -> Self {
        Self { mounts, ..self }
    }

    /// Sets the source of the mounts for agent programs. It is read before each command.
    #[must_use]
    pub fn with_program_mounts(self, fittings: ProgramMounts) -> Self {
        Self { fittings, ..self }
    }

    /// Replaces the way to the internet, which is this machine's own network by default.
    #[must_use]
    pub fn with_dial(self, dial: Arc<dyn Dialer>) -> Self {
        Self { dial, ..self }
    }

    /// Sets the part of flock's HTTP interface that agent programs may call from inside a sandbox. The reference is weak,
    /// because the gateway that answers owns the sandboxes.
    #[must_use]
    pub fn with_sandbox_api(self, inside: Weak<dyn SandboxApi>) -> Self {
        Self { inside: Some(inside), ..self }
    }

    /// Returns the machine's own engine.
    #[must_use]
    pub fn engine(&self) -> &Arc<Engine> {
        self.engines.local()
    }

    /// Returns all engines of the home.
    #[must_use]
    pub const fn engines(&self) -> &Arc<Engines> {
        &self.engines
    }

    /// Returns the result of the last probe of each agent's sandbox, sorted by agent.
    #[must_use]
    pub fn probes(&self) -> Vec<(AgentId, ProbeResult)> {
        let slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let mut probes: Vec<_> =
            slots.iter().filter_map(|(agent, slot)| Some((agent.clone(), slot.probed()?))).collect();
        probes.sort_by(|(a, _), (b, _)| a.cmp(b));
        probes
    }

    /// Probes an agent's sandbox now, after creating it if necessary.
    ///
    /// # Errors
    ///
    /// Returns [`SandboxError::NotConfined`] if the probe finds something open, and fails if the sandbox cannot be made
    /// ready.
    pub async fn probe(&self, agent: &AgentId) -> Result<ProbeResult, SandboxError> {
        let slot = self.slot(agent);
        let live = self.live(agent, &slot).await?;
        let probed = self.probe_container(agent, &live).await?;
        slot.record_probe(probed.clone());
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

    /// Collects everything the agent's container depends on from the current configuration.
    async fn plan(&self, agent: &AgentId) -> Result<ContainerPlan, SandboxError> {
        let config = (self.config)();
        let Some(found) = config.agent(agent) else { return Err(SandboxError::Unknown(agent.clone())) };
        if found.sandbox == SandboxMode::Off {
            return Err(SandboxError::Off(agent.clone()));
        }
        let engine = self.engines.of(found).await?;
        let mounts = (self.mounts)(agent.clone()).await;
        Ok(ContainerPlan::new(&self.home, &config, found, mounts, (self.fittings)(found), engine))
    }

    async fn probe_container(
        &self,
        agent: &AgentId,
        live: &LiveContainer,
    ) -> Result<ProbeResult, SandboxError> {
        let report = match &live.line {
            CommandTransport::Helper(client) => client.probe(&[]).await.map_err(|error| error.of(agent))?,
            CommandTransport::Exec => {
                let exec = EngineExec {
                    container: live.container.clone(),
                    command: vec![HELPER_TARGET.to_owned(), "probe".to_owned()],
                    timeout: Duration::from_secs(20),
                    keep: 1 << 20,
                    ..EngineExec::default()
                };
                let outcome = exec::run(live.engine(), &exec, &CancellationToken::new()).await?;
                ProbeReport::parse(&outcome.output.head)
            }
        };
        let has_state = live.plan.fittings.iter().any(|fitting| matches!(fitting, ProgramMount::State(_)));
        let writable: &[&str] = if has_state { &[STATE_TARGET] } else { &[] };
        // The engine may run in a virtual machine with its own kernel. It is asked only if the kernel inside differs
        // from this machine's, because most engines share it.
        let here = fs_err::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let kernel = match report.first("kernel") {
            Some(inside) if inside == here.trim() => inside.to_owned(),
            _ => live.engine().kernel().await?,
        };
        Ok(ProbeResult::now(
            &report,
            &ProbeExpectations { writable, kernel: Some(&kernel), is_behind_policy: false },
        ))
    }

    /// Runs a program as [`Sandbox::attend`] does, with input that arrives while it runs. The end of the input is the
    /// end of its standard input.
    ///
    /// # Errors
    ///
    /// Fails under the same conditions as [`Sandbox::attend`].
    pub(crate) async fn serve(
        &self,
        agent: &AgentId,
        run: &ProgramCommand,
        input: &mut mpsc::Receiver<Bytes>,
        heard: &mut (dyn FnMut(OutputChunk<'_>) + Send),
    ) -> Result<i32, SandboxError> {
        self.attend_with(agent, run, ProgramInput::Stream(input), heard).await
    }

    async fn attend_with(
        &self,
        agent: &AgentId,
        run: &ProgramCommand,
        mut input: ProgramInput<'_>,
        heard: &mut (dyn FnMut(OutputChunk<'_>) + Send),
    ) -> Result<i32, SandboxError> {
        let slot = self.slot(agent);
        let mut again = true;
        loop {
            let live = self.acquire_for(agent, &slot, Purpose::Program).await?;
            // A previous program that was told to end may still hold files or ports that this one needs.
            slot.endings.wait().await;
            let _busy = live.active.begin();
            let run = (run, &mut input);
            match program_run::attend(live.engine(), agent, &live, &slot.endings, run, heard).await {
                Ok(code) => return Ok(code),
                // The program was never started. Try once more in a new container.
                Err(ProgramRunError::Gone(_)) if again => {
                    again = false;
                    slot.forget();
                }
                Err(ProgramRunError::Gone(error) | ProgramRunError::Failed(error)) => return Err(error),
            }
        }
    }

    async fn run_in(
        &self,
        agent: &AgentId,
        live: &LiveContainer,
        mut command: Command,
        cancel: &CancellationToken,
    ) -> Result<CommandOutcome, SandboxError> {
        // Counts the command as running, so that the container is not replaced under it.
        let _busy = live.active.begin();
        match &live.line {
            CommandTransport::Helper(client) => {
                command.env = live.plan.environment(command.env);
                match client.run(&command, cancel).await {
                    Ok(outcome) => Ok(outcome),
                    Err(error) => Err(self.explained(agent, live, error).await),
                }
            }
            CommandTransport::Exec => {
                command.env = live.plan.exec_environment(command.env);
                exec::run(live.engine(), &exec_for(live, command), cancel).await
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
    ) -> BoxFuture<'a, Result<CommandOutcome, SandboxError>> {
        Box::pin(async move {
            let slot = self.slot(agent);
            let live = tokio::select! {
                live = self.live(agent, &slot) => live?,
                () = cancel.cancelled() => {
                    let output = Output::default();
                    return Ok(CommandOutcome { end: CommandExit::Cancelled, output, took: Duration::ZERO });
                }
            };
            // With the helper a command is not repeated: its connection may break after the command began.
            let again = matches!(live.line, CommandTransport::Exec).then(|| command.clone());
            match (self.run_in(agent, &live, command, cancel).await, again) {
                // The container is gone or stopped, and the command was never started. It is safe to run it in a new
                // one.
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
    ) -> BoxFuture<'a, Result<BackgroundJob, SandboxError>> {
        Box::pin(async move {
            let slot = self.slot(agent);
            let live = self.live(agent, &slot).await?;
            let _busy = live.active.begin();
            command.env = live.plan.environment(command.env);
            match live.helper(agent, JOBS_NEED_STREAMS)?.spawn(&command).await {
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
            match live.helper(agent, JOBS_NEED_STREAMS)?.jobs(request).await {
                Ok(reply) => Ok(reply),
                // The job may have run in a container that was replaced since.
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
        run: &'a ProgramCommand,
        heard: &'a mut (dyn FnMut(OutputChunk<'_>) + Send),
    ) -> BoxFuture<'a, Result<i32, SandboxError>> {
        Box::pin(self.attend_with(agent, run, ProgramInput::Whole(&run.input, run.feed.as_ref()), heard))
    }

    fn remote_files<'a>(
        &'a self,
        agent: &'a AgentId,
        starts: bool,
    ) -> BoxFuture<'a, Result<Option<RemoteFiles>, SandboxError>> {
        Box::pin(self.files_there(agent, starts))
    }

    fn remove<'a>(&'a self, agent: &'a AgentId) -> BoxFuture<'a, Result<(), SandboxError>> {
        Box::pin(async move {
            let slot = self.slot(agent);
            // No call may create the container again while it is being removed.
            let _making = slot.making.lock().await;
            slot.forget();
            self.remove_container(agent).await?;
            // The slot itself stays. A call that waits for its lock would otherwise not share one with later calls.
            slot.clear();
            slot.set_frozen(self.standing()(agent));
            Ok(())
        })
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

fn exec_for(live: &LiveContainer, command: Command) -> EngineExec {
    EngineExec {
        container: live.container.clone(),
        // Some runtimes apply no seccomp filter to processes of the engine's exec. `confine` makes the helper install
        // its own filter first.
        command: [HELPER_TARGET, "confine", "sh", "-c", &command.command].map(str::to_owned).to_vec(),
        workdir: Some(command.folder(WORKSPACE_TARGET)),
        env: command.env.into_iter().map(|(name, value)| format!("{name}={value}")).collect(),
        timeout: command.timeout.unwrap_or(EXEC_TIMEOUT),
        keep: command.keep,
        ..EngineExec::default()
    }
}

/// The end of the error message for a container whose streams cannot be attached.
const JOBS_NEED_STREAMS: &str = "background jobs need them";

/// Time limit of a command run by the engine's exec if the caller sets none.
const EXEC_TIMEOUT: Duration = Duration::from_secs(3600);

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use serde_json::json;
    use tempfile::TempDir;

    use super::*;
    use crate::config::EngineSettings;
    use crate::sandbox::testing;

    /// The sandboxes of a home with the agent `coder`, in an engine without containers. The sender replaces the
    /// configuration.
    fn sandboxes() -> (DockerSandbox, tokio::sync::watch::Sender<Arc<Config>>, [TempDir; 2]) {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().join("home"), None);
        let (engine, socket) = testing::engine(|_| (404, r#"{"message":"there is none"}"#));
        let document = json!({
            "gateway": {"auth": {"token": "t"}},
            "plugins": {"entries": {"flock": {"config": {"gatewayAgents": [{"id": "coder", "role": "worker"}]}}}},
        });
        let config = Arc::new(crate::config::parse::config(&document, &home).unwrap());
        let (sender, receiver) = tokio::sync::watch::channel(config);
        let source: ConfigSource = Arc::new(move || Arc::clone(&receiver.borrow()));
        (DockerSandbox::new(home, source, Arc::new(engine)), sender, [folder, socket])
    }

    #[tokio::test]
    async fn calls_before_and_after_a_removal_share_their_locks() {
        let (sandbox, _config, _folders) = sandboxes();
        let coder: AgentId = "coder".parse().unwrap();
        let waiting = sandbox.slot(&coder);
        sandbox.remove(&coder).await.unwrap();
        assert!(Arc::ptr_eq(&waiting, &sandbox.slot(&coder)));
    }

    /// Adds the engine `second`, which has no containers. Returns what it is asked, with the folder of its socket.
    fn add_second(config: &tokio::sync::watch::Sender<Arc<Config>>) -> (Arc<Mutex<Vec<String>>>, TempDir) {
        let (second, asked, socket) = testing::asked_engine(|_| (404, r#"{"message":"there is none"}"#));
        let settings = EngineSettings::new("second".parse().unwrap(), Some(second.endpoint().to_owned()));
        config.send_modify(|config| Arc::make_mut(config).engines = vec![settings]);
        (asked, socket)
    }

    /// Checks that the only thing that an engine was asked to remove is the container of a test.
    fn was_killed(asked: &[String]) {
        let kills: Vec<&String> = asked.iter().filter(|line| line.starts_with("DELETE")).collect();
        assert!(kills.len() == 1 && kills[0].contains("/containers/box?"), "{asked:?}");
    }

    #[tokio::test]
    async fn a_container_that_is_made_while_its_engine_is_removed_is_killed() {
        let (sandbox, config, _folders) = sandboxes();
        let coder: AgentId = "coder".parse().unwrap();
        let (asked, _socket) = add_second(&config);
        let found = sandbox.engines().find(&"second".parse().unwrap()).unwrap();
        let client_of_it = Arc::downgrade(&found.engine);
        let folder = tempfile::tempdir().unwrap();
        let (_child, client) = testing::helper(folder.path(), folder.path()).await;
        let live = Arc::new(slot::tests::live(found, client));
        let slot = sandbox.slot(&coder);
        slot.set(Arc::clone(&live));
        sandbox.check_engine(&coder, &slot, &live).unwrap();
        assert!(slot.live().is_some_and(|live| live.is_alive()));
        slot.forget();
        let making = slot.making.lock().await;
        config.send_modify(|config| Arc::make_mut(config).engines.clear());
        sandbox.leave_removed();
        slot.set(Arc::clone(&live));
        let error = sandbox.check_engine(&coder, &slot, &live).unwrap_err();
        let reason = "its engine second was removed from the configuration";
        assert!(error.to_string().ends_with(reason), "{error}");
        assert!(slot.live().is_none() && !live.is_alive());
        drop((making, live));
        testing::until("the client goes", || client_of_it.strong_count() == 0).await;
        was_killed(&asked.lock().unwrap());
    }

    #[tokio::test]
    async fn what_runs_in_an_engine_that_was_removed_ends_with_an_error_and_nothing_keeps_the_client() {
        let (sandbox, config, _folders) = sandboxes();
        let coder: AgentId = "coder".parse().unwrap();
        let (asked, _socket) = add_second(&config);
        let found = sandbox.engines().find(&"second".parse().unwrap()).unwrap();
        let client_of_it = Arc::downgrade(&found.engine);
        let folder = tempfile::tempdir().unwrap();
        let (_child, client) = testing::helper(folder.path(), folder.path()).await;
        let live = Arc::new(slot::tests::live(found, client));
        let slot = sandbox.slot(&coder);
        slot.set(Arc::clone(&live));
        // Nothing happens as long as it is there.
        sandbox.leave_removed();
        assert!(slot.live().is_some_and(|live| live.is_alive()));
        let command = Command { command: "touch runs; sleep 60".to_owned(), keep: 16, ..Command::default() };
        let (runs, cancel) = (folder.path().join("runs"), CancellationToken::new());
        let removal = async {
            testing::until("the command runs", || runs.exists()).await;
            config.send_modify(|config| Arc::make_mut(config).engines.clear());
            sandbox.leave_removed();
        };
        let helper = live.helper(&coder, "").unwrap();
        let (ended, ()) = tokio::join!(helper.run(&command, &cancel), removal);
        let error = ended.unwrap_err().of(&coder);
        let reason = "its engine second was removed from the configuration";
        assert!(error.to_string().ends_with(reason), "{error}");
        assert!(slot.live().is_none());
        drop(live);
        testing::until("the client goes", || client_of_it.strong_count() == 0).await;
        was_killed(&asked.lock().unwrap());
    }

    #[tokio::test]
    async fn a_call_that_waited_for_a_removal_makes_no_container_for_an_agent_that_is_gone() {
        let (sandbox, config, _folders) = sandboxes();
        let coder: AgentId = "coder".parse().unwrap();
        let slot = sandbox.slot(&coder);
        let removing = slot.making.lock().await;
        let mut ensured = sandbox.ensure(&coder);
        assert!((&mut ensured).now_or_never().is_none(), "it waits for the lock");
        config.send_modify(|config| Arc::make_mut(config).agents = crate::config::AgentList::default());
        drop(removing);
        let error = ensured.await.unwrap_err();
        assert!(matches!(error, SandboxError::Unknown(_)), "{error:?}");
    }
}
