//! `/api/tokens`: tokens for clients. Only the owner's token opens these paths.

use axum::extract::{Extension, State};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{JsonResult, TeamState};
use crate::gateway::auth::Caller;
use crate::gateway::body::JsonBody;
use crate::gateway::error::ApiError;
use crate::gateway::extract::{Path, Query};
use crate::id::AgentId;
use crate::store::{NewToken, Right};
use crate::swarm::token;

/// A request for a new token.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct CreateToken {
    pub name: String,
    /// The agents that the token is for. `None` stands for all of them.
    pub agents: Option<Vec<AgentId>>,
    pub rights: Vec<Right>,
    /// Unix milliseconds at which the token expires. `None` stands for never.
    pub expires_at: Option<i64>,
    /// Name of the person, for the audit.
    pub by: Option<String>,
}

impl CreateToken {
    /// Converts the request into the token that the store creates.
    #[must_use]
    pub(crate) fn token(self) -> NewToken {
        NewToken { name: self.name, agents: self.agents, rights: self.rights, expires_at: self.expires_at }
    }
}

/// The query parameters of a revocation.
#[derive(Debug, Deserialize)]
pub(crate) struct RevokeTokenQuery {
    by: Option<String>,
}

/// Returns what is known of all tokens, but not the tokens themselves.
pub(crate) async fn list(State(team): State<TeamState>) -> JsonResult {
    let tokens = team.swarm.store().tokens().list().await.map_err(ApiError::explained)?;
    Ok(axum::Json(json!({"tokens": tokens})))
}

/// Creates a token and returns it. It is never shown again.
pub(crate) async fn add(
    State(team): State<TeamState>,
    Extension(caller): Extension<Caller>,
    JsonBody(wanted): JsonBody<CreateToken>,
) -> Result<(StatusCode, axum::Json<Value>), ApiError> {
    let by = caller.speaks(wanted.by.as_deref())?;
    let config = team.swarm.config();
    let (token, known) = token::add(team.swarm.store(), &config, &by, wanted.token()).await?;
    let mut shown = json!(known);
    // Only a digest of the token is stored, so this response is the only place where it appears.
    shown["token"] = token.into();
    Ok((StatusCode::CREATED, axum::Json(shown)))
}

/// Revokes a client's token.
pub(crate) async fn revoke(
    State(team): State<TeamState>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    Query(who): Query<RevokeTokenQuery>,
) -> JsonResult {
    let by = caller.speaks(who.by.as_deref())?;
    token::revoke(team.swarm.store(), &by, &name).await?;
    Ok(axum::Json(json!({"name": name, "revoked": true})))
}
