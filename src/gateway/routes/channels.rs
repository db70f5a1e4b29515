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
use crate::gateway::uploads;
use crate::id::{ChannelId, Party, SessionKey};
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
    let is_shown = move |channel: &Channel| caller.covers_channel(channel);
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
    let new = CreateChannel { name: caller.acts_as(new.name)?, ..new };
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
    let sees = |session: &SessionKey| caller.client().is_none() && caller.sees_session(session);
    Ok(axum::Json(channels::without_hidden_turns(answer, sees)))
}

/// Returns the messages of all channels that contain some words.
pub(crate) async fn search(
    State(team): State<TeamState>,
    Extension(caller): Extension<Caller>,
    Query(asked): Query<SearchQuery>,
) -> JsonResult {
    caller.refuse_plugin(OWNER_ONLY)?;
    let store = team.swarm.store();
    let answer = match caller.home_person().and_then(|person| person.channels.as_ref()) {
        Some(on) => channels::search_in(store, on, &asked).await?,
        None => channels::search(store, &asked).await?,
    };
    Ok(axum::Json(answer))
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
    // No client's token reaches the routes from here on, see `scope::needed`. They check the caller all the same.
    caller.refuse_plugin(OWNER_ONLY)?;
    let id = channel(&id)?;
    check_covered(&team, &caller, &id).await?;
    let change = ChangeMembers { name: caller.acts_as(change.name)?, ..change };
    // A person can't bring an agent into a channel that they may not see.
    for agent in change.add.iter().chain(&change.remove).filter_map(Party::agent) {
        caller.check_agent(agent)?;
    }
    Ok(axum::Json(channels::assign(&team.swarm, &id, change).await?))
}

/// Changes the shown name or the topic of a channel.
pub(crate) async fn retitle(
    State(team): State<TeamState>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    JsonBody(change): JsonBody<RenameChannel>,
) -> JsonResult {
    caller.refuse_plugin(OWNER_ONLY)?;
    let id = channel(&id)?;
    check_covered(&team, &caller, &id).await?;
    let change = RenameChannel { name: caller.acts_as(change.name)?, ..change };
    Ok(axum::Json(channels::retitle(&team.swarm, &id, change).await?))
}

/// Archives a channel, cancels that, or reopens the channel.
pub(crate) async fn archive(
    State(team): State<TeamState>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    JsonBody(step): JsonBody<ArchiveRequest>,
) -> JsonResult {
    caller.refuse_plugin(OWNER_ONLY)?;
    let id = channel(&id)?;
    check_covered(&team, &caller, &id).await?;
    let step = ArchiveRequest { name: caller.acts_as(step.name)?, ..step };
    Ok(axum::Json(channels::archive(&team.swarm, &id, step).await?))
}

/// Refuses a channel that the caller may not see.
pub(super) async fn check_covered(team: &TeamState, caller: &Caller, id: &ChannelId) -> Result<(), ApiError> {
    if caller.client().is_none() && caller.home_person().is_none() {
        return Ok(());
    }
    caller.check_channel(id, &team.swarm.channel(id).await?)
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
