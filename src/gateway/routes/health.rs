//! `GET /health`: that a gateway answers, which home's, and, for who sends a challenge, the proof of it.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;

use crate::gateway::state::Gateway;
use crate::process::ProcessId;
use crate::supervise::health::{CHALLENGE, Health, proof};

/// Answers without a credential, so it tells nothing that is not for everybody on this machine.
pub async fn show(State(gateway): State<Arc<Gateway>>, headers: HeaderMap) -> Json<Health> {
    let challenge = headers.get(CHALLENGE).and_then(|value| value.to_str().ok());
    Json(Health {
        status: if gateway.stop.is_cancelled() { "stopping" } else { "ok" }.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        instance: gateway.instance.clone(),
        pid: ProcessId::current().pid,
        started_at: gateway.started_ms / 1000,
        proof: challenge.and_then(|challenge| proof(&gateway.config().token, challenge)),
    })
}
