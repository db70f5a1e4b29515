//! `/api/channels`: what a person does in channels. Agents have their tools for it; only the owner's credential
//! speaks as a human.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Extension, Path, Query, State};
use axum::http::StatusCode;
use serde_json::Value;

use crate::gateway::auth::Caller;
use crate::gateway::body::Json;
use crate::gateway::channels::{self, Assign, Create, Filter, Reading, Say, Step};
use crate::gateway::error::ApiError;
use crate::gateway::state::Gateway;
use crate::id::ChannelId;
use crate::swarm::SwarmError;
use crate::swarm::channel::MAX_MESSAGE;

type Answer = Result<axum::Json<Value>, ApiError>;
type Made = Result<(StatusCode, axum::Json<Value>), ApiError>;

/// The channels.
pub async fn list(
    State(gateway): State<Arc<Gateway>>,
    Extension(caller): Extension<Caller>,
    filter: Result<Query<Filter>, QueryRejection>,
) -> Answer {
    owner(&caller)?;
    let filter = query(filter)?;
    blocking(move || channels::list(&**gateway.swarm.store(), &filter)).await
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
    blocking(move || channels::show(&**gateway.swarm.store(), &id)).await
}

/// Its messages.
pub async fn read(
    State(gateway): State<Arc<Gateway>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    reading: Result<Query<Reading>, QueryRejection>,
) -> Answer {
    owner(&caller)?;
    let (id, reading) = (channel(&id)?, query(reading)?);
    blocking(move || channels::read(&**gateway.swarm.store(), &id, &reading)).await
}

/// Posts one.
pub async fn post(
    State(gateway): State<Arc<Gateway>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    Json(say): Json<Say>,
) -> Made {
    owner(&caller)?;
    check_size(&say.content)?;
    Ok((StatusCode::CREATED, axum::Json(channels::say(&gateway.swarm, &channel(&id)?, say).await?)))
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

/// Only the owner speaks as a human. Whoever adds a caller decides here, too.
fn owner(caller: &Caller) -> Result<(), ApiError> {
    match caller {
        Caller::Owner => Ok(()),
        Caller::Plugin => Err(ApiError::new(
            StatusCode::FORBIDDEN,
            "owner_only",
            "only the owner looks at channels and posts here",
        )),
    }
}

fn channel(id: &str) -> Result<ChannelId, ApiError> {
    id.parse().map_err(|error| ApiError::invalid("invalid_channel_id", format!("{error}")))
}

fn query<T>(query: Result<Query<T>, QueryRejection>) -> Result<T, ApiError> {
    match query {
        Ok(Query(query)) => Ok(query),
        Err(error) => Err(ApiError::invalid("invalid_query", error.body_text())),
    }
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
