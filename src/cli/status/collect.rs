//! Collects the state from its sources: the supervisor, the gateway, the system, and Docker if no gateway runs.

use std::time::Duration;

use serde_json::{Value, json};

use super::openclaw;
use super::report::{AgentReport, DockerReport, GatewayReport, StatusReport, SupervisorReport};
use super::unit::UnitReport;
use crate::agent::identity;
use crate::cli::{programs, settings, team, write_check};
use crate::clock;
use crate::config::{self, Config, SandboxMode};
use crate::error::{Explain as _, chain};
use crate::home::{FORMAT, Home, instance, version};
use crate::install::self_update::pending_change::PendingProgramChange;
use crate::provider::catalog::Catalog;
use crate::sandbox::engine::Engine;
use crate::sandbox::image::{self, Recipe};
use crate::sandbox::{containers, names};
use crate::store::{FreezeState, Reader, RequestState};
use crate::supervise::control::{ControlConnection, ControlRequest, SupervisorStatus, UnitStatus};
use crate::supervise::gateway_client::{Call, Client};
use crate::supervise::health::{self, Health, HealthError, HomeIdentity};
use crate::supervise::resource_usage;
use crate::supervise::unit::{GATEWAY, OPENCLAW};

/// Returns the present state of the home. Each source has a short timeout, so that a hanging one does not delay the
/// rest.
pub async fn collect(home: &Home, probe: bool) -> StatusReport {
    let mut warnings = Vec::new();
    // Each unreadable part becomes a warning. A status has to work best when something is broken.
    let format = version::read(home).unwrap_or_else(|error| {
        warnings.push(chain(&error));
        None
    });
    let config = config::read(home).map_err(|error| warnings.push(chain(&error))).ok();
    let supervisor = ask_supervisor(home).await;
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
    let beside = supervisor.as_ref().and_then(|status| status.unit(OPENCLAW));
    let openclaw = openclaw::collect(home, config.as_ref(), beside).await;
    // A running gateway has just asked the engine itself, so it is not asked twice.
    let engines = match said.get("containers") {
        Some(_) => docker_from_gateway(&said),
        None => ask_docker(home, config.as_ref()).await,
    };
    let others =
        [supervisor.as_ref().map(|status| status.pid), openclaw.as_ref().and_then(|one| one.unit.pid)];
    let pids: Vec<i32> = gateway.unit.pid.into_iter().chain(others.into_iter().flatten()).collect();
    // One scan of the process table serves all of them.
    let used = resource_usage::of(&pids);
    let frozen = team::frozen(home);
    let agents = config.as_ref().map(|config| agents(home, config, &frozen, &said)).unwrap_or_default();
    for agent in &agents {
        if let Some(reason) = agent.paused.as_ref().and_then(|paused| paused["reason"].as_str()) {
            warnings.push(format!(
                "{reason}; to see the usage: flock usage; to raise the budget: flock config set \
                 plugins.entries.flock.config.budgets JSON"
            ));
        }
    }
    warnings
        .extend(settings::unread(home).iter().map(|unread| format!("{}; flock ignores it", unread.text())));
    let refused = config.as_ref().map(|config| settings::refused(home, config)).unwrap_or_default();
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
    warnings.extend(refused.iter().map(|error| format!("{error}: the agent can run no command")));
    let unwritable = write_check::unwritable(home);
    if let Some(error) = &unwritable {
        warnings.push(chain(error));
    }
    if let Some(problem) = said["config"]["problem"].as_str() {
        warnings.push(format!("the gateway still uses an older configuration: {problem}"));
    }
    // A gateway on another port works, but a person has to restart it to get the configured port.
    if let (Some(config), Some(port)) = (&config, port.filter(|_| gateway.proven))
        && config.port != port
    {
        warnings.push(team::port_message(port, config.port));
    }
    if PendingProgramChange::interrupted(home).is_some() {
        warnings.push("an update of flock itself was interrupted; flock update --self ends it".to_owned());
    }
    let mut report = StatusReport {
        home: home.root().to_owned(),
        format,
        newer_home: format.is_some_and(|format| format > FORMAT),
        version: env!("CARGO_PKG_VERSION"),
        writable: unwritable.is_none(),
        build: env!("FLOCK_VERSION"),
        running: gateway.proven,
        url: port.filter(|_| gateway.proven).map(|port| crate::cli::start::url(Some(port))),
        measured_at: clock::unix_ms(),
        supervisor: supervisor.map(|status| SupervisorReport {
            figures: used.get(&status.pid).copied(),
            pid: status.pid,
            version: status.version,
            started_at: status.started_at,
            foreground: status.foreground,
        }),
        gateway,
        openclaw,
        frozen: frozen.home().cloned(),
        agents,
        team: said.get("team").filter(|team| !team.is_null()).cloned(),
        docker: engines.docker,
        containers: engines.containers,
        images: engines.images,
        store: engines.store,
        approvals_waiting: approvals_waiting(home),
        warnings,
    };
    // The figures are copied last, when all process ids are known.
    for unit in [Some(&mut report.gateway.unit), report.openclaw.as_mut().map(|openclaw| &mut openclaw.unit)]
    {
        let Some(unit) = unit else { continue };
        unit.figures = unit.pid.and_then(|pid| used.get(&pid).copied());
    }
    report.gateway.cpu_percent = cpu_percent(&report.gateway);
    report
}

/// Returns the number of requests that wait for a person, or `None` if the database can't be read.
fn approvals_waiting(home: &Home) -> Option<usize> {
    // A home without a database has no requests.
    let Some(reader) = Reader::open(home).ok()? else { return Some(0) };
    let open = reader.requests(true, u32::MAX).ok()?;
    Some(open.iter().filter(|row| row.state == RequestState::Waiting).count())
}

/// Returns the CPU time over the whole life of the process, in percent of one core, rounded down to a tenth.
fn cpu_percent(gateway: &GatewayReport) -> Option<f64> {
    let (used, life) = (gateway.unit.figures?.cpu_ms, gateway.uptime_ms.filter(|life| *life > 0)?);
    let tenths = used.saturating_mul(1000) / u64::try_from(life).ok()?;
    Some(f64::from(u32::try_from(tenths).ok()?) / 10.0)
}

async fn ask_supervisor(home: &Home) -> Option<SupervisorStatus> {
    let mut connection = ControlConnection::open(home).await.ok()?;
    connection.ask(ControlRequest::Status, TIMEOUT).await.ok()?.status
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
        let probes =
            sandboxed.map(|agent| {
                let call = Call::post(&format!("/api/agents/{}/probe", agent.id));
                let client = &client;
                async move {
                    client.ask(call, PROBE_TIMEOUT).await.err().map(|error| (agent.id.to_string(), error))
                }
            });
        // The results of the probes are in the status that is asked for next. Only the failures to probe are taken
        // here.
        for (id, error) in futures_util::future::join_all(probes).await.into_iter().flatten() {
            warnings.push(format!("{id}: {}", chain(&error)));
        }
    }
    match client.get_json("/api/status", TIMEOUT).await {
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

fn agents(home: &Home, config: &Config, frozen: &FreezeState, said: &Value) -> Vec<AgentReport> {
    let asleep = team::asleep(home);
    let catalog = Catalog::new(home.clone());
    let mut describe = |agent: &config::Agent| {
        // On the host the program may ask the model with its own login.
        let trouble = match programs::has_own_login(agent) {
            true => None,
            false => agent.models().find_map(|model| catalog.describe(model, config).err()),
        };
        let none = agent.model.is_none();
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
            frozen: frozen.of(&agent.id).cloned(),
            asleep: asleep.get(&agent.id).cloned(),
            paused: said["paused"].get(agent.id.as_str()).cloned(),
            warning: match &trouble {
                Some(error) => Some(chain(error)),
                None => none.then(|| "it has no model".to_owned()),
            },
            hint: match &trouble {
                Some(error) => error.hint(),
                None => {
                    none.then(|| "flock config set agents.defaults.model.primary PROVIDER/MODEL".to_owned())
                }
            },
        }
    };
    config.agents.iter().map(&mut describe).collect()
}

/// Returns the state of the engine as the gateway reported it.
fn docker_from_gateway(said: &Value) -> Engines {
    let known = |key: &str| said.get(key).filter(|value| !value.is_null()).cloned();
    Engines {
        docker: DockerReport {
            reachable: said["docker"]["reachable"].as_bool().or(Some(true)),
            problem: said["docker"]["problem"].as_str().map(str::to_owned),
            hint: said["docker"]["hint"].as_str().map(str::to_owned),
        },
        containers: known("containers"),
        images: known("images"),
        store: known("store"),
    }
}

/// Asks the engine itself if no gateway runs.
async fn ask_docker(home: &Home, config: Option<&Config>) -> Engines {
    let engine = Engine::from_env();
    let listed = match tokio::time::timeout(TIMEOUT, containers::list(&engine, home)).await {
        Ok(listed) => listed,
        Err(_) => Err(engine.silent("list containers", TIMEOUT)),
    };
    let found = match listed {
        Ok(found) => found,
        Err(error) => {
            let docker =
                DockerReport { reachable: Some(false), problem: Some(chain(&error)), hint: error.hint() };
            return Engines { docker, ..Engines::default() };
        }
    };
    let mut images = Vec::new();
    for recipe in config.iter().flat_map(|_| Recipe::ALL) {
        let reference = config.map(|config| image::reference(home, config, recipe)).unwrap_or_default();
        let present = tokio::time::timeout(TIMEOUT, image::id(&engine, &reference)).await;
        let present = present.ok().and_then(Result::ok).map(|id| id.is_some());
        images.push(json!({"image": reference, "present": present}));
    }
    let store = names::store(home);
    let state = found.iter().find(|one| one.name == store).map_or("absent", |one| one.state.as_str());
    let store = json!({"container": store, "state": state, "volume": names::store_volume(home), "builds": crate::nix::confinement()});
    let describe = |one: &containers::Container| {
        json!({
            "name": one.name,
            "agent": one.agent,
            "state": one.state,
            "status": one.status,
            "createdAt": one.created_at,
            "runtime": one.runtime,
            // Only the gateway keeps the results of probes.
            "probe": null,
        })
    };
    Engines {
        docker: DockerReport { reachable: Some(true), ..DockerReport::default() },
        containers: Some(found.iter().map(describe).collect::<Vec<_>>().into()),
        images: Some(images.into()),
        store: Some(store),
    }
}

/// The state of the engine and of what this home has in it.
#[derive(Default)]
struct Engines {
    docker: DockerReport,
    containers: Option<Value>,
    images: Option<Value>,
    store: Option<Value>,
}

/// Time that each source may take to report its state.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Time that making and probing a sandbox may take.
const PROBE_TIMEOUT: Duration = Duration::from_secs(120);
