//! `flock restart`: starts the supervisor and its processes again, with the environment and the program of the caller.

use std::time::Duration;

use serde_json::json;

use super::{Context, Exit, Failure, service, settings, start, stop};
use crate::config;
use crate::home::Home;
use crate::supervise::control::{ControlConnection, ControlRequest, SupervisorStatus};
use crate::supervise::halt::halt_with_notices;
use crate::supervise::restart::SupervisionLimits;
use crate::supervise::unit::GATEWAY;
use crate::ui::{StyledLine, TextStyle};

/// Restart the gateway and OpenClaw, or start them
///
/// Restarts the supervisor, too, with the present environment and the present version of flock, so that it finds
/// programs that were installed since its start. A supervisor that a service manager runs is not restarted and keeps
/// both. The command that restarts its service is shown.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

/// Restarts everything and returns when the gateway answers.
///
/// # Errors
///
/// Returns an error if the gateway does not become healthy.
pub(crate) fn run(_args: &Args, context: &Context) -> Result<Exit, Failure> {
    let home = context.writable_home()?;
    // The configuration is checked before anything is stopped: an invalid one must not end a gateway that runs.
    let config = config::read(&home)?;
    home.make_folders()?;
    start::settle(&home, context)?;
    settings::warn_of_ignored(&home, context);
    let progress = start::openclaw_progress(&home, &config, context);
    let is_held = context
        .block_on(async { Ok(supervisor_status(&home).await.is_some_and(|found| found.foreground)) })?;
    let status = context.block_on(async {
        // A supervisor in the foreground belongs to a service manager, and only that may stop it.
        if !is_held {
            let tell = |notice| context.printer.warn(&stop::notice_text(notice));
            halt_with_notices(&home, &SupervisionLimits::default(), &tell).await?;
        }
        start::ensure_running(&home, &config, ControlRequest::Restart).await
    })?;
    drop(progress);
    let unit = status.unit(GATEWAY);
    let url = start::url(unit.and_then(|unit| unit.port));
    if context.printer.is_json() {
        let pid = unit.and_then(|unit| unit.pid);
        context.printer.json(&json!({"running": true, "url": url, "pid": pid, "supervisorPid": status.pid}));
    } else {
        context.printer.say(StyledLine::new().with(TextStyle::Good, "gateway").plain(" is up again"));
        context.printer.line(url.as_str());
    }
    if is_held {
        let mend = service::restart_command(&home).unwrap_or_else(|| "restart its service".to_owned());
        context.printer.warn(&format!(
            "a service manager runs the supervisor, which keeps its environment and its version of flock; to renew \
             them: {mend}"
        ));
    }
    start::openclaw_failure(&status).map_or(Ok(Exit::Done), Err)
}

async fn supervisor_status(home: &Home) -> Option<SupervisorStatus> {
    let mut connection = ControlConnection::open(home).await.ok()?;
    connection.ask(ControlRequest::Status, Duration::from_secs(5)).await.ok()?.status
}
