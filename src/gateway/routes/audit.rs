//! `GET /api/audit` and `GET /api/usage`: what was done by whom, and what models were asked.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::gateway::error::ApiError;
use crate::gateway::extract::Query;
use crate::gateway::state::Gateway;
use crate::store::{AuditFilter, UsageBy};
use crate::swarm::budget;

/// Which rows of the audit.
#[derive(Debug, Deserialize)]
pub struct Rows {
    agent: Option<String>,
    level: Option<String>,
    action: Option<String>,
    since: Option<i64>,
    before: Option<i64>,
    limit: Option<u32>,
}

/// The newest rows of the audit.
pub async fn list(
    State(gateway): State<Arc<Gateway>>,
    Query(rows): Query<Rows>,
) -> Result<Json<Value>, ApiError> {
    let level = rows.level.map(|level| level.parse()).transpose();
    let filter = AuditFilter {
        actor: rows.agent,
        level: level
            .map_err(|reason: String| ApiError::invalid("invalid_level", format!("level: {reason}")))?,
        action: rows.action,
        since: rows.since,
        before: rows.before,
    };
    let limit = rows.limit.unwrap_or(20);
    let read = tokio::task::spawn_blocking(move || gateway.swarm.store().audit_rows(&filter, limit)).await;
    let rows = read.map_err(ApiError::internal)?.map_err(ApiError::internal)?;
    Ok(Json(json!({"rows": rows})))
}

/// Which sums of use.
#[derive(Debug, Deserialize)]
pub struct Sums {
    day: Option<jiff::civil::Date>,
    since: Option<jiff::civil::Date>,
    agent: Option<String>,
    #[serde(default)]
    by: UsageBy,
}

/// What was used, summed: today unless days are named.
pub async fn usage(
    State(gateway): State<Arc<Gateway>>,
    Query(sums): Query<Sums>,
) -> Result<Json<Value>, ApiError> {
    let agent = sums.agent.map(|agent| agent.parse()).transpose();
    let agent = agent
        .map_err(|error: crate::id::IdError| ApiError::invalid("invalid_agent_id", error.to_string()))?;
    let filter = budget::period(sums.day, sums.since, jiff::Zoned::now().date(), agent);
    let found = {
        let (gateway, filter) = (gateway.clone(), filter.clone());
        tokio::task::spawn_blocking(move || gateway.swarm.store().usage(&filter, sums.by)).await
    };
    let found = found.map_err(ApiError::internal)?.map_err(ApiError::internal)?;
    Ok(Json(budget::report(&filter, &found)))
}
