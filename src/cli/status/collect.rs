//! Collects the state from its sources: the supervisor, the gateway, the system, and Docker if no gateway runs.

use std::time::Duration;

use serde_json::Value;

use super::report::{AgentReport, GatewayReport, StatusReport, SupervisorReport};
use super::unit::UnitReport;
use super::{engine, openclaw, storage};
use crate::agent::identity;
use crate::backup::record::BackupRecord;
use crate::checkpoint::Checkpoints;
use crate::cli::stored::StoredState;
use crate::cli::{settings, team, write_check};
use crate::clock;
use crate::config::{self, Config, SandboxMode};
use crate::error::{chain, to_mend};
use crate::gateway::unread::Unread;
use crate::generation::pending_rollback;
use crate::home::lock::Lock;
use crate::home::{FORMAT, Home, instance, version};
use crate::id::AgentId;
use crate::install::self_update::pending_change::PendingProgramChange;
use crate::nix_store;
use crate::provider::catalog::Catalog;
use crate::runtime::model_problem;
use crate::store::DatabasePlace;
use crate::supervise::control::{ControlConnection, UnitStatus};
use crate::supervise::gateway_client::{Call, Client};
use crate::supervise::health::{self, Health, HealthError, HomeIdentity};
use crate::supervise::resource_usage;
use crate::supervise::unit::{GATEWAY, OPENCLAW};

/// Returns the present state of the home. Each source has a short timeout, so that a hanging one does not delay the
/// rest.
pub(crate) async fn collect(home: &Home, probe: bool) -> StatusReport {
    let mut warnings = Vec::new();
    // Each unreadable part becomes a warning. A status has to work best when something is broken.
    let format = version::read(home).unwrap_or_else(|error| {
        warnings.push(chain(&error));
        None
    });
    let config = config::read(home).map_err(|error| warnings.push(chain(&error))).ok();
    let supervisor = ControlConnection::status(home, TIMEOUT).await;
    let unit = supervisor.as_ref().and_then(|status| status.unit(GATEWAY));
    // The supervisor knows the port that is really used. The configured one may have changed since the start.
    let port = unit.and_then(|unit| unit.port).or(config.as_ref().map(|config| config.port));
    let found = match (&config, port) {
        (Some(config), Some(port)) => Some(ask_gateway(home, config, port).await),
        _ => None,
    };
    // Only a gateway that has proved its identity is sent the owner's token.
    let said = match (&config, port, &found) {
        (Some(config), Some(port), Some(Ok(_))) => {
            ask_gateway_status(config, port, probe, &mut warnings).await
        }
        _ => {
            if probe {
                warnings.push("nothing was probed: the gateway does not run".to_owned());
            }
            Value::Null
        }
    };
    let gateway = gateway(home, unit, found, port, &said);
    let served = port.filter(|_| gateway.proven);
    let beside = supervisor.as_ref().and_then(|status| status.unit(OPENCLAW));
    let openclaw = openclaw::collect(home, config.as_ref(), beside).await;
    // A running gateway has just asked the engine itself, so it is not asked twice.
    let engine = match said.get("containers") {
        Some(_) => engine::from_gateway(&said),
        None => engine::ask(home, config.as_ref()).await,
    };
    let stored = StoredState::read(home);
    let engines = match known(&said, "engines") {
        Some(engines) => Some(engines),
        None => engine::others(home, config.as_ref(), &stored.placed).await,
    };
    warnings.extend(engine::warnings(engines.as_ref()));
    // Without a gateway it is what the last one has written.
    let storage = known(&said, "storage").or_else(|| storage::written(home, config.as_ref(), &mut warnings));
    warnings.extend(storage::warnings(storage.as_ref()));
    warnings.extend(config.iter().flat_map(|config| missing_files(home, config)));
    warnings.extend(missing_packages(home, &said));
    let agents = config.as_ref().map(|config| agents(home, config, &stored, &said)).unwrap_or_default();
    warnings.extend(agent_warnings(home, config.as_ref(), &agents));
    warnings.extend(interrupted_rollback(home));
    let database = DatabasePlace::of(home).map_err(|error| warnings.push(chain(&error))).ok();
    let backup = BackupRecord::read(home).map_err(|error| warnings.push(chain(&error))).ok().flatten();
    let unwritable = write_check::unwritable(home);
    warnings.extend(unwritable.iter().map(|error| chain(error)));
    warnings.extend(home_warnings(home, config.as_ref(), served, &said));
    let mut report = StatusReport {
        home: home.root().to_owned(),
        format,
        newer_home: format.is_some_and(|format| format > FORMAT),
        version: env!("CARGO_PKG_VERSION"),
        writable: unwritable.is_none(),
        database,
        build: env!("FLOCK_VERSION"),
        running: gateway.proven,
        url: served.map(|port| crate::cli::start::url(Some(port))),
        measured_at: clock::unix_ms(),
        supervisor: supervisor.map(|status| SupervisorReport {
            figures: None,
            pid: status.pid,
            version: status.version,
            started_at: status.started_at,
            foreground: status.foreground,
        }),
        gateway,
        openclaw,
        frozen: stored.frozen.home().cloned(),
        agents,
        team: known(&said, "team"),
        parked: known(&said, "parked"),
        bridges: known(&said, "bridges"),
        projects: known(&said, "projects"),
        races: known(&said, "races"),
        mcp_servers: known(&said, "mcpServers"),
        schedules: known(&said, "schedules"),
        skills: known(&said, "skills"),
        hooks: known(&said, "hooks"),
        people: known(&said, "people"),
        dashboard: known(&said, "dashboard"),
        telemetry: known(&said, "telemetry"),
        gateways: known(&said, "gateways"),
        search_index: known(&said, "searchIndex"),
        storage,
        backup: backup.map(|record| record.shown()),
        engines,
        engine,
        approvals_waiting: stored.approvals_waiting,
        unread: [stored.unread, unread_by_gateway(&said)].concat(),
        warnings,
    };
    measure_processes(&mut report);
    report
}

/// Returns a part of what the gateway has said, unless it is `null`.
pub(super) fn known(said: &Value, part: &str) -> Option<Value> {
    said.get(part).filter(|part| !part.is_null()).cloned()
}

/// Returns the parts that the gateway could not read.
fn unread_by_gateway(said: &Value) -> Vec<Unread> {
    serde_json::from_value(said["unread"].clone()).unwrap_or_default()
}

/// Returns what needs attention about the agents and their settings.
fn agent_warnings(home: &Home, config: Option<&Config>, agents: &[AgentReport]) -> Vec<String> {
    let paused = agents.iter().filter_map(|agent| agent.paused.as_ref()?["reason"].as_str());
    let mut warnings: Vec<String> = paused
        .map(|reason| {
            format!(
                "{reason}; to see the usage: flock usage; to raise the budget: flock config set \
                 plugins.entries.flock.config.budgets JSON"
            )
        })
        .collect();
    warnings
        .extend(settings::unread(home).iter().map(|unread| format!("{}; flock ignores it", unread.text())));
    for agent in config.iter().flat_map(|config| &config.agents) {
        let files = identity::unread(&agent.identity, &agent.workspace);
        // OpenClaw writes its own identity files into its workspaces, so those are no surprise.
        if agent.runtime != crate::openclaw::RUNTIME && !files.is_empty() {
            let names: Vec<String> = files.iter().map(|file| file.found.display().to_string()).collect();
            warnings.push(format!(
                "these files are not read: {}; `flock doctor` names the files that are read instead",
                names.join(", ")
            ));
        }
    }
    let refused = config.map(|config| settings::refused(home, config)).unwrap_or_default();
    warnings.extend(refused.iter().map(|error| format!("{error}: the agent can run no command")));
    warnings
}

/// Returns a warning for each agent that waits for files of a lost engine.
fn missing_files(home: &Home, config: &Config) -> Vec<String> {
    let missing = Checkpoints::all_missing_files(home, config).into_iter();
    missing.map(|found| to_mend(&found.message, Some(&found.hint))).collect()
}

/// Returns a warning for each agent of this gateway whose packages are in the store of another one. Packages that the gateway
/// installs at this moment need nobody.
fn missing_packages(home: &Home, said: &Value) -> Vec<String> {
    let own = said["gateways"].as_array().into_iter().flatten().find(|gateway| gateway["own"] == true);
    let agents = own.and_then(|own| own["agents"].as_array()).into_iter().flatten();
    let agents = agents.filter_map(|agent| agent.as_str()?.parse::<AgentId>().ok());
    let warning = |agent: AgentId| {
        let found = nix_store::missing_packages(home, &agent)?;
        let installing = &said["installingPackages"];
        let names: Vec<&str> = match installing["agent"] == agent.as_str() {
            true => {
                installing["packages"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
            }
            false => Vec::new(),
        };
        Some(match names.is_empty() {
            true => to_mend(&found.message, Some(&found.hint)),
            false => format!("{}; the gateway is installing {}", found.message, names.join(" ")),
        })
    };
    agents.filter_map(warning).collect()
}

/// Returns the warning about a rollback that was killed.
fn interrupted_rollback(home: &Home) -> Option<String> {
    let is_held = || matches!(Lock::is_held(&home.rollback_lock()), Ok(true));
    match pending_rollback::read(home) {
        Ok(Some(pending)) if !is_held() => Some(format!(
            "the rollback to generation {} was interrupted; the next command that changes the home completes it, such as \
             flock generations",
            pending.to
        )),
        Ok(_) => None,
        Err(error) => Some(chain(&error)),
    }
}

/// Returns what needs attention about the gateway's configuration and flock itself.
fn home_warnings(home: &Home, config: Option<&Config>, served: Option<u16>, said: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Some(problem) = said["config"]["problem"].as_str() {
        warnings.push(format!("the gateway still uses an older configuration: {problem}"));
    }
    // A gateway on another port works, but a person has to restart it to get the configured port.
    if let (Some(config), Some(port)) = (config, served)
        && config.port != port
    {
        warnings.push(team::port_message(port, config.port));
    }
    if PendingProgramChange::interrupted(home).is_some() {
        warnings.push("an update of flock itself was interrupted; flock update --self ends it".to_owned());
    }
    warnings
}

/// Adds what the processes use.
fn measure_processes(report: &mut StatusReport) {
    let mut units = vec![&mut report.gateway.unit];
    units.extend(report.openclaw.as_mut().map(|openclaw| &mut openclaw.unit));
    let supervisor = report.supervisor.as_ref().map(|supervisor| supervisor.pid);
    let pids: Vec<i32> = units.iter().filter_map(|unit| unit.pid).chain(supervisor).collect();
    // One scan of the process table serves all of them.
    let used = resource_usage::of(&pids);
    for unit in units {
        unit.figures = unit.pid.and_then(|pid| used.get(&pid).copied());
    }
    if let Some(supervisor) = &mut report.supervisor {
        supervisor.figures = used.get(&supervisor.pid).copied();
    }
    report.gateway.cpu_percent = cpu_percent(&report.gateway);
}

/// Returns the CPU time over the whole life of the process, in percent of one core, rounded down to a tenth.
fn cpu_percent(gateway: &GatewayReport) -> Option<f64> {
    let (used, life) = (gateway.unit.figures?.cpu_ms, gateway.uptime_ms.filter(|life| *life > 0)?);
    let tenths = used.saturating_mul(1000) / u64::try_from(life).ok()?;
    Some(f64::from(u32::try_from(tenths).ok()?) / 10.0)
}

async fn ask_gateway(home: &Home, config: &Config, port: u16) -> Result<Health, HealthError> {
    let identity =
        HomeIdentity { instance: instance::read(home).unwrap_or_default(), token: config.token.clone() };
    health::ask(port, &identity, TIMEOUT).await
}

/// Asks the gateway for its own status. It has proved its identity, so it gets the token.
async fn ask_gateway_status(config: &Config, port: u16, probe: bool, warnings: &mut Vec<String>) -> Value {
    let client = Client::new(port).with_token(&config.token);
    if probe {
        let sandboxed = config.agents.iter().filter(|agent| agent.sandbox == SandboxMode::All);
        let client = &client;
        let probes = sandboxed.map(|agent| async move {
            let call = Call::post(&format!("/api/agents/{}/probe", agent.id));
            let error = client.ask(call, PROBE_TIMEOUT).await.err()?;
            Some(format!("{}: {}", agent.id, chain(&error)))
        });
        // The results of the probes are in the status that is asked for next. Only the failures to probe are taken
        // here.
        warnings.extend(futures_util::future::join_all(probes).await.into_iter().flatten());
    }
    match client.get_json("/api/status", STATUS_TIMEOUT).await {
        Ok(said) => said,
        Err(error) => {
            warnings.push(format!("failed to get the status of the gateway: {}", chain(&error)));
            Value::Null
        }
    }
}

fn gateway(
    home: &Home,
    unit: Option<&UnitStatus>,
    found: Option<Result<Health, HealthError>>,
    port: Option<u16>,
    said: &Value,
) -> GatewayReport {
    let mut gateway =
        GatewayReport { unit: UnitReport::of(home, GATEWAY, unit, port), ..GatewayReport::default() };
    match found {
        Some(Ok(health)) => {
            gateway.proven = true;
            gateway.healthy = health.reason.is_none();
            // A gateway without a supervisor is known only by its own answer.
            gateway.unit.pid = gateway.unit.pid.or(Some(health.pid));
            gateway.version = Some(health.version);
            gateway.started_at = Some(health.started_at);
            let uptime = said["uptimeMs"].as_i64();
            gateway.uptime_ms = uptime.or(Some(clock::unix_ms() - health.started_at * 1000));
            if unit.is_none() {
                "unsupervised".clone_into(&mut gateway.unit.state);
            }
            if let Some(reason) = health.reason {
                "unhealthy".clone_into(&mut gateway.unit.state);
                gateway.problem = Some(reason);
            }
        }
        // If nothing should run, it is no problem that nothing listens.
        Some(Err(HealthError::Loopback(error))) if error.is_refused() && unit.is_none() => {}
        Some(Err(error)) => gateway.problem = Some(chain(&error)),
        None => {}
    }
    gateway.turns = said.get("turns").cloned();
    gateway.sessions = said.get("sessions").and_then(Value::as_u64);
    gateway
}

fn agents(home: &Home, config: &Config, stored: &StoredState, said: &Value) -> Vec<AgentReport> {
    let catalog = Catalog::new(home.clone());
    let describe = |agent: &config::Agent| {
        let problem = model_problem::of_agent(agent, config, &catalog);
        let can_work = problem.is_none();
        let found = problem.or_else(|| model_problem::of_fallbacks(agent, config, &catalog));
        let (warning, hint) = found.map(|found| (Some(found.message), found.hint)).unwrap_or_default();
        AgentReport {
            id: agent.id.to_string(),
            role: agent.role.as_str(),
            runtime: agent.runtime.clone(),
            model: agent.model.as_ref().map(ToString::to_string),
            scripted: agent.model.as_ref().is_some_and(crate::id::ModelRef::is_script),
            sandbox: match agent.sandbox {
                _ if agent.runs_on_host() => "host",
                SandboxMode::All => "docker",
                SandboxMode::Off => "off",
            },
            frozen: stored.frozen.of(&agent.id).cloned(),
            asleep: stored.asleep.get(&agent.id).cloned(),
            paused: said["paused"].get(agent.id.as_str()).cloned(),
            can_work,
            warning,
            hint,
        }
    };
    config.agents.iter().map(describe).collect()
}

/// Time that each source may take to report its state.
pub(super) const TIMEOUT: Duration = Duration::from_secs(2);
/// Time for the gateway's own status, in which it waits for three seconds for its database.
const STATUS_TIMEOUT: Duration = Duration::from_secs(5);
/// Time that making and probing a sandbox may take.
const PROBE_TIMEOUT: Duration = Duration::from_secs(120);

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn packages_are_missed_for_the_agents_of_this_gateway_only() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().join("home"), None);
        home.make_folders().unwrap();
        instance::settle(&home).unwrap();
        for agent in ["ada", "bob"] {
            let agent: AgentId = agent.parse().unwrap();
            std::fs::create_dir_all(home.agent(&agent)).unwrap();
            std::fs::write(home.package_list(&agent), r#"{"wanted":["jq"]}"#).unwrap();
        }
        let gateways =
            [json!({"own": false, "agents": ["ada"]}), json!({"own": true, "agents": ["bob", "cat"]})];
        let found = missing_packages(&home, &json!({"gateways": gateways}));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("packages of bob are not in the store"), "{found:?}");
        assert!(found[0].ends_with(": jq; to mend it: flock nix install bob jq"), "{found:?}");
        let installing = json!({"agent": "bob", "packages": ["jq"]});
        let said = json!({"gateways": gateways, "installingPackages": installing});
        let found = missing_packages(&home, &said);
        assert!(found[0].ends_with(": jq; the gateway is installing jq"), "{found:?}");
        assert!(missing_packages(&home, &Value::Null).is_empty());
    }
}
