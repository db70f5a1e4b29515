//! `GET /health`: tells that a gateway answers and which home it serves. A caller that sends a challenge gets a proof
//! of that.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};

use crate::gateway::state::Gateway;
use crate::process::ProcessId;
use crate::supervise::health::{CHALLENGE, Health, proof};

/// Answers without a credential, so the response holds only what everybody on this machine may know. The status is 503
/// if the gateway can't do its work.
pub(crate) async fn show(
    State(gateway): State<Arc<Gateway>>,
    headers: HeaderMap,
) -> (StatusCode, Json<Health>) {
    let challenge = headers.get(CHALLENGE).and_then(|value| value.to_str().ok());
    let trouble = gateway.swarm.store().trouble();
    let (code, status) = match &trouble {
        // A gateway that stops on purpose must not look like a broken one.
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
