//! `flock status`: how the home stands, as measured now.

mod bundle;
mod collect;
mod report;
mod show;
mod unit;

use serde_json::{Value, json};

use super::{Context, Exit, Failure};
use crate::error::Kind;
use crate::home::Home;

/// Show how the gateway, the agents and their sandboxes stand
///
/// What is shown was measured, not configured: the gateway has proved that it is this home's, and the
/// result of a probe comes with its age. Ends with exit code 4 when the gateway does not run,
/// and with 1 when it runs and can't do its work, or nothing can be written in the home.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Probe the sandboxes now, from inside
    #[arg(long)]
    probe: bool,
}

/// Shows how things stand.
///
/// # Errors
///
/// If there is no home. Whatever else is wrong is part of what is shown.
pub fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let home = context.home()?;
    let report = context.block_on(async { Ok(collect::collect(&home, args.probe).await) })?;
    if context.printer.json_wanted() {
        context.printer.json(&report);
    } else {
        show::show(&report, context);
    }
    Ok(match (report.running, report.gateway.healthy && report.writable) {
        (false, _) => Exit::Failed(Kind::NotRunning),
        (true, false) => Exit::Failed(Kind::Failed),
        (true, true) => Exit::Done,
    })
}

/// How a home stands, as `--json` prints it. What can't be asked is not in it.
pub(super) async fn report(home: &Home) -> Value {
    json!(collect::collect(home, false).await)
}
