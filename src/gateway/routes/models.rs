//! `GET /v1/models`: lists the agents in the format in which OpenAI lists models.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Extension, State};
use axum::http::StatusCode;
use serde_json::{Value, json};

use super::JsonResult;
use crate::gateway::auth::Caller;
use crate::gateway::error::ApiError;
use crate::gateway::extract::Path;
use crate::gateway::state::Gateway;
use crate::id::AgentId;

/// Returns all agents that the caller may see, in the order of the configuration.
pub(crate) async fn list(
    State(gateway): State<Arc<Gateway>>,
    Extension(caller): Extension<Caller>,
) -> Json<Value> {
    let config = gateway.config();
    let agents = config.agents.iter().filter(|agent| caller.covers(&agent.id));
    let models: Vec<Value> = agents.map(|agent| model(&gateway, &agent.id)).collect();
    Json(json!({"object": "list", "data": models}))
}

/// Returns one agent.
pub(crate) async fn show(
    State(gateway): State<Arc<Gateway>>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
) -> JsonResult {
    let agent = gateway.agent(agent_name(&name)).map_err(as_model)?;
    caller.check_agent(&agent.id).map_err(as_model)?;
    Ok(Json(model(&gateway, &agent.id)))
}

/// Returns the agent in the name of a model: `coder`, `flock/coder` and `openclaw/coder` are the same agent.
#[must_use]
pub(crate) fn agent_name(model: &str) -> &str {
    ["flock/", "openclaw/", "openclaw:"].iter().find_map(|prefix| model.strip_prefix(prefix)).unwrap_or(model)
}

/// Turns the error for an unknown agent into OpenAI's error for an unknown model.
#[must_use]
pub(crate) fn as_model(mut error: ApiError) -> ApiError {
    if error.status == StatusCode::NOT_FOUND {
        error.code = "model_not_found".into();
    }
    error
}

fn model(gateway: &Gateway, agent: &AgentId) -> Value {
    json!({
        "id": agent,
        "object": "model",
        "created": gateway.started_ms / 1000,
        "owned_by": "flock",
    })
}
