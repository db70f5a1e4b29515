//! `POST /api/agents/{id}/freeze`, `/thaw`, `/api/freeze`, `/api/thaw`: stops agents and their sandboxes, or lets them
//! continue.

use std::collections::HashMap;

use axum::Json;
use axum::extract::{Extension, State};
use futures_util::future;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{JsonResult, TeamState};
use crate::error::chain;
use crate::gateway::auth::Caller;
use crate::gateway::error::ApiError;
use crate::gateway::extract::{Path, Query};
use crate::gateway::state::find_agent;
use crate::id::AgentId;
use crate::sandbox::SandboxError;
use crate::swarm::freeze::{self, MAX_REASON};
use crate::swarm::{Actor, Swarm, SwarmError};

/// The query parameters of these paths.
#[derive(Debug, Deserialize)]
pub(crate) struct FreezeQuery {
    /// Name of the person who asks.
    by: Option<String>,
    /// The reason for the freeze, for everybody who wonders about it.
    reason: Option<String>,
}

impl FreezeQuery {
    /// Returns the reason as it is stored.
    ///
    /// # Errors
    ///
    /// Returns 400 if it is too long. It is not cut, because the rest may be what matters.
    fn reason(&self) -> Result<Option<String>, ApiError> {
        let Some(text) = &self.reason else { return Ok(None) };
        if text.chars().count() > MAX_REASON {
            let message = format!("the reason for a freeze may have {MAX_REASON} characters");
            return Err(ApiError::invalid("reason_too_long", message));
        }
        Ok(freeze::reason(text))
    }
}

/// Freezes one agent.
pub(crate) async fn freeze(
    State(team): State<TeamState>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    Query(who): Query<FreezeQuery>,
) -> JsonResult {
    let agent = find_agent(&team.swarm.config(), &id)?.id;
    set_frozen(team, &caller, Some(agent), &who, true).await
}

/// Thaws one agent and its sandbox.
pub(crate) async fn thaw(
    State(team): State<TeamState>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    Query(who): Query<FreezeQuery>,
) -> JsonResult {
    let agent = find_agent(&team.swarm.config(), &id)?.id;
    set_frozen(team, &caller, Some(agent), &who, false).await
}

/// Freezes the whole home: all agents, and those that are added later.
pub(crate) async fn freeze_all(
    State(team): State<TeamState>,
    Extension(caller): Extension<Caller>,
    Query(who): Query<FreezeQuery>,
) -> JsonResult {
    set_frozen(team, &caller, None, &who, true).await
}

/// Thaws all agents and their sandboxes.
pub(crate) async fn thaw_all(
    State(team): State<TeamState>,
    Extension(caller): Extension<Caller>,
    Query(who): Query<FreezeQuery>,
) -> JsonResult {
    set_frozen(team, &caller, None, &who, false).await
}

/// Freezes or thaws one agent, or the whole home if `agent` is `None`.
async fn set_frozen(
    team: TeamState,
    caller: &Caller,
    agent: Option<AgentId>,
    who: &FreezeQuery,
    frozen: bool,
) -> JsonResult {
    let by = Actor::party(caller.person(who.by.as_deref())?);
    let reason = who.reason()?;
    // This runs in a task of its own: a client that disconnects must not leave half of a team frozen.
    let done = tokio::spawn(async move {
        let changed = if frozen {
            // The agents are marked first, so that no turn starts a command in a sandbox that is being paused.
            let changed = mark_frozen(&team.swarm, &by, agent, reason).await?;
            let settled =
                future::join_all(changed.iter().map(|(agent, _)| set_paused(&team, agent, true))).await;
            changed.into_iter().zip(settled).collect::<Vec<_>>()
        } else {
            // The sandboxes come first, because a turn that continues would otherwise find its sandbox still paused.
            let agents = match &agent {
                Some(agent) => vec![agent.clone()],
                None => team.swarm.config().agents.iter().map(|agent| agent.id.clone()).collect(),
            };
            let resumed = future::join_all(agents.iter().map(|agent| set_paused(&team, agent, false))).await;
            let mut resumed: HashMap<AgentId, _> = agents.into_iter().zip(resumed).collect();
            let thawed = mark_thawed(&team.swarm, &by, agent).await?.into_iter();
            // An agent that was added in between has a sandbox that was never paused.
            let settled = |one: (AgentId, bool)| {
                let settled = resumed.remove(&one.0).unwrap_or(Ok(()));
                (one, settled)
            };
            thawed.map(settled).collect()
        };
        // In a process of the command line, only the database knows an earlier reason.
        let known = match team.swarm.store().freezes().state().await {
            Ok(known) => known,
            Err(_) => team.swarm.watch_frozen().borrow().clone(),
        };
        let result = |((agent, changed), settled): ((AgentId, bool), Result<(), SandboxError>)| {
            let reason = known.of(&agent).and_then(|freeze| freeze.reason.as_deref());
            json!({
                "id": agent, "frozen": frozen, "changed": changed, "reason": reason,
                "problem": sandbox_problem(&agent, frozen, settled),
            })
        };
        Ok::<_, SwarmError>(changed.into_iter().map(result).collect::<Vec<Value>>())
    });
    let agents = done.await.map_err(ApiError::internal)?.map_err(ApiError::explained)?;
    Ok(Json(json!({"agents": agents})))
}

/// Pauses or resumes the agent's sandbox, if this process has the sandboxes.
async fn set_paused(team: &TeamState, agent: &AgentId, paused: bool) -> Result<(), SandboxError> {
    match &team.sandbox {
        Some(sandbox) if paused => sandbox.pause(agent).await,
        Some(sandbox) => sandbox.resume(agent).await,
        None => Ok(()),
    }
}

/// Marks one agent or the whole home as frozen. Returns for each agent `true` if that changed it.
async fn mark_frozen(
    swarm: &Swarm,
    by: &Actor,
    agent: Option<AgentId>,
    reason: Option<String>,
) -> Result<Vec<(AgentId, bool)>, SwarmError> {
    let Some(agent) = agent else { return swarm.freeze_home(by, reason).await };
    let changed = swarm.freeze(by, &agent, reason).await?;
    Ok(vec![(agent, changed)])
}

/// Marks one agent or the whole home as thawed. Returns for each agent `true` if that changed it.
async fn mark_thawed(
    swarm: &Swarm,
    by: &Actor,
    agent: Option<AgentId>,
) -> Result<Vec<(AgentId, bool)>, SwarmError> {
    let Some(agent) = agent else { return swarm.thaw_home(by).await };
    let changed = swarm.thaw(by, &agent).await?;
    Ok(vec![(agent, changed)])
}

fn sandbox_problem(agent: &AgentId, frozen: bool, settled: Result<(), SandboxError>) -> Option<String> {
    match settled {
        // If the machine's own engine does not answer, nothing can be running. Another one may only be stopped.
        Ok(())
        | Err(SandboxError::Unavailable { engine: None, .. } | SandboxError::Denied { engine: None, .. }) => {
            None
        }
        Err(error) => {
            tracing::error!(
                error = chain(&error),
                %agent,
                frozen,
                "a sandbox was not frozen or thawed with its agent"
            );
            Some(error.to_string())
        }
    }
}
