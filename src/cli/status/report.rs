//! What `flock status --json` prints; described in docs/status.md.

use std::path::PathBuf;

use serde::Serialize;
use serde_json::Value;

use super::bundle::Bundle;
use super::unit::Unit;
use crate::cli::team::Asleep;
use crate::store::Freeze;
use crate::supervise::figures::Figures;

/// How a home stands.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    pub home: PathBuf,
    /// The home's format; `None` where it can't be read.
    pub format: Option<u32>,
    /// Whether a newer flock made the home: then this one only looks.
    pub newer_home: bool,
    /// This program's version.
    pub version: &'static str,
    /// Whether files can be written in the home.
    pub writable: bool,
    /// The same with the commit that it was built from, where that is known.
    pub build: &'static str,
    /// Whether the gateway answers and has proved to be this home's.
    pub running: bool,
    pub url: Option<String>,
    /// Milliseconds since the epoch.
    pub measured_at: i64,
    pub supervisor: Option<Supervisor>,
    pub gateway: Gateway,
    /// `None` where OpenClaw is neither installed nor needed.
    pub openclaw: Option<Bundle>,
    /// Since when and by whom the whole home is frozen, later agents too.
    pub frozen: Option<Freeze>,
    pub agents: Vec<Agent>,
    /// What the gateway says of channels and of what waits in them; `None` where it does not run.
    pub team: Option<Value>,
    pub docker: Docker,
    /// The containers of this home; `None` where nobody could be asked.
    pub containers: Option<Value>,
    pub images: Option<Value>,
    pub store: Option<Value>,
    /// How many requests wait for a person; `None` where that can't be read.
    pub approvals_waiting: Option<usize>,
    /// What needs somebody's attention, in words.
    pub warnings: Vec<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Supervisor {
    pub pid: i32,
    pub version: String,
    /// Seconds since the epoch.
    pub started_at: i64,
    /// Whether a service manager holds it.
    pub foreground: bool,
    #[serde(flatten)]
    pub figures: Option<Figures>,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Gateway {
    /// Its state is `unsupervised` where it answers and no supervisor runs.
    #[serde(flatten)]
    pub unit: Unit,
    /// Whether what answers has proved to be this home's gateway.
    pub proven: bool,
    /// Whether it can do its work: it answers and has no trouble with its database.
    pub healthy: bool,
    /// What was wrong with its answer, or why it is unhealthy.
    pub problem: Option<String>,
    pub version: Option<String>,
    /// Seconds since the epoch.
    pub started_at: Option<i64>,
    pub uptime_ms: Option<i64>,
    /// CPU time over its life, in percent of one core.
    pub cpu_percent: Option<f64>,
    /// What the gateway says of turns that run and wait.
    pub turns: Option<Value>,
    /// How many sessions it keeps.
    pub sessions: Option<u64>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Agent {
    pub id: String,
    pub role: &'static str,
    pub runtime: String,
    pub model: Option<String>,
    /// Whether a written conversation answers instead of a model.
    pub scripted: bool,
    /// `docker`, `off`, or `host` where the program that runs its turns is in no sandbox.
    pub sandbox: &'static str,
    /// Since when and by whom it is frozen.
    pub frozen: Option<Freeze>,
    /// Since when it sleeps, and why, as it said itself.
    pub asleep: Option<Asleep>,
    /// Since when and until when it has no budget, and which budget is used up: as the gateway says.
    pub paused: Option<Value>,
    /// Why its model can't be asked.
    pub warning: Option<String>,
    pub hint: Option<String>,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Docker {
    /// Whether the engine answered; `None` where it was not asked.
    pub reachable: Option<bool>,
    pub problem: Option<String>,
    /// What mends it.
    pub hint: Option<String>,
}
