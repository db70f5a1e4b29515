//! Checks of MCP servers: their secrets, changed tools that wait for a person, and the reasons why they do not start.

use std::time::Duration;

use serde_json::Value;

use super::check::Check;
use crate::cli::database;
use crate::config::{Config, McpServer, secret};
use crate::home::Home;
use crate::mcp::oauth::{self, SignInState};
use crate::mcp::package::installed_problem;
use crate::store::PinnedTool;
use crate::supervise::gateway_client::Client;

const NAME: &str = "mcp";
/// The longest wait for the gateway's answer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Checks each server without starting it.
pub(super) fn all(home: &Home, config: &Config) -> Vec<Check> {
    if config.mcp_servers.is_empty() {
        return Vec::new();
    }
    // Problems with opening the database are reported by its own check.
    let read = database::read_view(home, async |reader| reader.mcp_tools().all().await);
    let (pins, _) = read.ok().flatten().unwrap_or_default();
    let servers = config.mcp_servers.iter();
    let checks = servers.flat_map(|server| {
        let own = secrets(home, server).into_iter().chain(packages(home, server));
        own.chain(sign_in(home, server)).chain(waiting(server, &pins)).collect::<Vec<_>>()
    });
    let checks: Vec<Check> = checks.collect();
    if checks.is_empty() {
        let count = config.mcp_servers.len();
        return vec![Check::ok(NAME, format!("{count} MCP servers have what they need"))];
    }
    checks
}

fn secrets(home: &Home, server: &McpServer) -> Vec<Check> {
    let is_missing = |name: &str| !matches!(secret::get(home, name), Ok(Some(_)));
    let missing = server.all_secrets().filter(|(_, name)| is_missing(name));
    missing
        .map(|(variable, _)| {
            let name = &server.name;
            let text = format!("the MCP server {name} has no value for {variable} and can't start");
            Check::warn(NAME, text, format!("flock mcp secret {name} {variable}"))
        })
        .collect()
}

/// Compares the package of a server with its record, file by file.
fn packages(home: &Home, server: &McpServer) -> Option<Check> {
    let problem = installed_problem(home, server, true)?;
    let name = &server.name;
    let text = format!("the MCP server {name} can't be trusted to be what was added: {problem}");
    Some(Check::warn(NAME, text, format!("flock mcp update {name} --locked")))
}

/// Checks the sign-in to a server at a URL, if somebody has signed in.
fn sign_in(home: &Home, server: &McpServer) -> Option<Check> {
    let name = &server.name;
    let text = match oauth::state(home, server)? {
        SignInState::Expired => {
            format!("the sign-in to the MCP server {name} has ended, and no agent can call it")
        }
        SignInState::ScopesNeeded => {
            format!("the MCP server {name} has refused calls because the sign-in has too few scopes")
        }
        SignInState::SignedIn | SignInState::Needed => return None,
    };
    Some(Check::warn(NAME, text, format!("flock mcp login {name}")))
}

fn waiting(server: &McpServer, pins: &[PinnedTool]) -> Option<Check> {
    let changed = |pin: &&PinnedTool| pin.server == server.name && pin.changed.is_some();
    let tools: Vec<&str> = pins.iter().filter(changed).map(|pin| pin.tool.as_str()).collect();
    if tools.is_empty() {
        return None;
    }
    let name = &server.name;
    let text = format!(
        "the MCP server {name} describes {} differently than when it was granted; no agent can call it until you have \
         looked, at a request or with another grant",
        tools.join(", ")
    );
    Some(Check::warn(NAME, text, "flock approvals list"))
}

/// Names the servers that failed in a running gateway.
pub(super) async fn failed(gateway: &Client) -> Vec<Check> {
    // A gateway that does not answer is reported by its own check.
    let Ok(found) = gateway.get_json::<Value>("/api/mcp/servers", TIMEOUT).await else { return Vec::new() };
    let servers = found["servers"].as_array().map(Vec::as_slice).unwrap_or_default();
    let failed = servers.iter().filter_map(|server| {
        let (name, reason) = (server["name"].as_str()?, server["failure"].as_str()?);
        let hint = match server["signIn"].as_str() {
            // Its own check has named it.
            Some("expired" | "scopesNeeded") => return None,
            Some("needed") => format!("flock mcp login {name}"),
            _ => format!("flock mcp test {name}"),
        };
        let reason = crate::clean::summary(reason, 300);
        let text = format!("the MCP server {name} does not run: {reason}");
        Some(Check::warn(NAME, text, hint))
    });
    failed.collect()
}
