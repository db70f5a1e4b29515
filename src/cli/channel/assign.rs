//! `flock channel assign`: changes the members of a channel.

use super::{AuthorArg, backend, show};
use crate::cli::reconnect::Repeat;
use crate::cli::{Context, Exit, Failure};
use crate::gateway::channels::ChangeMembers;
use crate::id::{ChannelId, Party};
use crate::supervise::gateway_client::Call;

/// Add members to a channel, or remove them
///
/// New members are told at once and get the last 50 messages. The other members are told along with the next message.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("change").required(true).multiple(true))]
pub(crate) struct Args {
    /// Id of the channel
    id: ChannelId,
    /// Member to add, an agent or human:NAME; can be given more than once
    #[arg(long, value_name = "MEMBER", group = "change")]
    add: Vec<Party>,
    /// Member to remove, an agent or human:NAME; can be given more than once
    #[arg(long, value_name = "MEMBER", group = "change")]
    remove: Vec<Party>,
    #[command(flatten)]
    by: AuthorArg,
}

/// Adds and removes members.
///
/// # Errors
///
/// Returns an error if there is no such channel, if it is archived, or if a member does not exist.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let home = context.writable_home()?;
    let change =
        ChangeMembers { add: args.add.clone(), remove: args.remove.clone(), name: Some(args.by.name()) };
    let call = Call::post(&format!("/api/channels/{}/members", args.id)).json(&change)?;
    // Adding a member twice or removing one twice changes nothing, so the request may be repeated.
    let done = backend::change(&home, context, call, Repeat::Safe)?;
    let (joined, left) = (show::names(&done["joined"], 20), show::names(&done["left"], 20));
    context.printer.result(&done, format!("#{}: joined: {joined}; left: {left}", args.id));
    Ok(Exit::Done)
}
