//! `flock session show`: shows the size of a conversation and its last compaction.

use serde_json::Value;

use super::{SessionArg, backend};
use crate::cli::{Context, Exit, Failure};
use crate::clock;
use crate::ui::{Table, TextStyle};

/// Show how full a session is, and its last compaction
///
/// Tokens are estimated at four bytes each.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  flock session show coder
  flock session show agent:coder:flock:main:ann")]
pub(crate) struct Args {
    #[command(flatten)]
    which: SessionArg,
}

/// Prints the sizes and the last compaction.
///
/// # Errors
///
/// Returns an error if there is no such session, or if it can't be read.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let home = context.home()?;
    let key = backend::key(&args.which.session, &home)?;
    let report = context
        .block_on(async { backend::SessionBackend::open(&home, context).await?.report(&key).await })?;
    if context.printer.is_json() {
        context.printer.json(&report);
        return Ok(Exit::Done);
    }
    let mut table = Table::new(&["WHAT", "TOKENS"]);
    for (name, key) in [
        ("context of the model", "window"),
        ("system prompt", "prompt"),
        ("tools", "tools"),
        ("reserved for the answer", "answer"),
        ("held back, as these are estimates", "heldBack"),
        ("room for the conversation", "room"),
        ("the conversation", "conversation"),
    ] {
        table.styled_row(vec![
            (TextStyle::Plain, name.to_owned()),
            (TextStyle::Plain, report[key].to_string()),
        ]);
    }
    context.printer.line(format!("{key}, {}", report["model"].as_str().unwrap_or_default()));
    context.printer.table(&table);
    show_compaction(&report["compaction"], context);
    Ok(Exit::Done)
}

/// Prints the last compaction, if there was one.
pub(crate) fn show_compaction(compaction: &Value, context: &Context) {
    if compaction.is_null() {
        return;
    }
    context.printer.line(format!(
        "compacted {} times, last at {} from about {} to {} tokens:",
        compaction["number"],
        clock::local(compaction["at"].as_i64().unwrap_or_default()),
        compaction["before"],
        compaction["after"]
    ));
    for key in ["marker", "summary"] {
        // A summary is the text of a model and may have many lines. Each is indented to stand apart from flock's own
        // words.
        for line in compaction[key].as_str().into_iter().flat_map(str::lines) {
            context.printer.line(format!("    {line}"));
        }
    }
}
