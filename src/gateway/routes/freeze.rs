//! `POST /api/agents/{id}/freeze`, `/thaw`, `/api/freeze`, `/api/thaw`: holds agents and their sandboxes
//! still, or lets them go on.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Query, State};
use futures_util::future;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::error::chain;
use crate::gateway::error::ApiError;
use crate::gateway::state::Gateway;
use crate::id::AgentId;
use crate::sandbox::SandboxError;
use crate::swarm::{By, SwarmError};

/// What the paths take.
#[derive(Debug, Deserialize)]
pub struct Who {
    /// The name of the person who asks.
    by: Option<String>,
}

/// Freezes one agent.
pub async fn freeze(
    State(gateway): State<Arc<Gateway>>,
    Path(id): Path<String>,
    Query(who): Query<Who>,
) -> Result<Json<Value>, ApiError> {
    let agent = gateway.agent(&id)?.id;
    change(gateway, vec![agent], &who, true).await
}

/// Thaws one agent.
pub async fn thaw(
    State(gateway): State<Arc<Gateway>>,
    Path(id): Path<String>,
    Query(who): Query<Who>,
) -> Result<Json<Value>, ApiError> {
    let agent = gateway.agent(&id)?.id;
    change(gateway, vec![agent], &who, false).await
}

/// Freezes all agents.
pub async fn freeze_all(
    State(gateway): State<Arc<Gateway>>,
    Query(who): Query<Who>,
) -> Result<Json<Value>, ApiError> {
    let agents = all(&gateway);
    change(gateway, agents, &who, true).await
}

/// Thaws all agents.
pub async fn thaw_all(
    State(gateway): State<Arc<Gateway>>,
    Query(who): Query<Who>,
) -> Result<Json<Value>, ApiError> {
    let agents = all(&gateway);
    change(gateway, agents, &who, false).await
}

fn all(gateway: &Gateway) -> Vec<AgentId> {
    gateway.config().agents.iter().map(|agent| agent.id.clone()).collect()
}

async fn change(
    gateway: Arc<Gateway>,
    agents: Vec<AgentId>,
    who: &Who,
    frozen: bool,
) -> Result<Json<Value>, ApiError> {
    let by = By::human(who.by.as_deref().unwrap_or("owner"));
    // In a task: a client that goes away must not leave half of a team frozen.
    let done = tokio::spawn(async move {
        let changes = agents.iter().map(|agent| one(&gateway, agent, &by, frozen));
        future::join_all(changes).await.into_iter().collect::<Result<Vec<Value>, SwarmError>>()
    });
    let agents = done.await.map_err(ApiError::internal)?.map_err(ApiError::explained)?;
    Ok(Json(json!({"agents": agents})))
}

async fn one(gateway: &Gateway, agent: &AgentId, by: &By, frozen: bool) -> Result<Value, SwarmError> {
    let (changed, settled) = if frozen {
        let changed = gateway.swarm.freeze(by, agent).await?;
        (changed, gateway.sandbox.pause(agent).await)
    } else {
        // The sandbox first: a turn that goes on would find it still.
        let settled = gateway.sandbox.resume(agent).await;
        (gateway.swarm.thaw(by, agent).await?, settled)
    };
    let problem = match settled {
        // Where no engine answers, nothing can be running.
        Ok(()) | Err(SandboxError::Unavailable { .. } | SandboxError::Denied { .. }) => None,
        Err(error) => {
            tracing::error!(error = chain(&error), %agent, frozen, "a sandbox did not follow its agent");
            Some(error.to_string())
        }
    };
    Ok(json!({"id": agent, "frozen": frozen, "changed": changed, "problem": problem}))
}
