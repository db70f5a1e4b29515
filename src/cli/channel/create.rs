//! `flock channel create`: creates a channel.

use super::{AuthorArg, backend, show};
use crate::cli::reconnect::Repeat;
use crate::cli::{Context, Exit, Failure};
use crate::gateway::channels::CreateChannel;
use crate::id::{ChannelId, Party};
use crate::supervise::gateway_client::Call;
use crate::ui::{StyledLine, TextStyle};

/// Create a channel
///
/// The agents among its members are told at once. You become a member only if you name yourself, but you can read and
/// write in any case.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Example:
  flock channel create fizzbuzz --topic \"A FizzBuzz in Python\" --member coder --member tester")]
pub(crate) struct Args {
    /// Id of the channel: letters, digits and '-', at most 64 characters
    id: ChannelId,
    /// Topic of the channel, at most 500 characters
    #[arg(long)]
    topic: String,
    /// Member to add, an agent or human:NAME; can be given more than once
    #[arg(long = "member", value_name = "MEMBER")]
    members: Vec<Party>,
    /// First message to post
    #[arg(long, value_name = "TEXT")]
    message: Option<String>,
    #[command(flatten)]
    by: AuthorArg,
}

/// Creates the channel.
///
/// # Errors
///
/// Returns an error if the id is taken, if a member does not exist, or if the topic is not valid.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let home = context.writable_home()?;
    let new = CreateChannel {
        id: args.id.clone(),
        topic: args.topic.clone(),
        members: args.members.clone(),
        message: args.message.clone(),
        name: Some(args.by.name()),
    };
    // The route checks the topic and the members. A repeated request would be refused, because the channel then exists.
    let call = Call::post("/api/channels").json(&new)?;
    let made = backend::change(&home, context, call, Repeat::Unsent)?;
    let line = StyledLine::new().with(TextStyle::Good, "made").plain(" ").accent(format!("#{}", args.id));
    // The members are those of the channel as it was made.
    context.printer.result(&made, line.plain(format!(" with {}", show::names(&made["members"], 20))));
    Ok(Exit::Done)
}
