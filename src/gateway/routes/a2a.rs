//! The Agent2Agent protocol: agent cards, and one URL for each agent.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, HeaderValue, Response, header};
use axum::response::IntoResponse as _;
use axum::{Json, http::StatusCode};
use serde_json::Value;

use crate::config::Role;
use crate::gateway::a2a::dispatch::{A2aClient, answer_to};
use crate::gateway::a2a::{card, rpc};
use crate::gateway::auth::Caller;
use crate::gateway::body::RawBody;
use crate::gateway::error::ApiError;
use crate::gateway::extract::Path;
use crate::gateway::state::Gateway;
use crate::store::text_digest;
use crate::swarm::card::Card;

/// Answers one JSON-RPC call.
pub(crate) async fn call(
    State(gateway): State<Arc<Gateway>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    headers: HeaderMap,
    RawBody(body): RawBody,
) -> Result<Response<Body>, ApiError> {
    let agent = gateway.agent(&id)?;
    caller.check_agent(&agent.id)?;
    caller.refuse_plugin("only the owner's token and those of clients may ask agents by A2A")?;
    // A header that is not text can't name a supported version.
    let version = headers.get("a2a-version").map(|value| value.to_str().unwrap_or("?"));
    Ok(match rpc::call(&body, version) {
        Ok(call) => {
            answer_to(&A2aClient { gateway: &gateway, name: caller.name(), agent: &agent.id }, call).await
        }
        // Errors of the protocol have the status 200, see `rpc`.
        Err((id, fault)) => Json(rpc::answer(&id, Err(fault))).into_response(),
    })
}

/// Returns the card of an agent.
pub(crate) async fn agent_card(
    State(gateway): State<Arc<Gateway>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response<Body>, ApiError> {
    let agent = gateway.agent(&id)?;
    caller.check_agent(&agent.id)?;
    let found = gateway.swarm.card(&agent.id).await.map_err(ApiError::explained)?;
    Ok(cacheable_response(&headers, &card::show(&found, gateway.port)))
}

/// Returns the card of the agent that an unknown client talks to first. This is the orchestrator, or the first agent of
/// a token that does not cover the orchestrator.
pub(crate) async fn home_card(
    State(gateway): State<Arc<Gateway>>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
) -> Result<Response<Body>, ApiError> {
    let cards = cards(&gateway, &caller).await?;
    let first = || cards.first().filter(|_| caller.agents().is_some() || caller.client().is_some());
    let found =
        cards.iter().find(|card| card.role == Role::Orchestrator).or_else(first).ok_or_else(|| {
            ApiError::not_found("agent_not_found", "this home has no orchestrator").with_hint("flock init")
        })?;
    Ok(cacheable_response(&headers, &card::show(found, gateway.port)))
}

/// Returns all cards that the caller may see.
pub(crate) async fn directory(
    State(gateway): State<Arc<Gateway>>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
) -> Result<Response<Body>, ApiError> {
    let cards = cards(&gateway, &caller).await?;
    Ok(cacheable_response(&headers, &card::directory(&cards, gateway.port)))
}

/// Returns the cards of the agents that the caller may see.
async fn cards(gateway: &Gateway, caller: &Caller) -> Result<Vec<Card>, ApiError> {
    let mut cards = gateway.swarm.cards().await.map_err(ApiError::explained)?;
    cards.retain(|card| caller.covers(&card.agent));
    Ok(cards)
}

/// Returns a response that a client may cache for a minute and revalidate by its tag.
fn cacheable_response(headers: &HeaderMap, value: &Value) -> Response<Body> {
    let body = value.to_string();
    let tag = format!("\"{}\"", text_digest(&body));
    let known = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let is_known = known
        .flat_map(|tags| tags.split(','))
        .map(str::trim)
        // A cache on the way may have marked the tag as weak.
        .any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag);
    let mut response = if is_known {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        ([(header::CONTENT_TYPE, "application/json")], body).into_response()
    };
    let headers = response.headers_mut();
    // The response is private: it depends on the token of the caller.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, max-age=60"));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(header::ETAG, tag);
    }
    response
}
