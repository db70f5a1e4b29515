//! `flock restart`: the gateway anew; it is started where it does not run.

use std::time::Duration;

use serde_json::json;

use super::{Context, Exit, Failure, start};
use crate::config;
use crate::home::Home;
use crate::supervise::control::{Connection, Request};
use crate::supervise::halt::halt;
use crate::supervise::restart::Limits;
use crate::supervise::unit::GATEWAY;
use crate::ui::{Line, Tone};

/// Restart the gateway and OpenClaw, or start them
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Restarts the gateway and returns when it answers.
///
/// # Errors
///
/// If it does not get healthy.
pub fn run(_args: &Args, context: &Context) -> Result<Exit, Failure> {
    let home = context.home_to_change()?;
    // A configuration that the gateway could not start with must not cost the one that runs.
    let config = config::read(&home)?;
    home.make_folders()?;
    let progress = start::wait_for_openclaw(&home, &config, context);
    let status = context.block_on(async {
        if is_outdated(&home).await {
            halt(&home, &Limits::default()).await?;
        }
        start::up(&home, &config, Request::Restart).await
    })?;
    drop(progress);
    let unit = status.unit(GATEWAY);
    let url = start::url(unit.and_then(|unit| unit.port));
    if context.printer.json_wanted() {
        let pid = unit.and_then(|unit| unit.pid);
        context.printer.json(&json!({"running": true, "url": url, "pid": pid, "supervisorPid": status.pid}));
    } else {
        context.printer.say(Line::new().with(Tone::Good, "gateway").plain(" is up again"));
        context.printer.line(url.as_str());
    }
    start::without_openclaw(&status).map_or(Ok(Exit::Done), Err)
}

/// Whether the supervisor that runs is another version's: then it is replaced as well. One that a service
/// manager holds is left to that.
async fn is_outdated(home: &Home) -> bool {
    let Ok(mut connection) = Connection::open(home).await else { return false };
    let reply = connection.ask(Request::Status, Duration::from_secs(5)).await;
    let status = reply.ok().and_then(|reply| reply.status);
    status.is_some_and(|status| !status.foreground && status.version != env!("CARGO_PKG_VERSION"))
}
