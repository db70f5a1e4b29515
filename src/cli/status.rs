//! `flock status`: shows the state of the home, as measured now.

mod collect;
mod engine;
mod openclaw;
mod report;
mod show;
mod storage;
mod unit;

use serde_json::{Value, json};

use super::{Context, Exit, Failure};
use crate::error::Kind;
use crate::home::Home;

/// Show the state of the gateway, the agents and their sandboxes
///
/// The values are measured when the command runs, not read from the configuration. The gateway must prove that it
/// belongs to this home. The result of a probe is shown with its age.
///
/// Exits with code 4 if the gateway does not run. Exits with code 1 if the gateway runs and can't do its work, if
/// files can't be written in the home, or if a part of the state can't be read.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Probe every sandbox now, from inside
    #[arg(long)]
    probe: bool,
}

/// Measures the state of the home and prints it.
///
/// # Errors
///
/// Returns an error if there is no home. All other problems are part of the output.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let home = context.home()?;
    let report = context.block_on(async { Ok(collect::collect(&home, args.probe).await) })?;
    if context.printer.is_json() {
        context.printer.json(&report);
    } else {
        show::show(&report, context);
    }
    let is_well = report.gateway.healthy && report.writable && report.unread.is_empty();
    Ok(match (report.running, is_well) {
        (false, _) => Exit::Failed(Kind::NotRunning),
        (true, false) => Exit::Failed(Kind::Failed),
        (true, true) => Exit::Done,
    })
}

/// Returns the state of a home, as `--json` prints it. Parts that can't be measured are left out.
pub(super) async fn report(home: &Home) -> Value {
    json!(collect::collect(home, false).await)
}
