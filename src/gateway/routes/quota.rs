//! `POST /api/quota/resume`: has used-up quotas tried now.

use axum::Json;
use axum::extract::{Extension, State};
use serde::Deserialize;
use serde_json::json;

use super::{JsonResult, TeamState};
use crate::gateway::auth::Caller;
use crate::gateway::error::ApiError;
use crate::gateway::extract::Query;
use crate::gateway::state::find_agent;
use crate::swarm::Actor;

/// The query parameters.
#[derive(Debug, Deserialize)]
pub(crate) struct ResumeQuery {
    /// Name of the person who asks.
    by: Option<String>,
    /// The name of a credential, or of a provider that is asked with it.
    credential: Option<String>,
    /// An agent whose credentials are meant.
    agent: Option<String>,
}

/// Has parked credentials tried at once: one call for each, and if it is answered, all turns that wait go on.
pub(crate) async fn resume(
    State(team): State<TeamState>,
    Extension(caller): Extension<Caller>,
    Query(wanted): Query<ResumeQuery>,
) -> JsonResult {
    let by = Actor::party(caller.person(wanted.by.as_deref())?);
    let agent =
        wanted.agent.map(|agent| find_agent(&team.swarm.config(), &agent)).transpose()?.map(|agent| agent.id);
    // In a task of its own: the database and the scheduler must agree also if the client disconnects.
    let swarm = team.swarm.clone();
    let done =
        tokio::spawn(
            async move { swarm.resume_quotas(&by, wanted.credential.as_deref(), agent.as_ref()).await },
        );
    let resumed = done.await.map_err(ApiError::internal)?.map_err(ApiError::explained)?;
    Ok(Json(json!({"resumed": resumed})))
}
