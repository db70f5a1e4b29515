//! `flock stop`: stops the supervisor, the gateway, everything they started, and this home's containers.

use std::net::{Ipv4Addr, TcpListener};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::json;

use super::{Context, Exit, Failure, team};
use crate::config;
use crate::error::{Kind, chain};
use crate::home::lock::Lock;
use crate::home::{Home, HomeError};
use crate::openclaw::sandboxes;
use crate::process::{ProcessId, table};
use crate::sandbox::engine::Engine;
use crate::sandbox::kubernetes::relocation;
use crate::sandbox::{SandboxError, containers};
use crate::supervise::halt::{self, HaltNotice, HaltResult};
use crate::supervise::health::{self, HomeIdentity};
use crate::supervise::orphans;
use crate::supervise::port;
use crate::supervise::restart::SupervisionLimits;
use crate::ui::progress::span;
use crate::ui::{StyledLine, TextStyle};

/// Stop the gateway, its supervisor and the containers of this home
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

/// Stops everything of the home. It succeeds if nothing runs.
///
/// # Errors
///
/// Returns an error that names the processes and containers which could not be stopped.
pub(crate) fn run(_args: &Args, context: &Context) -> Result<Exit, Failure> {
    let home = context.home()?;
    let began = Instant::now();
    let progress =
        // If nothing runs, the command is over at once and shows no progress.
        Lock::is_held(&home.supervisor_lock())?.then(|| context.printer.progress("stopping flock"));
    let exit = context.block_on(async {
        let halted = stop_unsupervised(&home, halt(&home, context).await?).await;
        let mut left = still_there(&home, &halted);
        let containers = containers(&home, &mut left, context).await;
        left.extend(port_holder(&home, &halted));
        print_result(&halted, &containers, &left, began, context)
    });
    drop(progress);
    exit
}

/// Ends everything that runs of a home, also a gateway that was started by hand.
///
/// # Errors
///
/// Returns an error if the supervisor's lock can't be examined. Processes that could not be ended are in the result.
pub(crate) async fn end(home: &Home) -> Result<HaltResult, HomeError> {
    Ok(stop_unsupervised(home, halt::halt(home, &SupervisionLimits::default()).await?).await)
}

/// Stops the supervisor and what it runs, and tells the person why it takes long.
///
/// # Errors
///
/// Returns an error if the supervisor's lock can't be examined.
pub(crate) async fn halt(home: &Home, context: &Context) -> Result<HaltResult, HomeError> {
    let tell = |notice| context.printer.warn(&notice_text(notice));
    halt::halt_with_notices(home, &SupervisionLimits::default(), &tell).await
}

fn notice_text(notice: HaltNotice) -> String {
    match notice {
        HaltNotice::StandsStill(supervisor) => format!(
            "the supervisor (pid {}) is stopped by a signal or a debugger; flock kills it",
            supervisor.pid
        ),
        HaltNotice::Silent(supervisor, left) => format!(
            "the supervisor (pid {}) does not answer; if it still does not answer in {} seconds, flock kills it",
            supervisor.pid,
            left.as_secs()
        ),
    }
}

/// Returns what of the home's processes still runs after they were to end.
///
/// A gateway that was started by hand is found only at the configured port. If that was changed meanwhile, its lock is
/// all that shows it, and nobody knows its pid.
pub(crate) fn still_there(home: &Home, halted: &HaltResult) -> Vec<String> {
    let mut left: Vec<String> = halted.survivors.iter().map(|one| describe(*one)).collect();
    if left.is_empty() && halted.lock.is_some() && team::lives(home) {
        left.push(
            "a gateway that no supervisor runs and that does not answer; end it where it was started"
                .to_owned(),
        );
    }
    left
}

/// Ends a gateway that was started by hand. It has proved that it is this home's.
async fn stop_unsupervised(home: &Home, mut halted: HaltResult) -> HaltResult {
    let Ok(config) = config::read(home) else { return halted };
    let Ok(identity) = HomeIdentity::of(home, &config) else { return halted };
    let Ok(health) = health::ask(config.port, &identity, IDENTITY_TIMEOUT).await else { return halted };
    // The process is identified by its start time too, so that a new process with the same PID is not killed.
    let Some(gateway) = ProcessId::of(health.pid) else { return halted };
    halted.was_running = true;
    for signal in [Signal::SIGTERM, Signal::SIGKILL] {
        // The process may have ended. Then there is nothing more to do.
        let _ = table::signal(gateway, signal);
        if orphans::gone(&[gateway], GRACE_PERIOD).await.is_empty() {
            return halted;
        }
    }
    halted.survivors.push(gateway);
    halted
}

fn print_result(
    halted: &HaltResult,
    containers: &[String],
    left: &[String],
    began: Instant,
    context: &Context,
) -> Result<Exit, Failure> {
    require_stopped(halted, left).map_err(|failure| failure.hint("flock status"))?;
    let stopped = halted.was_running || !containers.is_empty();
    let value = json!({"stopped": stopped, "orderly": halted.orderly, "containers": containers});
    context.printer.if_json(&value);
    context.printer.say(if stopped {
        let time = format!(" in {}", span(began.elapsed()));
        StyledLine::new().with(TextStyle::Good, "stopped").plain(time)
    } else {
        "nothing is running".into()
    });
    Ok(Exit::Done)
}

/// Returns an error if something still runs.
///
/// # Errors
///
/// Returns an error that names what is `left`, or the supervisor if only its lock shows that it lives.
pub(crate) fn require_stopped(halted: &HaltResult, left: &[String]) -> Result<(), Failure> {
    // Without the lock a supervisor may still be alive, even if no process of it was found.
    if left.is_empty() && halted.lock.is_some() {
        return Ok(());
    }
    let names = if left.is_empty() { "the supervisor".to_owned() } else { left.join(", ") };
    Err(Failure::new(Kind::Failed, format!("still running: {names}")))
}

/// Stops containers that still run.
///
/// A gateway stops them when it is asked to stop, but a killed one could not. Returns the containers stopped here and
/// adds those that could not be stopped to `left`.
async fn containers(home: &Home, left: &mut Vec<String>, context: &Context) -> Vec<String> {
    let engine = Engine::from_env();
    let mut ended = Vec::new();
    // Without an engine no container can run.
    if engine.client().is_ok() {
        let removed = sandboxes::remove_all(&engine, home).await;
        ended.extend(removed.map_err(|error| warn(&error, context)).unwrap_or_default());
        ended.extend(stop_in(&engine, home, left, context).await);
    }
    for engine in team::other_engines(home) {
        // One that does not answer is not waited for any longer.
        match engine.ping().await {
            Ok(()) => ended.extend(stop_in(&engine, home, left, context).await),
            Err(error) => warn(&error, context),
        }
    }
    for placed in team::clusters(home) {
        let removed = match placed.client.ping().await {
            Ok(_) => relocation::remove_pods(&placed, home).await,
            Err(error) => Err(error),
        };
        ended.extend(removed.map_err(|error| warn(&error, context)).unwrap_or_default());
    }
    ended
}

/// Stops the containers that still run in one engine, and returns those that were stopped.
async fn stop_in(engine: &Engine, home: &Home, left: &mut Vec<String>, context: &Context) -> Vec<String> {
    let running = containers::running(engine, home).await;
    let running = running.map_err(|error| warn(&error, context)).unwrap_or_default();
    if running.is_empty() {
        return Vec::new();
    }
    // The second listing shows which of them did not stop, so errors are not needed here.
    let _ = containers::stop_all(engine, home).await;
    let Ok(still) = containers::running(engine, home).await.map_err(|error| warn(&error, context)) else {
        return Vec::new();
    };
    left.extend(still.iter().map(|name| format!("container {name}")));
    running.into_iter().filter(|name| !still.contains(name)).collect()
}

fn warn(error: &SandboxError, context: &Context) {
    context.printer.warn(&format!("failed to check if containers still run: {}", chain(error)));
}

/// Returns the process of this home that still holds the gateway's port.
fn port_holder(home: &Home, halted: &HaltResult) -> Option<String> {
    let port = config::read(home).ok()?.port;
    if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
        return None;
    }
    let holder = port::holder(port)?;
    // A program of somebody else on this port is no failure of `flock stop`.
    let ours = halted.survivors.iter().any(|one| one.pid == holder.pid);
    ours.then(|| format!("port {port}, held by {} (pid {})", holder.name, holder.pid))
}

/// Formats a process, such as `flock (pid 42)`.
pub(crate) fn describe(process: ProcessId) -> String {
    let name = fs_err::read_to_string(format!("/proc/{}/comm", process.pid)).unwrap_or_default();
    format!("{} (pid {})", if name.trim().is_empty() { "a process" } else { name.trim() }, process.pid)
}

/// Time that a process on the port may take to identify itself.
const IDENTITY_TIMEOUT: Duration = Duration::from_secs(2);
/// Time that a gateway may take to stop after a signal.
const GRACE_PERIOD: Duration = Duration::from_secs(45);
