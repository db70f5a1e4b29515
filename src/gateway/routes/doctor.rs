//! `GET /api/doctor`: the results of `flock doctor`.

use std::sync::Arc;

use axum::extract::State;
use serde_json::json;

use super::JsonResult;
use crate::gateway::error::ApiError;
use crate::gateway::state::Gateway;

/// Runs the checks and returns their results.
pub(crate) async fn show(State(gateway): State<Arc<Gateway>>) -> JsonResult {
    let report = gateway.doctor.report(gateway.home()).await.map_err(ApiError::explained)?;
    Ok(axum::Json(json!(report)))
}
