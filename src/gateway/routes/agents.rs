//! `/api/agents`: lists agents, prepares one that was added, and releases one that was removed. Only the command line
//! writes the configuration itself.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Extension, State};
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::JsonResult;
use crate::agent::prompt::archetype;
use crate::clock::unix_ms;
use crate::config::agents::NewAgent;
use crate::config::{Agent, Config, Role, SandboxMode};
use crate::error::{Explain as _, Kind};
use crate::gateway::activity::{self, AgentFacts};
use crate::gateway::auth::Caller;
use crate::gateway::body::JsonBody;
use crate::gateway::error::ApiError;
use crate::gateway::extract::Path;
use crate::gateway::operation_recovery;
use crate::gateway::state::Gateway;
use crate::generation::Origin;
use crate::id::{AgentId, ModelRef};
use crate::provider::Catalog;
use crate::runtime::model_problem::{self, ModelProblem};
use crate::swarm::{Actor, new_agent};

/// Most open requests that are looked at.
const MAX_REQUESTS: u32 = 500;

/// Returns all agents that the caller may see.
pub(crate) async fn list(
    State(gateway): State<Arc<Gateway>>,
    Extension(caller): Extension<Caller>,
) -> JsonResult {
    let config = gateway.config();
    let frozen = gateway.swarm.watch_frozen().borrow().clone();
    let paused = gateway.swarm.paused();
    let parked = gateway.swarm.parked_quotas();
    let store = gateway.swarm.store();
    let states = store.agents().states().await.map_err(ApiError::explained)?;
    let requests = store.requests().list(true, MAX_REQUESTS).await.map_err(ApiError::explained)?;
    let turns = gateway.driver.list();
    let problems = model_problems(&gateway, &config).await?;
    // A client or a person may see fewer sessions than the agent has.
    let asked = if caller.client().is_some() || caller.home_person().is_some() {
        Vec::new()
    } else {
        config.agents.iter().map(|agent| agent.id.clone()).collect()
    };
    let last = store.sessions().last_of(asked).await.map_err(ApiError::explained)?;
    let agents: Vec<Value> = config
        .agents
        .iter()
        .filter(|agent| caller.covers(&agent.id))
        .map(|agent| {
            let mut value = agent_json(agent);
            value["frozen"] = json!(frozen.of(&agent.id));
            value["paused"] = json!(paused.get(&agent.id));
            value["problem"] = json!(problems.get(&agent.id));
            value["lastSession"] = json!(last.get(&agent.id));
            let facts = AgentFacts {
                frozen: frozen.of(&agent.id),
                paused: paused.get(&agent.id),
                parked: parked.iter().find(|park| park.agents.contains(&agent.id)),
                problem: problems.get(&agent.id),
                state: states.iter().find(|state| state.agent == agent.id),
                turns: turns
                    .iter()
                    .filter(|(_, turn)| turn.agent == agent.id && caller.sees_session(&turn.session))
                    .collect(),
                requests: requests
                    .iter()
                    .filter(|row| row.agent == agent.id && caller.covers_request(row))
                    .collect(),
            };
            value["activity"] = json!(activity::activity(&facts));
            value
        })
        .collect();
    Ok(Json(json!({"agents": agents})))
}

/// Returns for each agent that can't work the problem with its model.
async fn model_problems(
    gateway: &Gateway,
    config: &Arc<Config>,
) -> Result<HashMap<AgentId, ModelProblem>, ApiError> {
    let (home, config) = (gateway.home().clone(), Arc::clone(config));
    // Keys and scripts are files.
    let look = tokio::task::spawn_blocking(move || {
        let catalog = Catalog::new(home);
        let problem =
            |agent: &Agent| Some((agent.id.clone(), model_problem::of_agent(agent, &config, &catalog)?));
        config.agents.iter().filter_map(problem).collect()
    });
    look.await.map_err(ApiError::internal)
}

/// A request for a new agent.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CreateAgent {
    id: AgentId,
    /// `worker` unless it is given.
    role: Option<Role>,
    archetype: Option<String>,
    model: Option<ModelRef>,
    /// Name of the person, for the audit.
    by: Option<String>,
}

/// Adds an agent to the configuration. Its sandbox is made at its first command, or by [`prepare`].
pub(crate) async fn create(
    State(gateway): State<Arc<Gateway>>,
    Extension(caller): Extension<Caller>,
    JsonBody(wanted): JsonBody<CreateAgent>,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let by = Actor::party(caller.person(wanted.by.as_deref())?);
    if let Some(name) = &wanted.archetype {
        archetype::find(&gateway.home().archetypes(), name).map_err(ApiError::explained)?;
    }
    let new = NewAgent {
        archetype: wanted.archetype,
        model: wanted.model,
        ..NewAgent::new(wanted.id.clone(), wanted.role.unwrap_or(Role::Worker))
    };
    let entry = new_agent::entry(&by, &new);
    let origin = Origin::new(by.party.to_string(), "agent.add, by the API");
    let made = origin.scope(new_agent::create(gateway.home().clone(), None, new)).await;
    made.map_err(ApiError::explained)?;
    gateway.swarm.store().audit().append(entry, unix_ms()).await.map_err(ApiError::explained)?;
    let agent = gateway.agent(wanted.id.as_str())?;
    Ok((StatusCode::CREATED, Json(agent_json(&agent))))
}

/// Returns when the agent's sandbox exists and is confined. An agent without a sandbox is ready at once, and a sandbox
/// that it had before is removed. For a frozen agent no sandbox is created.
pub(crate) async fn prepare(State(gateway): State<Arc<Gateway>>, Path(id): Path<String>) -> JsonResult {
    let agent = gateway.agent(&id)?;
    let has_sandbox = agent.sandbox == SandboxMode::All;
    if has_sandbox && gateway.swarm.is_frozen(&agent.id) {
        // The sandbox is created at the first command after the thaw.
        return Ok(Json(json!({"id": agent.id, "sandbox": "frozen"})));
    }
    if has_sandbox {
        // This runs in a task of its own: a client that disconnects must not leave a container half created.
        let sandbox = gateway.sandbox.clone();
        let id = agent.id.clone();
        let made = tokio::spawn(async move { sandbox.ensure(&id).await }).await;
        made.map_err(ApiError::internal)?.map_err(ApiError::explained)?;
    } else {
        let (sandbox, id) = (gateway.sandbox.clone(), agent.id.clone());
        match tokio::spawn(async move { sandbox.remove(&id).await }).await.map_err(ApiError::internal)? {
            Ok(()) => {}
            // Without an engine there is no container.
            Err(error) if error.kind() == Kind::DockerUnavailable => {}
            Err(error) => return Err(ApiError::explained(error)),
        }
    }
    Ok(Json(json!({"id": agent.id, "sandbox": if has_sandbox { "ready" } else { "off" }})))
}

/// Probes the agent's sandbox now and returns the findings.
pub async fn probe(State(gateway): State<Arc<Gateway>>, Path(id): Path<String>) -> JsonResult {
    let agent = gateway.agent(&id)?;
    if agent.sandbox == SandboxMode::Off {
        let message = format!("agent {} has no sandbox to probe: its commands run on this machine", agent.id);
        return Err(ApiError::invalid("no_sandbox", message).with_hint("flock status"));
    }
    // This runs in a task of its own, as above, because it may create the sandbox first.
    let probed = tokio::spawn(async move { gateway.records.probe(&agent.id).await }).await;
    Ok(Json(probed.map_err(ApiError::internal)??))
}

/// Ends the turns of an agent that is no longer in the configuration, and removes its sandbox.
pub(crate) async fn remove(State(gateway): State<Arc<Gateway>>, Path(id): Path<String>) -> JsonResult {
    let id: AgentId =
        id.parse().map_err(|error| ApiError::invalid("invalid_agent_id", format!("{error}")))?;
    if gateway.config().agent(&id).is_some() {
        return Err(ApiError::conflict(
            "still_configured",
            format!("agent {id} is still in the configuration"),
        )
        .with_hint(format!("flock remove {id}")));
    }
    // The turns end first, so that none of them uses the sandbox while it is removed.
    let turns = operation_recovery::release(&gateway.driver, &id).await;
    let sandbox = gateway.sandbox.clone();
    let agent = id.clone();
    let removed = tokio::spawn(async move { sandbox.remove(&agent).await }).await;
    removed.map_err(ApiError::internal)?.map_err(ApiError::explained)?;
    Ok(Json(json!({"id": id, "cancelledTurns": turns})))
}

fn agent_json(agent: &Agent) -> Value {
    json!({
        "id": agent.id,
        "role": agent.role,
        "archetype": agent.archetype,
        "runtime": agent.runtime,
        "model": agent.model,
        "scripted": agent.model.as_ref().is_some_and(crate::id::ModelRef::is_script),
        "sandbox": agent.sandbox,
        "workspace": agent.workspace,
    })
}
