//! The tool policy decides which tools an agent is offered and what happens when it calls one. It is a pure function of
//! the agent's configuration, the tool's name and the arguments. It is evaluated when a request is built and again at
//! each call.
//!
//! The steps have a fixed order, and each can only narrow the result: the role, the deny list, the allow list, the
//! autonomy, the owner's limits on commands and paths, and the place where the tool would run. A pattern that cannot be
//! parsed never widens anything.

mod disabled_tools;
mod limits;
mod pattern;
mod role;
mod shell;

use serde_json::Value;

pub(crate) use disabled_tools::DisabledTools;
pub(crate) use limits::LimitedInput;
pub(crate) use pattern::{Pattern, PatternError};
pub use role::Roles;

use super::catalog::find;
use super::exec::EXEC;
use super::process::PROCESS;
use super::team;
use crate::config::model::Autonomy;
use crate::config::{Agent, Config, SandboxMode};
use crate::id::AgentId;
use crate::provider::ToolSpec;

/// The decision about a tool call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The call runs.
    Allow,
    /// A person has to approve the call first. The reason is shown to the person and to the model.
    Ask(String),
    /// The call does not run. The reason is shown to the model.
    Deny(String),
}

/// Decides about one call. The arguments come from the model unchecked and may have any shape.
#[must_use]
pub fn decide(agent: &Agent, tool: &str, arguments: &Value) -> Decision {
    // The first reason counts, and the most general one comes first: for a tool that an agent does not have, the reason
    // is not one of its arguments.
    let refused = refusal(agent, tool)
        .or_else(|| readonly_refusal(agent, tool, arguments))
        .or_else(|| limits::refusal(agent, tool, arguments));
    match refused {
        Some(reason) => Decision::Deny(reason),
        None if agent.sandbox == SandboxMode::Off && tool == EXEC.name => {
            Decision::Ask("you have no sandbox, so the command would run on the host itself".to_owned())
        }
        None => Decision::Allow,
    }
}

/// Returns the tools to offer to the agent's model. A tool is left out if every call of it would be denied.
#[must_use]
pub fn offered<'a>(agent: &Agent, specs: impl IntoIterator<Item = &'a ToolSpec>) -> Vec<ToolSpec> {
    specs.into_iter().filter(|spec| offers(agent, &spec.name)).cloned().collect()
}

/// Returns `true` if the agent's model is offered the tool.
#[must_use]
pub(crate) fn offers(agent: &Agent, tool: &str) -> bool {
    refusal(agent, tool).is_none()
}

/// Returns the agents of a configuration whose models are offered the tool.
#[must_use]
pub(crate) fn agents_with(config: &Config, tool: &str) -> Vec<AgentId> {
    config.agents.iter().filter(|agent| offers(agent, tool)).map(|agent| agent.id.clone()).collect()
}

/// Returns `true` if the owner's limits on commands and paths apply to this tool of the agent. Each call has to be
/// judged by its arguments, so another program that runs the tool without asking flock would bypass the limits.
#[must_use]
pub(crate) fn is_limited(agent: &Agent, tool: &str) -> bool {
    limits::apply_to(&agent.policy, tool)
}

/// Returns an error for each pattern of the agent's lists that cannot be parsed.
#[must_use]
pub(crate) fn pattern_errors(agent: &Agent) -> Vec<PatternError> {
    let lists = [agent.allow.as_slice(), agent.profile.as_deref().unwrap_or_default(), agent.deny.as_slice()];
    lists.concat().iter().filter_map(|text| Pattern::parse(text).err()).collect()
}

/// Returns `true` if calls of this tool may run in parallel with others of the same turn. Calls of any other tool run
/// alone and in order.
#[must_use]
pub(crate) fn is_parallel(tool: &str) -> bool {
    find(tool).is_some_and(|tool| tool.parallel)
}

/// Returns `true` if the tool is one that flock provides. An agent program brings the other tools itself.
#[must_use]
pub(crate) fn is_flocks_own(tool: &str) -> bool {
    is_of_mcp_server(tool) || find(tool).is_some_and(|tool| tool.roles.is_some())
}

/// Begins the names of the tools of MCP servers. No other tool's name begins so.
pub(crate) const MCP_PREFIX: &str = "mcp_";

/// Returns `true` if the tool is one of an MCP server.
#[must_use]
pub(crate) fn is_of_mcp_server(tool: &str) -> bool {
    tool.starts_with(MCP_PREFIX)
}

/// Refuses typed requests of a readonly agent to the sysadmin, because a granted request is carried out in the agent's
/// name. Such an agent can still ask in words.
fn readonly_refusal(agent: &Agent, tool: &str, arguments: &Value) -> Option<String> {
    let is_change = agent.autonomy == Autonomy::Readonly
        && tool == team::SYSADMIN_REQUEST.name
        && arguments.get("kind").and_then(Value::as_str) != Some("other");
    is_change.then(|| "your autonomy is readonly, so you can only ask in words (kind: \"other\")".to_owned())
}

fn refusal(agent: &Agent, tool: &str) -> Option<String> {
    if let Some(reason) = role::refusal(agent.role, tool) {
        return Some(reason);
    }
    // Whoever has no project pays nothing for these tools in its prompts.
    if !agent.has_project && team::PROJECT_TOOLS.iter().any(|found| found.name == tool) {
        return Some("you work on no project".to_owned());
    }
    for text in &agent.deny {
        match Pattern::parse(text) {
            Ok(pattern) if pattern.matches(tool) => {
                return Some(format!("{tool} is denied to you by the tool policy (deny {text:?})"));
            }
            Ok(_) => {}
            // It is unknown what the pattern was meant to deny, so everything is denied.
            Err(error) => {
                return Some(format!(
                    "no tool can run: the deny list of the tool policy can't be read ({error}); the owner \
                     finds the error with `flock config validate`"
                ));
            }
        }
    }
    // The owner granted each of these tools to this agent by name. A list that was written before could not name it.
    if is_of_mcp_server(tool) {
        return None;
    }
    if !matches_any(&agent.allow, tool) || agent.profile.as_ref().is_some_and(|list| !matches_any(list, tool))
    {
        return Some(format!("{tool} is not among the tools that you may use"));
    }
    if agent.autonomy == Autonomy::Readonly && find(tool).is_some_and(|tool| tool.changes) {
        return Some(format!("{tool} is not possible: your autonomy is readonly, so you can only read"));
    }
    // A command on the host runs once, exactly as approved. Nobody may write to it or poll it in between.
    if agent.sandbox == SandboxMode::Off && tool == PROCESS.name {
        return Some("process is for background commands of a sandbox, and you have none".to_owned());
    }
    None
}

fn matches_any(patterns: &[String], tool: &str) -> bool {
    patterns.iter().filter_map(|text| Pattern::parse(text).ok()).any(|pattern| pattern.matches(tool))
}

#[cfg(test)]
mod tests;
