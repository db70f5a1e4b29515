//! Finds and removes the containers of OpenClaw's sandboxes. OpenClaw leaves them running when it ends, and some
//! versions reuse a container for any agent with the same name. Every home has its own name prefix, by which its
//! containers are found.

use std::collections::HashMap;

use bollard::query_parameters::ListContainersOptionsBuilder;
use futures_util::future;

use super::container_prefix;
use crate::home::Home;
use crate::sandbox::engine::{self, Engine};
use crate::sandbox::{SandboxError, containers};

/// The label that OpenClaw puts on its containers.
const LABEL: &str = "openclaw.sandbox=1";

/// Returns the names of this home's containers, running or not.
///
/// # Errors
///
/// Returns [`SandboxError`] if there is no engine, or if it does not answer.
pub(crate) async fn list(engine: &Engine, home: &Home) -> Result<Vec<String>, SandboxError> {
    let client = engine.client()?;
    let prefix = container_prefix(home);
    let filters = HashMap::from([("label".to_owned(), vec![LABEL.to_owned()])]);
    let options = ListContainersOptionsBuilder::default().all(true).filters(&filters).build();
    let found = engine
        .call("list containers", engine::DISPLAY_TIMEOUT, client.list_containers(Some(options)))
        .await?;
    let names = found.into_iter().filter_map(|one| one.names?.into_iter().next());
    // The engine returns names with a leading slash.
    let mut names: Vec<String> = names.map(|name| name.trim_start_matches('/').to_owned()).collect();
    names.retain(|name| name.starts_with(&prefix));
    names.sort();
    Ok(names)
}

/// Removes this home's containers with everything that runs in them, and returns their names.
///
/// # Errors
///
/// Returns [`SandboxError`] if [`list`] fails or a container can't be removed. The other containers are removed in any
/// case.
pub(crate) async fn remove_all(engine: &Engine, home: &Home) -> Result<Vec<String>, SandboxError> {
    let names = list(engine, home).await?;
    let removed = future::join_all(names.iter().map(|name| containers::remove(engine, name))).await;
    removed.into_iter().collect::<Result<Vec<()>, _>>()?;
    Ok(names)
}
