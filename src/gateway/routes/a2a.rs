//! The Agent2Agent protocol: cards, and one address for each agent.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, Path, State};
use axum::http::{HeaderMap, Response};
use axum::response::IntoResponse as _;
use axum::{Json, http::StatusCode};
use serde_json::Value;

use crate::config::Role;
use crate::gateway::a2a::serve::{Client, answer_to};
use crate::gateway::a2a::{card, rpc};
use crate::gateway::auth::Caller;
use crate::gateway::body::Raw;
use crate::gateway::error::ApiError;
use crate::gateway::state::Gateway;

/// Answers a call.
pub async fn call(
    State(gateway): State<Arc<Gateway>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    headers: HeaderMap,
    Raw(body): Raw,
) -> Result<Response<Body>, ApiError> {
    let agent = gateway.agent(&id)?;
    let name = client_name(&caller)?;
    let version = headers.get("a2a-version").map(|value| value.to_str().unwrap_or("?"));
    Ok(match rpc::call(&body, version) {
        Ok(call) => answer_to(&Client { gateway: &gateway, name, agent: &agent.id }, call).await,
        Err((id, fault)) => Json(rpc::answer(&id, Err(fault))).into_response(),
    })
}

/// The card of an agent.
pub async fn agent_card(
    State(gateway): State<Arc<Gateway>>,
    Path(id): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let agent = gateway.agent(&id)?;
    let found = gateway.swarm.card(&agent.id).map_err(ApiError::explained)?;
    Ok(Json(card::show(&found, gateway.port)))
}

/// The card of the agent that a stranger to this home talks to first: its orchestrator.
pub async fn home_card(State(gateway): State<Arc<Gateway>>) -> Result<Json<Value>, ApiError> {
    let cards = gateway.swarm.cards().map_err(ApiError::explained)?;
    let found = cards.iter().find(|card| card.role == Role::Orchestrator).ok_or_else(|| {
        ApiError::not_found("agent_not_found", "this home has no orchestrator").with_hint("flock init")
    })?;
    Ok(Json(card::show(found, gateway.port)))
}

/// All cards.
pub async fn directory(State(gateway): State<Arc<Gateway>>) -> Result<Json<Value>, ApiError> {
    let cards = gateway.swarm.cards().map_err(ApiError::explained)?;
    Ok(Json(card::directory(&cards, gateway.port)))
}

/// What a caller is called as the requester of tasks.
fn client_name(caller: &Caller) -> Result<&'static str, ApiError> {
    if *caller == Caller::Owner {
        return Ok("owner");
    }
    Err(ApiError::new(StatusCode::FORBIDDEN, "owner_only", "only the owner's token may ask agents by A2A"))
}
