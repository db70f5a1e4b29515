//! How OpenClaw stands: which version is installed, which one serves, and whether it is healthy are three things.

use std::time::Duration;

use serde::Serialize;

use super::unit::Unit;
use crate::config::{Config, secret};
use crate::home::Home;
use crate::install::{Version, versions};
use crate::openclaw::probe::{self, Depth};
use crate::openclaw::{agents, place};
use crate::process::ProcessId;
use crate::supervise::control::UnitStatus;
use crate::supervise::unit::OPENCLAW;

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
    /// Since when it runs, in milliseconds since the epoch.
    pub started_at: Option<i64>,
    #[serde(flatten)]
    pub unit: Unit,
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
    let running = unit.filter(|unit| unit.pid.is_some());
    let serving = running.and_then(|unit| unit.build.as_ref());
    let asked = match running {
        Some(unit) => Some(ask(home, unit).await),
        None => None,
    };
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
        started_at: running.and_then(|unit| unit.spawned_at),
        unit: Unit::of(home, OPENCLAW, unit, config.and_then(|config| config.openclaw.port)),
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
