//! `GET /api/graph`: who talked to whom, and who worked when.

use std::sync::Arc;

use axum::extract::State;
use serde::Deserialize;
use serde_json::{Value, json};

use super::JsonResult;
use crate::clock::unix_ms;
use crate::gateway::error::ApiError;
use crate::gateway::extract::Query;
use crate::gateway::state::Gateway;
use crate::id::SessionKey;

/// Most turns in one response.
const MAX_TURNS: u32 = 2_000;

/// Milliseconds that are looked back if the query says nothing: a day.
const DEFAULT_SPAN: i64 = 24 * 3600 * 1000;

/// The query parameters.
#[derive(Debug, Deserialize)]
pub(crate) struct GraphQuery {
    /// Unix milliseconds.
    since: Option<i64>,
}

/// Returns the contacts and the turns since a time.
pub(crate) async fn show(State(gateway): State<Arc<Gateway>>, Query(asked): Query<GraphQuery>) -> JsonResult {
    let now = unix_ms();
    let since = asked.since.unwrap_or(now - DEFAULT_SPAN);
    let interactions = gateway.swarm.store().interactions();
    let contacts = interactions.contacts(since).await.map_err(ApiError::explained)?;
    let turns = interactions.turns(since, MAX_TURNS).await.map_err(ApiError::explained)?;
    let turns: Vec<Value> = turns
        .iter()
        .map(|turn| {
            let agent = turn.session.parse::<SessionKey>().ok().map(|key| key.agent().clone());
            json!({
                "turn": turn.turn,
                "agent": agent,
                "session": turn.session,
                "state": turn.state.as_str(),
                "startedAt": turn.started_at,
                "endedAt": turn.ended_at,
            })
        })
        .collect();
    Ok(axum::Json(json!({"since": since, "now": now, "contacts": contacts, "turns": turns})))
}
