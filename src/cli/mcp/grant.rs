//! `flock mcp grant`: shows what a server says about its tools, and gives them to an agent exactly so. Also lends the
//! server the agent's model.

use serde_json::{Value, json};

use super::{change, done, look, text};
use crate::clean::{spelled, spelled_lines};
use crate::cli::{Context, Exit, Failure, person};
use crate::config;
use crate::error::Kind;
use crate::gateway::routes::mcp_servers::{NewGrant, ShownTool};
use crate::id::{AgentId, McpServerName};
use crate::store::McpCapability;
use crate::supervise::gateway_client::Call;
use crate::ui::pager::{self, PagerRow};

/// Let an agent call tools of a server, or let the server ask the agent's model meanwhile
///
/// The definitions of the tools are shown first: an agent's model reads them. The grant is for exactly these. A server that
/// describes a tool differently later loses it until you have seen the difference.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  flock mcp grant notes coder
  flock mcp grant notes coder --tools search,read
  flock mcp grant notes coder --sampling")]
pub(super) struct GrantArgs {
    /// Name of the server
    server: McpServerName,
    /// Agent that may call them
    agent: AgentId,
    /// Tools by the server's own names, separated by commas [default: all that the server lists now, or none with --sampling or --elicitation]
    #[arg(long, value_name = "TOOL", value_delimiter = ',')]
    tools: Vec<String>,
    /// Let an agent call them although its autonomy is readonly
    ///
    /// What a server says about its tools, for example that they only read, is not checked.
    #[arg(long)]
    read_only_ok: bool,
    /// Let the server ask the agent's model for answers while the agent calls it
    ///
    /// The answers are charged to the agent. Each is limited by the server's settings (samplesPerCall, samplesPerDay,
    /// sampleTokens), and gets nothing of what the agent knows.
    #[arg(long)]
    sampling: bool,
    /// Let the server ask people while the agent calls it
    ///
    /// Its questions wait in `flock approvals list` for at most five minutes, and the call waits for the answer.
    #[arg(long)]
    elicitation: bool,
}

impl GrantArgs {
    /// Returns what the server may ask for.
    fn capabilities(&self) -> Vec<McpCapability> {
        let asked =
            [(self.sampling, McpCapability::Sampling), (self.elicitation, McpCapability::Elicitation)];
        asked.into_iter().filter(|(is_asked, _)| *is_asked).map(|(_, capability)| capability).collect()
    }
}

/// Shows the tools and grants them.
///
/// # Errors
///
/// Returns an error if the server does not start, if it has no such tool, if the person refuses, or if a definition has
/// changed since it was shown.
pub(super) fn run(args: &GrantArgs, context: &Context) -> Result<Exit, Failure> {
    let (server, agent) = (&args.server, &args.agent);
    config::read(&context.writable_home()?)?.require_agent(agent)?;
    // A capability alone needs no look at the tools, so the server is not started.
    let capabilities = args.capabilities();
    let is_alone = !capabilities.is_empty() && args.tools.is_empty();
    let found = if is_alone { Value::Null } else { look::ask(server, context)? };
    let chosen = if is_alone { Vec::new() } else { chosen(&found, args)? };
    if !context.yes() {
        let unasked = Failure::new(Kind::Usage, "the tools must be confirmed")
            .hint(format!("flock mcp grant {server} {agent} --yes"));
        if !context.may_ask() {
            return Err(unasked);
        }
        let row = |text| PagerRow { name: String::new(), text };
        let rows: Vec<PagerRow> = chosen.iter().flat_map(|tool| described(tool)).map(row).collect();
        if !rows.is_empty() && !pager::show(&context.printer, &rows, true)? {
            return Err(Failure::new(Kind::Failed, "nothing was granted: the end was not read"));
        }
        let question = question(args, chosen.len());
        context.confirm(&question, unasked, "nothing was granted")?;
    }
    let tools = chosen
        .iter()
        .map(|tool| ShownTool {
            name: text(&tool["name"]).to_owned(),
            sha256: text(&tool["sha256"]).to_owned(),
        })
        .collect();
    let by = Some(person::name());
    let asks = asks(args);
    let new = NewGrant { agent: agent.clone(), tools, capabilities, readonly_ok: args.read_only_ok, by };
    let answer = change(context, Call::post(&format!("/api/mcp/servers/{server}/grant")).json(&new)?)?;
    let names: Vec<&str> = chosen.iter().map(|tool| text(&tool["offeredAs"])).collect();
    let offered = json!({"granted": answer, "offeredAs": names});
    let calls = format!("{agent} may call {}", names.join(", "));
    let text = match (names.is_empty(), asks) {
        (false, None) => calls,
        (true, asks) => format!("{server} may ask {}", asks.unwrap_or_default()),
        (false, Some(asks)) => format!("{calls}; {server} may ask {asks}"),
    };
    done(context, &offered, &text)
}

/// Returns whom the server may ask, as the end of a sentence.
fn asks(args: &GrantArgs) -> Option<String> {
    let agent = &args.agent;
    let whom = match (args.sampling, args.elicitation) {
        (true, true) => format!("the model of {agent}, at {agent}'s cost, and people"),
        (true, false) => format!("the model of {agent}, at {agent}'s cost,"),
        (false, true) => "people".to_owned(),
        (false, false) => return None,
    };
    Some(format!("{whom} while {agent} calls it"))
}

fn question(args: &GrantArgs, tools: usize) -> String {
    let (server, agent) = (&args.server, &args.agent);
    let calls = format!("Let {agent} call these {tools} tools of {server}");
    match (tools, asks(args)) {
        (_, None) => format!("{calls}?"),
        (0, Some(asks)) => format!("Let {server} ask {asks}?"),
        (_, Some(asks)) => format!("{calls}, and {server} ask {asks}?"),
    }
}

fn chosen<'f>(found: &'f Value, args: &GrantArgs) -> Result<Vec<&'f Value>, Failure> {
    let server = &args.server;
    let all: Vec<&Value> = found["tools"].as_array().into_iter().flatten().collect();
    let usable = |tool: &&&Value| tool["sha256"].is_string();
    if args.tools.is_empty() {
        let usable: Vec<&Value> = all.iter().filter(usable).copied().collect();
        if usable.is_empty() {
            let text = format!("{server} lists no tool that can be granted");
            return Err(Failure::new(Kind::Failed, text).hint(format!("flock mcp test {server}")));
        }
        return Ok(usable);
    }
    let hint = format!("flock mcp test {server}");
    let find = |name: &String| {
        let tool = all.iter().find(|tool| tool["name"] == name.as_str());
        let tool = tool.ok_or_else(|| {
            Failure::new(Kind::Failed, format!("{server} has no tool {name:?}")).hint(hint.clone())
        })?;
        match tool["problem"].as_str() {
            None => Ok(*tool),
            Some(problem) => {
                Err(Failure::new(Kind::Failed, format!("{name} can't be granted: {problem}"))
                    .hint(hint.clone()))
            }
        }
    };
    args.tools.iter().map(find).collect()
}

/// Returns what a person has to see of a tool, in printable ASCII and complete.
fn described(tool: &Value) -> Vec<String> {
    let definition = &tool["definition"];
    let mut lines =
        vec![format!("{} (offered as {})", spelled(text(&tool["name"])), text(&tool["offeredAs"]))];
    // Each line gets a mark, so that no line of the server can look like a line of flock.
    let mut part = |label: &str, value: String| {
        lines.push(format!("  {label}:"));
        lines.extend(spelled_lines(&value).map(|line| format!("  | {line}")));
    };
    for (key, label) in [("title", "title"), ("description", "says")] {
        if let Some(value) = definition[key].as_str() {
            part(label, value.to_owned());
        }
    }
    let parts = [
        ("inputSchema", "input"),
        ("outputSchema", "output"),
        ("annotations", "claims about itself, which flock does not check"),
    ];
    for (key, label) in parts {
        if let Some(value) = definition.get(key).filter(|value| !value.is_null()) {
            part(label, format!("{value:#}"));
        }
    }
    lines.push(format!("  sha256: {}", text(&tool["sha256"])));
    lines.push(String::new());
    lines
}
