//! `flock channel read`: prints or follows the messages of a channel.

use serde_json::Value;

use super::backend::ChannelBackend;
use super::{follow, show};
use crate::cli::{Context, Exit, Failure};
use crate::gateway::channels::MessageQuery;
use crate::id::ChannelId;

/// Show the messages of a channel
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Id of the channel
    id: ChannelId,
    /// Show messages after this number
    #[arg(long, value_name = "NUMBER", conflicts_with_all = ["before", "search"])]
    after: Option<u64>,
    /// Show messages before this number
    #[arg(long, value_name = "NUMBER", conflicts_with_all = ["search", "follow"])]
    before: Option<u64>,
    /// Number of messages to show, at most 200
    #[arg(short = 'n', long, value_name = "NUMBER", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=200))]
    limit: u32,
    /// Show messages that contain all these words
    #[arg(long, value_name = "WORDS", conflicts_with = "follow")]
    search: Option<String>,
    /// Print new messages as they arrive, until Ctrl-C
    #[arg(short, long)]
    follow: bool,
}

/// Prints messages, the oldest first.
///
/// # Errors
///
/// Returns an error if there is no such channel, or if it can't be read.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let home = context.home()?;
    let reading = MessageQuery {
        after: args.after,
        before: args.before,
        limit: Some(args.limit),
        q: args.search.clone(),
    };
    context.block_on(async {
        // Opening the backend first also reports a gateway that runs but can't be used.
        let mut backend = ChannelBackend::open(home).await?;
        if args.follow {
            return follow::follow(&mut backend, &args.id, reading, &context.printer).await;
        }
        let answer = backend.read(&args.id, &reading).await?;
        if context.printer.is_json() {
            context.printer.json(&answer);
        } else {
            print_messages(&answer, args, context);
        }
        Ok(Exit::Done)
    })
}

fn print_messages(answer: &Value, args: &Args, context: &Context) {
    let printer = &context.printer;
    let messages = answer["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    // The messages arrive oldest first, so the newest one ends up beside the prompt.
    messages.iter().for_each(|message| show::message(message, printer));
    if messages.is_empty() {
        printer.say("there are no messages");
    }
    // The numbers for the next command are given only if there are more messages in that direction.
    if let Some(before) = answer["before"].as_u64() {
        printer.say(format!("earlier messages: flock channel read {} --before {before}", args.id));
    }
    if let Some(after) = answer["after"].as_u64() {
        printer.say(format!("later messages: flock channel read {} --after {after}", args.id));
    }
}
