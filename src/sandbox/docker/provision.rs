//! Makes a container ready: the files on the host, the container in the engine, the inspection and the probe. An
//! existing container is used if it belongs to this home and was made from the same specification. Otherwise it is
//! replaced.

use std::path::PathBuf;
use std::sync::{Arc, Weak};

use bollard::models::ContainerStateStatusEnum;
use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::config::Network;
use crate::home::atomic;
use crate::home::elsewhere::{self, Mark};
use crate::id::AgentId;
use crate::sandbox::containers::OwnContainer;
use crate::sandbox::docker::attach::attach;
use crate::sandbox::docker::slot::{CommandTransport, ContainerPlan, LiveContainer};
use crate::sandbox::egress::{self, Proxy};
use crate::sandbox::engine::{self, Engine};
use crate::sandbox::helper::{
    self, HelperClient, HelperError, HelperStreams, PausableClock, PortForward, Redial, Resumption,
};
use crate::sandbox::making::MakingLock;
use crate::sandbox::probe::ProbeResult;
use crate::sandbox::spec::{self, ContainerSpec, HostFacts};
use crate::sandbox::workspace_volume::WorkspaceVolume;
use crate::sandbox::{
    CommandExit, CommandOutcome, SandboxError, containers, image, inspect, names, workspace,
};

use super::DockerSandbox;

/// The container found under the expected name.
enum ExistingContainer {
    /// There is no usable container.
    Nothing,
    /// The running container of the same specification, by id.
    Running(String),
    /// The stopped container of the same specification, by id.
    Stopped(String),
}

impl DockerSandbox {
    /// Creates or repairs the agent's container and connects to it. The caller has to judge the result of the probe.
    pub(super) async fn make(
        &self,
        agent: &AgentId,
        plan: ContainerPlan,
        making: &MakingLock,
    ) -> Result<(LiveContainer, ProbeResult), SandboxError> {
        let name = names::sandbox(&self.home, agent);
        let engine = Arc::clone(&plan.engine.engine);
        let look = containers::find_own(&engine, &self.home, &name);
        let (host, found) = tokio::try_join!(self.host(&plan), look)?;
        // Preparing the host may have created identity files, on which the plan depends.
        let plan = plan.settled();
        let spec = self.specification(&plan, &host)?;
        match Box::pin(usable(&engine, agent, &spec, found)).await? {
            ExistingContainer::Running(id) => {
                let client = engine.client()?;
                let attached = attach(&client, &id);
                match Box::pin(self.connect(agent, &spec, &plan, id.clone(), attached)).await {
                    // The helper hangs, or is of an older flock. A new container solves both.
                    Err(SandboxError::Lost { reason, .. }) => {
                        tracing::warn!(%agent, %reason, "its sandbox does not answer and is made anew");
                    }
                    answer => return answer,
                }
                containers::remove(&engine, &id).await?;
            }
            ExistingContainer::Stopped(id) => {
                match Box::pin(self.start(agent, &spec, plan.clone(), id.clone())).await {
                    // An engine that was killed may keep something of the container's last run for which it never starts
                    // it again.
                    Err(error) if engine::refusal(&error) == Some(500) => {
                        let reason = crate::error::chain(&error);
                        tracing::warn!(%agent, %reason, "the engine can't start its sandbox, which is made anew");
                    }
                    answer => return answer,
                }
                containers::remove(&engine, &id).await?;
            }
            ExistingContainer::Nothing => {}
        }
        if let Some(volume) = &host.volume {
            let mark = Mark { engine: plan.engine.name.clone(), volume: volume.clone() };
            let place = WorkspaceVolume {
                home: self.home.clone(),
                agent: agent.clone(),
                engine: Arc::clone(&engine),
                mark,
                image: host.image.clone(),
                user: host.user,
            };
            Box::pin(place.provide(&plan.agent.workspace, &plan.agent.identity, making)).await?;
        }
        let id = match create(&spec, &plan).await {
            // Another process of this home created the container first. Use that one.
            Err(error) if engine::refusal(&error) == Some(409) => {
                let found = containers::find_own(&engine, &self.home, &name).await?;
                match Box::pin(usable(&engine, agent, &spec, found)).await? {
                    ExistingContainer::Running(id) | ExistingContainer::Stopped(id) => id,
                    ExistingContainer::Nothing => return Err(error),
                }
            }
            created => created?,
        };
        Box::pin(self.start(agent, &spec, plan, id)).await
    }

    /// Returns the specification of the container.
    fn specification(&self, plan: &ContainerPlan, host: &HostFacts) -> Result<ContainerSpec, SandboxError> {
        // No mount may expose the socket of any engine, whichever the container is in.
        for other in self.engines.all().iter().filter(|other| other.engine != plan.engine.engine) {
            let engine_socket = other.engine.socket().map(PathBuf::from);
            ContainerSpec::build(&self.home, &plan.agent, &HostFacts { engine_socket, ..host.clone() })?;
        }
        ContainerSpec::build(&self.home, &plan.agent, host)
    }

    /// Collects the facts about the host that the specification needs, and prepares the files that are mounted.
    async fn host(&self, plan: &ContainerPlan) -> Result<HostFacts, SandboxError> {
        let (home, agent, fittings) = (self.home.clone(), plan.agent.clone(), plan.fittings.clone());
        let engine = &plan.engine.engine;
        let is_remote = engine.is_remote();
        let socket = engine.socket().map(PathBuf::from);
        let (engine_socket, name) = (socket.clone(), plan.engine.name.clone());
        let prepared = tokio::task::spawn_blocking(move || -> Result<_, SandboxError> {
            let failed = |(path, source)| SandboxError::Host { path, source };
            let marked = elsewhere::read(&agent.workspace);
            if let Some(other) = marked.as_ref().filter(|mark| !is_remote || mark.engine != name) {
                let what = format!("is on the engine {}", other.engine);
                return Err(SandboxError::Workspace { agent: agent.id.clone(), what });
            }
            let path = match &marked {
                Some(_) => agent.workspace.clone(),
                None => workspace::locate(&agent.workspace).map_err(failed)?,
            };
            // Checked before anything is written into the folder.
            spec::check_workspace(&home, &agent, &path, engine_socket.as_deref())?;
            // An MCP server is nobody: it has no files that say who it is.
            let identity = match (agent.id.is_nobody(), &marked) {
                (true, _) => Vec::new(),
                (false, Some(_)) => workspace::prepare_identity(&agent.identity).map_err(failed)?,
                (false, None) => workspace::prepare(&path, &agent.identity).map_err(failed)?,
            };
            let volume = match is_remote {
                true => Some(marked.unwrap_or_else(|| Mark::new(&name, &agent.id)).volume),
                false => None,
            };
            let user = workspace::sandbox_user(&agent.identity).map_err(failed)?;
            if !is_remote {
                let owner = workspace::owner(&agent.identity).map_err(failed)?;
                workspace::fit(&path, &fittings, owner).map_err(failed)?;
            }
            Ok((install_helper(&home.helpers())?, path, identity, user, volume))
        });
        let image = async {
            let found = image::id(engine, &plan.image).await?;
            let found = found.ok_or_else(|| SandboxError::NoImage { image: plan.image.clone() })?;
            match is_remote {
                true => Box::pin(image::with_helper(engine, &self.home, &found)).await,
                false => Ok(found),
            }
        };
        let (image, prepared) = tokio::join!(image, prepared);
        let (helper, workspace, identity, user, volume) = prepared.map_err(|error| {
            SandboxError::Host { path: plan.agent.workspace.clone(), source: std::io::Error::other(error) }
        })??;
        let cores = match is_remote {
            true => engine.describe().await?.ncpu.and_then(|cores| u64::try_from(cores).ok()).unwrap_or(1),
            false => std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64),
        };
        Ok(HostFacts {
            image: image?,
            user,
            helper,
            workspace,
            identity,
            cores,
            engine_socket: socket,
            mounts: plan.mounts.clone(),
            fittings: plan.fittings.clone(),
            projects: plan.projects.clone(),
            volume,
        })
    }

    /// Starts a container and changes the owner of its workspace. Attaching happens at the same time: the engine
    /// accepts it before the start, and the streams begin with the container.
    async fn start(
        &self,
        agent: &AgentId,
        spec: &ContainerSpec,
        plan: ContainerPlan,
        id: String,
    ) -> Result<(LiveContainer, ProbeResult), SandboxError> {
        let engine = Arc::clone(&plan.engine.engine);
        let client = engine.client()?;
        let path = plan.agent.workspace.clone();
        let identity = plan.agent.identity.clone();
        let is_remote = engine.is_remote();
        let own = tokio::task::spawn_blocking(move || match is_remote {
            // Its volume was filled with files of that user.
            true => Ok(()),
            false => workspace::own(&path, workspace::sandbox_user(&identity)?),
        });
        let (streams, started, owned) =
            tokio::join!(attach(&client, &id), containers::start(&engine, &id), own);
        started?;
        match owned {
            Ok(Ok(())) => {}
            Ok(Err((path, source))) => return Err(SandboxError::Host { path, source }),
            Err(error) => {
                let source = std::io::Error::other(error);
                return Err(SandboxError::Host { path: plan.agent.workspace.clone(), source });
            }
        }
        Box::pin(self.connect(agent, spec, &plan, id, std::future::ready(streams))).await
    }

    /// Connects to a running container, inspects it from outside and probes it from inside.
    async fn connect(
        &self,
        agent: &AgentId,
        spec: &ContainerSpec,
        plan: &ContainerPlan,
        id: String,
        streams: impl Future<Output = Result<HelperStreams, bollard::errors::Error>>,
    ) -> Result<(LiveContainer, ProbeResult), SandboxError> {
        let engine = &plan.engine.engine;
        let inspected = containers::described(engine, &id);
        let probed = async {
            let line = self.line(agent, &id, plan, streams.await).await?;
            let live = LiveContainer::new(id.clone(), plan.clone(), line);
            let probed = self.probe_container(agent, &live).await?;
            Ok::<_, SandboxError>((live, probed))
        };
        let (inspected, probed) = tokio::join!(inspected, probed);
        let inspected = inspected?;
        let swap = inspected.host_config.as_ref().and_then(|host| host.memory_swap);
        // The engine is asked only if it matters: every container has another value where swap cannot be limited.
        let limits_swap = swap == Some(spec.memory) || engine.limits_swap().await?;
        let findings = inspect::findings(spec, &inspected, limits_swap);
        if let Some(finding) = findings.into_iter().next() {
            // Somebody has changed the container since its creation. Remove it, so that the next call makes a new one.
            containers::remove(engine, &id).await?;
            return Err(SandboxError::NotConfined { agent: agent.clone(), finding });
        }
        probed
    }

    async fn line(
        &self,
        agent: &AgentId,
        id: &str,
        plan: &ContainerPlan,
        streams: Result<HelperStreams, bollard::errors::Error>,
    ) -> Result<CommandTransport, SandboxError> {
        let reason = match streams {
            Ok(streams) => {
                let patience = self.slot(agent).patience();
                match greeted(streams, self.entrance(plan), patience, &plan.engine.engine, id).await {
                    Ok(client) => return Ok(CommandTransport::Helper(Arc::new(client))),
                    Err(error) => error.of(agent),
                }
            }
            Err(error) => plan.engine.engine.error("attach", error),
        };
        // The fall-back to the engine's exec needs a running container with a living helper. If the helper broke the
        // protocol, or the container has stopped, it is an error.
        let found = containers::inspect(&plan.engine.engine, id).await?;
        let state = found.and_then(|found| found.state).unwrap_or_default();
        if matches!(reason, SandboxError::Lost { .. }) || state.running != Some(true) {
            return Err(reason);
        }
        tracing::warn!(
            %agent,
            error = %crate::error::chain(&reason),
            "its sandbox can't be attached; commands go through the engine's exec, which is much slower"
        );
        Ok(CommandTransport::Exec)
    }

    /// Has the sandbox make the clones that its agent does not have yet. A failure is logged: the agent can still work,
    /// and the next container tries again.
    pub(super) async fn make_clones(&self, agent: &AgentId, live: &LiveContainer) {
        for project in &live.plan.projects {
            let (mount, id) = (project.clone(), agent.clone());
            let command = tokio::task::spawn_blocking(move || mount.clone_command(&id)).await;
            let Ok(Some(command)) = command else { continue };
            let failure = match self.run_in(agent, live, command, &CancellationToken::new()).await {
                Ok(CommandOutcome { end: CommandExit::Exited(0), .. }) => continue,
                Ok(outcome) => {
                    let output = [outcome.output.head, outcome.output.tail].concat();
                    crate::clean::summary(&String::from_utf8_lossy(&output), 300)
                }
                Err(error) => crate::error::chain(&error),
            };
            tracing::warn!(%agent, project = %project.name(), failure, "its clone of a project could not be made");
        }
    }

    /// Returns the proxy that the helper has to listen for. `None` if the agent has no network and does not call flock
    /// from inside.
    fn entrance(&self, plan: &ContainerPlan) -> Option<PortForward> {
        let has_network = plan.agent.network == Network::Proxy;
        let inside = self.inside.as_ref().filter(|_| plan.asks_flock).and_then(Weak::upgrade);
        (has_network || inside.is_some()).then(|| {
            egress::entrance(Arc::new(Proxy {
                agent: plan.agent.id.clone(),
                policy: Arc::clone(&self.egress),
                dial: Arc::clone(&self.dial),
                has_network,
                inside,
            }))
        })
    }

    /// Kills a container that must not run anything more. A failure is logged.
    pub(super) async fn kill(&self, live: &LiveContainer) {
        if let Err(error) = containers::kill(live.engine(), &live.container).await {
            tracing::warn!(container = live.container, error = %crate::error::chain(&error), "it could not be stopped");
        }
    }
}

/// Connects to the helper. A connection to another machine survives short breaks.
async fn greeted(
    (reader, writer): HelperStreams,
    entrance: Option<PortForward>,
    patience: PausableClock,
    engine: &Arc<Engine>,
    container: &str,
) -> Result<HelperClient, HelperError> {
    if !engine.is_remote() {
        return Ok(HelperClient::attach(reader, writer, entrance).await?.with_clock(patience));
    }
    let (engine, container) = (Arc::clone(engine), container.to_owned());
    let redial: Redial = Arc::new(move || -> BoxFuture<'static, std::io::Result<Option<HelperStreams>>> {
        let (engine, container) = (Arc::clone(&engine), container.clone());
        Box::pin(async move { attached_again(&engine, &container).await.map_err(std::io::Error::other) })
    });
    HelperClient::attach_resumable((reader, writer), entrance, Resumption::new(redial, patience)).await
}

/// Attaches to a container once more. Returns `None` if it does not run: the engine lets anybody attach to one that has ended,
/// and then nothing comes. The helper of one that was started again refuses by itself.
async fn attached_again(engine: &Engine, container: &str) -> Result<Option<HelperStreams>, SandboxError> {
    let found = containers::inspect(engine, container).await?;
    let state = found.and_then(|found| found.state).unwrap_or_default();
    if state.running != Some(true) {
        return Ok(None);
    }
    if state.paused == Some(true) {
        // Its helper would get the greetings of all attempts at once when it is thawed.
        let what = format!("attach to {container}");
        return Err(SandboxError::Engine { what, source: "it is frozen".into() });
    }
    let streams = attach(&engine.client()?, container).await;
    streams.map(Some).map_err(|error| engine.error("attach", error))
}

/// Classifies the container that was found. One that belongs to this home but cannot be used is removed.
async fn usable(
    engine: &Engine,
    agent: &AgentId,
    spec: &ContainerSpec,
    found: Option<OwnContainer>,
) -> Result<ExistingContainer, SandboxError> {
    let Some(OwnContainer { id, spec: hash, state }) = found else {
        return Ok(ExistingContainer::Nothing);
    };
    // Frozen by a gateway that was killed, or by a person. Neither would want the container removed.
    if state == Some(ContainerStateStatusEnum::PAUSED) {
        return Err(SandboxError::Frozen(agent.clone()));
    }
    if hash == spec.hash() {
        match state {
            // In Podman it ends with the connections of the process that made it, perhaps in the next moment.
            Some(ContainerStateStatusEnum::RUNNING) if !engine.is_podman(engine::QUICK).await? => {
                return Ok(ExistingContainer::Running(id));
            }
            Some(ContainerStateStatusEnum::CREATED | ContainerStateStatusEnum::EXITED) => {
                return Ok(ExistingContainer::Stopped(id));
            }
            // Or it is dead or being removed. flock never leaves a container in such a state itself.
            _ => {}
        }
    }
    containers::remove(engine, &id).await?;
    Ok(ExistingContainer::Nothing)
}

/// Creates the container of a specification, and returns its id.
async fn create(spec: &ContainerSpec, plan: &ContainerPlan) -> Result<String, SandboxError> {
    let created = containers::create(&plan.engine.engine, &spec.name, spec.body()).await;
    created.map_err(|error| match (engine::refusal(&error), &spec.runtime) {
        // When a container is created, 404 can only mean the image.
        (Some(404), _) => SandboxError::NoImage { image: plan.image.clone() },
        // The text of this error differs between versions of the engine, but always contains the word "runtime".
        (Some(400), Some(runtime)) if crate::error::chain(&error).to_lowercase().contains("runtime") => {
            SandboxError::NoRuntime { agent: plan.agent.id.clone(), runtime: runtime.clone() }
        }
        _ => error,
    })
}

/// Installs the helper program where the engine can mount it and returns its path. Each version has its own folder, so
/// that a program in use is never overwritten.
pub(crate) fn install_helper(helpers: &std::path::Path) -> Result<PathBuf, SandboxError> {
    let folder = helpers.join(&helper::PROGRAM_SHA256[..16.min(helper::PROGRAM_SHA256.len())]);
    let path = folder.join("flock-helper");
    let failed = |source| SandboxError::Host { path: path.clone(), source };
    // The folder's name contains the hash, so a file of the right length is taken for the right one.
    let whole = fs_err::metadata(&path).is_ok_and(|found| found.len() == helper::PROGRAM.len() as u64);
    if !whole {
        fs_err::create_dir_all(&folder).map_err(failed)?;
        atomic::write(&path, helper::PROGRAM, 0o755).map_err(|error| failed(std::io::Error::other(error)))?;
    }
    Ok(path)
}
