//! `flock status`: how the home stands, as measured now.

mod bundle;
mod collect;
mod report;
mod show;
mod unit;

use super::{Context, Exit, Failure};
use crate::error::Kind;

/// Show how the gateway, the agents and their sandboxes stand
///
/// What is shown was measured, not configured: the gateway has proved that it is this home's, and the
/// result of a probe comes with its age. Ends with exit code 4 when the gateway does not run.
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
    Ok(if report.running { Exit::Done } else { Exit::Failed(Kind::NotRunning) })
}
