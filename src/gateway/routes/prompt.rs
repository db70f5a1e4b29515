//! `GET /api/sessions/{key}/prompt`: the system prompt of a session's next turn.

use std::sync::Arc;

use axum::extract::{Extension, State};
use serde_json::json;

use super::JsonResult;
use super::sessions::readable_key;
use crate::agent::TurnError;
use crate::agent::prompt_report::PromptReport;
use crate::gateway::auth::Caller;
use crate::gateway::error::ApiError;
use crate::gateway::extract::Path;
use crate::gateway::state::Gateway;
use crate::gateway::turn_error::failure;

/// Returns the prompt by sections, as `flock prompt show --session` does.
pub(crate) async fn show(
    State(gateway): State<Arc<Gateway>>,
    Extension(caller): Extension<Caller>,
    Path(key): Path<String>,
) -> JsonResult {
    let key = readable_key(&gateway, &caller, &key).await?;
    let agent = gateway.agent(key.agent().as_str())?;
    let session = gateway.swarm.store().sessions().find(&key).await.map_err(ApiError::explained)?;
    let session = session.ok_or_else(|| failure(TurnError::NoSession(key.clone()).into()))?;
    let (home, config) = (gateway.home().clone(), gateway.config());
    // The agent's files and the team's vaults are read from the disk.
    let made =
        tokio::task::spawn_blocking(move || PromptReport::of(&home, &config, &agent, session.began_at));
    let report = made.await.map_err(ApiError::internal)?;
    let report = report.map_err(|error| failure(TurnError::from(error).into()))?;
    let mut answer = json!(report);
    answer["agent"] = json!(key.agent());
    answer["session"] = json!(key);
    Ok(axum::Json(answer))
}
