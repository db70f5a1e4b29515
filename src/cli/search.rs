//! `flock search`: finds texts in memory files, findings, transcripts, vaults and channels.

use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};

use super::channel::backend;
use super::reconnect::{Reconnector, Repeat};
use super::{Context, Exit, Failure};
use crate::clock;
use crate::id::AgentId;
use crate::supervise::gateway_client::Call;
use crate::swarm::search::SearchArea;
use crate::ui::{StyledLine, TextStyle};

/// Search memory, findings, transcripts, vaults and channels
///
/// The texts that match best come first, each with its place and the part that matches: those with more of the words,
/// and with rare ones. With --agent, only what this agent may read is searched, as its own tool flock_memory_search
/// does.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  flock search rotate token
  flock search --agent coder --in memory,vaults \"release checklist\"")]
pub(crate) struct Args {
    /// Words to search for
    #[arg(required = true, value_name = "TEXT")]
    text: Vec<String>,
    /// Search only what this agent may read
    #[arg(long, value_name = "ID")]
    agent: Option<AgentId>,
    /// Places to search, separated by commas [default: all]
    #[arg(long = "in", value_name = "PLACES", value_enum, value_delimiter = ',')]
    areas: Vec<SearchArea>,
    /// Number of results to show, at most 100
    #[arg(long, value_name = "NUMBER", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100))]
    limit: u32,
}

/// Time that the gateway may take.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The query of the request.
#[derive(Serialize)]
struct Query<'a> {
    q: String,
    agent: Option<&'a AgentId>,
    r#in: Option<String>,
    limit: u32,
}

/// Prints what was found.
///
/// # Errors
///
/// Returns an error if there is no home, if the agent does not exist, or if the gateway or the database can't be used.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let home = context.writable_home()?;
    let areas: Vec<&str> = args.areas.iter().map(|area| area.as_str()).collect();
    let query = Query {
        q: args.text.join(" "),
        agent: args.agent.as_ref(),
        r#in: (!areas.is_empty()).then(|| areas.join(",")),
        limit: args.limit,
    };
    let call = Call::get(&backend::path("/api/search/memory", &query));
    let reconnector = Reconnector::new(&home, context);
    let found = context.block_on(reconnector.send(call, Repeat::Safe, TIMEOUT))?.answer;
    if context.printer.is_json() {
        context.printer.json(&found);
        return Ok(Exit::Done);
    }
    let results = found["results"].as_array().map(Vec::as_slice).unwrap_or_default();
    if results.is_empty() {
        context.printer.say("nothing was found");
    }
    for result in results {
        context.printer.line(StyledLine::new().with(TextStyle::Accent, place(result)));
        context.printer.line(StyledLine::new().plain(format!("  {}", text(result, "snippet"))));
    }
    if let Some(closed) = found["closed"].as_array().filter(|closed| !closed.is_empty()) {
        let closed: Vec<&str> = closed.iter().filter_map(Value::as_str).collect();
        context.printer.say(format!(
            "the agent has no tool to read its {}, so they were not searched",
            closed.join(", ")
        ));
    }
    if found["complete"] == json!(false) {
        context.printer.warn("texts that changed lately are still being indexed: search again in a moment");
    }
    Ok(Exit::Done)
}

/// Returns the place of a result as one line.
fn place(result: &Value) -> String {
    let at = |name: &str| clock::local(result[name].as_i64().unwrap_or(0));
    match text(result, "in") {
        "sessions" => format!("{}  {}  {}", text(result, "session"), at("at"), text(result, "role")),
        "channels" => {
            let (channel, seq) = (text(result, "channel"), &result["seq"]);
            format!("#{channel} {seq}  {}  {}", at("createdAt"), text(result, "author"))
        }
        "vaults" => format!("vault {}: {}:{}", text(result, "vault"), text(result, "path"), result["line"]),
        _ if result["submission"].is_i64() => {
            let (project, reviewer) = (text(result, "project"), text(result, "reviewer"));
            let (submission, finding) = (&result["submission"], &result["finding"]);
            format!(
                "{project}: finding {finding} about submission {submission}  {}  {reviewer}",
                at("createdAt")
            )
        }
        _ => format!("{}: {}:{}", text(result, "agent"), text(result, "path"), result["line"]),
    }
}

fn text<'v>(result: &'v Value, name: &str) -> &'v str {
    result[name].as_str().unwrap_or_default()
}
