//! Waiting until a supervisor has applied a command's change to OpenClaw.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::control::{ControlConnection, ControlRequest};
use super::pid_file;
use super::state::UnitState;
use super::unit::OPENCLAW;
use crate::home::{Home, atomic};
use crate::id::AgentId;

/// Waits until OpenClaw neither runs nor is being started. Returns `true` if that happened in time.
///
/// If no supervisor answers, OpenClaw counts as running while its PID file names a living process.
pub(crate) async fn is_down(home: &Home, patience: Duration) -> bool {
    wait_until(home, patience, || false).await
}

/// Waits until no running OpenClaw has this agent. Returns `true` if that happened in time.
pub(crate) async fn wait_until_removed(home: &Home, id: &AgentId, patience: Duration) -> bool {
    wait_until(home, patience, || !has_agent(home, id)).await
}

async fn wait_until(home: &Home, patience: Duration, done: impl Fn() -> bool) -> bool {
    let end = Instant::now() + patience;
    let mut looked = false;
    loop {
        // The supervisor checks by itself only every few seconds. Until it has checked, its status is out of date.
        looked = looked || ask(home, ControlRequest::Look).await.is_some();
        let runs = ask(home, ControlRequest::Status).await.unwrap_or_else(|| {
            // No supervisor answers, but OpenClaw may be an orphan, or the supervisor may be starting.
            pid_file::read(&home.pid_file(OPENCLAW)).is_some()
        });
        if !runs || done() {
            return true;
        }
        if Instant::now() >= end {
            return false;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Asks the supervisor whether OpenClaw runs or is being started. Returns `None` if no supervisor answers.
async fn ask(home: &Home, request: ControlRequest) -> Option<bool> {
    let mut connection = ControlConnection::open(home).await.ok()?;
    let status = connection.ask(request, REPLY_TIMEOUT).await.ok()?.status?;
    Some(status.unit(OPENCLAW).is_some_and(|unit| unit.state != UnitState::Stopped || unit.pid.is_some()))
}

/// Returns `true` if the configuration that OpenClaw reads has an agent with this id.
fn has_agent(home: &Home, id: &AgentId) -> bool {
    let bytes = atomic::read(&home.openclaw_config(), MAX_CONFIG).ok().flatten().unwrap_or_default();
    let document: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let agents = &document["agents"];
    agents["entries"].get(id.as_str()).is_some()
        || agents["list"].as_array().into_iter().flatten().any(|one| one["id"] == id.as_str())
}

/// The time limit for one answer.
const REPLY_TIMEOUT: Duration = Duration::from_secs(5);
/// The pause between two checks.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
const MAX_CONFIG: u64 = 16 << 20;
