//! `flock channel reopen`: opens an archived channel again.

use super::AuthorArg;
use super::archive::step;
use crate::cli::{Context, Exit, Failure};
use crate::id::ChannelId;
use crate::swarm::archive::ArchiveAction;

/// Reopen an archived channel
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Id of the channel
    id: ChannelId,
    #[command(flatten)]
    by: AuthorArg,
}

/// Reopens the channel.
///
/// # Errors
///
/// Returns an error if there is no such channel, or if it is not archived.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    step(&args.id, ArchiveAction::Reopen, &args.by, context)
}
