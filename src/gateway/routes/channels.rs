//! `/api/channels`: what a person does in channels. Agents have their tools for it; only the owner's credential
//! speaks as a human.

use std::sync::Arc;

use axum::extract::{Extension, State};
use axum::http::{HeaderMap, StatusCode};
use serde_json::Value;

use crate::gateway::auth::Caller;
use crate::gateway::body::Json;
use crate::gateway::channels::{self, Assign, Create, Filter, Reading, Retitle, Say, Step};
use crate::gateway::error::ApiError;
use crate::gateway::extract::{Path, Query};
use crate::gateway::idempotency;
use crate::gateway::scope;
use crate::gateway::state::Gateway;
use crate::id::ChannelId;
use crate::store::Channel;
use crate::swarm::SwarmError;
use crate::swarm::channel::MAX_MESSAGE;

type Answer = Result<axum::Json<Value>, ApiError>;
type Made = Result<(StatusCode, axum::Json<Value>), ApiError>;

/// The channels.
pub async fn list(
    State(gateway): State<Arc<Gateway>>,
    Extension(caller): Extension<Caller>,
    Query(filter): Query<Filter>,
) -> Answer {
    owner(&caller)?;
    let is_shown = move |channel: &Channel| covers(&caller, channel);
    blocking(move || channels::list(&**gateway.swarm.store(), &filter, is_shown)).await
}

/// Makes one.
pub async fn create(
    State(gateway): State<Arc<Gateway>>,
    Extension(caller): Extension<Caller>,
    Json(new): Json<Create>,
) -> Made {
    owner(&caller)?;
    if let Some(message) = &new.message {
        check_size(message)?;
    }
    Ok((StatusCode::CREATED, axum::Json(channels::create(&gateway.swarm, new).await?)))
}

/// One of them.
pub async fn show(
    State(gateway): State<Arc<Gateway>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Answer {
    owner(&caller)?;
    let id = channel(&id)?;
    check(&gateway, &caller, &id)?;
    blocking(move || channels::show(&**gateway.swarm.store(), &id)).await
}

/// Its messages.
pub async fn read(
    State(gateway): State<Arc<Gateway>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    Query(reading): Query<Reading>,
) -> Answer {
    owner(&caller)?;
    let id = channel(&id)?;
    check(&gateway, &caller, &id)?;
    blocking(move || channels::read(&**gateway.swarm.store(), &id, &reading)).await
}

/// Posts one.
pub async fn post(
    State(gateway): State<Arc<Gateway>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    headers: HeaderMap,
    Json(say): Json<Say>,
) -> Made {
    owner(&caller)?;
    check_size(&say.content)?;
    let id = channel(&id)?;
    let by = caller.speaks(say.name.as_deref())?;
    check(&gateway, &caller, &id)?;
    let said = serde_json::to_vec(&say).map_err(ApiError::internal)?;
    let parts: [&[u8]; 3] = [b"post", id.as_str().as_bytes(), &said];
    let key = idempotency::key(&headers, caller.name(), &parts)?;
    Ok((StatusCode::CREATED, axum::Json(channels::say(&gateway.swarm, &by, &id, say, key).await?)))
}

/// Changes who is a member.
pub async fn assign(
    State(gateway): State<Arc<Gateway>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    Json(change): Json<Assign>,
) -> Answer {
    owner(&caller)?;
    Ok(axum::Json(channels::assign(&gateway.swarm, &channel(&id)?, change).await?))
}

/// Gives it another shown name or topic.
pub async fn retitle(
    State(gateway): State<Arc<Gateway>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    Json(change): Json<Retitle>,
) -> Answer {
    owner(&caller)?;
    Ok(axum::Json(channels::retitle(&gateway.swarm, &channel(&id)?, change).await?))
}

/// Archives it, calls that off, or opens it again.
pub async fn archive(
    State(gateway): State<Arc<Gateway>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    Json(step): Json<Step>,
) -> Answer {
    owner(&caller)?;
    Ok(axum::Json(channels::archive(&gateway.swarm, &channel(&id)?, step).await?))
}

/// Only the owner and clients with a token speak as humans. Whoever adds a caller decides here, too.
fn owner(caller: &Caller) -> Result<(), ApiError> {
    match caller {
        // What a client's token opens here was looked at before.
        Caller::Owner | Caller::Client(_) => Ok(()),
        Caller::Plugin => Err(ApiError::new(
            StatusCode::FORBIDDEN,
            "owner_only",
            "only the owner looks at channels and posts here",
        )),
    }
}

fn covers(caller: &Caller, channel: &Channel) -> bool {
    caller.client().is_none_or(|token| scope::covers_channel(token, channel))
}

/// Refuses a client whose token is not for all agents of this channel: they read what it says, and it reads them.
fn check(gateway: &Gateway, caller: &Caller, id: &ChannelId) -> Result<(), ApiError> {
    match caller.client() {
        Some(token) if !scope::covers_channel(token, &gateway.swarm.channel(id)?) => {
            Err(scope::of_another(token))
        }
        _ => Ok(()),
    }
}

fn channel(id: &str) -> Result<ChannelId, ApiError> {
    id.parse().map_err(|error| ApiError::invalid("invalid_channel_id", format!("{error}")))
}

fn check_size(text: &str) -> Result<(), ApiError> {
    if text.len() <= MAX_MESSAGE {
        return Ok(());
    }
    let text = format!("the message has {} bytes, and at most {MAX_MESSAGE} are taken", text.len());
    Err(ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "message_too_large", text)
        .with_hint("write it to a file and name the file"))
}

/// A long channel is read where no other request waits for it.
async fn blocking(work: impl FnOnce() -> Result<Value, SwarmError> + Send + 'static) -> Answer {
    let done = tokio::task::spawn_blocking(work).await.map_err(ApiError::internal)?;
    Ok(axum::Json(done?))
}
