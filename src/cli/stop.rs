//! `flock stop`: the supervisor, the gateway and all they started, and this home's containers.

use std::net::{Ipv4Addr, TcpListener};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use super::{Context, Exit, Failure};
use crate::config;
use crate::error::{Kind, chain};
use crate::home::lock::Lock;
use crate::home::{Home, HomeError, instance};
use crate::openclaw::sandboxes;
use crate::process::ProcessId;
use crate::sandbox::engine::Engine;
use crate::sandbox::{SandboxError, owned};
use crate::supervise::halt::{self, Halted, Notice};
use crate::supervise::health::{self, Identity};
use crate::supervise::leftover;
use crate::supervise::port;
use crate::supervise::restart::Limits;
use crate::ui::progress::span;
use crate::ui::{Line, Tone};

/// Stop the gateway, its supervisor and the containers of this home
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Stops everything of the home. To stop nothing is fine.
///
/// # Errors
///
/// If something would not end; it is named.
pub fn run(_args: &Args, context: &Context) -> Result<Exit, Failure> {
    let home = context.home()?;
    let began = Instant::now();
    let progress =
        Lock::is_held(&home.supervisor_lock())?.then(|| context.printer.progress("stopping flock"));
    let exit = context.block_on(async {
        let halted = end_telling(&home, &|notice| context.printer.warn(&notice_text(notice))).await?;
        let mut left: Vec<String> = halted.survivors.iter().map(|one| describe(*one)).collect();
        let containers = containers(&home, &mut left, context).await;
        left.extend(port_holder(&home, &halted));
        report(&halted, &containers, &left, began, context)
    });
    drop(progress);
    exit
}

/// Ends what runs of a home, a gateway that somebody runs by hand too.
///
/// # Errors
///
/// If the supervisor's lock can't be looked at. What would not end is in the result.
pub async fn end(home: &Home) -> Result<Halted, HomeError> {
    end_telling(home, &|_| ()).await
}

async fn end_telling(home: &Home, tell: &dyn Fn(Notice)) -> Result<Halted, HomeError> {
    let mut halted = halt::halt_telling(home, &Limits::default(), tell).await?;
    unsupervised(home, &mut halted).await;
    Ok(halted)
}

pub(super) fn notice_text(notice: Notice) -> String {
    match notice {
        Notice::StandsStill(supervisor) => format!(
            "the supervisor (pid {}) stands still, stopped by a signal or a debugger: it is killed",
            supervisor.pid
        ),
        Notice::Silent(supervisor, left) => format!(
            "the supervisor (pid {}) does not answer; it is killed if it still does not after {} seconds",
            supervisor.pid,
            left.as_secs()
        ),
    }
}

/// Ends a gateway that somebody runs by hand: it has proved that it is this home's.
async fn unsupervised(home: &Home, halted: &mut Halted) {
    let Ok(config) = config::read(home) else { return };
    let Ok(instance) = instance::read(home) else { return };
    let identity = Identity { instance, token: config.token.clone() };
    let Ok(health) = health::ask(config.port, &identity, QUICK).await else { return };
    let Some(gateway) = ProcessId::of(health.pid) else { return };
    halted.was_running = true;
    for signal in [Signal::SIGTERM, Signal::SIGKILL] {
        if gateway.is_alive() {
            let _ = kill(Pid::from_raw(gateway.pid), signal);
        }
        if leftover::gone(&[gateway], GRACE).await.is_empty() {
            return;
        }
    }
    halted.survivors.push(gateway);
}

fn report(
    halted: &Halted,
    containers: &[String],
    left: &[String],
    began: Instant,
    context: &Context,
) -> Result<Exit, Failure> {
    if !left.is_empty() || halted.lock.is_none() {
        let names = if left.is_empty() { "the supervisor".to_owned() } else { left.join(", ") };
        return Err(Failure::new(Kind::Failed, format!("still there: {names}")).hint("flock status"));
    }
    let stopped = halted.was_running || !containers.is_empty();
    if context.printer.json_wanted() {
        context.printer.json(&json!({
            "stopped": stopped,
            "orderly": halted.orderly,
            "containers": containers,
        }));
    } else if stopped {
        let line = Line::new().with(Tone::Good, "stopped").plain(format!(" in {}", span(began.elapsed())));
        context.printer.say(line);
    } else {
        context.printer.say("nothing is running");
    }
    Ok(Exit::Done)
}

/// Stops containers that still run: the gateway stops them when it is asked to stop, but one that was
/// killed did not get to it. Gives back those that were stopped here; names what would not stop.
async fn containers(home: &Home, left: &mut Vec<String>, context: &Context) -> Vec<String> {
    let engine = Engine::from_env();
    // Without an engine no container runs.
    if engine.client().is_err() {
        return Vec::new();
    }
    let trouble = |error: &SandboxError| {
        let text = chain(error);
        context.printer.warn(&format!("whether containers still run could not be seen: {text}"));
    };
    let mut ended = match sandboxes::remove_all(&engine, home).await {
        Ok(names) => names,
        Err(error) => {
            trouble(&error);
            Vec::new()
        }
    };
    let running = match owned::running(&engine, home).await {
        Ok(running) if running.is_empty() => return ended,
        Ok(running) => running,
        Err(error) => {
            trouble(&error);
            return ended;
        }
    };
    // Which of them would not stop is seen afterwards.
    let _ = owned::stop_all(&engine, home).await;
    match owned::running(&engine, home).await {
        Ok(still) => {
            left.extend(still.iter().map(|name| format!("container {name}")));
            ended.extend(running.into_iter().filter(|name| !still.contains(name)));
        }
        Err(error) => trouble(&error),
    }
    ended
}

/// Who of this home still holds the gateway's port.
fn port_holder(home: &Home, halted: &Halted) -> Option<String> {
    let port = config::read(home).ok()?.port;
    if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
        return None;
    }
    let holder = port::holder(port)?;
    let ours = halted.survivors.iter().any(|one| one.pid == holder.pid);
    ours.then(|| format!("port {port}, held by {} (pid {})", holder.name, holder.pid))
}

/// As in `flock (pid 42)`.
pub fn describe(process: ProcessId) -> String {
    let name = fs_err::read_to_string(format!("/proc/{}/comm", process.pid)).unwrap_or_default();
    format!("{} (pid {})", if name.trim().is_empty() { "a process" } else { name.trim() }, process.pid)
}

/// How long what listens on the port may take to say who it is.
const QUICK: Duration = Duration::from_secs(2);
/// How long a gateway may take to stop in order.
const GRACE: Duration = Duration::from_secs(45);
