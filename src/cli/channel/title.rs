//! `flock channel rename` and `flock channel topic`: change the shown name or the topic of a channel.

use serde_json::Value;

use super::{AuthorArg, backend};
use crate::cli::reconnect::Repeat;
use crate::cli::{Context, Exit, Failure};
use crate::gateway::channels::RenameChannel;
use crate::id::ChannelId;
use crate::supervise::gateway_client::Call;
use crate::ui::{StyledLine, TextStyle};

/// Change the name that people see of a channel
///
/// The id stays the same. Commands, agents and links keep using it.
#[derive(Debug, clap::Args)]
pub(crate) struct RenameArgs {
    /// Id of the channel
    id: ChannelId,
    /// New name, at most 80 characters
    #[arg(value_name = "NAME")]
    title: String,
    #[command(flatten)]
    by: AuthorArg,
}

/// Change the topic of a channel
#[derive(Debug, clap::Args)]
pub(crate) struct TopicArgs {
    /// Id of the channel
    id: ChannelId,
    /// New topic, at most 500 characters
    topic: String,
    #[command(flatten)]
    by: AuthorArg,
}

/// Changes the shown name.
///
/// # Errors
///
/// Returns an error if there is no such channel, if it is archived, or if the name is empty or too long.
pub(crate) fn rename(args: &RenameArgs, context: &Context) -> Result<Exit, Failure> {
    // Only the field that is set changes. The other one keeps its value.
    let change = RenameChannel { title: Some(args.title.clone()), topic: None, name: Some(args.by.name()) };
    let changed = apply_change(&args.id, &change, context)?;
    print_change(&changed, "is now called", "name", context);
    Ok(Exit::Done)
}

/// Changes the topic.
///
/// # Errors
///
/// Returns an error if there is no such channel, if it is archived, or if the topic is empty or too long.
pub(crate) fn topic(args: &TopicArgs, context: &Context) -> Result<Exit, Failure> {
    let change = RenameChannel { title: None, topic: Some(args.topic.clone()), name: Some(args.by.name()) };
    let changed = apply_change(&args.id, &change, context)?;
    print_change(&changed, "is now about", "topic", context);
    Ok(Exit::Done)
}

fn apply_change(id: &ChannelId, change: &RenameChannel, context: &Context) -> Result<Value, Failure> {
    let home = context.writable_home()?;
    let call = Call::put(&format!("/api/channels/{id}")).json(change)?;
    backend::change(&home, context, call, Repeat::Safe)
}

fn print_change(channel: &Value, what: &str, key: &str, context: &Context) {
    let text = |key: &str| channel[key].as_str().unwrap_or_default();
    let line = StyledLine::new().with(TextStyle::Accent, format!("#{}", text("channelId")));
    // The text is printed quoted, so that its beginning and end are visible.
    context.printer.result(channel, line.plain(format!(" {what} {:?}", text(key))));
}
