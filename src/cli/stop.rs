//! `flock stop`: stops the supervisor, the gateway, everything they started, and this home's containers.

use std::net::{Ipv4Addr, TcpListener};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use super::{Context, Exit, Failure, team};
use crate::config;
use crate::error::{Kind, chain};
use crate::home::lock::Lock;
use crate::home::{Home, HomeError, instance};
use crate::openclaw::sandboxes;
use crate::process::ProcessId;
use crate::sandbox::engine::Engine;
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
        let halted = stop_with_notices(&home, &|notice| context.printer.warn(&notice_text(notice))).await?;
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
    stop_with_notices(home, &|_| ()).await
}

async fn stop_with_notices(home: &Home, tell: &dyn Fn(HaltNotice)) -> Result<HaltResult, HomeError> {
    let mut halted = halt::halt_with_notices(home, &SupervisionLimits::default(), tell).await?;
    stop_unsupervised(home, &mut halted).await;
    Ok(halted)
}

pub(super) fn notice_text(notice: HaltNotice) -> String {
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
async fn stop_unsupervised(home: &Home, halted: &mut HaltResult) {
    let Ok(config) = config::read(home) else { return };
    let Ok(instance) = instance::read(home) else { return };
    let identity = HomeIdentity { instance, token: config.token.clone() };
    let Ok(health) = health::ask(config.port, &identity, IDENTITY_TIMEOUT).await else { return };
    // The process is identified by its start time too, so that a new process with the same PID is not killed.
    let Some(gateway) = ProcessId::of(health.pid) else { return };
    halted.was_running = true;
    for signal in [Signal::SIGTERM, Signal::SIGKILL] {
        if gateway.is_alive() {
            // The process may end between the check and the signal. Then there is nothing more to do.
            let _ = kill(Pid::from_raw(gateway.pid), signal);
        }
        if orphans::gone(&[gateway], GRACE_PERIOD).await.is_empty() {
            return;
        }
    }
    halted.survivors.push(gateway);
}

fn print_result(
    halted: &HaltResult,
    containers: &[String],
    left: &[String],
    began: Instant,
    context: &Context,
) -> Result<Exit, Failure> {
    // Without the lock a supervisor may still be alive, even if no process of it was found.
    if !left.is_empty() || halted.lock.is_none() {
        let names = if left.is_empty() { "the supervisor".to_owned() } else { left.join(", ") };
        return Err(Failure::new(Kind::Failed, format!("still running: {names}")).hint("flock status"));
    }
    let stopped = halted.was_running || !containers.is_empty();
    if context.printer.is_json() {
        context.printer.json(&json!({
            "stopped": stopped,
            "orderly": halted.orderly,
            "containers": containers,
        }));
    } else if stopped {
        let line = StyledLine::new()
            .with(TextStyle::Good, "stopped")
            .plain(format!(" in {}", span(began.elapsed())));
        context.printer.say(line);
    } else {
        context.printer.say("nothing is running");
    }
    Ok(Exit::Done)
}

/// Stops containers that still run.
///
/// A gateway stops them when it is asked to stop, but a killed one could not. Returns the containers stopped here and
/// adds those that could not be stopped to `left`.
async fn containers(home: &Home, left: &mut Vec<String>, context: &Context) -> Vec<String> {
    let engine = Engine::from_env();
    // Without an engine no container can run.
    if engine.client().is_err() {
        return Vec::new();
    }
    let trouble = |error: &SandboxError| {
        let text = chain(error);
        context.printer.warn(&format!("failed to check if containers still run: {text}"));
    };
    let mut ended = match sandboxes::remove_all(&engine, home).await {
        Ok(names) => names,
        Err(error) => {
            trouble(&error);
            Vec::new()
        }
    };
    let running = match containers::running(&engine, home).await {
        Ok(running) if running.is_empty() => return ended,
        Ok(running) => running,
        Err(error) => {
            trouble(&error);
            return ended;
        }
    };
    // The second listing shows which of them did not stop, so errors are not needed here.
    let _ = containers::stop_all(&engine, home).await;
    match containers::running(&engine, home).await {
        Ok(still) => {
            left.extend(still.iter().map(|name| format!("container {name}")));
            ended.extend(running.into_iter().filter(|name| !still.contains(name)));
        }
        Err(error) => trouble(&error),
    }
    ended
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
