//! `/api/channels`: a person's actions in channels. Agents have tools for this. The owner speaks as any person, and a
//! client with a token speaks under its own name.

use axum::extract::{Extension, State};
use axum::http::{HeaderMap, StatusCode};
use serde_json::Value;

use super::{JsonResult, TeamState, files};
use crate::gateway::auth::Caller;
use crate::gateway::body::JsonBody;
use crate::gateway::channels::{
    self, ArchiveRequest, ChangeMembers, ChannelFilter, CreateChannel, MessageQuery, PostMessage,
    RenameChannel, SearchQuery,
};
use crate::gateway::error::ApiError;
use crate::gateway::extract::{Path, Query};
use crate::gateway::idempotency;
use crate::gateway::{scope, uploads};
use crate::id::ChannelId;
use crate::store::Channel;
use crate::swarm::channel::MAX_MESSAGE;

/// The refusal for OpenClaw's plugin.
const OWNER_ONLY: &str = "only the owner looks at channels and posts here";

type CreatedResult = Result<(StatusCode, axum::Json<Value>), ApiError>;

/// Returns the channels that the caller may see.
pub(crate) async fn list(
    State(team): State<TeamState>,
    Extension(caller): Extension<Caller>,
    Query(filter): Query<ChannelFilter>,
) -> JsonResult {
    caller.refuse_plugin(OWNER_ONLY)?;
    let is_shown = move |channel: &Channel| covers(&caller, channel);
    Ok(axum::Json(channels::list(team.swarm.store(), &filter, is_shown).await?))
}

/// Creates a channel.
pub(crate) async fn create(
    State(team): State<TeamState>,
    Extension(caller): Extension<Caller>,
    JsonBody(new): JsonBody<CreateChannel>,
) -> CreatedResult {
    caller.refuse_plugin(OWNER_ONLY)?;
    // The size is checked here, so that the error has the status 413.
    if let Some(message) = &new.message {
        check_size(message)?;
    }
    Ok((StatusCode::CREATED, axum::Json(channels::create(&team.swarm, new).await?)))
}

/// Returns one channel.
pub(crate) async fn show(
    State(team): State<TeamState>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> JsonResult {
    caller.refuse_plugin(OWNER_ONLY)?;
    let id = channel(&id)?;
    check_covered(&team, &caller, &id).await?;
    Ok(axum::Json(channels::show(team.swarm.store(), &id).await?))
}

/// Returns messages of a channel.
pub(crate) async fn read(
    State(team): State<TeamState>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    Query(reading): Query<MessageQuery>,
) -> JsonResult {
    caller.refuse_plugin(OWNER_ONLY)?;
    let id = channel(&id)?;
    check_covered(&team, &caller, &id).await?;
    let answer = channels::read(team.swarm.store(), &id, &reading).await?;
    let answer = files::add_to(&team, &id, answer).await?;
    Ok(axum::Json(if caller.client().is_some() { channels::without_turns(answer) } else { answer }))
}

/// Returns the messages of all channels that contain some words.
pub(crate) async fn search(
    State(team): State<TeamState>,
    Extension(caller): Extension<Caller>,
    Query(asked): Query<SearchQuery>,
) -> JsonResult {
    caller.refuse_plugin(OWNER_ONLY)?;
    Ok(axum::Json(channels::search(team.swarm.store(), &asked).await?))
}

/// Posts a message in a channel.
pub(crate) async fn post(
    State(team): State<TeamState>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    headers: HeaderMap,
    JsonBody(say): JsonBody<PostMessage>,
) -> CreatedResult {
    caller.refuse_plugin(OWNER_ONLY)?;
    check_size(&say.content)?;
    let id = channel(&id)?;
    let by = caller.speaks(say.name.as_deref())?;
    check_covered(&team, &caller, &id).await?;
    // The digest covers the parsed request, so its layout as JSON makes no difference.
    let said = serde_json::to_vec(&say).map_err(ApiError::internal)?;
    let parts: [&[u8]; 3] = [b"post", id.as_str().as_bytes(), &said];
    let key = idempotency::key(&headers, caller.name(), &parts)?;
    let sent = say.files.clone();
    let (say, refused) = files::give(&team, &caller, &id, say, key.as_ref()).await?;
    let mut answer = channels::say(&team.swarm, &by, &id, say, key).await?;
    uploads::remove(team.swarm.home(), &sent);
    if let Some(notes) = answer["notes"].as_array_mut() {
        notes.extend(refused.into_iter().map(Value::from));
    }
    Ok((StatusCode::CREATED, axum::Json(answer)))
}

/// Changes the members of a channel.
pub(crate) async fn assign(
    State(team): State<TeamState>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    JsonBody(change): JsonBody<ChangeMembers>,
) -> JsonResult {
    // Only the owner's token reaches the routes from here on, see `scope::needed`. They check the caller all the same.
    caller.refuse_plugin(OWNER_ONLY)?;
    Ok(axum::Json(channels::assign(&team.swarm, &channel(&id)?, change).await?))
}

/// Changes the shown name or the topic of a channel.
pub(crate) async fn retitle(
    State(team): State<TeamState>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    JsonBody(change): JsonBody<RenameChannel>,
) -> JsonResult {
    caller.refuse_plugin(OWNER_ONLY)?;
    Ok(axum::Json(channels::retitle(&team.swarm, &channel(&id)?, change).await?))
}

/// Archives a channel, cancels that, or reopens the channel.
pub(crate) async fn archive(
    State(team): State<TeamState>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    JsonBody(step): JsonBody<ArchiveRequest>,
) -> JsonResult {
    caller.refuse_plugin(OWNER_ONLY)?;
    Ok(axum::Json(channels::archive(&team.swarm, &channel(&id)?, step).await?))
}

fn covers(caller: &Caller, channel: &Channel) -> bool {
    caller.client().is_none_or(|token| scope::covers_channel(token, channel))
}

/// Refuses a client whose token does not cover all agents of this channel. They read what the client posts, and the
/// client reads what they post.
pub(super) async fn check_covered(team: &TeamState, caller: &Caller, id: &ChannelId) -> Result<(), ApiError> {
    match caller.client() {
        Some(token) if !scope::covers_channel(token, &team.swarm.channel(id).await?) => {
            Err(scope::agent_not_covered(token))
        }
        _ => Ok(()),
    }
}

pub(super) fn channel(id: &str) -> Result<ChannelId, ApiError> {
    id.parse().map_err(|error| ApiError::invalid("invalid_channel_id", format!("{error}")))
}

fn check_size(text: &str) -> Result<(), ApiError> {
    if text.len() <= MAX_MESSAGE { Ok(()) } else { Err(too_long(text.len())) }
}

/// Returns the refusal for a message of this many bytes.
pub(super) fn too_long(bytes: usize) -> ApiError {
    let text = format!("the message has {bytes} bytes; the limit is {MAX_MESSAGE}");
    ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "message_too_large", text)
        .with_hint("write the text to a file and post the name of the file")
}
