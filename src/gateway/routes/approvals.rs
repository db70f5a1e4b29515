//! `/api/approvals`: the requests of agents, and the decisions about them. The owner decides, and so do clients whose
//! token has the right to approve.

use std::time::Duration;

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Extension, State};
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{JsonResult, TeamState};
use crate::clock::unix_ms;
use crate::gateway::auth::Caller;
use crate::gateway::error::ApiError;
use crate::gateway::extract::{Path, Query};
use crate::id::Party;
use crate::store::{RequestRow, RequestState};
use crate::swarm::triage::{self, ApprovalDecision, DecideError, Decider, view};

/// The refusal for OpenClaw's plugin.
const OWNER_ONLY: &str = "only the owner decides about requests";

/// Longest time for which a response waits for an approved request to be carried out.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval between two looks at its state.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Most requests that are listed.
const MAX_LISTED: u32 = 500;

/// The query parameters of the list.
#[derive(Debug, Deserialize)]
pub(crate) struct ApprovalListQuery {
    /// `open` (the default) or `all`.
    state: Option<String>,
}

/// The body of an approval.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Approval {
    /// The digest of what the person was shown.
    sha256: String,
    /// Name of the person, for the audit.
    by: Option<String>,
}

/// The body of an answer to a question.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct QuestionAnswer {
    /// The digest of what the person was shown.
    sha256: String,
    /// The values by the names of the fields.
    #[serde(default)]
    values: Map<String, Value>,
    /// Name of the person, for the audit.
    by: Option<String>,
}

/// The body of a revocation.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Revocation {
    /// Name of the person, for the audit.
    by: Option<String>,
}

/// The body of a denial.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Denial {
    /// The reason, which the agent is told.
    reason: Option<String>,
    /// Name of the person, for the audit.
    by: Option<String>,
}

/// Returns the open requests, or all of them.
pub(crate) async fn list(
    State(team): State<TeamState>,
    Extension(caller): Extension<Caller>,
    Query(filter): Query<ApprovalListQuery>,
) -> JsonResult {
    caller.refuse_plugin(OWNER_ONLY)?;
    let open = match filter.state.as_deref() {
        None | Some("open") => true,
        Some("all") => false,
        Some(_) => return Err(ApiError::invalid("invalid_state", "state is open or all")),
    };
    let mut rows = team.swarm.store().requests().list(open, MAX_LISTED).await.map_err(ApiError::internal)?;
    rows.retain(|row| caller.covers_request(row));
    let mut requests = Vec::with_capacity(rows.len());
    for row in &rows {
        requests.push(with_granted(&team, &caller, row).await?);
    }
    Ok(Json(json!({"requests": requests})))
}

/// Returns one request.
pub(crate) async fn show(
    State(team): State<TeamState>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> JsonResult {
    caller.refuse_plugin(OWNER_ONLY)?;
    let row = team.swarm.store().requests().find(&id).await.map_err(ApiError::internal)?;
    let row = row.ok_or_else(|| refused(DecideError::Unknown(view::id(&id))))?;
    check_request(&caller, &row)?;
    Ok(Json(json!({"request": with_granted(&team, &caller, &row).await?})))
}

/// Returns a request with what its agent was granted before of the same kind, as far as the caller may see it.
async fn with_granted(team: &TeamState, caller: &Caller, row: &RequestRow) -> Result<Value, ApiError> {
    let covers = |earlier: &RequestRow| caller.covers_request(earlier);
    let granted = triage::granted_before(team.swarm.store(), row, covers).await;
    let mut request = view::json(row);
    request["granted"] = json!(granted.map_err(ApiError::internal)?);
    Ok(request)
}

/// Approves exactly the request that the digest belongs to. It is carried out at once, and the response waits a moment
/// for its end.
pub(crate) async fn approve(
    State(team): State<TeamState>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    body: Result<Json<Approval>, JsonRejection>,
) -> JsonResult {
    let Json(body) = body.map_err(|error| ApiError::invalid("invalid_body", error.body_text()))?;
    let decision = ApprovalDecision::Approve { sha256: body.sha256 };
    let row = decide(&team, &caller, &id, body.by.as_deref(), decision).await?;
    let row = wait_until_ended(&team, row).await?;
    Ok(Json(json!({"request": view::json(&row)})))
}

/// Answers exactly the question of an MCP server that the digest belongs to. The answer is passed on at once.
pub(crate) async fn answer(
    State(team): State<TeamState>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    body: Result<Json<QuestionAnswer>, JsonRejection>,
) -> JsonResult {
    let Json(body) = body.map_err(|error| ApiError::invalid("invalid_body", error.body_text()))?;
    let decider = Decider::Owner(deciding_party(&team, &caller, &id, body.by.as_deref()).await?);
    let answered = match &team.triage {
        Some(triage) => triage.answer(&id, (body.sha256, &body.values), &decider).await,
        // The call that a question belongs to runs in the gateway.
        None => Err(DecideError::NobodyWaits(view::id(&id))),
    };
    let row = wait_until_ended(&team, answered.map_err(refused)?).await?;
    Ok(Json(json!({"request": view::json(&row)})))
}

/// Denies a request, or withdraws an approval that has had no effect yet.
pub(crate) async fn deny(
    State(team): State<TeamState>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    body: Result<Json<Denial>, JsonRejection>,
) -> JsonResult {
    let Json(body) = body.map_err(|error| ApiError::invalid("invalid_body", error.body_text()))?;
    let decision = ApprovalDecision::Deny { reason: body.reason };
    let row = decide(&team, &caller, &id, body.by.as_deref(), decision).await?;
    Ok(Json(json!({"request": view::json(&row)})))
}

/// Revokes what a request granted, and ends everything that depends on it.
pub(crate) async fn revoke(
    State(team): State<TeamState>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    body: Result<Json<Revocation>, JsonRejection>,
) -> JsonResult {
    let Json(body) = body.map_err(|error| ApiError::invalid("invalid_body", error.body_text()))?;
    let party = deciding_party(&team, &caller, &id, body.by.as_deref()).await?;
    let revoked = match &team.triage {
        Some(triage) => triage.revoke(&id, &party).await,
        // A process that carries out no requests can still revoke a grant in the database.
        None => triage::decide::revoke(team.swarm.store(), &id, &party, unix_ms()).await,
    };
    let row = revoked.map_err(refused)?;
    Ok(Json(json!({"request": view::json(&row)})))
}

/// Records a decision. An approved request begins at once, or at the start of the next gateway if this process carries
/// out no requests.
async fn decide(
    team: &TeamState,
    caller: &Caller,
    id: &str,
    name: Option<&str>,
    decision: ApprovalDecision,
) -> Result<RequestRow, ApiError> {
    let decider = Decider::Owner(deciding_party(team, caller, id, name).await?);
    let (store, config) = (team.swarm.store(), team.swarm.config());
    let decided = match &team.triage {
        Some(triage) => triage.decide(id, decision, &decider).await,
        None if matches!(decision, ApprovalDecision::Approve { .. }) && is_question(team, id).await? => {
            Err(DecideError::NobodyWaits(view::id(id)))
        }
        None => triage::decide::decide(store, &config, id, decision, &decider, unix_ms()).await,
    };
    decided.map_err(refused)
}

/// Returns `true` if the request is a question of an MCP server.
async fn is_question(team: &TeamState, id: &str) -> Result<bool, ApiError> {
    let row = team.swarm.store().requests().find(id).await.map_err(ApiError::internal)?;
    Ok(row.is_some_and(|row| row.kind == triage::question::KIND))
}

async fn wait_until_ended(team: &TeamState, mut row: RequestRow) -> Result<RequestRow, ApiError> {
    if team.triage.is_none() {
        return Ok(row);
    }
    let end = tokio::time::Instant::now() + RESPONSE_TIMEOUT;
    // The end may come late. The response then shows the state so far.
    while matches!(row.state, RequestState::Approved | RequestState::Running) {
        if tokio::time::Instant::now() > end {
            break;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
        let found = team.swarm.store().requests().find(&row.id).await.map_err(ApiError::internal)?;
        row = found.unwrap_or(row);
    }
    Ok(row)
}

/// Returns the person who decides about this request. A client's token must cover the agent of the request.
async fn deciding_party(
    team: &TeamState,
    caller: &Caller,
    id: &str,
    name: Option<&str>,
) -> Result<Party, ApiError> {
    caller.refuse_plugin(OWNER_ONLY)?;
    if let Some(row) = team.swarm.store().requests().find(id).await.map_err(ApiError::internal)? {
        check_request(caller, &row)?;
        caller.check_level(row.level)?;
    }
    caller.person(name)
}

/// Refuses a request that the caller may not see: for a person as one that does not exist.
fn check_request(caller: &Caller, row: &RequestRow) -> Result<(), ApiError> {
    if caller.home_person().is_some() && !caller.covers_request(row) {
        return Err(refused(DecideError::Unknown(view::id(&row.id))));
    }
    caller.check_agent(&row.agent)
}

fn refused(error: DecideError) -> ApiError {
    let (status, code) = match &error {
        DecideError::Unknown(_) => (StatusCode::NOT_FOUND, "request_not_found"),
        DecideError::Over { .. } => (StatusCode::CONFLICT, "already_decided"),
        DecideError::Expired(_) => (StatusCode::CONFLICT, "expired"),
        DecideError::NoGrant(_) => (StatusCode::CONFLICT, "no_grant"),
        DecideError::Changed(_) => (StatusCode::CONFLICT, "changed"),
        DecideError::Unanswered(_) => (StatusCode::CONFLICT, "unanswered"),
        DecideError::NobodyWaits(_) => (StatusCode::CONFLICT, "nobody_waits"),
        DecideError::NoQuestion(_) => (StatusCode::CONFLICT, "no_question"),
        DecideError::Values { .. } => (StatusCode::BAD_REQUEST, "invalid_values"),
        DecideError::Left { .. } => (StatusCode::BAD_GATEWAY, "not_undone"),
        DecideError::Outdated(_) => (StatusCode::CONFLICT, "outdated"),
        DecideError::NotApprover(_) => (StatusCode::FORBIDDEN, "not_approver"),
        DecideError::Store(_) => return ApiError::explained(error),
    };
    ApiError::described(status, code, &error)
}
