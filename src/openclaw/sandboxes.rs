//! The containers of OpenClaw's sandboxes. It lets them run when it ends, and some versions give them to whoever has an
//! agent of the same name; every home has a prefix of its own, and by that they are found.

use std::collections::HashMap;

use bollard::query_parameters::ListContainersOptionsBuilder;
use futures_util::future;

use super::container_prefix;
use crate::home::Home;
use crate::sandbox::engine::{self, Engine};
use crate::sandbox::{SandboxError, owned};

/// The label that OpenClaw puts on them.
const LABEL: &str = "openclaw.sandbox=1";

/// The names of this home's, running or not.
///
/// # Errors
///
/// If there is no engine, or it does not answer.
pub async fn list(engine: &Engine, home: &Home) -> Result<Vec<String>, SandboxError> {
    let client = engine.client()?;
    let prefix = container_prefix(home);
    let filters = HashMap::from([("label".to_owned(), vec![LABEL.to_owned()])]);
    let options = ListContainersOptionsBuilder::default().all(true).filters(&filters).build();
    let found = engine.call("list containers", engine::GLANCE, client.list_containers(Some(options))).await?;
    let names = found.into_iter().filter_map(|one| one.names?.into_iter().next());
    let mut names: Vec<String> = names.map(|name| name.trim_start_matches('/').to_owned()).collect();
    names.retain(|name| name.starts_with(&prefix));
    names.sort();
    Ok(names)
}

/// Removes this home's, with what runs in them; gives back their names.
///
/// # Errors
///
/// As [`list`], and the first that can't be removed; the others are removed all the same.
pub async fn remove_all(engine: &Engine, home: &Home) -> Result<Vec<String>, SandboxError> {
    let names = list(engine, home).await?;
    let removed = future::join_all(names.iter().map(|name| owned::remove(engine, name))).await;
    removed.into_iter().collect::<Result<Vec<()>, _>>()?;
    Ok(names)
}
