//! `flock rewind`: sets an agent back to a checkpoint.

use serde_json::{Value, json};

use super::checkpoint::TIMEOUT;
use super::reconnect::{Reconnector, Repeat};
use super::{Context, Exit, Failure, person};
use crate::clock;
use crate::config;
use crate::error::Kind;
use crate::id::AgentId;
use crate::supervise::gateway_client::Call;
use crate::ui::{StyledLine, TextStyle};

/// Set an agent back to a checkpoint
///
/// Shows first what would change, and asks. The agent's files and packages become what they were, and its conversations
/// go on from where they were; what was said since stays in the transcript. Without --turn, it goes back to the beginning
/// of the last turn. The agent's sandbox is stopped, and its turns wait meanwhile.
///
/// Files that somebody else than the agent has changed since are never touched: if the rewind would change them, it stops
/// and shows them. A rewind makes a checkpoint first, so it can be undone. Works without a gateway, too.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Id of the agent
    agent: AgentId,
    /// Number of the checkpoint at the turn's beginning, or of any other, as `flock checkpoints` shows it
    #[arg(long, visible_alias = "to", value_name = "NUMBER")]
    turn: Option<u64>,
    #[command(flatten)]
    parts: PartArgs,
    /// Undo the last rewind
    #[arg(long, conflicts_with = "turn")]
    undo: bool,
    /// Leave what somebody else has changed as it is, and set back the rest
    #[arg(long)]
    keep_others: bool,
    /// Leave the packages as they are
    #[arg(long, conflicts_with = "conversation")]
    without_packages: bool,
    /// Only show what would change
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, clap::Args)]
#[group(multiple = false)]
struct PartArgs {
    /// Only the files and packages
    #[arg(long)]
    files: bool,
    /// Only the conversations
    #[arg(long)]
    conversation: bool,
    /// Files, packages and conversations; the default
    #[arg(long)]
    both: bool,
}

impl PartArgs {
    const fn word(&self) -> Option<&'static str> {
        match (self.files, self.conversation, self.both) {
            (true, ..) => Some("files"),
            (_, true, _) => Some("conversation"),
            (.., true) => Some("both"),
            _ => None,
        }
    }
}

/// The most changes that are listed.
const MAX_LISTED: usize = 40;

/// Shows a rewind and makes it.
///
/// # Errors
///
/// Returns an error if there is no such agent or checkpoint, if somebody else has changed what would be set back, if the
/// person does not agree, or if a step fails.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let home = context.writable_home()?;
    config::read(&home)?.require_agent(&args.agent)?;
    let id = &args.agent;
    let mut body = json!({
        "checkpoint": args.turn,
        "undo": args.undo,
        "parts": args.parts.word(),
        "keepOthers": args.keep_others,
        "withoutPackages": args.without_packages,
        "by": person::name(),
    });
    let send = |body: &Value| {
        let call = Call::post(&format!("/api/agents/{id}/rewind")).json(body)?;
        // If the connection is lost, nobody knows if the rewind was made, and a second one might go back further.
        context.block_on(Reconnector::new(&home, context).send(call, Repeat::Unsent, TIMEOUT))
    };
    body["dryRun"] = true.into();
    let found = send(&body)?.answer;
    let plan = &found["rewind"];
    let is_stopped = plan["foreignCount"].as_u64().unwrap_or_default() > 0 && !args.keep_others;
    if args.dry_run && context.printer.is_json() {
        context.printer.json(&found);
    } else if !context.printer.is_json() || is_stopped {
        show(id, plan, args.keep_others, context);
    }
    if is_stopped {
        let count = plan["foreignCount"].as_u64().unwrap_or_default();
        let text =
            format!("{count} files of {id} were changed outside its turns, and a rewind does not touch them");
        return Err(Failure::new(Kind::Conflict, text).hint(format!("flock rewind {id} --keep-others")));
    }
    let has_conversations = plan["conversations"].as_array().is_some_and(|all| !all.is_empty());
    if args.dry_run {
        return Ok(Exit::Done);
    }
    if plan["fileCount"] == 0 && plan["packages"].is_null() && !has_conversations {
        context
            .printer
            .result(&found, format!("nothing has changed since checkpoint {}", plan["checkpoint"]).as_str());
        return Ok(Exit::Done);
    }
    if !context.yes() {
        let text = format!("setting {id} back must be confirmed");
        let unasked = Failure::new(Kind::Usage, text).hint(format!("flock rewind {id} --yes"));
        let question = format!("Set {id} back to checkpoint {}?", plan["checkpoint"]);
        context.confirm(&question, unasked, &format!("{id} was not set back"))?;
    }
    body["dryRun"] = false.into();
    // Exactly what was shown is done, or nothing.
    body["plan"] = plan["plan"].clone();
    let done = send(&body)?.answer;
    let made = &done["rewind"];
    let line = StyledLine::new()
        .with(TextStyle::Good, "set back")
        .plain(" ")
        .accent(id.as_str())
        .plain(format!(" to checkpoint {}; to undo it: flock rewind {id} --undo", made["checkpoint"]));
    context.printer.result(&done, line);
    for warning in warnings(made) {
        context.printer.warn(warning);
    }
    Ok(Exit::Done)
}

/// Returns the deviations of a rewind from what a person may expect.
fn warnings(rewind: &Value) -> impl Iterator<Item = &str> {
    rewind["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// Shows what a rewind changes.
fn show(id: &AgentId, plan: &Value, keeps_others: bool, context: &Context) {
    let at = clock::local(plan["at"].as_i64().unwrap_or_default());
    let printer = &context.printer;
    let title = format!("back to checkpoint {} of {id}, {at}", plan["checkpoint"]);
    printer.say(StyledLine::new().with(TextStyle::Strong, title));
    changes(&plan["files"], plan["fileCount"].as_u64().unwrap_or_default(), context);
    packages(&plan["packages"], context);
    for warning in warnings(plan) {
        printer.say(StyledLine::new().with(TextStyle::Warn, warning));
    }
    for one in plan["conversations"].as_array().into_iter().flatten() {
        let session = one["session"].as_str().unwrap_or_default();
        let line =
            StyledLine::new().accent(session).plain(format!(": {} messages are left out", one["messages"]));
        printer.say(line);
    }
    let count = plan["foreignCount"].as_u64().unwrap_or_default();
    if count > 0 {
        let what = if keeps_others { "stays as it is" } else { "would be lost" };
        printer.say(StyledLine::new().with(TextStyle::Warn, format!("changed by somebody else, {what}:")));
        changes(&plan["foreign"], count, context);
    }
}

/// Shows how the packages change.
fn packages(change: &Value, context: &Context) {
    if change.is_null() {
        return;
    }
    let profile = |number: &Value| match number.as_u64() {
        None | Some(0) => "none".to_owned(),
        Some(number) => format!("profile {number}"),
    };
    let text = format!("packages: from {} to {}", profile(&change["from"]), profile(&change["to"]));
    context.printer.say(StyledLine::new().plain(text));
    for (list, tone, sign) in [("added", TextStyle::Good, "+"), ("removed", TextStyle::Bad, "-")] {
        for package in change[list].as_array().into_iter().flatten().filter_map(Value::as_str) {
            context.printer.say(StyledLine::new().plain("  ").with(tone, sign).plain(" ").accent(package));
        }
    }
}

/// Lists changes with the differences of texts.
fn changes(list: &Value, count: u64, context: &Context) {
    let printer = &context.printer;
    let listed = list.as_array().map(Vec::as_slice).unwrap_or_default();
    for one in listed.iter().take(MAX_LISTED) {
        let (tone, sign) = match one["change"].as_str().unwrap_or_default() {
            "added" => (TextStyle::Good, "+"),
            "removed" => (TextStyle::Bad, "-"),
            _ => (TextStyle::Warn, "~"),
        };
        let slash = if one["kind"] == "folder" { "/" } else { "" };
        let path = format!("{}{slash}", one["path"].as_str().unwrap_or_default());
        printer.say(StyledLine::new().with(tone, sign).plain(" ").accent(path));
        for line in one["diff"].as_str().unwrap_or_default().lines() {
            let tone = match line.as_bytes().first() {
                Some(b'+') => TextStyle::Good,
                Some(b'-') => TextStyle::Bad,
                _ => TextStyle::Dim,
            };
            printer.say(StyledLine::new().plain("    ").with(tone, line));
        }
    }
    let more = count.saturating_sub(listed.len().min(MAX_LISTED) as u64);
    if more > 0 {
        printer.say(StyledLine::new().with(TextStyle::Dim, format!("… and {more} more")));
    }
}
