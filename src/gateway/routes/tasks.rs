//! `/api/tasks`: the tasks of agents and their outcomes. A person may stop any of them.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Extension, State};
use serde::Deserialize;
use serde_json::{Value, json};

use super::JsonResult;
use crate::gateway::auth::Caller;
use crate::gateway::error::ApiError;
use crate::gateway::extract::{Path, Query};
use crate::gateway::state::Gateway;
use crate::id::AgentId;
use crate::store::{Database, StoreError, SubmissionFilter, Task, TaskFilter, TaskState};
use crate::swarm::SwarmError;

/// The query parameters of the list.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct TaskQuery {
    agent: Option<String>,
    state: Option<String>,
    before: Option<String>,
    limit: Option<u32>,
}

/// Returns tasks, newest first.
pub(crate) async fn list(
    State(gateway): State<Arc<Gateway>>,
    Extension(caller): Extension<Caller>,
    Query(asked): Query<TaskQuery>,
) -> JsonResult {
    let invalid = |reason: String| ApiError::invalid("invalid_filter", reason);
    let party = asked.agent.map(|id| id.parse::<AgentId>()).transpose();
    let state = asked.state.map(|word| {
        TaskState::named(&word).ok_or_else(|| invalid("`state` is no state of a task".to_owned()))
    });
    let filter = TaskFilter {
        party: party.map_err(|error| invalid(error.to_string()))?,
        state: state.transpose()?,
        before: asked.before,
        ..TaskFilter::default()
    };
    let limit = asked.limit.unwrap_or(50).clamp(1, 200);
    let found = covered(&gateway, &caller, filter, limit).await.map_err(ApiError::explained)?;
    let mut tasks = Vec::new();
    for task in &found {
        tasks.push(describe(gateway.swarm.store(), task).await.map_err(ApiError::explained)?);
    }
    Ok(Json(json!({"tasks": tasks})))
}

/// Returns the newest tasks that the caller may see, at most `limit`.
async fn covered(
    gateway: &Gateway,
    caller: &Caller,
    mut filter: TaskFilter,
    limit: u32,
) -> Result<Vec<Task>, StoreError> {
    let mut found = Vec::new();
    loop {
        let page = gateway.swarm.store().tasks().list(&filter, limit).await?;
        filter.before = page.last().map(|task| task.id.clone());
        let is_last = page.len() < limit as usize;
        found.extend(page.into_iter().filter(|task| caller.covers_task(task)));
        // Tasks that the caller may not see take no place in the response, so further pages are read.
        if is_last || found.len() >= limit as usize {
            break;
        }
    }
    found.truncate(limit as usize);
    Ok(found)
}

/// Returns one task with its texts.
pub(crate) async fn show(
    State(gateway): State<Arc<Gateway>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> JsonResult {
    let task = find(&gateway, &id).await.map_err(ApiError::explained)?;
    // A task that the caller may not see looks like a missing one.
    let task = task.filter(|task| caller.covers_task(task)).ok_or_else(unknown)?;
    let mut shown = describe(gateway.swarm.store(), &task).await.map_err(ApiError::explained)?;
    for (key, text) in [
        ("request", Some(&task.request)),
        ("question", task.question.as_ref()),
        ("reply", task.reply.as_ref()),
        ("response", task.response.as_ref()),
    ] {
        shown[key] = json!(text);
    }
    Ok(Json(shown))
}

/// Stops a task and the turn that works on it. The response comes when the turn has ended.
pub(crate) async fn cancel(
    State(gateway): State<Arc<Gateway>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> JsonResult {
    // A missing task is 404, and one that has ended is 409.
    let task = find(&gateway, &id).await.map_err(ApiError::explained)?;
    task.filter(|task| caller.covers_task(task)).ok_or_else(unknown)?;
    let by = match caller.home_person() {
        Some(_) => caller.party()?.to_string(),
        None => "owner".to_owned(),
    };
    match gateway.stop_task(&by, &id).await {
        Ok(task) => {
            let shown = describe(gateway.swarm.store(), &task).await;
            shown.map(Json).map_err(ApiError::explained)
        }
        Err(SwarmError::Refused(reason)) => Err(ApiError::conflict("task_ended", reason)),
        Err(error) => Err(ApiError::explained(error)),
    }
}

async fn find(gateway: &Gateway, id: &str) -> Result<Option<Task>, StoreError> {
    gateway.swarm.store().tasks().find(id).await
}

fn unknown() -> ApiError {
    ApiError::not_found("task_not_found", "there is no such task").with_hint("flock tasks")
}

/// Returns a task in the JSON form of the API, without its texts, and with the newest work that was submitted for it.
///
/// # Errors
///
/// Returns an error if the database can't be read.
pub(crate) async fn describe<A>(database: &Database<A>, task: &Task) -> Result<Value, StoreError> {
    let filter = SubmissionFilter { task: Some(task.id.clone()), ..SubmissionFilter::default() };
    let work = database.submissions().list(&filter, 1).await?.pop();
    let work = work.map(|work| {
        json!({
            "submission": work.id, "branch": work.branch, "state": work.state, "receipt": work.receipt,
        })
    });
    Ok(json!({
        "project": task.project,
        "work": work,
        "id": task.id,
        "contextId": task.context,
        "kind": task.kind.as_str(),
        "requester": task.requester,
        "assignee": task.assignee(),
        "session": task.session,
        "origin": task.origin,
        "state": task.state.as_str(),
        "summary": task.summary,
        "turn": task.turn,
        "createdAt": task.created_at,
        "updatedAt": task.updated_at,
        "completedAt": task.completed_at,
    }))
}
