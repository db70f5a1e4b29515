//! `PUT /api/files`: takes a file for a message that is not written yet. `GET /api/channels/{id}/messages/{seq}/files/{n}`:
//! a file that a message of a channel names.

use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::{Response, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};

use super::TeamState;
use super::channels::{channel, check_covered};
use crate::clock::unix_ms;
use crate::gateway::auth::Caller;
use crate::gateway::body::RawBody;
use crate::gateway::channels::PostMessage;
use crate::gateway::error::ApiError;
use crate::gateway::extract::{Path, Query};
use crate::gateway::file_response;
use crate::gateway::uploads;
use crate::home::beneath::BeneathError;
use crate::id::{ChannelId, Party};
use crate::sandbox::workspace_files::Workspaces;
use crate::store::{Channel, ChannelState, IdempotencyKey, Page};
use crate::swarm::SwarmError;
use crate::swarm::channel::MAX_MESSAGE;
use crate::swarm::message_file::{self, MessageFile};

/// The refusal for OpenClaw's plugin.
const OWNER_ONLY: &str = "only the owner sends and reads files here";

/// Bytes that a message needs at most for the line about one file.
const LINE: usize = 512;

/// The query parameters of a file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileName {
    name: String,
}

/// Takes a file. The client names its id in a message within an hour.
pub(crate) async fn take(
    State(team): State<TeamState>,
    Extension(caller): Extension<Caller>,
    Query(FileName { name }): Query<FileName>,
    RawBody(content): RawBody,
) -> Result<(StatusCode, axum::Json<Value>), ApiError> {
    caller.refuse_plugin(OWNER_ONLY)?;
    let kept = uploads::keep(team.swarm.home(), caller.name(), &name, content).await?;
    Ok((StatusCode::CREATED, axum::Json(kept)))
}

/// Returns a file of a message.
pub(crate) async fn show(
    State(team): State<TeamState>,
    Extension(caller): Extension<Caller>,
    Path((id, seq, number)): Path<(String, u64, usize)>,
) -> Result<Response<Body>, ApiError> {
    caller.refuse_plugin(OWNER_ONLY)?;
    let id = channel(&id)?;
    check_covered(&team, &caller, &id).await?;
    let channel = team.swarm.channel(&id).await?;
    let page = Page::After(seq.saturating_sub(1));
    let found = team.swarm.store().posts().page(&channel.id, page, 1).await.map_err(SwarmError::from)?;
    let post = found.into_iter().find(|post| post.seq == seq).ok_or_else(|| {
        ApiError::not_found("message_not_found", format!("channel {id} has no message {seq}"))
    })?;
    // The author may have left the channel since, and then a client's token need not be for it.
    if let Party::Agent(author) = &post.author
        && caller.client().is_some()
    {
        caller.check_agent(author)?;
    }
    let (config, ways) = (team.swarm.config(), team.swarm.workspaces().clone());
    let read = tokio::task::spawn_blocking(move || {
        let mut files = message_file::of_message(&config, &channel, &post.author, &post.content);
        let is_there = number < files.len();
        is_there.then(|| files.swap_remove(number)).map(|file| (file.read(&ways), file.name))
    });
    let (content, name) = read.await.map_err(ApiError::internal)?.ok_or_else(|| {
        ApiError::not_found("file_not_found", format!("message {seq} has no file {number}"))
    })?;
    file_response::file(&name, content.map_err(unreadable)?)
}

fn unreadable(error: BeneathError) -> ApiError {
    let refused = match error {
        BeneathError::TooLarge { size, cap, .. } => {
            let message = format!("the file has {} MiB; at most {} are shown", size >> 20, cap >> 20);
            ApiError::conflict("file_too_large", message)
        }
        // The path itself is not shown: it is one of this machine.
        _ => ApiError::not_found("file_not_found", "the file is not there (any more)"),
    };
    refused.with_cause(error)
}

/// Adds the files that each message names to the answer with messages of a channel.
pub(super) async fn add_to(team: &TeamState, id: &ChannelId, answer: Value) -> Result<Value, ApiError> {
    let channel = team.swarm.channel(id).await?;
    // A list of messages is no reason to start a sandbox.
    let (config, ways) = (team.swarm.config(), team.swarm.workspaces().without_starting());
    // Looking at files takes microseconds each, but a workspace can be on a slow disk.
    let added = tokio::task::spawn_blocking(move || {
        let mut answer = answer;
        for message in answer["messages"].as_array_mut().into_iter().flatten() {
            let author = message["author"].as_str().and_then(|author| author.parse::<Party>().ok());
            let (Some(author), Some(content)) = (author, message["content"].as_str()) else { continue };
            let files = message_file::of_message(&config, &channel, &author, content);
            if !files.is_empty() {
                message["files"] = files.iter().enumerate().map(|file| describe(&ways, file)).collect();
            }
        }
        answer
    });
    added.await.map_err(ApiError::internal)
}

fn describe(ways: &Workspaces, (number, file): (usize, &MessageFile)) -> Value {
    let found = file.find(ways);
    json!({
        "n": number,
        "name": file.name,
        "bytes": found.map(|found| found.bytes),
        "mediaType": found.and_then(|found| found.media_type),
        "isThere": found.is_some(),
    })
}

/// Gives the files that a post names to the agents of its channel, and names their places in the text. Returns the post
/// and the lines about files that were not taken.
pub(super) async fn give(
    team: &TeamState,
    caller: &Caller,
    id: &ChannelId,
    mut say: PostMessage,
    key: Option<&IdempotencyKey>,
) -> Result<(PostMessage, Vec<String>), ApiError> {
    if say.files.is_empty() {
        return Ok((say, Vec::new()));
    }
    if let Some(key) = key {
        let store = team.swarm.store();
        let known = store.idempotency_keys().find(key, unix_ms()).await.map_err(SwarmError::from)?;
        if known.is_some() {
            // The request was carried out before, so its files are gone and its text is not looked at any more. It only
            // must not be empty.
            say.content.push_str(" (repeated)");
            return Ok((say, Vec::new()));
        }
    }
    if say.content.len() + say.files.len() * LINE > MAX_MESSAGE {
        return Err(super::channels::too_long(say.content.len()));
    }
    let channel = team.swarm.channel(id).await?;
    if channel.state == ChannelState::Archived {
        return Err(SwarmError::Archived(channel.id).into());
    }
    let agents = agents(team, &channel);
    if agents.is_empty() {
        let message = format!("channel {id} has no agent that could take the files");
        return Err(ApiError::conflict("no_agent", message));
    }
    let home = team.swarm.home();
    let sent = uploads::read(home, caller.name(), &say.files).await?;
    let (lines, refused) =
        uploads::deliver(team.swarm.workspaces(), &agents, channel.id.as_str(), sent).await;
    let text = say.content.trim_end();
    let gap = if text.is_empty() { "" } else { "\n\n" };
    say.content = format!("{text}{gap}{}", lines.join("\n"));
    Ok((say, refused))
}

fn agents(team: &TeamState, channel: &Channel) -> Vec<crate::config::Agent> {
    let config = team.swarm.config();
    channel.agents().filter_map(|id| config.agent(id)).cloned().collect()
}
