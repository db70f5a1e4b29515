//! `flock stop`: the supervisor, the gateway and all they started, and this home's containers.

use std::net::{Ipv4Addr, TcpListener};
use std::time::Instant;

use serde_json::json;

use super::{Context, Exit, Failure};
use crate::config;
use crate::error::Kind;
use crate::home::Home;
use crate::process::ProcessId;
use crate::sandbox::engine::Engine;
use crate::sandbox::owned;
use crate::supervise::halt::{self, Halted};
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
    context.block_on(async {
        let halted = halt::halt(&home, &Limits::default()).await?;
        let mut left: Vec<String> = halted.survivors.iter().map(|one| describe(*one)).collect();
        let containers = containers(&home, &mut left, context).await;
        left.extend(port_holder(&home, &halted));
        report(&halted, &containers, &left, began, context)
    })
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
/// killed did not get to it. Names what would not stop.
async fn containers(home: &Home, left: &mut Vec<String>, context: &Context) -> Vec<String> {
    let engine = Engine::from_env();
    let mut stopped = Vec::new();
    // Without an engine no container runs.
    let Ok(running) = owned::running(&engine, home).await else { return stopped };
    for container in running {
        match owned::stop(&engine, &container).await {
            Ok(()) => stopped.push(container),
            Err(error) => {
                context.printer.detail(crate::error::chain(&error).as_str());
                left.push(format!("container {container}"));
            }
        }
    }
    stopped
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

fn describe(process: ProcessId) -> String {
    let name = fs_err::read_to_string(format!("/proc/{}/comm", process.pid)).unwrap_or_default();
    format!("{} (pid {})", if name.trim().is_empty() { "a process" } else { name.trim() }, process.pid)
}
