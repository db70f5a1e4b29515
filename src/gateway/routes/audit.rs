//! `GET /api/audit…` and `GET /api/usage…`: the recorded actions with their verification, and the use of models.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::{HeaderValue, Response, header};
use axum::response::IntoResponse as _;
use serde::Deserialize;
use serde_json::json;

use super::JsonResult;
use crate::clock::unix_ms;
use crate::gateway::auth::Caller;
use crate::gateway::error::ApiError;
use crate::gateway::extract::Query;
use crate::gateway::person_access;
use crate::gateway::state::Gateway;
use crate::store::{AuditFilter, UsageBy, UsageScope};
use crate::swarm::budget;

/// The query parameters for rows of the audit.
#[derive(Debug, Deserialize)]
pub(crate) struct AuditQuery {
    agent: Option<String>,
    level: Option<String>,
    action: Option<String>,
    since: Option<i64>,
    before: Option<i64>,
    limit: Option<u32>,
}

/// Returns the newest rows of the audit.
pub(crate) async fn list(State(gateway): State<Arc<Gateway>>, Query(rows): Query<AuditQuery>) -> JsonResult {
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
    let rows = gateway.swarm.store().audit().rows(&filter, limit).await.map_err(ApiError::internal)?;
    Ok(Json(json!({"rows": rows})))
}

/// Verifies the whole audit and returns the first fault, if there is one.
pub(crate) async fn verify(State(gateway): State<Arc<Gateway>>) -> JsonResult {
    let found = gateway.swarm.store().audit().verify().await.map_err(ApiError::explained)?;
    Ok(Json(json!({
        "valid": found.broken.is_none(),
        "rows": found.rows,
        "last": found.last,
        "broken": found.broken,
        "at": unix_ms(),
    })))
}

/// Returns the usage of today by agent and hour.
pub(crate) async fn hours(State(gateway): State<Arc<Gateway>>) -> JsonResult {
    // Days are those of this machine's time zone.
    let now = jiff::Zoned::now();
    let start = now.start_of_day().map_err(ApiError::internal)?.timestamp().as_millisecond();
    let calls = gateway.swarm.store().usage().calls(start).await.map_err(ApiError::internal)?;
    Ok(Json(budget::hours(start, now.timestamp().as_millisecond(), &calls)))
}

/// Returns the budgets of today, with what is used and reserved.
pub(crate) async fn budgets(
    State(gateway): State<Arc<Gateway>>,
    Extension(caller): Extension<Caller>,
) -> JsonResult {
    // Days are those of this machine's time zone.
    let now = jiff::Zoned::now();
    let day = budget::day(now.timestamp().as_millisecond(), now.time_zone());
    let usage = gateway.swarm.store().usage();
    let today = budget::usage_filter(None, None, now.date(), None);
    let channels = usage.sums(&today, UsageBy::Channel).await.map_err(ApiError::internal)?;
    let channels: Vec<_> = channels.iter().filter_map(|sum| sum.name.parse().ok()).collect();
    let config = gateway.config();
    let agents: Vec<_> = config.agents.iter().map(|agent| agent.id.clone()).collect();
    let mut limits = budget::all_limits(&config.budgets, &agents, &channels);
    let people = gateway.swarm.store().people().list().await.map_err(ApiError::internal)?;
    limits.extend(people.iter().filter(|person| person.is_active()).filter_map(budget::person_limit));
    if let Some(person) = caller.home_person() {
        limits.retain(|limit| person_access::sees_budget(person, &limit.scope));
    }
    let limits = usage.limits_in_use(day.name.clone(), limits).await.map_err(ApiError::internal)?;
    Ok(Json(budget::use_of_limits(&day, &limits)))
}

/// The query parameters for sums of usage.
#[derive(Debug, Deserialize)]
pub(crate) struct UsageQuery {
    day: Option<jiff::civil::Date>,
    since: Option<jiff::civil::Date>,
    agent: Option<String>,
    #[serde(default)]
    by: UsageBy,
    /// `json` (the default) or `csv`.
    format: Option<String>,
}

/// Returns sums of usage, for today unless the query names days.
pub(crate) async fn usage(
    State(gateway): State<Arc<Gateway>>,
    Extension(caller): Extension<Caller>,
    Query(sums): Query<UsageQuery>,
) -> Result<Response<Body>, ApiError> {
    let is_csv = match sums.format.as_deref() {
        None | Some("json") => false,
        Some("csv") => true,
        Some(_) => return Err(ApiError::invalid("invalid_query", "format is json or csv")),
    };
    let agent = sums.agent.map(|agent| agent.parse()).transpose();
    let agent = agent
        .map_err(|error: crate::id::IdError| ApiError::invalid("invalid_agent_id", error.to_string()))?;
    // Days are those of this machine's time zone.
    let filter = budget::usage_filter(sums.day, sums.since, jiff::Zoned::now().date(), agent);
    let usage = gateway.swarm.store().usage();
    let mut found = usage.sums(&filter, sums.by).await.map_err(ApiError::internal)?;
    if let Some(person) = caller.home_person().filter(|_| sums.by == UsageBy::Person) {
        found.retain(|sum| person_access::sees_budget(person, &UsageScope::Person(sum.name.clone())));
    }
    if is_csv {
        let mut response = Response::new(Body::from(budget::csv(&found)));
        let kind = HeaderValue::from_static("text/csv; charset=utf-8");
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        return Ok(response);
    }
    let bridges = usage.bridges(&filter).await.map_err(ApiError::internal)?;
    Ok(Json(budget::report(&filter, &found, &bridges)).into_response())
}
