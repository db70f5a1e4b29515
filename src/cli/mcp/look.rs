//! `flock mcp list`, `show` and `test`.

use serde_json::Value;

use super::{fetch, text};
use crate::clean::spelled;
use crate::cli::{Context, Exit, Failure};
use crate::id::McpServerName;
use crate::supervise::gateway_client::Call;
use crate::ui::{Table, TextStyle};

/// Lists the servers.
pub(super) fn list(context: &Context) -> Result<Exit, Failure> {
    let found = fetch(context, Call::get("/api/mcp/servers"))?;
    let mut table = Table::new(&["SERVER", "STATE", "NETWORK", "GRANTED", "COMMAND OR URL"]);
    for server in found["servers"].as_array().into_iter().flatten() {
        let (style, state) = state(server);
        table.styled_row(vec![
            (TextStyle::Plain, text(&server["name"]).to_owned()),
            (style, state.to_owned()),
            (TextStyle::Plain, network(server)),
            (TextStyle::Plain, granted(server)),
            (TextStyle::Dim, crate::clean::summary(&command(server), 60)),
        ]);
    }
    context.printer.list(&found, &table, "There are no MCP servers; see flock mcp add --help.");
    Ok(Exit::Done)
}

/// Returns the state of a server in a word.
fn state(server: &Value) -> (TextStyle, &'static str) {
    let grants = server["grants"].as_array().map(Vec::as_slice).unwrap_or_default();
    let sign_in = sign_in(server);
    if grants.iter().any(|grant| grant["waits"] == true) {
        (TextStyle::Warn, "waits for you")
    } else if server["signIn"].is_string() && server["signIn"] != "signedIn" {
        (TextStyle::Warn, sign_in)
    } else if server["running"] == true {
        (TextStyle::Good, "running")
    } else if server["failure"].is_string() {
        (TextStyle::Bad, "failed")
    } else {
        (TextStyle::Dim, "stopped")
    }
}

/// Returns the state of the sign-in to a server in words. Empty if it needs none.
fn sign_in(server: &Value) -> &'static str {
    match text(&server["signIn"]) {
        "signedIn" => "signed in",
        "expired" => "sign-in expired",
        "scopesNeeded" => "sign-in has too few scopes",
        "needed" => "sign-in needed",
        _ => "",
    }
}

fn network(server: &Value) -> String {
    if server["url"].is_string() {
        return if server["allowLocal"] == true { "local".to_owned() } else { "its url".to_owned() };
    }
    let hosts: Vec<&str> = server["egress"].as_array().into_iter().flatten().map(text).collect();
    if hosts.is_empty() { text(&server["network"]).to_owned() } else { hosts.join(" ") }
}

fn granted(server: &Value) -> String {
    let grants = ["grants", "capabilities"].into_iter().flat_map(|key| server[key].as_array());
    let mut agents: Vec<&str> = grants.flatten().map(|grant| text(&grant["agent"])).collect();
    agents.sort_unstable();
    agents.dedup();
    if agents.is_empty() { "nobody".to_owned() } else { agents.join(" ") }
}

/// Returns the command line of a server, or its URL.
fn command(server: &Value) -> String {
    if let Some(url) = server["url"].as_str() {
        return url.to_owned();
    }
    let words = server["command"].as_array().into_iter().flatten().map(text);
    words.collect::<Vec<_>>().join(" ")
}

/// Returns the package of a server in words. Empty if it has none.
fn package(found: &Value) -> String {
    let (Some(name), Some(version)) = (found["name"].as_str(), found["version"].as_str()) else {
        return String::new();
    };
    let source = if found["source"] == "npm" { "npm" } else { "PyPI" };
    let others = found["packages"].as_u64().unwrap_or(1).saturating_sub(1);
    format!("{name} {version} from {source}, with {others} other packages")
}

/// Shows one server.
pub(super) fn show(name: &McpServerName, context: &Context) -> Result<Exit, Failure> {
    let found = fetch(context, Call::get(&format!("/api/mcp/servers/{name}")))?;
    if context.printer.is_json() {
        context.printer.json(&found);
        return Ok(Exit::Done);
    }
    let server = &found["server"];
    let names =
        |key: &str| server[key].as_object().map(|entries| entries.keys().cloned().collect::<Vec<_>>());
    let variables: Vec<&str> = server["variables"].as_array().into_iter().flatten().map(text).collect();
    let rows = [
        ("server", name.to_string()),
        ("state", state(server).1.to_owned()),
        ("failure", text(&server["failure"]).to_owned()),
        ("sign-in", sign_in(server).to_owned()),
        (if server["url"].is_string() { "url" } else { "command" }, command(server)),
        ("package", package(&server["package"])),
        ("integrity", text(&server["package"]["integrity"]).to_owned()),
        ("lock", text(&server["package"]["lock"]).to_owned()),
        ("problem", text(&server["package"]["problem"]).to_owned()),
        ("headers", names("headers").unwrap_or_default().join(" ")),
        ("variables", variables.join(" ")),
        ("secrets", names("secrets").unwrap_or_default().join(" ")),
        ("network", network(server)),
        ("image", text(&server["image"]).to_owned()),
        ("protocol", text(&server["protocol"]).to_owned()),
        ("program", text(&server["title"]).to_owned()),
    ];
    for (label, value) in rows.iter().filter(|(_, value)| !value.is_empty()) {
        context.printer.line(format!("{label:<10} {}", crate::clean::inline(value)));
    }
    for grant in server["capabilities"].as_array().into_iter().flatten() {
        let (agent, today) = (text(&grant["agent"]), &grant["today"]);
        if grant["capability"] == "elicitation" {
            context.printer.line(format!("{:<10}  people, while {agent} calls it", "elicitation"));
            continue;
        }
        context.printer.line(format!(
            "{:<10} the model of {agent} ({} calls and {} tokens today, at most {} calls)",
            text(&grant["capability"]),
            today["calls"],
            today["tokens"],
            server["samplesPerDay"]
        ));
    }
    let mut table = Table::new(&["AGENT", "TOOL", "OFFERED AS", "STATE"]);
    for grant in server["grants"].as_array().into_iter().flatten() {
        let waits = grant["waits"] == true;
        let state = if waits { "changed: waits for you" } else { "granted" };
        table.styled_row(vec![
            (TextStyle::Plain, text(&grant["agent"]).to_owned()),
            (TextStyle::Plain, text(&grant["tool"]).to_owned()),
            (TextStyle::Dim, text(&grant["offeredAs"]).to_owned()),
            (if waits { TextStyle::Warn } else { TextStyle::Good }, state.to_owned()),
        ]);
    }
    context.printer.list(&found, &table, "No agent may call its tools; see flock mcp grant --help.");
    Ok(Exit::Done)
}

/// Starts a server and lists its tools.
pub(super) fn test(name: &McpServerName, context: &Context) -> Result<Exit, Failure> {
    let found = ask(name, context)?;
    if context.printer.is_json() {
        context.printer.json(&found);
        return Ok(Exit::Done);
    }
    let title = text(&found["title"]);
    let title = if title.is_empty() { String::new() } else { format!(" ({})", spelled(title)) };
    context.printer.say(format!("{name}{title} answers, with version {} of MCP", text(&found["protocol"])));
    let mut table = Table::new(&["TOOL", "OFFERED AS", "SAYS"]);
    for tool in found["tools"].as_array().into_iter().flatten() {
        let says = match tool["problem"].as_str() {
            Some(problem) => (TextStyle::Bad, format!("can't be granted: {problem}")),
            None => {
                let about = text(&tool["definition"]["description"]);
                (TextStyle::Dim, crate::clean::summary(about, 80))
            }
        };
        table.styled_row(vec![
            (TextStyle::Plain, text(&tool["name"]).to_owned()),
            (TextStyle::Plain, text(&tool["offeredAs"]).to_owned()),
            says,
        ]);
    }
    context.printer.list(&found, &table, "It lists no tools.");
    Ok(Exit::Done)
}

/// Starts a server, and returns its tools.
pub(super) fn ask(name: &McpServerName, context: &Context) -> Result<Value, Failure> {
    let progress = context.printer.progress(&format!("asking {name} for its tools"));
    let found = fetch(context, Call::post(&format!("/api/mcp/servers/{name}/test")))?;
    let count = found["tools"].as_array().map_or(0, Vec::len);
    progress.done(&format!("{name} lists {count} tools"));
    Ok(found)
}
