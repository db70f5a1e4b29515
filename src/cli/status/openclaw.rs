//! The state of OpenClaw. The installed version, the running version and its health are three separate facts.

use std::time::Duration;

use serde::Serialize;

use super::unit::UnitReport;
use crate::config::{Config, secret};
use crate::home::Home;
use crate::install::{InstalledVersion, versions};
use crate::openclaw::probe::{self, Depth};
use crate::openclaw::{agents, place};
use crate::process::ProcessId;
use crate::supervise::control::UnitStatus;
use crate::supervise::unit::OPENCLAW;

/// The OpenClaw of a home.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OpenClawReport {
    /// The version that the next start uses.
    pub installed: Option<Build>,
    /// The version that runs now.
    pub serving: Option<Build>,
    /// The version that a rollback returns to.
    pub previous: Option<Build>,
    /// `true` if the running process answered just now and proved to be this home's.
    pub healthy: bool,
    /// The problem with its answer.
    pub problem: Option<String>,
    /// The reason for which it keeps its old configuration although the home's has changed.
    pub stale: Option<String>,
    /// Number of agents that run on it.
    pub agents: usize,
    /// Start of the process, in Unix milliseconds.
    pub started_at: Option<i64>,
    #[serde(flatten)]
    pub unit: UnitReport,
}

/// One version of OpenClaw.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Build {
    pub version: String,
    pub commit: String,
    /// The branch, tag or commit that was asked for.
    pub reference: String,
    /// Time of the commit, in Unix seconds.
    pub committed_at: i64,
    /// Time of the build, in Unix seconds.
    pub built_at: i64,
}

impl From<InstalledVersion> for Build {
    fn from(version: InstalledVersion) -> Self {
        Self {
            version: version.version,
            commit: version.commit,
            reference: version.reference,
            committed_at: version.committed_at,
            built_at: version.built_at,
        }
    }
}

/// Returns the state of OpenClaw, or `None` if it is neither installed nor needed.
pub(crate) async fn collect(
    home: &Home,
    config: Option<&Config>,
    unit: Option<&UnitStatus>,
) -> Option<OpenClawReport> {
    let installed = versions::current(home);
    let count = config.map_or(0, |config| agents(config).count());
    if installed.is_none() && count == 0 && unit.is_none() {
        return None;
    }
    // A unit without a process can't answer.
    let running = unit.filter(|unit| unit.pid.is_some());
    let serving = running.and_then(|unit| unit.build.as_ref());
    let asked = match running {
        Some(unit) => Some(ask(home, unit).await),
        None => None,
    };
    Some(OpenClawReport {
        serving: serving
            .and_then(|name| versions::read(&home.openclaw_versions().join(name)))
            // An update may have removed the folder of the version that still runs. Then it is not described.
            .map(Build::from),
        previous: versions::previous(home).map(Build::from),
        installed: installed.map(Build::from),
        healthy: matches!(asked, Some(Ok(()))),
        problem: asked.and_then(Result::err),
        stale: unit.and_then(|unit| unit.stale.clone()),
        agents: count,
        started_at: running.and_then(|unit| unit.spawned_at),
        unit: UnitReport::of(home, OPENCLAW, unit, config.and_then(|config| config.openclaw.port)),
    })
}

/// Returns an error text if the running process does not answer now.
async fn ask(home: &Home, unit: &UnitStatus) -> Result<(), String> {
    let process = unit.pid.and_then(ProcessId::of).ok_or_else(|| "it has just ended".to_owned())?;
    let port = unit.port.ok_or_else(|| "it has no port".to_owned())?;
    let token = secret::get(home, place::TOKEN).ok().flatten().unwrap_or_default();
    probe::ask(port, &token, process, Depth::Proof, TIMEOUT)
        .await
        .map_err(|error| crate::error::chain(&error))
}

/// Time that OpenClaw may take to answer.
const TIMEOUT: Duration = Duration::from_secs(5);
