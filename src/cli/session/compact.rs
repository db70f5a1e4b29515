//! `flock session compact`: compacts a conversation now.

use serde_json::json;

use super::{SessionArg, backend, show};
use crate::cli::{Context, Exit, Failure};

/// Compact a session now
///
/// The model is then shown the beginning of the conversation, a marker and the newest messages. The transcript keeps
/// everything.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    which: SessionArg,
}

/// Compacts the conversation.
///
/// # Errors
///
/// Returns an error if there is no such session, or if it can't be changed.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let home = context.writable_home()?;
    let key = backend::key(&args.which.session, &home)?;
    let compacted = context
        .block_on(async { backend::SessionBackend::open(&home, context).await?.compact(&key).await })?;
    if context.printer.is_json() {
        context.printer.json(&json!({"key": key, "compacted": compacted}));
    } else if compacted.is_null() {
        context.printer.say("There is nothing to compact: the conversation is short.");
    } else {
        show::show_compaction(&compacted, context);
    }
    Ok(Exit::Done)
}
