//! `/api/tokens`: tokens for clients. Only the owner's token gets here.

use std::sync::Arc;

use axum::extract::{Extension, State};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::gateway::auth::Caller;
use crate::gateway::body::Json;
use crate::gateway::error::ApiError;
use crate::gateway::extract::{Path, Query};
use crate::gateway::state::Gateway;
use crate::id::AgentId;
use crate::store::{NewToken, Right};
use crate::swarm::token;

/// A token that a person wants.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Wanted {
    /// Its name.
    pub name: String,
    /// The agents that it is for; all where absent.
    #[serde(default)]
    pub agents: Option<Vec<AgentId>>,
    /// What it may do.
    pub rights: Vec<Right>,
    /// Until when, in Unix milliseconds.
    #[serde(default)]
    pub expires_at: Option<i64>,
    /// The person's name, for the record.
    #[serde(default)]
    pub by: Option<String>,
}

impl Wanted {
    /// As it is made.
    #[must_use]
    pub fn token(self) -> NewToken {
        NewToken { name: self.name, agents: self.agents, rights: self.rights, expires_at: self.expires_at }
    }
}

/// Who revokes a token.
#[derive(Debug, Deserialize)]
pub struct Who {
    by: Option<String>,
}

/// All tokens, without themselves.
pub async fn list(State(gateway): State<Arc<Gateway>>) -> Result<axum::Json<Value>, ApiError> {
    let tokens = gateway.swarm.store().tokens().map_err(ApiError::explained)?;
    Ok(axum::Json(json!({"tokens": tokens})))
}

/// Makes one and shows it, this once.
pub async fn add(
    State(gateway): State<Arc<Gateway>>,
    Extension(caller): Extension<Caller>,
    Json(wanted): Json<Wanted>,
) -> Result<(StatusCode, axum::Json<Value>), ApiError> {
    let by = caller.speaks(wanted.by.as_deref())?;
    let config = gateway.config();
    let (token, known) = token::add(gateway.swarm.store(), &config, &by, wanted.token()).await?;
    let mut shown = json!(known);
    shown["token"] = token.into();
    Ok((StatusCode::CREATED, axum::Json(shown)))
}

/// Revokes one.
pub async fn revoke(
    State(gateway): State<Arc<Gateway>>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    Query(who): Query<Who>,
) -> Result<axum::Json<Value>, ApiError> {
    let by = caller.speaks(who.by.as_deref())?;
    token::revoke(gateway.swarm.store(), &by, &name).await?;
    Ok(axum::Json(json!({"name": name, "revoked": true})))
}
