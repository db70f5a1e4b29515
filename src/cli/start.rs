//! `flock start`: starts the supervisor in the background, and with it the gateway.

use std::time::{Duration, Instant};

use serde_json::json;

use super::{Context, Exit, Failure, openclaw, settings, supervise};
use crate::config::{self, Config};
use crate::error::{KERNEL_LOG_HINT, Kind};
use crate::home::{Home, instance};
use crate::openclaw::process::{READY, START};
use crate::supervise::control::{ControlConnection, ControlRequest, SupervisorStatus, UnitStatus};
use crate::supervise::health::HomeIdentity;
use crate::supervise::launch;
use crate::supervise::port;
use crate::supervise::state::UnitState;
use crate::supervise::unit::{GATEWAY, OPENCLAW};
use crate::ui::progress::{Progress, span};
use crate::ui::{StyledLine, TextStyle};

/// Start the gateway in the background and keep it running
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Run in the foreground, for a service manager
    #[arg(long)]
    foreground: bool,
}

/// Starts the gateway and returns when it answers.
///
/// # Errors
///
/// Returns an error if the gateway does not become healthy. Everything that was started for it is stopped again.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let home = context.writable_home()?;
    // An invalid configuration is reported here, where the person sees it, and not in the gateway's log.
    let config = config::read(&home)?;
    // Folders that a person has deleted are made again before the supervisor needs them.
    home.make_folders()?;
    settle(&home, context)?;
    settings::warn_of_ignored(&home, context);
    context.block_on(async {
        if args.foreground {
            run_foreground(&home, context).await
        } else {
            run_background(&home, &config, context).await
        }
    })
}

/// Gives the home an instance id if it has none, or if it has the id of the home that it was copied from.
///
/// # Errors
///
/// Returns an error if the id can't be written.
pub(crate) fn settle(home: &Home, context: &Context) -> Result<(), Failure> {
    match instance::settle(home)? {
        instance::InstanceStatus::Own => {}
        instance::InstanceStatus::Copy => context.printer.say(
            "this home is a copy: it now has an identity of its own, and flock leaves alone what belongs to the \
             other home",
        ),
        instance::InstanceStatus::Nothing => context.printer.warn(&format!(
            "{} was missing or empty: the home has a new identity",
            home.instance().display()
        )),
    }
    Ok(())
}

async fn run_foreground(home: &Home, context: &Context) -> Result<Exit, Failure> {
    match launch::claim(home).await? {
        Some(lock) => supervise::foreground(home, lock, context).await?,
        None => context.printer.say("flock is running already"),
    }
    Ok(Exit::Done)
}

async fn run_background(home: &Home, config: &Config, context: &Context) -> Result<Exit, Failure> {
    let began = Instant::now();
    // A supervisor whose processes are all healthy needs nothing. Any other one is asked to start below.
    if let Some(status) = healthy_status(home).await {
        print_status(&status, "is running already", context);
        return Ok(Exit::Done);
    }
    let progress = openclaw_progress(home, config, context);
    let status = ensure_running(home, config, ControlRequest::Start).await?;
    drop(progress);
    print_status(&status, &format!("is up after {}", span(began.elapsed())), context);
    openclaw_failure(&status).map_or(Ok(Exit::Done), Err)
}

/// Shows that the start waits for OpenClaw, if it does: that takes a while.
pub(crate) fn openclaw_progress(home: &Home, config: &Config, context: &Context) -> Option<Progress> {
    openclaw::is_wanted(home, config).then(|| context.printer.progress("starting the gateway and OpenClaw"))
}

/// Returns the reason for which OpenClaw does not run although it should. Agents that do not need it work all the same.
#[must_use]
pub(crate) fn openclaw_failure(status: &SupervisorStatus) -> Option<Failure> {
    let unit = status.unit(OPENCLAW).filter(|unit| unit.state != UnitState::Healthy)?;
    Some(unit_failure(status, unit))
}

/// Returns the status of a supervisor whose processes are all healthy.
async fn healthy_status(home: &Home) -> Option<SupervisorStatus> {
    ControlConnection::status(home, QUICK).await.filter(SupervisorStatus::is_healthy)
}

/// Makes sure that a supervisor runs, and waits until the gateway is healthy and every other process is healthy or has
/// failed.
///
/// # Errors
///
/// Returns an error with the reason if the gateway does not become healthy. A supervisor that was started for it is
/// stopped again.
pub(crate) async fn ensure_running(
    home: &Home,
    config: &Config,
    want: ControlRequest,
) -> Result<SupervisorStatus, Failure> {
    let limit = if openclaw::is_wanted(home, config) { OPENCLAW_START_TIMEOUT } else { START_TIMEOUT };
    let identity = HomeIdentity::of(home, config)?;
    let port_is_ours = ControlConnection::open(home).await.is_ok();
    // Without a supervisor another program may hold the port. That is worth an error before anything is started.
    if !port_is_ours {
        port::check(home, config.port, &identity).await?;
    }
    // The limit covers the whole start, because a gateway that crashes is started again meanwhile.
    let started = launch::ensure(home, want, limit).await?;
    if started.status.unit(GATEWAY).is_some_and(|unit| unit.state == UnitState::Healthy) {
        return Ok(started.status);
    }
    if started.fresh
        && let Ok(mut connection) = ControlConnection::open(home).await
    {
        // Only a supervisor that this command started is stopped. The error to report does not depend on how that ends.
        let _ = connection.ask(ControlRequest::Stop, START_TIMEOUT).await;
    }
    // A port that another program took meanwhile is a clearer error than the gateway's exit code.
    port::check(home, config.port, &identity).await?;
    Err(failed(&started.status))
}

/// Returns the reason for which a supervised process is not healthy.
#[must_use]
pub(crate) fn failed(status: &SupervisorStatus) -> Failure {
    match status.units.iter().find(|unit| unit.state != UnitState::Healthy) {
        Some(unit) => unit_failure(status, unit),
        None => Failure::new(Kind::Failed, "the supervisor runs no process"),
    }
}

fn unit_failure(status: &SupervisorStatus, unit: &UnitStatus) -> Failure {
    let name = unit_name(unit);
    let none = match unit.state {
        UnitState::Stopped | UnitState::Stopping => "it was stopped",
        _ => "it gave no reason",
    };
    let reason = unit.reason.clone().unwrap_or_else(|| none.to_owned());
    let message = match unit.state {
        UnitState::BreakerOpen => {
            format!("{name} crashed {} times in a row: {reason}", unit.crashes)
        }
        _ => format!("{name} does not run: {reason}"),
    };
    let code = status.units.iter().find_map(|unit| unit.failure.as_deref());
    let kind = code.map_or(Kind::Failed, Kind::of_code);
    // The best hint depends on the kind of failure: a damaged database is not explained by a log.
    let hint = match kind {
        Kind::Damaged => "flock restore".to_owned(),
        Kind::Unreadable => KERNEL_LOG_HINT.to_owned(),
        Kind::Unreachable => {
            "see that the server of the database runs, answers and can be reached, and that store.json has its address"
                .to_owned()
        }
        _ => format!("flock logs {}", unit.name),
    };
    Failure::new(kind, message).hint(hint)
}

/// Returns the name of a supervised process for use in a sentence.
fn unit_name(unit: &UnitStatus) -> String {
    match unit.name.as_str() {
        OPENCLAW => "OpenClaw".to_owned(),
        name => format!("the {name}"),
    }
}

fn print_status(status: &SupervisorStatus, what: &str, context: &Context) {
    let Some(unit) = status.unit(GATEWAY) else { return };
    let url = url(unit.port);
    let openclaw = status.unit(OPENCLAW);
    if context.printer.is_json() {
        context.printer.json(&json!({
            "running": true,
            "already": what.ends_with("already"),
            "url": url,
            "pid": unit.pid,
            "supervisorPid": status.pid,
            "openclaw": openclaw.map(|unit| json!({"state": unit.state, "pid": unit.pid, "port": unit.port})),
        }));
        return;
    }
    let pid = unit.pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default();
    context.printer.say(StyledLine::new().with(TextStyle::Good, "gateway").plain(format!(" {what}{pid}")));
    context.printer.line(url.as_str());
    if let Some(unit) = openclaw.filter(|unit| unit.state == UnitState::Healthy) {
        let pid = unit.pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default();
        context.printer.say(StyledLine::new().with(TextStyle::Good, "OpenClaw").plain(format!(" runs{pid}")));
    }
}

/// Returns the URL of the gateway.
#[must_use]
pub(crate) fn url(port: Option<u16>) -> String {
    format!("http://127.0.0.1:{}", port.unwrap_or(config::model::DEFAULT_PORT))
}

/// Time that a start may take, including crashes and retries.
const START_TIMEOUT: Duration = Duration::from_secs(120);
/// The same with OpenClaw: twice the time that the supervisor gives it for one start, since it may need a second one.
const OPENCLAW_START_TIMEOUT: Duration =
    READY.saturating_add(START).saturating_mul(2).saturating_add(START_TIMEOUT);
/// Time that a running supervisor may take to report its status.
pub(crate) const QUICK: Duration = Duration::from_secs(5);
