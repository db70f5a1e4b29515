//! `GET /api/openapi.json`: the description of this API for programs.

use axum::Json;
use serde_json::Value;

use crate::gateway::openapi;

/// Returns the OpenAPI document.
pub(crate) async fn show() -> Json<&'static Value> {
    Json(openapi::document())
}
