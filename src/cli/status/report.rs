//! The output of `flock status --json`, which docs/status.md describes.

use std::path::PathBuf;

use serde::Serialize;
use serde_json::Value;

use super::engine::EngineReport;
use super::openclaw::OpenClawReport;
use super::unit::UnitReport;
use crate::cli::team::SleepState;
use crate::gateway::unread::Unread;
use crate::store::{DatabasePlace, Freeze};
use crate::supervise::resource_usage::ResourceUsage;

/// The state of a home.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StatusReport {
    pub home: PathBuf,
    /// The home's format, or `None` if it can't be read.
    pub format: Option<u32>,
    /// `true` if a newer flock made the home. This one then changes nothing.
    pub newer_home: bool,
    /// The version of this program.
    pub version: &'static str,
    /// `true` if files can be written in the home.
    pub writable: bool,
    /// The place of the database. `None` if it can't be read.
    pub database: Option<DatabasePlace>,
    /// The version with the commit that it was built from, if that is known.
    pub build: &'static str,
    /// `true` if the gateway answers and has proved to be this home's.
    pub running: bool,
    pub url: Option<String>,
    /// Unix milliseconds.
    pub measured_at: i64,
    pub supervisor: Option<SupervisorReport>,
    pub gateway: GatewayReport,
    /// `None` if OpenClaw is neither installed nor needed.
    pub openclaw: Option<OpenClawReport>,
    /// The time and the person of a freeze of the whole home, which also covers agents added later.
    pub frozen: Option<Freeze>,
    pub agents: Vec<AgentReport>,
    /// The gateway's report about channels and unread messages. `None` if it does not run.
    pub team: Option<Value>,
    /// The gateway's report about quotas that are used up. `None` if it does not run.
    pub parked: Option<Value>,
    /// The gateway's report about bridges. `None` if it does not run.
    pub bridges: Option<Value>,
    /// The gateway's report about projects. `None` if it does not run.
    pub projects: Option<Value>,
    /// The gateway's report about races. `None` if it does not run.
    pub races: Option<Value>,
    /// The gateway's report about MCP servers. `None` if it does not run.
    pub mcp_servers: Option<Value>,
    /// The gateway's report about schedules. `None` if it does not run.
    pub schedules: Option<Value>,
    /// The gateway's report about webhooks. `None` if it does not run.
    pub hooks: Option<Value>,
    /// The gateway's summary of the skills. `None` if it does not run.
    pub skills: Option<Value>,
    /// The gateway's report about the people of the home and their budgets. Left out if nobody was added, or if it does not
    /// run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub people: Option<Value>,
    /// The gateway's report about signed-in browsers. `None` if it does not run.
    pub dashboard: Option<Value>,
    /// The gateway's report about telemetry. `None` if it does not run or telemetry is off.
    pub telemetry: Option<Value>,
    /// The gateway's report about the gateways that share its database. `None` if it does not run or the database is a file.
    pub gateways: Option<Value>,
    /// The gateway's report about its search index. Left out before its first look at it, and if it does not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub search_index: Option<Value>,
    /// The second place for checkpoints, conversations and vaults. Left out without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage: Option<Value>,
    /// The newest backup of the home. Left out without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backup: Option<Value>,
    /// The engines with their agents. Left out if only the machine's own is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engines: Option<Value>,
    #[serde(flatten)]
    pub engine: EngineReport,
    /// Number of requests that wait for a person, or `None` if that can't be read.
    pub approvals_waiting: Option<usize>,
    /// The parts that could not be read, with the reasons. What else the report says of them is not known.
    pub unread: Vec<Unread>,
    /// Sentences about everything that needs attention.
    pub warnings: Vec<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SupervisorReport {
    pub pid: i32,
    pub version: String,
    /// Start time in Unix seconds.
    pub started_at: i64,
    /// `true` if a service manager runs it.
    pub foreground: bool,
    #[serde(flatten)]
    pub figures: Option<ResourceUsage>,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GatewayReport {
    /// The process. Its state is `unsupervised` if the gateway answers and no supervisor runs.
    #[serde(flatten)]
    pub unit: UnitReport,
    /// `true` if the process that answers has proved to be this home's gateway.
    pub proven: bool,
    /// `true` if it can work: it answers and has no trouble with its database.
    pub healthy: bool,
    /// The problem with its answer, or the reason for which it is unhealthy.
    pub problem: Option<String>,
    pub version: Option<String>,
    /// Start time in Unix seconds.
    pub started_at: Option<i64>,
    pub uptime_ms: Option<i64>,
    /// CPU time over its whole life, in percent of one core.
    pub cpu_percent: Option<f64>,
    /// The gateway's report about running and waiting turns.
    pub turns: Option<Value>,
    /// Number of sessions that the gateway keeps.
    pub sessions: Option<u64>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AgentReport {
    pub id: String,
    pub role: &'static str,
    pub runtime: String,
    pub model: Option<String>,
    /// `true` if a scripted conversation answers instead of a model.
    pub scripted: bool,
    /// `docker`, `off`, or `host` if the program that runs its turns is in no sandbox.
    pub sandbox: &'static str,
    /// The time and the person of its freeze.
    pub frozen: Option<Freeze>,
    /// The time at which it went to sleep, and its own reason.
    pub asleep: Option<SleepState>,
    /// The gateway's report about a used-up budget: since when, until when, and which one.
    pub paused: Option<Value>,
    /// `false` if it has no model, or if its first model can't be asked because the provider or its key is missing.
    pub can_work: bool,
    /// The reason for which its model, or one of its fallbacks, can't be asked.
    pub warning: Option<String>,
    pub hint: Option<String>,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DockerReport {
    /// `true` if the engine answered, `None` if it was not asked.
    pub reachable: Option<bool>,
    pub problem: Option<String>,
    /// The command that repairs it.
    pub hint: Option<String>,
}
