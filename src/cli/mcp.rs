//! `flock mcp`: MCP servers whose tools agents can be granted. Without a verb it passes messages between an agent program
//! and the gateway.

mod add;
mod browser;
mod grant;
mod login;
mod look;
mod package;
mod stdio;

use std::time::Duration;

use clap::Subcommand;
use serde_json::{Value, json};

use super::channel::backend;
use super::reconnect::{Reconnector, Repeat};
use super::{Context, Exit, Failure, person};
use crate::config::{McpServer, secret};
use crate::error::Kind;
use crate::gateway::routes::mcp_servers::Revocation;
use crate::id::{AgentId, McpServerName};
use crate::store::McpCapability;
use crate::supervise::gateway_client::Call;

/// Give agents the tools of MCP servers
///
/// A server is a program, which runs in a sandbox of its own, or it is at a URL. Agents may call only the tools that you
/// grant. Without a verb, flock's own tools are passed to an agent program over stdin and stdout.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Add(Box<add::AddArgs>),
    /// Add the servers of a file in the form that other programs use: {"mcpServers": {…}}
    ///
    /// The variables of their environments and their headers often are keys. They become secrets.
    Import {
        /// File, or "-" for stdin
        file: String,
        /// Fetch the packages of servers that the file runs with npx, uvx or pipx
        #[arg(long)]
        fetch: bool,
    },
    /// List the servers
    #[command(visible_alias = "ls")]
    List,
    /// Show a server, its grants and its state
    Show {
        /// Name of the server
        server: McpServerName,
    },
    /// Start a server if it does not run, and list its tools
    Test {
        /// Name of the server
        server: McpServerName,
    },
    Update(package::UpdateArgs),
    Grant(grant::GrantArgs),
    /// Take tools, or what the server may ask for, away from an agent
    ///
    /// Without options, all grants of the agent end.
    Revoke {
        /// Name of the server
        server: McpServerName,
        /// Agent that may call them no longer
        agent: AgentId,
        /// Tools by the server's own names, separated by commas
        #[arg(long, value_name = "TOOL", value_delimiter = ',')]
        tools: Vec<String>,
        /// The server may ask the agent's model no longer
        #[arg(long)]
        sampling: bool,
        /// The server may ask people no longer
        #[arg(long)]
        elicitation: bool,
    },
    /// Store a secret of a server, read from stdin or asked for
    Secret {
        /// Name of the server
        server: McpServerName,
        /// Variable of the server's environment, or header
        variable: String,
    },
    Login(login::LoginArgs),
    /// End the sign-in to a server: revoke its tokens, if the server offers that, and remove them
    Logout {
        /// Name of the server
        server: McpServerName,
    },
    /// Remove a server with its grants and its sandbox
    ///
    /// The files that it wrote stay in its folder of the home.
    #[command(visible_alias = "rm")]
    Remove {
        /// Name of the server
        server: McpServerName,
    },
}

/// Time that a request may take. A server is started in a new sandbox first, perhaps twice.
const TIMEOUT: Duration = Duration::from_secs(600);

/// Runs the verb below `mcp`.
///
/// # Errors
///
/// Returns an error if the server or the agent does not exist, if the server does not start, if its tools have changed
/// since they were shown, or if the gateway, the configuration or the database fails.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    match &args.verb {
        None => stdio::run(context),
        Some(Verb::Add(wanted)) => add::add(wanted, context),
        Some(Verb::Import { file, fetch }) => add::import(file, *fetch, context),
        Some(Verb::Update(wanted)) => package::update(wanted, context),
        Some(Verb::List) => look::list(context),
        Some(Verb::Show { server }) => look::show(server, context),
        Some(Verb::Test { server }) => look::test(server, context),
        Some(Verb::Grant(wanted)) => grant::run(wanted, context),
        Some(Verb::Revoke { server, agent, tools, sampling, elicitation }) => {
            let asked = [(*sampling, McpCapability::Sampling), (*elicitation, McpCapability::Elicitation)];
            let asked = asked.into_iter().filter(|(is_asked, _)| *is_asked);
            let capabilities = asked.map(|(_, capability)| capability).collect();
            let by = Some(person::name());
            let taken = Revocation { agent: agent.clone(), tools: tools.clone(), capabilities, by };
            revoke(server, &taken, context)
        }
        Some(Verb::Secret { server, variable }) => store_secret(server, variable, context),
        Some(Verb::Login(wanted)) => login::login(wanted, context),
        Some(Verb::Logout { server }) => login::logout(server, context),
        Some(Verb::Remove { server }) => remove(server, context),
    }
}

fn revoke(server: &McpServerName, taken: &Revocation, context: &Context) -> Result<Exit, Failure> {
    let answer = change(context, Call::post(&format!("/api/mcp/servers/{server}/revoke")).json(taken)?)?;
    let agent = &taken.agent;
    let text = match answer["revoked"].as_u64() {
        Some(0) => format!("{agent} had none of these grants of {server}"),
        Some(1) => format!("one grant of {server} to {agent} has ended"),
        count => format!("{} grants of {server} to {agent} have ended", count.unwrap_or_default()),
    };
    done(context, &answer, &text)
}

fn remove(server: &McpServerName, context: &Context) -> Result<Exit, Failure> {
    if !context.yes() {
        let unasked = Failure::new(Kind::Usage, format!("removing {server} must be confirmed"))
            .hint(format!("flock mcp remove {server} --yes"));
        let question = format!("Remove the MCP server {server} with all of its grants?");
        context.confirm(&question, unasked, &format!("{server} was not removed"))?;
    }
    let path = backend::path(&format!("/api/mcp/servers/{server}"), &json!({"by": person::name()}));
    let answer = change(context, Call::delete(&path))?;
    let folder = context.writable_home()?.mcp_server(server);
    let kept =
        if folder.exists() { format!("; its files stay in {}", folder.display()) } else { String::new() };
    done(context, &answer, &format!("{server} is removed{kept}"))
}

fn store_secret(server: &McpServerName, variable: &str, context: &Context) -> Result<Exit, Failure> {
    let home = context.writable_home()?;
    let config = crate::config::read(&home)?;
    let found = config.mcp_server(server).ok_or_else(|| unknown(server))?;
    // Headers are the same in any case, and no variable has the name of a header.
    let is_meant = |known: &str| known == variable || known == variable.to_ascii_lowercase();
    let name = found.all_secrets().find(|(known, _)| is_meant(known)).map(|(_, name)| name);
    let name = name.ok_or_else(|| {
        let known = found.all_secrets().map(|(known, _)| known.as_str()).collect::<Vec<_>>().join(", ");
        let known = if known.is_empty() { "none".to_owned() } else { known };
        Failure::new(Kind::Usage, format!("{server} has no secret for {variable}; it has: {known}"))
            .hint(format!("flock mcp show {server}"))
    })?;
    let value = add::read_secret(variable, context)?;
    secret::set(&home, name, &value)?;
    let text = format!("the secret {name} is stored; {server} gets it at its next start");
    done(context, &json!({"server": server, "variable": variable, "secret": name}), &text)
}

/// Returns the error for a server that does not exist.
fn unknown(server: &McpServerName) -> Failure {
    Failure::new(Kind::Failed, format!("there is no MCP server {server}")).hint("flock mcp list")
}

/// Returns the secrets of a server that are not stored.
fn missing_secrets(home: &crate::home::Home, server: &McpServer) -> Vec<String> {
    let is_missing = |name: &str| !matches!(secret::get(home, name), Ok(Some(_)));
    server.all_secrets().filter(|(_, name)| is_missing(name)).map(|(variable, _)| variable.clone()).collect()
}

/// Makes a change by the gateway or, if none runs, in this process.
fn change(context: &Context, call: Call) -> Result<Value, Failure> {
    let home = context.writable_home()?;
    Ok(context.block_on(Reconnector::new(&home, context).send(call, Repeat::Unsent, TIMEOUT))?.answer)
}

/// Asks for something that may be asked again.
fn fetch(context: &Context, call: Call) -> Result<Value, Failure> {
    let home = context.writable_home()?;
    Ok(context.block_on(Reconnector::new(&home, context).send(call, Repeat::Safe, TIMEOUT))?.answer)
}

fn done(context: &Context, answer: &Value, text: &str) -> Result<Exit, Failure> {
    context.printer.if_json(answer);
    context.printer.say(text);
    Ok(Exit::Done)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
