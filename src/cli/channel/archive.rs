//! `flock channel archive`: begins, completes or cancels the archiving of a channel.

use super::{AuthorArg, backend, show};
use crate::cli::reconnect::Repeat;
use crate::cli::{Context, Exit, Failure};
use crate::gateway::channels::ArchiveRequest;
use crate::id::ChannelId;
use crate::supervise::gateway_client::Call;
use crate::swarm::archive::ArchiveAction;

/// Archive a channel
///
/// Asks the agents who are members to review the channel, to save what they need, and to say that they are ready. The
/// channel is archived when all of them are ready, or after one hour. It can then be read, but nothing can be added.
/// Run the command again to see which agents it waits for.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Id of the channel
    id: ChannelId,
    /// Archive the channel at once, even if agents are not ready
    #[arg(long)]
    force: bool,
    /// Cancel the archiving
    #[arg(long, conflicts_with = "force")]
    cancel: bool,
    #[command(flatten)]
    by: AuthorArg,
}

/// Begins, forces or cancels the archiving.
///
/// # Errors
///
/// Returns an error if there is no such channel, or if there is no archiving to cancel.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let action = match (args.force, args.cancel) {
        (true, _) => ArchiveAction::Force,
        (false, true) => ArchiveAction::Cancel,
        (false, false) => ArchiveAction::Begin,
    };
    step(&args.id, action, &args.by, context)
}

/// Does one step of the archive protocol and prints the state of the channel after it.
///
/// # Errors
///
/// Returns an error if there is no such channel, or if its state does not allow the step.
pub(crate) fn step(
    id: &ChannelId,
    action: ArchiveAction,
    by: &AuthorArg,
    context: &Context,
) -> Result<Exit, Failure> {
    let home = context.writable_home()?;
    let step = ArchiveRequest { action, name: Some(by.name()) };
    let call = Call::post(&format!("/api/channels/{id}/archive")).json(&step)?;
    let done = backend::change(&home, context, call, Repeat::Safe)?;
    context.printer.result(&done, show::standing(&done));
    Ok(Exit::Done)
}
