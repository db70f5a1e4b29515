//! `GET /api/sessions[?agent=ID]`: the sessions and what runs in them.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Query, State};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::gateway::error::ApiError;
use crate::gateway::state::Gateway;

/// What the path takes.
#[derive(Debug, Deserialize)]
pub struct Filter {
    agent: Option<String>,
}

/// The sessions, and the turns that run or wait.
pub async fn list(
    State(gateway): State<Arc<Gateway>>,
    Query(filter): Query<Filter>,
) -> Result<Json<Value>, ApiError> {
    let agent = filter.agent.map(|agent| gateway.agent(&agent)).transpose()?.map(|agent| agent.id);
    let sessions = gateway.records.sessions(agent.as_ref()).await?;
    let turns: Vec<Value> = gateway
        .driver
        .list()
        .into_iter()
        .filter(|(_, turn)| agent.as_ref().is_none_or(|agent| turn.agent == *agent))
        .map(|(id, turn)| {
            json!({"turn": id, "agent": turn.agent, "session": turn.session,
                "state": if turn.waits { "waiting" } else { "running" }})
        })
        .collect();
    Ok(Json(json!({"sessions": sessions, "turns": turns})))
}
