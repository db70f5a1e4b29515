//! The containers of a home, whoever made them: found by their label.

use std::time::Duration;

use bollard::query_parameters::{ListContainersOptionsBuilder, StopContainerOptionsBuilder};

use super::SandboxError;
use super::engine::{Engine, SLOW};
use super::names;
use crate::home::Home;

/// The names of this home's containers that run.
///
/// # Errors
///
/// If the engine does not answer.
pub async fn running(engine: &Engine, home: &Home) -> Result<Vec<String>, SandboxError> {
    let client = engine.client()?;
    let options = ListContainersOptionsBuilder::default().filters(&names::owned(home)).build();
    let found = engine.call("list containers", QUICK, client.list_containers(Some(options))).await?;
    let name = |names: Option<Vec<String>>| {
        names.and_then(|names| names.into_iter().next()).map(|name| name.trim_start_matches('/').to_owned())
    };
    Ok(found.into_iter().filter_map(|container| name(container.names)).collect())
}

/// Stops a container: asks it, and kills it when it does not stop.
///
/// # Errors
///
/// If the engine refuses. That it is not there, or stopped already, is none.
pub async fn stop(engine: &Engine, name: &str) -> Result<(), SandboxError> {
    let client = engine.client()?;
    let options = StopContainerOptionsBuilder::default().t(GRACE).build();
    engine.find(&format!("stop {name}"), SLOW, client.stop_container(name, Some(options))).await.map(drop)
}

/// Seconds between asking a container to stop and killing it.
const GRACE: i32 = 5;
/// How long an engine may take to list containers; a frozen one must not hold up whoever only looks.
const QUICK: Duration = Duration::from_secs(3);
