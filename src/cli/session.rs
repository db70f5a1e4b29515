//! `flock session`: shows and changes conversations of agents.

mod backend;
mod compact;
mod export;
mod import;
mod list;
mod reset;
mod show;

use clap::Subcommand;

use super::{Context, Exit, Failure};

/// Show, compact, reset, export and import the sessions of agents
///
/// Works without a gateway, too.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    #[command(visible_alias = "ls")]
    List(list::Args),
    Show(show::Args),
    Compact(compact::Args),
    Reset(reset::Args),
    Export(export::Args),
    Import(import::Args),
}

/// Which session.
#[derive(Debug, clap::Args)]
struct SessionArg {
    /// Key of the session, or an agent for your own session with it
    #[arg(value_name = "KEY|AGENT")]
    session: String,
}

/// Runs the verb below `session`.
///
/// # Errors
///
/// Returns an error if there is no home or no such session, or if it can't be read or changed.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    match &args.verb {
        Verb::List(args) => list::run(args, context),
        Verb::Show(args) => show::run(args, context),
        Verb::Compact(args) => compact::run(args, context),
        Verb::Reset(args) => reset::run(args, context),
        Verb::Export(args) => export::run(args, context),
        Verb::Import(args) => import::run(args, context),
    }
}
