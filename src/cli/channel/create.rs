//! `flock channel create`: creates a channel.

use super::desk::Desk;
use super::{As, show};
use crate::cli::{Context, Exit, Failure};
use crate::gateway::channels::Create;
use crate::id::{ChannelId, Party};
use crate::ui::{Line, Tone};

/// Make a channel
#[derive(Debug, clap::Args)]
#[command(after_help = "The agents among its members are told of it at once.\n\
                  You are no member unless you are named, and can read and write all the same.")]
pub struct Args {
    /// Its id: letters, digits and '-'
    id: ChannelId,
    /// What it is about
    #[arg(long)]
    topic: String,
    /// Who takes part, an agent or human:NAME; may be given more than once
    #[arg(long = "member", value_name = "MEMBER")]
    members: Vec<Party>,
    /// What to say first
    #[arg(long, value_name = "TEXT")]
    message: Option<String>,
    #[command(flatten)]
    by: As,
}

/// Creates the channel.
///
/// # Errors
///
/// Returns an error if the id is taken, if a member does not exist, or if the topic is not valid.
pub fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let home = context.home_to_change()?;
    let new = Create {
        id: args.id.clone(),
        topic: args.topic.clone(),
        members: args.members.clone(),
        message: args.message.clone(),
        name: Some(args.by.name()),
    };
    // The topic and the members are checked where the channel is made, in the gateway or in `Desk::here`.
    let made = context.block_on(async { Desk::open(home, context).await?.create(new).await })?;
    if context.printer.json_wanted() {
        context.printer.json(&made);
    } else {
        let line = Line::new().with(Tone::Good, "made").plain(" ").accent(format!("#{}", args.id));
        // The members are those of the channel as it was made.
        context.printer.line(line.plain(format!(" with {}", show::names(&made["members"], 20))));
    }
    Ok(Exit::Done)
}
