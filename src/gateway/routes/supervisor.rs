//! `GET /api/supervisor`: what keeps the gateway and OpenClaw running, and the installed OpenClaw.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use serde_json::{Value, json};

use super::JsonResult;
use crate::gateway::error::ApiError;
use crate::gateway::state::Gateway;
use crate::home::Home;
use crate::install::versions;
use crate::supervise::control::{ControlConnection, UnitStatus};

/// Longest time to wait for the supervisor, which answers from memory.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Returns the supervisor with its processes, and the installed version of OpenClaw.
pub(crate) async fn show(State(gateway): State<Arc<Gateway>>) -> JsonResult {
    let status = ControlConnection::status(gateway.home(), TIMEOUT).await;
    let home = gateway.home().clone();
    let installed = tokio::task::spawn_blocking(move || openclaw(&home)).await.map_err(ApiError::internal)?;
    let supervisor = status.as_ref().map(|status| {
        json!({
            "version": status.version,
            "pid": status.pid,
            "startedAt": status.started_at,
            "foreground": status.foreground,
        })
    });
    let units: Vec<Value> = status.iter().flat_map(|status| &status.units).map(unit).collect();
    Ok(axum::Json(json!({"supervisor": supervisor, "units": units, "openclaw": installed})))
}

fn unit(unit: &UnitStatus) -> Value {
    json!({
        "name": unit.name,
        "state": unit.state,
        "pid": unit.pid,
        "startedAt": unit.spawned_at,
        "restarts": unit.restarts,
        "crashes": unit.crashes,
        "replacements": unit.replacements,
        "reason": unit.reason,
        "retryAt": unit.retry_at,
        "breakerOpenedAt": unit.breaker_opened_at,
    })
}

/// Returns the version of OpenClaw that the next start uses, or `None` if none is installed.
fn openclaw(home: &Home) -> Option<Value> {
    let version = versions::current(home)?;
    Some(json!({
        "version": version.version,
        "commit": version.commit,
        "reference": version.reference,
        "follows": version.follows,
        "builtAt": version.built_at,
        "previous": versions::previous(home).map(|previous| previous.version),
    }))
}
