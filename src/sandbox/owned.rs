//! All that a home owns in an engine: listed by one call, stopped and removed together. What does not carry
//! the home's label is never touched, whatever its name.

use bollard::models::ContainerSummary;
use bollard::query_parameters::{
    KillContainerOptionsBuilder, ListContainersOptionsBuilder, RemoveContainerOptionsBuilder,
    StopContainerOptionsBuilder,
};
use futures_util::future;

use crate::home::Home;
use crate::sandbox::engine::{self, Engine};
use crate::sandbox::{SandboxError, names};

/// A container of a home, as the engine lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The agent it belongs to; `None` for the store's.
    pub agent: Option<String>,
    /// The request and step that a build container was made for.
    pub build: Option<String>,
    /// As in `running` or `exited`.
    pub state: String,
    /// As in `Up 3 minutes`.
    pub status: String,
    /// When it was made, in milliseconds since the epoch.
    pub created_at: i64,
    /// The hash of its specification.
    pub spec: String,
    /// The OCI runtime that was chosen for it; `None` is the engine's default.
    pub runtime: Option<String>,
}

impl Container {
    /// Whether there are processes in it: it runs or is frozen.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.state == "running" || self.is_frozen()
    }

    /// Whether its processes stand still.
    #[must_use]
    pub fn is_frozen(&self) -> bool {
        self.state == "paused"
    }
}

/// The containers of a home, by name, from one call.
///
/// # Errors
///
/// As [`Engine::call`].
pub async fn list(engine: &Engine, home: &Home) -> Result<Vec<Container>, SandboxError> {
    let client = engine.client()?;
    let options = ListContainersOptionsBuilder::default().all(true).filters(&names::owned(home)).build();
    let found = engine.call("list containers", engine::GLANCE, client.list_containers(Some(options))).await?;
    let mut containers: Vec<Container> = found.into_iter().map(Container::from).collect();
    containers.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(containers)
}

/// The names of this home's containers that run.
///
/// # Errors
///
/// As [`list`].
pub async fn running(engine: &Engine, home: &Home) -> Result<Vec<String>, SandboxError> {
    let containers = list(engine, home).await?;
    Ok(containers.into_iter().filter(Container::is_running).map(|container| container.name).collect())
}

/// Stops a container: asks it, and kills it when it does not stop.
///
/// # Errors
///
/// If the engine refuses. That it is not there, or stopped already, is none.
pub async fn stop(engine: &Engine, name: &str) -> Result<(), SandboxError> {
    let client = engine.client()?;
    let options = StopContainerOptionsBuilder::default().t(GRACE).build();
    let what = format!("stop {name}");
    engine.find(&what, engine::SLOW, client.stop_container(name, Some(options))).await.map(drop)
}

/// Ends all containers of a home at once.
///
/// # Errors
///
/// The first failure; the others are still stopped.
pub async fn stop_all(engine: &Engine, home: &Home) -> Result<(), SandboxError> {
    let containers = list(engine, home).await?;
    let running =
        containers.iter().filter(|container| container.state != "exited" && container.state != "created");
    let ended = future::join_all(running.map(|container| kill(engine, &container.id))).await;
    ended.into_iter().collect()
}

/// Removes all containers of a home at once.
///
/// # Errors
///
/// The first failure; the others are still removed.
pub async fn remove_all(engine: &Engine, home: &Home) -> Result<(), SandboxError> {
    let containers = list(engine, home).await?;
    let removed = future::join_all(containers.iter().map(|container| remove(engine, &container.id))).await;
    removed.into_iter().collect()
}

/// Ends a container's processes. Nothing in a sandbox waits for a polite signal: the helper has no state.
///
/// # Errors
///
/// As [`Engine::call`]; a container that is gone or does not run is fine.
pub async fn kill(engine: &Engine, container: &str) -> Result<(), SandboxError> {
    let client = engine.client()?;
    let options = KillContainerOptionsBuilder::default().signal("SIGKILL").build();
    let what = format!("stop {container}");
    settled(engine.find(&what, engine::SLOW, client.kill_container(container, Some(options))).await)
}

/// Makes all processes of a container stand still.
///
/// # Errors
///
/// As [`Engine::call`]; a container that is gone, does not run, or is frozen already is fine.
pub async fn freeze(engine: &Engine, container: &str) -> Result<(), SandboxError> {
    let client = engine.client()?;
    let what = format!("freeze {container}");
    settled(engine.find(&what, engine::SLOW, client.pause_container(container)).await)
}

/// Lets them go on.
///
/// # Errors
///
/// As [`freeze`]; a container that is not frozen is fine.
pub async fn thaw(engine: &Engine, container: &str) -> Result<(), SandboxError> {
    let client = engine.client()?;
    let what = format!("thaw {container}");
    settled(engine.find(&what, engine::SLOW, client.unpause_container(container)).await)
}

/// 409 is the engine's word for "it is as you want it, or there is nothing to do it to".
fn settled(answer: Result<Option<()>, SandboxError>) -> Result<(), SandboxError> {
    match answer {
        Err(error) if engine::refusal(&error) == Some(409) => Ok(()),
        answer => answer.map(drop),
    }
}

/// Removes a container, running or not.
///
/// # Errors
///
/// As [`Engine::call`]; a container that is gone is fine.
pub async fn remove(engine: &Engine, container: &str) -> Result<(), SandboxError> {
    let client = engine.client()?;
    let what = format!("remove {container}");
    let limit = std::time::Instant::now() + engine::SLOW;
    loop {
        // With the volumes that have no name: nobody else can find them.
        let options = RemoveContainerOptionsBuilder::default().force(true).v(true).build();
        let removed = client.remove_container(container, Some(options));
        match engine.find(&what, engine::SLOW, removed).await {
            Ok(_) => return Ok(()),
            // Somebody else removes it already: wait until it is gone.
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
        let name = found.names.unwrap_or_default().into_iter().next().unwrap_or_default();
        Self {
            id: found.id.unwrap_or_default(),
            name: name.trim_start_matches('/').to_owned(),
            agent: labels.get(names::LABEL_AGENT).cloned(),
            build: labels.get(names::LABEL_BUILD).cloned(),
            state: found.state.map(|state| state.to_string()).unwrap_or_default(),
            status: found.status.unwrap_or_default(),
            created_at: found.created.unwrap_or_default().saturating_mul(1000),
            runtime: labels.get(names::LABEL_RUNTIME).cloned(),
            spec: labels.get(names::LABEL_SPEC).cloned().unwrap_or_default(),
        }
    }
}

/// Seconds between asking a container to stop and killing it.
const GRACE: i32 = 5;
