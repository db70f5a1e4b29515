//! `GET /health`: that a gateway answers, which home's, and, for who sends a challenge, the proof of it.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};

use crate::gateway::state::Gateway;
use crate::process::ProcessId;
use crate::supervise::health::{CHALLENGE, Health, proof};

/// Answers without a credential, so it tells nothing that is not for everybody on this machine. The status is 503 where
/// the gateway can't do its work.
pub async fn show(State(gateway): State<Arc<Gateway>>, headers: HeaderMap) -> (StatusCode, Json<Health>) {
    let challenge = headers.get(CHALLENGE).and_then(|value| value.to_str().ok());
    let trouble = gateway.swarm.store().trouble();
    let (code, status) = match &trouble {
        _ if gateway.stop.is_cancelled() => (StatusCode::OK, "stopping"),
        Some(_) => (StatusCode::SERVICE_UNAVAILABLE, "unhealthy"),
        None => (StatusCode::OK, "ok"),
    };
    let health = Health {
        status: status.to_owned(),
        reason: trouble.map(|trouble| trouble.sentence()),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        instance: gateway.instance.clone(),
        pid: ProcessId::current().pid,
        started_at: gateway.started_ms / 1000,
        proof: challenge.and_then(|challenge| proof(&gateway.config().token, challenge)),
    };
    (code, Json(health))
}
