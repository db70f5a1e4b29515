//! `flock checkpoint` and `flock checkpoints`: make checkpoints of an agent, and list them.

use std::time::Duration;

use serde_json::{Value, json};

use super::reconnect::{Reconnector, Repeat};
use super::{Context, Exit, Failure, person};
use crate::clock;
use crate::config;
use crate::id::AgentId;
use crate::supervise::gateway_client::Call;
use crate::ui::{StyledLine, Table, TextStyle};

/// Make a checkpoint of an agent
///
/// Keeps the agent's files and packages as they are now, and the place in its conversations. flock also makes one at the start of each
/// turn. `flock rewind` goes back to one. Works without a gateway, too.
#[derive(Debug, clap::Args)]
pub(crate) struct MakeArgs {
    /// Id of the agent
    agent: AgentId,
    /// Purpose of the checkpoint, in one line
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
}

/// List the checkpoints of an agent, newest first
#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    /// Id of the agent
    agent: AgentId,
}

/// Time that a request may take. The first look at a large workspace reads all of it.
pub(super) const TIMEOUT: Duration = Duration::from_secs(600);

/// Makes a checkpoint.
///
/// # Errors
///
/// Returns an error if there is no such agent, or if the checkpoint can't be written.
pub(crate) fn make(args: &MakeArgs, context: &Context) -> Result<Exit, Failure> {
    let home = context.writable_home()?;
    config::read(&home)?.require_agent(&args.agent)?;
    let body = json!({"note": args.note, "by": person::name()});
    let call = Call::post(&format!("/api/agents/{}/checkpoints", args.agent)).json(&body)?;
    // A second checkpoint of the same state does no harm.
    let done = context.block_on(Reconnector::new(&home, context).send(call, Repeat::Safe, TIMEOUT))?;
    let made = &done.answer["checkpoint"];
    let line = StyledLine::new()
        .plain("checkpoint ")
        .accent(made["number"].to_string())
        .plain(format!(" of {}: {} files and folders", args.agent, made["entries"]));
    context.printer.result(&done.answer, line);
    warn(made, context);
    Ok(if made["files"] == true { Exit::Done } else { Exit::Failed(crate::error::Kind::Failed) })
}

/// Says what is missing in a checkpoint.
fn warn(made: &Value, context: &Context) {
    if let Some(problem) = made["problem"].as_str() {
        context.printer.warn(&format!("the files were not kept: {problem}"));
    }
    let names = |list: &Value| -> Vec<String> {
        list.as_array().into_iter().flatten().filter_map(|name| name.as_str().map(str::to_owned)).collect()
    };
    let (left_out, unstable) = (names(&made["leftOut"]), names(&made["unstable"]));
    if !left_out.is_empty() {
        let names = left_out.join(", ");
        context.printer.warn(&format!("not kept, because they are no files, folders or links: {names}"));
    }
    if !unstable.is_empty() {
        context.printer.warn(&format!("changed while they were read: {}", unstable.join(", ")));
    }
}

/// Prints the checkpoints of an agent.
///
/// # Errors
///
/// Returns an error if there is no such agent, or if they can't be read.
pub(crate) fn list(args: &ListArgs, context: &Context) -> Result<Exit, Failure> {
    let home = context.writable_home()?;
    config::read(&home)?.require_agent(&args.agent)?;
    let call = Call::get(&format!("/api/agents/{}/checkpoints", args.agent));
    let done = context.block_on(Reconnector::new(&home, context).send(call, Repeat::Safe, TIMEOUT))?;
    let mut table = Table::new(&["NUMBER", "MADE", "AT", "CHANGED", "FILES", "PACKAGES"]);
    for one in done.answer["checkpoints"].as_array().into_iter().flatten() {
        let reason = match one["reason"].as_str().unwrap_or_default() {
            "turn" => format!("turn of {}", one["session"].as_str().unwrap_or_default()),
            "rewind" => format!("before the rewind to {}", one["to"]),
            _ => match one["note"].as_str() {
                Some(note) => format!("by {}: {note}", one["by"].as_str().unwrap_or_default()),
                None => format!("by {}", one["by"].as_str().unwrap_or_default()),
            },
        };
        let (tone, files) = match one["problem"].as_str() {
            Some(problem) => (TextStyle::Warn, problem.to_owned()),
            None => (TextStyle::Dim, one["entries"].to_string()),
        };
        let packages = match one["packages"].as_u64() {
            None => String::new(),
            Some(0) => "none".to_owned(),
            Some(number) => format!("profile {number}"),
        };
        let changed = one["changed"].as_u64().map(|changed| changed.to_string()).unwrap_or_default();
        table.styled_row(vec![
            (TextStyle::Accent, one["number"].to_string()),
            (TextStyle::Plain, reason),
            (TextStyle::Plain, clock::local(one["at"].as_i64().unwrap_or_default())),
            (TextStyle::Plain, changed),
            (tone, files),
            (TextStyle::Dim, packages),
        ]);
    }
    let none = format!("{} has no checkpoint.", args.agent);
    context.printer.list(&done.answer, &table, none.as_str());
    Ok(Exit::Done)
}
