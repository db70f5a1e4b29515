//! `flock restart`: starts the supervisor and its processes again, with the environment and the program of the caller.

use serde_json::json;

use super::{Context, Exit, Failure, service, settings, start, stop};
use crate::config;
use crate::supervise::control::{ControlConnection, ControlRequest};
use crate::supervise::unit::GATEWAY;
use crate::ui::{StyledLine, TextStyle};

/// Restart the gateway and OpenClaw, or start them
///
/// Restarts the supervisor, too, with the present environment and the present version of flock, so that it finds
/// programs that were installed since its start. A supervisor that a service manager runs goes on with its old
/// environment and version. The command that restarts its service is shown.
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
    let is_held = context.block_on(async {
        Ok(ControlConnection::status(&home, start::QUICK).await.is_some_and(|found| found.foreground))
    })?;
    let status = context.block_on(async {
        // A supervisor in the foreground belongs to a service manager, and only that may stop it.
        if !is_held {
            stop::halt(&home, context).await?;
        }
        start::ensure_running(&home, &config, ControlRequest::Restart).await
    })?;
    drop(progress);
    let unit = status.unit(GATEWAY);
    let url = start::url(unit.and_then(|unit| unit.port));
    let pid = unit.and_then(|unit| unit.pid);
    let value = json!({"running": true, "url": url, "pid": pid, "supervisorPid": status.pid});
    context.printer.say(StyledLine::new().with(TextStyle::Good, "gateway").plain(" is up again"));
    context.printer.result(&value, url.as_str());
    if is_held {
        let mend = service::restart_command(&home).unwrap_or_else(|| "restart its service".to_owned());
        context.printer.warn(&format!(
            "a service manager runs the supervisor, which keeps its environment and its version of flock; to renew \
             them: {mend}"
        ));
    }
    start::openclaw_failure(&status).map_or(Ok(Exit::Done), Err)
}
