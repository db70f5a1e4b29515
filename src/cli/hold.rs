//! `flock hold`: the process between flock and a program on the host; see `process::subreaper`.

use std::ffi::OsString;

use super::{Context, Exit, Failure};
use crate::process::subreaper;

/// Run a program on the host for flock, and end the processes that it leaves
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Mark in the environment of the program, by which its processes are found
    #[arg(long)]
    turn: String,
    /// Program to run, with its arguments
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// Runs the program to its end and returns its exit code.
///
/// # Errors
///
/// Returns an error if this command was not started by flock itself.
pub(crate) fn run(args: &Args, _: &Context) -> Result<Exit, Failure> {
    let held = subreaper::hold(&args.turn, &args.command);
    let failed = |error| {
        Failure::with_cause("failed to run and watch a program", &error)
            .hint("this command is only for flock itself")
    };
    Ok(Exit::Code(held.map_err(failed)?))
}
