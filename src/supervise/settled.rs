//! Waiting until a supervisor has done to OpenClaw what follows from what a command has changed.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::control::{Connection, Request};
use super::pid;
use super::state::Standing;
use super::unit::OPENCLAW;
use crate::home::{Home, atomic};
use crate::id::AgentId;

/// Waits until the supervisor neither runs OpenClaw nor makes a start of it ready; whether it came to that. Without a
/// supervisor it is so at once.
pub async fn is_down(home: &Home, patience: Duration) -> bool {
    until(home, patience, || false).await
}

/// Waits until no OpenClaw runs that has this agent; whether it came to that.
pub async fn has_dropped(home: &Home, id: &AgentId, patience: Duration) -> bool {
    until(home, patience, || !has(home, id)).await
}

async fn until(home: &Home, patience: Duration, done: impl Fn() -> bool) -> bool {
    let end = Instant::now() + patience;
    let mut looked = false;
    loop {
        // It looks by itself too, but only every few seconds. What it says before it has looked is out of date.
        looked = looked || ask(home, Request::Look).await.is_some();
        let runs = ask(home, Request::Status).await.unwrap_or_else(|| {
            // Nobody says anything of one that is left by itself, or of a supervisor that is only beginning.
            pid::read(&home.pid_file(OPENCLAW)).is_some()
        });
        if !runs || done() {
            return true;
        }
        if Instant::now() >= end {
            return false;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Whether OpenClaw runs, or is being started, by what the supervisor answers; `None` where none answers.
async fn ask(home: &Home, request: Request) -> Option<bool> {
    let mut connection = Connection::open(home).await.ok()?;
    let status = connection.ask(request, QUICK).await.ok()?.status?;
    Some(status.unit(OPENCLAW).is_some_and(|unit| unit.state != Standing::Stopped || unit.pid.is_some()))
}

/// Whether the configuration that OpenClaw reads has an agent of this id.
fn has(home: &Home, id: &AgentId) -> bool {
    let bytes = atomic::read(&home.openclaw_config(), LARGEST).ok().flatten().unwrap_or_default();
    let document: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let agents = &document["agents"];
    agents["entries"].get(id.as_str()).is_some()
        || agents["list"].as_array().into_iter().flatten().any(|one| one["id"] == id.as_str())
}

/// For one answer.
const QUICK: Duration = Duration::from_secs(5);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(50);
const LARGEST: u64 = 16 << 20;
