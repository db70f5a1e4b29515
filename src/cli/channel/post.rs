//! `flock channel post`: posts a message.

use std::io::IsTerminal as _;

use super::{AuthorArg, backend};
use crate::cli::reconnect::Repeat;
use crate::cli::{Context, Exit, Failure, person};
use crate::error::Kind;
use crate::gateway::channels::PostMessage;
use crate::id::ChannelId;
use crate::supervise::gateway_client::Call;
use crate::swarm::channel::MAX_MESSAGE;
use crate::ui::{StyledLine, TextStyle};

/// Post a message to a channel
///
/// The agents who are members are notified at once. @AGENT in the message mentions one agent, and @all mentions all.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  flock channel post fizzbuzz \"@coder please write it\"
  flock channel post fizzbuzz - < plan.md")]
pub(crate) struct Args {
    /// Id of the channel
    id: ChannelId,
    /// Message to post, or "-" for stdin [default: stdin, if it is not a terminal]
    #[arg(allow_hyphen_values = true)]
    text: Option<String>,
    /// Wake no agent: members get the message along with the next one that wakes them
    #[arg(long)]
    no_notify: bool,
    #[command(flatten)]
    by: AuthorArg,
}

const HINT: &str = "write the text to a file in a workspace and post the name of the file";

/// Posts the message.
///
/// # Errors
///
/// Returns an error if there is no such channel, if it is archived, or if the text is empty or too long.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let home = context.writable_home()?;
    let content = match args.text.as_deref() {
        Some("-") => person::stdin(MAX_MESSAGE as u64, HINT)?,
        Some(text) => text.to_owned(),
        // Reading from a terminal would look like a command that hangs. The error below shows the right form instead.
        None if std::io::stdin().is_terminal() => String::new(),
        None => person::stdin(MAX_MESSAGE as u64, HINT)?,
    };
    if content.trim().is_empty() {
        return Err(Failure::new(Kind::Usage, "the message is empty")
            .hint(format!("flock channel post {} TEXT", args.id)));
    }
    // The gateway refuses such a message too. Checking here saves sending it and gives a hint.
    if content.len() > MAX_MESSAGE {
        let text = format!("the message has {} bytes; the limit is {MAX_MESSAGE}", content.len());
        return Err(Failure::new(Kind::Usage, text).hint(HINT));
    }
    let say = PostMessage {
        content,
        name: Some(args.by.name()),
        notify: args.no_notify.then_some(false),
        files: Vec::new(),
    };
    let call = Call::post(&format!("/api/channels/{}/messages", args.id)).json(&say)?;
    // A repeated request could post the message twice, so only an unsent one is sent again.
    let said = backend::change(&home, context, call, Repeat::Unsent)?;
    let line =
        StyledLine::new().with(TextStyle::Good, "posted").plain(" to ").accent(format!("#{}", args.id));
    context.printer.result(&said, line.plain(format!(" as message {}", said["seq"])));
    // Programs find the notes in the document.
    let notes = said["notes"].as_array().filter(|_| !context.printer.is_json());
    for note in notes.into_iter().flatten().filter_map(|note| note.as_str()) {
        context.printer.warn(note);
    }
    Ok(Exit::Done)
}
