//! Makes, describes, freezes, ends and lists the containers of a home, with Docker or Podman. A container without the home's
//! label is never touched, whatever its name is.

use std::sync::Arc;

use bollard::models::{
    ContainerCreateBody, ContainerInspectResponse, ContainerStateStatusEnum, ContainerSummary,
};
use bollard::query_parameters::{
    CreateContainerOptionsBuilder, KillContainerOptionsBuilder, ListContainersOptionsBuilder,
    RemoveContainerOptionsBuilder, StopContainerOptionsBuilder,
};
use futures_util::future;

use crate::home::Home;
use crate::sandbox::engine::{self, Engine};
use crate::sandbox::{SandboxError, engine_claim, names, podman};

/// A container of a home, as the engine lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    pub id: String,
    pub name: String,
    /// The agent it belongs to. `None` for the containers of the store, of builds and of checks.
    pub agent: Option<String>,
    /// The request and step that a build container was made for.
    pub build: Option<String>,
    /// The run of checks that a check container was made for.
    pub check: Option<String>,
    /// The engine's state, for example `running` or `exited`.
    pub state: String,
    /// The engine's description, for example `Up 3 minutes`.
    pub status: String,
    /// Creation time in Unix milliseconds.
    pub created_at: i64,
    /// The hash of the specification it was made from. Empty if it has no such label.
    pub spec: String,
    /// The OCI runtime chosen in the configuration. `None` for the engine's default.
    pub runtime: Option<String>,
}

impl Container {
    /// Returns `true` if the container has processes, running or frozen.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.state == "running" || self.is_frozen()
    }

    /// Returns `true` if its processes are suspended.
    #[must_use]
    pub fn is_frozen(&self) -> bool {
        self.state == "paused"
    }
}

/// Returns all containers of a home, sorted by name, with a single call to the engine.
pub(crate) async fn list(engine: &Engine, home: &Home) -> Result<Vec<Container>, SandboxError> {
    engine_claim::check(engine, home).await?;
    let (what, limit, filters) = ("list containers", engine::DISPLAY_TIMEOUT, names::owned(home));
    let found = if engine.is_podman(limit).await? {
        engine.call(what, limit, podman::list(engine, &filters)).await?
    } else {
        let client = engine.client()?;
        let options = ListContainersOptionsBuilder::default().all(true).filters(&filters).build();
        engine.call(what, limit, client.list_containers(Some(options))).await?
    };
    let mut containers: Vec<Container> = found.into_iter().map(Container::from).collect();
    containers.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(containers)
}

/// Returns the engine's description of a container, or `None` if there is none.
pub(crate) async fn inspect(
    engine: &Engine,
    container: &str,
) -> Result<Option<ContainerInspectResponse>, SandboxError> {
    let client = engine.client()?;
    let what = format!("inspect {container}");
    match engine.is_podman(engine::QUICK).await? {
        true => engine.find(&what, engine::QUICK, podman::inspect(engine, container)).await,
        false => engine.find(&what, engine::QUICK, client.inspect_container(container, None)).await,
    }
}

/// Returns the description of a container that was started, by which it is judged. With Podman it tells what the runtime was
/// given.
pub(crate) async fn described(
    engine: &Engine,
    container: &str,
) -> Result<ContainerInspectResponse, SandboxError> {
    let client = engine.client()?;
    let what = format!("inspect {container}");
    if engine.is_podman(engine::QUICK).await? {
        let found = engine.call(&what, engine::QUICK, podman::inspect(engine, container)).await?;
        return Box::pin(podman::described(engine, found)).await;
    }
    engine.call(&what, engine::QUICK, client.inspect_container(container, None)).await
}

/// A container of this home that was looked up by its name.
pub(crate) struct OwnContainer {
    pub id: String,
    /// The hash of the specification it was made from. Empty if it has no such label.
    pub spec: String,
    pub state: Option<ContainerStateStatusEnum>,
}

/// Returns the container of this name, or `None` if there is none.
///
/// # Errors
///
/// Returns [`SandboxError::Foreign`] if the container belongs to another home or to nobody.
pub(crate) async fn find_own(
    engine: &Engine,
    home: &Home,
    name: &str,
) -> Result<Option<OwnContainer>, SandboxError> {
    engine_claim::check(engine, home).await?;
    let Some(found) = inspect(engine, name).await? else { return Ok(None) };
    let mut labels = found.config.and_then(|config| config.labels).unwrap_or_default();
    if labels.get(names::LABEL_HOME) != Some(&names::owner(home)) {
        return Err(SandboxError::Foreign { name: name.to_owned() });
    }
    Ok(Some(OwnContainer {
        id: found.id.unwrap_or_else(|| name.to_owned()),
        spec: labels.remove(names::LABEL_SPEC).unwrap_or_default(),
        state: found.state.and_then(|state| state.status),
    }))
}

/// Returns the number of a container's processes as the engine sees them, its main process among them.
pub(crate) async fn count_processes(engine: &Engine, container: &str) -> Result<usize, SandboxError> {
    let client = engine.client()?;
    let what = format!("list the processes of {container}");
    let listed = client.top_processes(container, None);
    let found = engine.call(&what, engine::DISPLAY_TIMEOUT, listed).await?;
    Ok(found.processes.unwrap_or_default().len())
}

/// Creates a container without starting it, and returns its id.
pub(crate) async fn create(
    engine: &Engine,
    name: &str,
    body: ContainerCreateBody,
) -> Result<String, SandboxError> {
    if engine.is_podman(engine::QUICK).await? {
        return Box::pin(podman::create(engine, name, &body)).await;
    }
    let client = engine.client()?;
    let options = CreateContainerOptionsBuilder::default().name(name).build();
    let what = format!("create {name}");
    Ok(engine.call(&what, engine::SLOW, client.create_container(Some(options), body)).await?.id)
}

/// Starts a container.
pub(crate) async fn start(engine: &Engine, container: &str) -> Result<(), SandboxError> {
    let client = engine.client()?;
    let what = format!("start {container}");
    engine.call(&what, engine::SLOW, client.start_container(container, None)).await
}

/// Returns the names of this home's containers that run or are frozen.
pub async fn running(engine: &Engine, home: &Home) -> Result<Vec<String>, SandboxError> {
    let containers = list(engine, home).await?;
    Ok(containers.into_iter().filter(Container::is_running).map(|container| container.name).collect())
}

/// Stops a container with its stop signal, and kills it if it does not end within 5 seconds. It is not an error if the
/// container is missing or stopped already.
pub async fn stop(engine: &Engine, name: &str) -> Result<(), SandboxError> {
    let client = engine.client()?;
    let options = StopContainerOptionsBuilder::default().t(STOP_GRACE_SECS).build();
    let what = format!("stop {name}");
    engine.find(&what, engine::SLOW, client.stop_container(name, Some(options))).await.map(drop)
}

/// Kills all containers of a home at the same time.
///
/// # Errors
///
/// Returns the first failure. The other containers are killed all the same.
pub async fn stop_all(engine: &Engine, home: &Home) -> Result<(), SandboxError> {
    let containers = list(engine, home).await?;
    // Everything else may hold processes: paused and restarting containers, too.
    let running =
        containers.iter().filter(|container| container.state != "exited" && container.state != "created");
    let ended = future::join_all(running.map(|container| kill(engine, &container.id))).await;
    ended.into_iter().collect()
}

/// Removes all containers of a home at the same time.
///
/// # Errors
///
/// Returns the first failure. The other containers are removed all the same.
pub async fn remove_all(engine: &Engine, home: &Home) -> Result<(), SandboxError> {
    let containers = list(engine, home).await?;
    let removed = future::join_all(containers.iter().map(|container| remove(engine, &container.id))).await;
    removed.into_iter().collect()
}

/// Kills a container's processes. SIGKILL is enough, because the helper keeps no state that it would have to save. It
/// is not an error if the container is missing or does not run.
pub async fn kill(engine: &Engine, container: &str) -> Result<(), SandboxError> {
    if engine.is_podman(engine::QUICK).await? {
        let found = inspect(engine, container).await?;
        // Podman takes one that is frozen for stopped, with all its processes, and never thaws it then. It does remove it.
        if found.and_then(|found| found.state?.paused) == Some(true) {
            return remove(engine, container).await;
        }
    }
    let client = engine.client()?;
    let options = KillContainerOptionsBuilder::default().signal("SIGKILL").build();
    let what = format!("stop {container}");
    ignore_conflict(engine.find(&what, engine::SLOW, client.kill_container(container, Some(options))).await)
}

/// Suspends all processes of a container. It is not an error if the container is missing, does not run or is frozen
/// already.
pub async fn freeze(engine: &Engine, container: &str) -> Result<(), SandboxError> {
    let client = engine.client()?;
    let what = format!("freeze {container}");
    ignore_conflict(engine.find(&what, engine::SLOW, client.pause_container(container)).await)
}

/// Resumes all processes of a container. It is not an error if the container is missing or not frozen.
pub async fn thaw(engine: &Engine, container: &str) -> Result<(), SandboxError> {
    let client = engine.client()?;
    let what = format!("thaw {container}");
    ignore_conflict(engine.find(&what, engine::SLOW, client.unpause_container(container)).await)
}

/// Treats status 409 as success. The engine answers 409 if the container is in the wanted state already, or in a state
/// in which there is nothing to do. Podman answers 500 then, with a text.
fn ignore_conflict(answer: Result<Option<()>, SandboxError>) -> Result<(), SandboxError> {
    match answer {
        Err(error) if engine::refusal(&error) == Some(409) || podman::is_wrong_state(&error) => Ok(()),
        answer => answer.map(drop),
    }
}

/// Removes a container, running or not. It is not an error if the container is missing. If somebody else is removing it
/// already, the function waits until it is gone.
pub async fn remove(engine: &Engine, container: &str) -> Result<(), SandboxError> {
    let client = engine.client()?;
    let what = format!("remove {container}");
    let limit = std::time::Instant::now() + engine::SLOW;
    loop {
        // `v` also removes the container's anonymous volumes. Without a name nobody could find them later.
        let options = RemoveContainerOptionsBuilder::default().force(true).v(true).build();
        let removed = client.remove_container(container, Some(options));
        match engine.find(&what, engine::SLOW, removed).await {
            Ok(_) => return Ok(()),
            // Another process is removing the container. Poll until it is gone.
            Err(error) if engine::refusal(&error) == Some(409) && std::time::Instant::now() < limit => {
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
            Err(error) => return Err(error),
        }
    }
}

impl From<ContainerSummary> for Container {
    fn from(found: ContainerSummary) -> Self {
        let labels = found.labels.unwrap_or_default();
        // The engine writes names with a leading slash and the creation time in seconds.
        let name = found.names.unwrap_or_default().into_iter().next().unwrap_or_default();
        Self {
            id: found.id.unwrap_or_default(),
            name: name.trim_start_matches('/').to_owned(),
            agent: labels.get(names::LABEL_AGENT).cloned(),
            build: labels.get(names::LABEL_BUILD).cloned(),
            check: labels.get(names::LABEL_CHECK).cloned(),
            state: found.state.map(|state| state.to_string()).unwrap_or_default(),
            status: found.status.unwrap_or_default(),
            created_at: found.created.unwrap_or_default().saturating_mul(1000),
            runtime: labels.get(names::LABEL_RUNTIME).cloned(),
            spec: labels.get(names::LABEL_SPEC).cloned().unwrap_or_default(),
        }
    }
}

/// Seconds between asking a container to stop and killing it.
const STOP_GRACE_SECS: i32 = 5;

/// A guard that removes a container in the background, unless its name is taken out before. Without an async runtime it
/// does nothing, because the closing of the container's standard input ends it as well.
pub(crate) struct RemoveOnDrop {
    pub(crate) engine: Arc<Engine>,
    pub(crate) name: Option<String>,
}

impl Drop for RemoveOnDrop {
    fn drop(&mut self) {
        let (engine, Some(name)) = (Arc::clone(&self.engine), self.name.take()) else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            if let Err(error) = remove(&engine, &name).await {
                tracing::warn!(container = name, error = %crate::error::chain(&error), "it could not be removed");
            }
        });
    }
}
