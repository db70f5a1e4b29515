//! `/api/agents/{id}/checkpoints`, `/rewind` and `/fork`: lists and makes checkpoints, sets an agent back to one, and makes
//! a second agent from one.

use axum::extract::{Extension, State};
use serde::Deserialize;
use serde_json::json;

use super::{JsonResult, TeamState, channels};
use crate::checkpoint::fork::ForkRequest;
use crate::checkpoint::rewind::{RewindParts, RewindRequest};
use crate::checkpoint::team_fork::{CopyName, TeamForkRequest};
use crate::gateway::auth::Caller;
use crate::gateway::body::JsonBody;
use crate::gateway::error::ApiError;
use crate::gateway::extract::Path;
use crate::gateway::state::find_agent;
use crate::id::AgentId;

/// The most characters of a note.
const MAX_NOTE: usize = 300;

/// A checkpoint that a person wants.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewCheckpoint {
    /// The purpose, in one line.
    note: Option<String>,
    /// Name of the person who asks.
    by: Option<String>,
}

/// A rewind that a person wants.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Rewind {
    checkpoint: Option<u64>,
    #[serde(default)]
    undo: bool,
    parts: Option<RewindParts>,
    #[serde(default)]
    keep_others: bool,
    #[serde(default)]
    without_packages: bool,
    /// Set to show what would be done, without doing it.
    #[serde(default)]
    dry_run: bool,
    /// The plan that the person has seen.
    plan: Option<String>,
    by: Option<String>,
}

/// A second agent that a person wants.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fork {
    /// The id of the new agent.
    name: String,
    checkpoint: Option<u64>,
    by: Option<String>,
}

/// A second channel with a copy of the team that a person wants.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ForkChannel {
    /// The id of the new channel.
    name: String,
    by: Option<String>,
}

/// Returns an agent's checkpoints, newest first.
pub(crate) async fn list(State(team): State<TeamState>, Path(id): Path<String>) -> JsonResult {
    let agent = find_agent(&team.swarm.config(), &id)?;
    let checkpoints = team.checkpoints.list(&agent).await.map_err(ApiError::explained)?;
    Ok(axum::Json(json!({"checkpoints": checkpoints})))
}

/// Makes a checkpoint now.
pub(crate) async fn make(
    State(team): State<TeamState>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    JsonBody(wanted): JsonBody<NewCheckpoint>,
) -> JsonResult {
    let agent = find_agent(&team.swarm.config(), &id)?;
    let by = caller.person(wanted.by.as_deref())?.to_string();
    if wanted.note.as_ref().is_some_and(|note| note.chars().count() > MAX_NOTE) {
        let message = format!("the note of a checkpoint may have {MAX_NOTE} characters");
        return Err(ApiError::invalid("note_too_long", message));
    }
    let note = wanted.note.map(|note| crate::clean::summary(&note, MAX_NOTE)).filter(|note| !note.is_empty());
    // A task of its own: a client that disconnects must not leave half of the work to its end.
    let made = tokio::spawn(async move { team.checkpoints.make(&agent, by, note).await });
    let made = made.await.map_err(ApiError::internal)??;
    Ok(axum::Json(json!({"checkpoint": made})))
}

/// Sets an agent back to a checkpoint, or shows what that would do.
pub(crate) async fn rewind(
    State(team): State<TeamState>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    JsonBody(wanted): JsonBody<Rewind>,
) -> JsonResult {
    let agent = find_agent(&team.swarm.config(), &id)?;
    let Rewind { checkpoint, undo, parts, keep_others, without_packages, dry_run, plan, by } = wanted;
    if undo && checkpoint.is_some() {
        return Err(ApiError::invalid("invalid_request", "undo goes back to a checkpoint of its own"));
    }
    let by = caller.person(by.as_deref())?.to_string();
    let request = RewindRequest { checkpoint, undo, parts, keep_others, without_packages, plan, by };
    let done = tokio::spawn(async move {
        if dry_run {
            team.checkpoints.preview(&agent, request).await
        } else {
            team.checkpoints.rewind(&agent, request).await
        }
    });
    let done = done.await.map_err(ApiError::internal)??;
    Ok(axum::Json(json!({"rewind": done})))
}

/// Makes a second agent that goes on from where this one is, or was at a checkpoint.
pub(crate) async fn fork(
    State(team): State<TeamState>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    JsonBody(wanted): JsonBody<Fork>,
) -> JsonResult {
    let agent = find_agent(&team.swarm.config(), &id)?;
    let name = wanted.name.parse::<AgentId>();
    let name = name.map_err(|error| ApiError::invalid("invalid_id", error.to_string()))?;
    let by = caller.person(wanted.by.as_deref())?.to_string();
    let request = ForkRequest { name, checkpoint: wanted.checkpoint, by };
    let done = tokio::spawn(async move { team.checkpoints.fork(&agent, request).await });
    let done = done.await.map_err(ApiError::internal)??;
    Ok(axum::Json(json!({"fork": done})))
}

/// Makes a second channel with copies of this channel's agents.
pub(crate) async fn fork_channel(
    State(team): State<TeamState>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    JsonBody(wanted): JsonBody<ForkChannel>,
) -> JsonResult {
    caller.refuse_plugin("only the owner makes copies of channels")?;
    let channel = team.swarm.channel(&channels::channel(&id)?).await?;
    let by = caller.person(wanted.by.as_deref())?;
    let request = TeamForkRequest {
        channel,
        copies: vec![CopyName::of_channel(channels::channel(&wanted.name)?)],
        by: by.clone(),
        race: None,
        mentions: Vec::new(),
    };
    let from = request.channel.id.clone();
    let checkpoints = team.checkpoints.clone();
    let done = tokio::spawn(async move { checkpoints.fork_team(request).await });
    let done = done.await.map_err(ApiError::internal)??;
    team.swarm.announce_copies(&by, &done.posts);
    let agents = done.copies.iter().flat_map(|copy| &copy.agents);
    let agents: Vec<_> = agents.map(|(from, agent)| json!({"agent": agent, "from": from})).collect();
    Ok(axum::Json(json!({"fork": {
        "channel": done.copies.first().map(|copy| &copy.channel),
        "from": from,
        "messages": done.up_to,
        "agents": agents,
        "warnings": done.warnings,
    }})))
}
