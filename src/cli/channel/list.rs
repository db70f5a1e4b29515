//! `flock channel list`: lists the channels.

use serde_json::Value;

use super::backend::ChannelBackend;
use super::show;
use crate::cli::{Context, Exit, Failure};
use crate::gateway::channels::ChannelFilter;
use crate::id::Party;

/// List the channels
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Show only channels of this member, an agent or human:NAME
    #[arg(long)]
    member: Option<Party>,
    /// Also list archived channels
    #[arg(long)]
    all: bool,
}

/// Prints the channels.
///
/// # Errors
///
/// Returns an error if there is no home, or if its channels can't be read.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let home = context.home()?;
    let mut answer = context.block_on(async {
        let backend = ChannelBackend::open(home).await?;
        backend.list(&ChannelFilter { member: args.member.clone(), state: None }).await
    })?;
    let printer = &context.printer;
    let mut archived = 0;
    // The filter is applied here, so that the number of hidden channels can be printed.
    if let Some(Value::Array(all)) = answer.get_mut("channels") {
        let before = all.len();
        all.retain(|channel| args.all || channel["state"] != "archived");
        archived = before - all.len();
    }
    if printer.is_json() {
        printer.json(&answer);
        return Ok(Exit::Done);
    }
    match answer["channels"].as_array() {
        Some(all) if !all.is_empty() => show::channels(all, printer),
        _ => printer.say("there is no channel; make one with `flock channel create ID --topic TOPIC`"),
    }
    if archived > 0 {
        printer.say(format!("{archived} archived, shown with --all"));
    }
    Ok(Exit::Done)
}
