//! `PUT /api/settings`: what runs an agent's turns, with which model, and how much that thinks.

use std::sync::Arc;

use axum::Json as Answer;
use axum::extract::State;
use serde::Deserialize;
use serde_json::{Value, json};

use super::messages::chosen;
use crate::clock::unix_ms;
use crate::config::{self, Agent, ConfigError, Effort, Network, agents};
use crate::gateway::body::Json;
use crate::gateway::error::ApiError;
use crate::gateway::state::Gateway;
use crate::id::ModelRef;
use crate::openclaw::plugin;
use crate::runtime::NATIVE;
use crate::store::Level;
use crate::swarm::By;

/// What is to be different.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    agent: Option<String>,
    cli: String,
    model: Option<ModelRef>,
    effort: Option<Effort>,
}

/// Changes it, from the agent's next turn on.
pub async fn change(
    State(gateway): State<Arc<Gateway>>,
    Json(Change { agent, cli, model, effort }): Json<Change>,
) -> Result<Answer<Value>, ApiError> {
    let agent = chosen(&gateway, agent.as_deref(), None)?;
    check(&gateway, &agent, &cli)?;
    let home = gateway.home().clone();
    let (id, runtime, wanted) = (agent.id.clone(), cli.clone(), model.clone());
    // The editor waits for other writers, and holds a lock meanwhile.
    let edited = tokio::task::spawn_blocking(move || {
        config::edit(&home, |document| agents::set_runtime(document, &id, &runtime, wanted.as_ref(), effort))
    });
    edited.await.map_err(ApiError::internal)?.map_err(|error: ConfigError| ApiError::explained(error))?;
    let changed = gateway.agent(agent.id.as_str())?;
    let shown = json!({"agent": changed.id, "cli": changed.runtime, "model": changed.model,
        "effort": changed.effort.map(Effort::as_str)});
    let by = By::human("owner");
    let entry = by.entry("agent.settings", agent.id.as_str(), Level::Yellow, shown.to_string());
    gateway.swarm.store().audit(entry, unix_ms()).await.map_err(ApiError::explained)?;
    Ok(Answer(shown))
}

/// Only what this gateway can run.
fn check(gateway: &Gateway, agent: &Agent, runtime: &str) -> Result<(), ApiError> {
    let others = gateway.engine.get().map(|engine| engine.runtime_names()).unwrap_or_default();
    if runtime != NATIVE && !others.contains(&runtime) {
        let known = [&[NATIVE], &others[..]].concat().join(", ");
        let text = format!("{} is not a runtime; this flock has {known}", crate::clean::summary(runtime, 40));
        return Err(ApiError::invalid("unknown_runtime", text));
    }
    let has_network = agent.network == Network::Proxy;
    if runtime == plugin::RUNTIME && has_network {
        return Err(ApiError::invalid(
            "no_network_there",
            format!("what OpenClaw runs has no network, and agent {} has one", agent.id),
        )
        .with_hint(format!(
            "flock config unset plugins.entries.flock.config.gatewayAgents[{}].network",
            agent.id
        )));
    }
    Ok(())
}
