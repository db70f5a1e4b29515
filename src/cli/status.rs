//! `flock status`: shows the state of the home, as measured now.

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

/// Measures the state of the home and prints it.
///
/// # Errors
///
/// Returns an error if there is no home. All other problems are part of the output.
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

/// Returns the state of a home, as `--json` prints it. Parts that can't be measured are left out.
pub(super) async fn report(home: &Home) -> Value {
    json!(collect::collect(home, false).await)
}
