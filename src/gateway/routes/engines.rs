//! `/api/engines`: the container engines, and the agents that are placed on them.

use std::sync::Arc;

use axum::extract::{Extension, State};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{JsonResult, TeamState};
use crate::config::{self, ClusterAddress, ClusterSettings, EngineSettings, cluster};
use crate::gateway::auth::Caller;
use crate::gateway::body::JsonBody;
use crate::gateway::engines;
use crate::gateway::error::ApiError;
use crate::gateway::extract::{Path, Query};
use crate::id::EngineName;
use crate::sandbox::docker::{ConfigSource, DockerSandbox};
use crate::sandbox::kubernetes::KubernetesSandbox;
use crate::sandbox::placed_sandbox::PlacedSandbox;

/// An engine that is to be added.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct NewEngine {
    pub(crate) name: EngineName,
    /// The address, as in `unix:///run/second/docker.sock`.
    pub(crate) address: String,
    /// The OCI runtime of agents that name none.
    #[serde(default)]
    pub(crate) runtime: Option<String>,
    #[serde(default)]
    pub(crate) labels: Vec<String>,
    /// Memory in bytes that the limits of its agents may add up to.
    #[serde(default)]
    pub(crate) memory: Option<u64>,
    /// Minutes of silence after which its agents are placed on other engines.
    #[serde(default)]
    pub(crate) lost_after_minutes: Option<u64>,
    /// The image of the sandboxes in a cluster, which has the helper in it.
    #[serde(default)]
    pub(crate) image: Option<String>,
    /// Size of the volume of a workspace in a cluster, in bytes.
    #[serde(default)]
    pub(crate) storage: Option<u64>,
    /// The storage class of these volumes.
    #[serde(default)]
    pub(crate) storage_class: Option<String>,
    /// Name of the person, for the audit.
    #[serde(default)]
    pub(crate) by: Option<String>,
}

impl NewEngine {
    /// Returns the settings of a cluster, if the address is that of one.
    fn cluster(&self) -> Result<Option<ClusterSettings>, ApiError> {
        let usage = |text: &str| ApiError::invalid("usage", text).with_hint("flock engine add --help");
        if self.address.parse::<ClusterAddress>().is_err() {
            return match self.image.is_some() || self.storage.is_some() || self.storage_class.is_some() {
                true => Err(usage("image, storage and storageClass are for k8s:// addresses only")),
                false => Ok(None),
            };
        }
        Ok(Some(ClusterSettings {
            image: self.image.clone().ok_or_else(|| usage("a cluster needs an image"))?,
            storage: self.storage.unwrap_or(cluster::DEFAULT_STORAGE),
            storage_class: self.storage_class.clone(),
        }))
    }
}

/// A change of the draining of an engine.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct DrainBody {
    pub(crate) drain: bool,
    /// Name of the person, for the audit.
    #[serde(default)]
    pub(crate) by: Option<String>,
}

/// The query parameters of a removal.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RemoveQuery {
    /// Set to remove an engine that has agents or does not answer.
    #[serde(default)]
    force: bool,
    by: Option<String>,
}

/// Returns all engines.
pub(crate) async fn list(State(team): State<TeamState>) -> JsonResult {
    let found = engines::all(&team.swarm).await.map_err(ApiError::explained)?;
    Ok(axum::Json(json!({"engines": found})))
}

/// Returns one engine.
pub(crate) async fn show(State(team): State<TeamState>, Path(name): Path<EngineName>) -> JsonResult {
    engines::find(&team.swarm, &name)?;
    Ok(axum::Json(json!({"engine": shown(&team, &name).await?})))
}

/// Checks an engine now, with a sandbox that is made in it.
pub(crate) async fn check(State(team): State<TeamState>, Path(name): Path<EngineName>) -> JsonResult {
    let (found, known) = engines::find(&team.swarm, &name)?;
    let checks = engines::check(&team.swarm, &found, &known).await;
    Ok(axum::Json(json!({"engine": shown(&team, &name).await?, "checks": checks})))
}

/// Adds an engine after it was checked.
pub(crate) async fn add(
    State(team): State<TeamState>,
    Extension(caller): Extension<Caller>,
    JsonBody(wanted): JsonBody<NewEngine>,
) -> Result<(StatusCode, axum::Json<Value>), ApiError> {
    let by = caller.speaks(wanted.by.as_deref())?;
    let cluster = wanted.cluster()?;
    let mut labels = wanted.labels;
    labels.sort();
    labels.dedup();
    let settings = EngineSettings {
        runtime: wanted.runtime,
        labels,
        memory: wanted.memory,
        lost_after: wanted.lost_after_minutes.map(config::engines::minutes),
        cluster,
        ..EngineSettings::new(wanted.name.clone(), Some(wanted.address))
    };
    let checks = engines::add(&team.swarm, &by, settings).await?;
    let engine = shown(&team, &wanted.name).await?;
    Ok((StatusCode::CREATED, axum::Json(json!({"engine": engine, "checks": checks}))))
}

/// Drains an engine, or ends that.
pub(crate) async fn drain(
    State(team): State<TeamState>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<EngineName>,
    JsonBody(body): JsonBody<DrainBody>,
) -> JsonResult {
    let by = caller.speaks(body.by.as_deref())?;
    let (_, known) = engines::find(&team.swarm, &name)?;
    engines::drain(&team.swarm, &by, &known, body.drain).await?;
    if team.sandbox.is_none() {
        // No gateway runs, so no turn does, and nobody else would move them.
        let live = team.swarm.live().clone();
        let (home, engines) = (team.swarm.home(), team.swarm.engines());
        let source: ConfigSource = Arc::new(move || live.current());
        let docker = DockerSandbox::new(home.clone(), Arc::clone(&source), engines.local().clone())
            .with_engines(engines.clone());
        let clusters = KubernetesSandbox::new(home.clone(), Arc::clone(&source), engines.clone());
        let sandbox = PlacedSandbox::new(Arc::new(docker), Arc::new(clusters), source);
        Box::pin(engines::move_agents(&team.swarm, &sandbox, &|_| false)).await;
    }
    Ok(axum::Json(json!({"engine": shown(&team, &name).await?})))
}

/// Removes an engine with all that this home has in it.
pub(crate) async fn remove(
    State(team): State<TeamState>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<EngineName>,
    Query(query): Query<RemoveQuery>,
) -> JsonResult {
    let by = caller.speaks(query.by.as_deref())?;
    let (gone, is_forced) = (name.clone(), query.force);
    // A task of its own: a client that disconnects must not leave half of the work to its repeat.
    let removing =
        async move { engines::remove(&team.swarm, &team.checkpoints, &by, &gone, is_forced).await };
    let left = tokio::spawn(removing).await.map_err(ApiError::internal)??;
    Ok(axum::Json(json!({"removed": name, "warnings": left})))
}

async fn shown(team: &TeamState, name: &EngineName) -> Result<Value, ApiError> {
    let all = engines::all(&team.swarm).await.map_err(ApiError::explained)?;
    Ok(json!(all.into_iter().find(|engine| engine.name == *name)))
}
