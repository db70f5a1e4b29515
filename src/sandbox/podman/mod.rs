//! Podman in place of Docker. Its service takes requests of Docker's interface, but leaves out parts of them without an
//! error, so containers are made by its own interface. What a runtime was really given is then read from the file that
//! Podman writes for it, and put into Docker's words, so that the same rules judge the containers of both.

mod client;
mod description;
mod filter;
mod in_memory;
mod places;
mod service;
mod specification;

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;

use bollard::errors::Error as EngineError;
use bollard::models::{ContainerCreateBody, ContainerInspectResponse, ContainerSummary, SystemInfo};
use hyper::Method;
use serde_json::{Value, json};

use self::client::{call, refused};
use self::description::in_words_of_docker;
use self::service::Service;
use self::specification::Specification;
use crate::sandbox::engine::{self, Engine};
use crate::sandbox::{SandboxError, volumes};

/// The first version whose own interface is spoken here.
pub(super) const OLDEST: u32 = 4;

/// The start of all paths of Podman's own interface. Later versions take it, too.
const API: &str = "/v4.0.0/libpod";
/// The start of all paths of Docker's interface, as Podman 4 has it.
const DOCKER_API: &str = "/v1.41";

/// Creates a container without starting it, and returns its id. Nothing that `body` asks for is left out: what has no
/// translation is refused.
pub(super) async fn create(
    engine: &Engine,
    name: &str,
    body: &ContainerCreateBody,
) -> Result<String, SandboxError> {
    let what = format!("create {name}");
    let service = Service::ask(engine).await?;
    let failed = |source| SandboxError::Host { path: std::env::temp_dir(), source };
    let profile = tokio::task::spawn_blocking(filter::file).await;
    let profile = profile.unwrap_or_else(|error| Err(io::Error::other(error))).map_err(failed)?;
    let asked = Specification::of(name, body, &service, profile.path());
    let Specification { document, volumes } =
        asked.map_err(|message| engine.error(&what, refused(400, message)))?;
    // Podman would make them without their labels.
    for (volume, labels) in volumes {
        volumes::create(engine, &volume, labels).await?;
    }
    // Podman reads the profile before it answers, and keeps what it says with the container.
    let path = format!("{API}/containers/create");
    let made = call(engine, Method::POST, &path, Some(&document));
    let made = engine.call(&what, engine::SLOW, made).await?;
    made["Id"]
        .as_str()
        .map(str::to_owned)
        .ok_or_else(|| SandboxError::Engine { what, source: "its answer has no id of the container".into() })
}

/// Returns the description of a container in Docker's interface.
pub(super) async fn inspect(
    engine: &Engine,
    container: &str,
) -> Result<ContainerInspectResponse, EngineError> {
    let path = format!("{DOCKER_API}/containers/{container}/json");
    let found = call(engine, Method::GET, &path, None).await?;
    Ok(serde_json::from_value(with_known_state(found))?)
}

/// Returns all containers that the filters find.
pub(super) async fn list(
    engine: &Engine,
    filters: &HashMap<String, Vec<String>>,
) -> Result<Vec<ContainerSummary>, EngineError> {
    let filters: String = form_urlencoded::byte_serialize(json!(filters).to_string().as_bytes()).collect();
    let path = format!("{DOCKER_API}/containers/json?all=true&filters={filters}");
    let found = call(engine, Method::GET, &path, None).await?;
    let found = found.as_array().cloned().unwrap_or_default();
    Ok(serde_json::from_value(found.into_iter().map(with_known_state).collect())?)
}

/// Replaces a state that Docker does not have, between the end of the processes and Podman's own cleaning up. The client would
/// not read it.
fn with_known_state(mut found: Value) -> Value {
    for place in ["/State", "/State/Status"] {
        if let Some(state) = found.pointer_mut(place).filter(|state| **state == "stopped") {
            *state = json!("exited");
        }
    }
    found
}

/// Returns the description of a container that was started, with what its runtime was given.
pub(super) async fn described(
    engine: &Engine,
    found: ContainerInspectResponse,
) -> Result<ContainerInspectResponse, SandboxError> {
    let id = found.id.clone().unwrap_or_default();
    let what = format!("inspect {id}");
    let path = format!("{API}/containers/{id}/json");
    let own = engine.call(&what, engine::QUICK, call(engine, Method::GET, &path, None)).await?;
    let Some(path) = own["OCIConfigPath"].as_str().filter(|path| !path.is_empty()).map(PathBuf::from) else {
        return Err(SandboxError::Engine { what, source: "its runtime was given nothing yet".into() });
    };
    let from = path.clone();
    let read = tokio::task::spawn_blocking(move || {
        serde_json::from_slice::<Value>(&fs_err::read(from)?).map_err(io::Error::other)
    });
    let given = read.await.unwrap_or_else(|error| Err(io::Error::other(error)));
    let given = given.map_err(|source| SandboxError::Host { path, source })?;
    Ok(in_words_of_docker(found, own["OCIRuntime"].as_str(), &given))
}

/// Returns what the engine says about itself, with the limits that it can really set. Podman says what the machine can
/// limit, also if nothing was delegated to the user of a rootless service.
pub(super) async fn corrected(engine: &Engine, info: SystemInfo) -> Result<SystemInfo, SandboxError> {
    let service = Service::ask(engine).await?;
    let has = |name: &str| Some(service.controllers.iter().any(|found| found == name));
    let mut security = info.security_options.unwrap_or_default();
    // Docker names this here.
    security.extend(service.is_rootless.then(|| "name=rootless".to_owned()));
    Ok(SystemInfo {
        security_options: Some(security),
        memory_limit: has("memory"),
        cpu_cfs_quota: has("cpu"),
        pids_limit: has("pids"),
        ..info
    })
}

/// Returns `true` if Podman refuses a call because the container is not in a state for it. Docker answers 409 then.
pub(super) fn is_wrong_state(error: &SandboxError) -> bool {
    let SandboxError::Engine { source, .. } = error else { return false };
    matches!(
        source.downcast_ref::<EngineError>(),
        Some(EngineError::DockerResponseServerError { message, .. })
            if message.ends_with("container state improper")
    )
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn strings(list: &Value) -> Vec<String> {
    items(list).filter_map(Value::as_str).map(str::to_owned).collect()
}

#[cfg(test)]
#[path = "podman_tests.rs"]
mod tests;
