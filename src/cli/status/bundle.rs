//! How OpenClaw stands: which version is installed, which one serves, and whether it is healthy are three things.

use std::time::Duration;

use serde::Serialize;

use super::report::state_word;
use crate::config::{Config, secret};
use crate::home::Home;
use crate::install::{Version, versions};
use crate::openclaw::probe::{self, Depth};
use crate::openclaw::{agents, place};
use crate::process::ProcessId;
use crate::supervise::control::UnitStatus;
use crate::supervise::figures::Figures;
use crate::supervise::ward::remembered;

/// The home's OpenClaw.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Bundle {
    /// The version that is in use from the next start on.
    pub installed: Option<Build>,
    /// The version that runs now.
    pub serving: Option<Build>,
    /// The version that a rollback goes back to.
    pub previous: Option<Build>,
    /// Whether what runs has answered just now, and proved to be this home's.
    pub healthy: bool,
    /// What was wrong with its answer.
    pub problem: Option<String>,
    /// Why it goes on as it was started although the configuration is another now.
    pub stale: Option<String>,
    /// How many agents run on it.
    pub agents: usize,
    /// As the supervisor sees it; `stopped` where none runs.
    pub state: String,
    /// Why it does not run, or why it was started again last.
    pub reason: Option<String>,
    pub pid: Option<i32>,
    pub port: Option<u16>,
    /// Since when it runs, in milliseconds since the epoch.
    pub started_at: Option<i64>,
    pub restarts: Option<u32>,
    /// Crashes that count towards the breaker.
    pub crashes: usize,
    /// Milliseconds since the epoch.
    pub retry_at: Option<i64>,
    /// Milliseconds since the epoch.
    pub breaker_opened_at: Option<i64>,
    #[serde(flatten)]
    pub figures: Option<Figures>,
}

/// One version of it.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Build {
    pub version: String,
    pub commit: String,
    /// The branch, tag or commit it was asked for by.
    pub reference: String,
    /// Seconds since the epoch.
    pub committed_at: i64,
    /// Seconds since the epoch.
    pub built_at: i64,
}

impl From<Version> for Build {
    fn from(version: Version) -> Self {
        Self {
            version: version.version,
            commit: version.commit,
            reference: version.reference,
            committed_at: version.committed_at,
            built_at: version.built_at,
        }
    }
}

/// How it stands now; `None` where it is neither installed nor needed.
pub async fn collect(home: &Home, config: Option<&Config>, unit: Option<&UnitStatus>) -> Option<Bundle> {
    let installed = versions::current(home);
    let count = config.map_or(0, |config| agents(config).count());
    if installed.is_none() && count == 0 && unit.is_none() {
        return None;
    }
    let memory = remembered(home, crate::supervise::unit::OPENCLAW);
    let running = unit.filter(|unit| unit.pid.is_some());
    let serving = running.and_then(|unit| unit.build.as_ref());
    let asked = match running {
        Some(unit) => Some(ask(home, unit).await),
        None => None,
    };
    let idle = if memory.is_open() { "breaker-open" } else { "stopped" };
    Some(Bundle {
        serving: serving
            .and_then(|name| versions::read(&home.openclaw_versions().join(name)))
            .map(Build::from),
        previous: versions::previous(home).map(Build::from),
        installed: installed.map(Build::from),
        healthy: matches!(asked, Some(Ok(()))),
        problem: asked.and_then(Result::err),
        stale: unit.and_then(|unit| unit.stale.clone()),
        agents: count,
        state: unit.map_or_else(|| idle.to_owned(), |unit| state_word(unit.state)),
        reason: unit.map_or(memory.reason, |unit| unit.reason.clone()),
        pid: running.and_then(|unit| unit.pid),
        port: unit.and_then(|unit| unit.port).or(config.and_then(|config| config.openclaw.port)),
        started_at: running.and_then(|unit| unit.spawned_at),
        restarts: unit.map(|unit| unit.restarts),
        crashes: unit.map_or(memory.crashes.len(), |unit| unit.crashes),
        retry_at: unit.and_then(|unit| unit.retry_at),
        breaker_opened_at: unit.map_or(memory.opened_at, |unit| unit.breaker_opened_at),
        figures: None,
    })
}

/// Whether what runs answers now.
async fn ask(home: &Home, unit: &UnitStatus) -> Result<(), String> {
    let process = unit.pid.and_then(ProcessId::of).ok_or_else(|| "it has just ended".to_owned())?;
    let port = unit.port.ok_or_else(|| "it has no port".to_owned())?;
    let token = secret::get(home, place::TOKEN).ok().flatten().unwrap_or_default();
    probe::ask(port, &token, process, Depth::Proof, SHORT).await.map_err(|error| error.text())
}

/// How long it may take to say how it stands.
const SHORT: Duration = Duration::from_secs(5);
