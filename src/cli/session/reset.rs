//! `flock session reset`: starts a conversation anew.

use serde_json::json;

use super::{SessionArg, backend};
use crate::cli::{Context, Exit, Failure};

/// Start a session anew
///
/// The model is not shown earlier messages again. The transcript keeps them.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    which: SessionArg,
}

/// Resets the session.
///
/// # Errors
///
/// Returns an error if there is no such session, or if it can't be changed.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let home = context.writable_home()?;
    let key = backend::key(&args.which.session, &home)?;
    context.block_on(async { backend::SessionBackend::open(&home, context).await?.reset(&key).await })?;
    context.printer.if_json(&json!({"key": key, "reset": true}));
    context.printer.say(format!("{key} begins anew"));
    Ok(Exit::Done)
}
