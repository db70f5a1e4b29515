//! `flock prompt`: shows what a model is sent.

mod request;
mod show;

use clap::Subcommand;

use super::{Context, Exit, Failure};

/// Show what is sent to a model
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Show(show::Args),
}

/// Runs the verb below `prompt`.
///
/// # Errors
///
/// Returns an error if there is no home, or if the prompt can't be made.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    match &args.verb {
        Verb::Show(args) => show::run(args, context),
    }
}
