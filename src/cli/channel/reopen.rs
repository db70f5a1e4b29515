//! `flock channel reopen`.

use super::As;
use super::archive::step;
use crate::cli::{Context, Exit, Failure};
use crate::gateway::channels::Action;
use crate::id::ChannelId;

/// Open an archived channel again
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The channel
    id: ChannelId,
    #[command(flatten)]
    by: As,
}

/// Opens the channel.
///
/// # Errors
///
/// If there is no such channel, or it is not archived.
pub fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    step(&args.id, Action::Reopen, &args.by, context)
}
