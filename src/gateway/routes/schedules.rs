//! `/api/schedules`: texts that are given to a channel or an agent at certain times.

use axum::extract::{Extension, State};
use axum::http::StatusCode;
use serde_json::{Value, json};

use super::parts::{ByQuery, HistoryQuery, ScheduleChangeBody};
use super::races::ByBody;
use super::{JsonResult, TeamState};
use crate::clock::unix_ms;
use crate::gateway::auth::Caller;
use crate::gateway::body::JsonBody;
use crate::gateway::error::ApiError;
use crate::gateway::extract::{Path, Query};
use crate::id::ScheduleName;
use crate::store::Schedule;
use crate::swarm::schedule::allowance::BudgetChange;
use crate::swarm::schedule::{ScheduleWish, view};
use crate::swarm::{Actor, SwarmError};

/// Returns all schedules.
pub(crate) async fn list(State(team): State<TeamState>) -> JsonResult {
    Ok(axum::Json(json!({"schedules": team.swarm.shown_schedules(unix_ms()).await?})))
}

/// Returns one schedule.
pub(crate) async fn show(State(team): State<TeamState>, Path(name): Path<ScheduleName>) -> JsonResult {
    let found = team.swarm.schedule(&name).await?;
    shown(&team, &found).await
}

/// Adds a schedule.
pub(crate) async fn add(
    State(team): State<TeamState>,
    Extension(caller): Extension<Caller>,
    JsonBody(wish): JsonBody<ScheduleWish>,
) -> Result<(StatusCode, axum::Json<Value>), ApiError> {
    let by = Actor::party(caller.person(wish.by.as_deref())?);
    let added = team.swarm.add_schedule(&by, &wish).await?;
    Ok((StatusCode::CREATED, shown(&team, &added).await?))
}

/// Pauses a schedule, lets it go on, or changes its budget.
pub(crate) async fn change(
    State(team): State<TeamState>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<ScheduleName>,
    JsonBody(body): JsonBody<ScheduleChangeBody>,
) -> JsonResult {
    let by = Actor::party(caller.person(body.by.as_deref())?);
    let change = BudgetChange { tokens: body.tokens, cost: body.cost_micros };
    let mut changed = None;
    if change != BudgetChange::default() {
        changed = Some(team.swarm.change_schedule_budget(&by, &name, change).await?);
    }
    if let Some(paused) = body.paused {
        changed = Some(team.swarm.pause_schedule(&by, &name, paused).await?);
    }
    let nothing = || SwarmError::Invalid("say what to change: paused, tokens or costMicros".to_owned());
    shown(&team, &changed.ok_or_else(nothing)?).await
}

/// Runs a schedule now.
pub(crate) async fn run(
    State(team): State<TeamState>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<ScheduleName>,
    JsonBody(body): JsonBody<ByBody>,
) -> JsonResult {
    let by = Actor::party(caller.person(body.by.as_deref())?);
    team.swarm.run_schedule(&by, &name).await?;
    let found = team.swarm.schedule(&name).await?;
    shown(&team, &found).await
}

/// Returns what became of a schedule's times.
pub(crate) async fn history(
    State(team): State<TeamState>,
    Path(name): Path<ScheduleName>,
    Query(query): Query<HistoryQuery>,
) -> JsonResult {
    let rows = team.swarm.schedule_history(&name, query.limit()).await?;
    Ok(axum::Json(json!({"schedule": name, "history": rows.iter().map(view::slot).collect::<Vec<_>>()})))
}

/// Removes a schedule.
pub(crate) async fn remove(
    State(team): State<TeamState>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<ScheduleName>,
    Query(query): Query<ByQuery>,
) -> JsonResult {
    let by = Actor::party(caller.person(query.by.as_deref())?);
    team.swarm.remove_schedule(&by, &name).await?;
    Ok(axum::Json(json!({"removed": name})))
}

async fn shown(team: &TeamState, schedule: &Schedule) -> JsonResult {
    Ok(axum::Json(json!({"schedule": team.swarm.shown_schedule(schedule, unix_ms()).await?})))
}
