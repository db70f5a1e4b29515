//! `GET /api/sessions/{key}/transcript`: the turns of a session in full. `POST /api/sessions/{key}/stop`: stops them.
//! `GET /api/sessions/{key}/turns/{turn}/pictures/{n}`: a picture of a turn. `DELETE /api/sessions/{key}/turns/{turn}`:
//! takes a turn back that still waits.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::json;

use super::JsonResult;
use super::sessions::{controlled_key, readable_key, record};
use crate::agent::turn_listing::{ListingPlace, TurnSelection};
use crate::gateway::auth::Caller;
use crate::gateway::driver::Withdrawal;
use crate::gateway::error::ApiError;
use crate::gateway::extract::{Path, Query, flag};
use crate::gateway::file_response;
use crate::gateway::state::Gateway;
use crate::gateway::turn_error::failure;
use crate::id::TurnId;

/// Default and largest number of turns in one response.
const DEFAULT_LIMIT: usize = 20;
const MAX_LIMIT: usize = 100;

/// The query parameters of a transcript.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TranscriptQuery {
    /// Only turns before this one.
    before: Option<TurnId>,
    /// Only this turn and those before it.
    until: Option<TurnId>,
    limit: Option<usize>,
    #[serde(default)]
    include_trace: String,
}

/// Returns the newest turns of a session, oldest first.
pub(crate) async fn show(
    State(gateway): State<Arc<Gateway>>,
    Extension(caller): Extension<Caller>,
    Path(key): Path<String>,
    Query(part): Query<TranscriptQuery>,
) -> JsonResult {
    let key = readable_key(&gateway, &caller, &key).await?;
    let limit = part.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT);
    let place = match (part.before, part.until) {
        (None, None) => ListingPlace::End,
        (Some(turn), None) => ListingPlace::Before(turn),
        (None, Some(turn)) => ListingPlace::At(turn),
        (Some(_), Some(_)) => {
            return Err(ApiError::invalid("invalid_query", "give either `before` or `until`"));
        }
    };
    let with_trace = flag("includeTrace", &part.include_trace)?;
    let found = gateway.engine.turns(&key, TurnSelection { place, limit, with_trace }).await;
    let (turns, has_more) = found.map_err(|error| failure(error.into()))?;
    let before = turns.first().filter(|_| has_more).map(|turn| turn.turn);
    Ok(axum::Json(json!({"key": key, "turns": turns, "before": before})))
}

/// Returns a picture of a turn.
pub(crate) async fn picture(
    State(gateway): State<Arc<Gateway>>,
    Extension(caller): Extension<Caller>,
    Path((key, turn, number)): Path<(String, TurnId, usize)>,
) -> Result<Response<Body>, ApiError> {
    let key = readable_key(&gateway, &caller, &key).await?;
    let found = gateway.engine.picture(&key, turn, number).await.map_err(|error| failure(error.into()))?;
    let none = || ApiError::not_found("picture_not_found", format!("turn {turn} has no picture {number}"));
    let (media_type, data) = found.ok_or_else(none)?;
    let content = STANDARD.decode(data).map_err(|error| none().with_cause(error))?;
    let end = media_type.rsplit('/').next().unwrap_or_default();
    file_response::file(&format!("picture-{number}.{end}"), content)
}

/// Takes a turn back that still waits, and answers when it has ended.
pub(crate) async fn withdraw(
    State(gateway): State<Arc<Gateway>>,
    Extension(caller): Extension<Caller>,
    Path((key, turn)): Path<(String, TurnId)>,
) -> JsonResult {
    let key = controlled_key(&gateway, &caller, &key).await?;
    match gateway.driver.withdraw(&key, turn) {
        Withdrawal::Cancelled(end) => {
            record(&gateway, &caller, &key, "session.withdraw").await?;
            end.cancelled().await;
            Ok(axum::Json(json!({"withdrawn": turn})))
        }
        Withdrawal::TooLate => {
            Err(ApiError::conflict("turn_runs", format!("turn {turn} does not wait any more, it runs")))
        }
        Withdrawal::Unknown => {
            Err(ApiError::not_found("turn_not_found", format!("no turn {turn} waits in this session")))
        }
    }
}

/// Cancels the turns that run or wait in a session, and answers when they have ended.
pub(crate) async fn stop(
    State(gateway): State<Arc<Gateway>>,
    Extension(caller): Extension<Caller>,
    Path(key): Path<String>,
) -> JsonResult {
    let key = controlled_key(&gateway, &caller, &key).await?;
    let turns = gateway.driver.list().into_iter().filter(|(_, turn)| turn.session == key);
    let ends: Vec<_> = turns.filter_map(|(id, _)| gateway.driver.cancel_turn(id)).collect();
    if !ends.is_empty() {
        record(&gateway, &caller, &key, "session.stop").await?;
    }
    let cancelled = ends.len();
    for end in ends {
        end.cancelled().await;
    }
    Ok(axum::Json(json!({"cancelled": cancelled})))
}
