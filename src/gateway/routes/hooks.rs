//! `/api/hooks`, with which webhooks are managed, and `/hooks/{name}`, where other services deliver.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, FromRequest as _, Request, State};
use axum::http::{HeaderMap, Response, StatusCode};
use axum::response::IntoResponse as _;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::parts::{ByQuery, HistoryQuery, PauseBody};
use super::{JsonResult, TeamState};
use crate::gateway::auth::Caller;
use crate::gateway::body::{JsonBody, RawBody};
use crate::gateway::error::ApiError;
use crate::gateway::extract::{Path, Query};
use crate::gateway::state::Gateway;
use crate::id::HookName;
use crate::swarm::Actor;
use crate::swarm::hook::receive::{Refusal, Taken};
use crate::swarm::hook::signature::DeliveryHeaders;
use crate::swarm::hook::{HookWish, MOST_HISTORY, view};

/// Most bytes of a delivery.
pub(crate) const MAX_BODY: usize = 4 << 20;
/// Deliveries that are read at once. Their senders have shown nothing yet, so this bounds the memory that they can take.
const MOST_AT_ONCE: usize = 8;

static READING: Semaphore = Semaphore::const_new(MOST_AT_ONCE);

/// Returns `true` for a path at which a delivery may come.
#[must_use]
pub(crate) fn is_delivery(path: &str) -> bool {
    path.split('/').find(|part| !part.is_empty()) == Some("hooks")
}

/// A delivery that is shown as a message without being posted.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct HookPreviewBody {
    #[serde(default)]
    pub(crate) event: String,
    pub(crate) payload: Value,
}

/// Takes a delivery. It has no credential but its signature, so nothing is answered that only a sender may know before
/// that is checked.
pub(crate) async fn receive(
    State(gateway): State<Arc<Gateway>>,
    Path(name): Path<String>,
    request: Request,
) -> Result<Response<Body>, ApiError> {
    let headers = request.headers().clone();
    let body = {
        let _turn = READING.try_acquire().map_err(|_| busy())?;
        let RawBody(body) = RawBody::from_request(request, &()).await?;
        body
    };
    let unknown = || {
        ApiError::new(
            StatusCode::UNAUTHORIZED,
            "unsigned",
            "there is no such webhook, or the signature is not good",
        )
    };
    let name: HookName = name.parse().map_err(|_| unknown())?;
    match gateway.swarm.receive_hook(&name, &delivery_headers(&headers), &body).await {
        Ok(Taken::Posted) => Ok(StatusCode::ACCEPTED.into_response()),
        Ok(Taken::Ignored) => Ok(axum::Json(json!({"status": "ignored"})).into_response()),
        Ok(Taken::Before) => Ok(axum::Json(json!({"status": "duplicate"})).into_response()),
        Err(Refusal::Unbelieved(_)) => Err(unknown()),
        Err(refusal) => Err(refused(refusal)),
    }
}

fn busy() -> ApiError {
    let mut error =
        ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "busy", "too many deliveries come at once");
    error.retry_after = Some(std::time::Duration::from_secs(1));
    error
}

fn refused(refusal: Refusal) -> ApiError {
    match refusal {
        Refusal::TooMany(wait) => {
            let mut error = ApiError::new(StatusCode::TOO_MANY_REQUESTS, "rate_limited", refusal.to_string());
            error.retry_after = Some(wait);
            error
        }
        Refusal::Paused => ApiError::conflict("webhook_paused", refusal.to_string()),
        Refusal::Home(error) => ApiError::internal(error),
        Refusal::Store(error) => ApiError::internal(error),
        Refusal::Unbelieved(_) | Refusal::Invalid(_) => {
            ApiError::invalid("invalid_delivery", refusal.to_string())
        }
    }
}

fn delivery_headers(headers: &HeaderMap) -> DeliveryHeaders<'_> {
    let one = |name: &str| {
        // Of a header that comes twice, two readers could take different ones.
        let mut all = headers.get_all(name).iter();
        let first = all.next().filter(|_| all.next().is_none())?;
        first.to_str().ok()
    };
    DeliveryHeaders {
        hub_signature: one("x-hub-signature-256"),
        hub_delivery: one("x-github-delivery"),
        hub_event: one("x-github-event"),
        lab_token: one("x-gitlab-token"),
        lab_delivery: one("x-gitlab-event-uuid"),
        lab_event: one("x-gitlab-event"),
        id: one("webhook-id"),
        timestamp: one("webhook-timestamp"),
        signature: one("webhook-signature"),
        content_type: one("content-type"),
    }
}

/// Returns all hooks.
pub(crate) async fn list(State(team): State<TeamState>) -> JsonResult {
    let hooks = team.swarm.shown_hooks().await.map_err(ApiError::explained)?;
    Ok(axum::Json(json!({"hooks": hooks})))
}

/// Returns one hook.
pub(crate) async fn show(State(team): State<TeamState>, Path(name): Path<HookName>) -> JsonResult {
    let hook = team.swarm.hook(&name).await?;
    Ok(axum::Json(json!({"hook": team.swarm.shown_hook(&hook)})))
}

/// Adds a hook.
pub(crate) async fn add(
    State(team): State<TeamState>,
    Extension(caller): Extension<Caller>,
    JsonBody(wish): JsonBody<HookWish>,
) -> Result<(StatusCode, axum::Json<Value>), ApiError> {
    let by = Actor::party(caller.person(wish.by.as_deref())?);
    let added = team.swarm.add_hook(&by, wish).await?;
    // This is the only place where a secret that flock made appears.
    let shown = json!({"hook": team.swarm.shown_hook(&added.hook), "secret": added.secret});
    Ok((StatusCode::CREATED, axum::Json(shown)))
}

/// Pauses a hook, or lets it go on.
pub(crate) async fn change(
    State(team): State<TeamState>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<HookName>,
    JsonBody(body): JsonBody<PauseBody>,
) -> JsonResult {
    let by = Actor::party(caller.person(body.by.as_deref())?);
    let hook = team.swarm.pause_hook(&by, &name, body.paused).await?;
    Ok(axum::Json(json!({"hook": team.swarm.shown_hook(&hook)})))
}

/// Returns what came to a hook.
pub(crate) async fn history(
    State(team): State<TeamState>,
    Path(name): Path<HookName>,
    Query(query): Query<HistoryQuery>,
) -> JsonResult {
    let hook = team.swarm.hook(&name).await?;
    let limit = query.limit().min(MOST_HISTORY);
    let rows = team.swarm.store().hooks().history(hook.id, limit).await.map_err(ApiError::explained)?;
    Ok(axum::Json(json!({"hook": name, "history": rows.iter().map(view::delivery).collect::<Vec<_>>()})))
}

/// Returns the message that a hook would post.
pub(crate) async fn preview(
    State(team): State<TeamState>,
    Path(name): Path<HookName>,
    JsonBody(body): JsonBody<HookPreviewBody>,
) -> JsonResult {
    let hook = team.swarm.hook(&name).await?;
    let text = team
        .swarm
        .preview_hook(&hook, &body.event, &body.payload)
        .map_err(|problem| ApiError::invalid("invalid_delivery", problem))?;
    Ok(axum::Json(json!({"hook": name, "message": text})))
}

/// Removes a hook.
pub(crate) async fn remove(
    State(team): State<TeamState>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<HookName>,
    Query(query): Query<ByQuery>,
) -> JsonResult {
    let by = Actor::party(caller.person(query.by.as_deref())?);
    team.swarm.remove_hook(&by, &name).await?;
    Ok(axum::Json(json!({"removed": name})))
}
