//! The tool policy: which tools an agent is offered, and what happens when it calls one. Pure: a function
//! of the agent's configuration, the tool's name and the arguments, asked when a request is built and again
//! at each call.
//!
//! The order is fixed and each step can only narrow: the role, then what is denied, then what is allowed,
//! then the autonomy, then the owner's limits of commands and paths, then where the tool would run. A pattern
//! that can't be read never widens anything.

mod limits;
mod pattern;
mod role;
mod shell;
mod withheld;

use serde_json::Value;

pub use pattern::{Pattern, PatternError};
pub use role::{FLOCK_TOOLS, Roles, is_flocks_own};
pub use withheld::Withheld;

use crate::config::model::Autonomy;
use crate::config::{Agent, SandboxMode};
use crate::provider::ToolSpec;

/// What becomes of a tool call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It runs.
    Allow,
    /// A person has to approve it first; the reason is for the person and the model.
    Ask(String),
    /// It does not run; the reason is for the model.
    Deny(String),
}

impl Decision {
    /// Whether it is [`Decision::Allow`].
    #[must_use]
    pub const fn is_allow(&self) -> bool {
        matches!(self, Self::Allow)
    }
}

/// Decides about one call. The arguments are as the model wrote them and may be of any shape.
#[must_use]
pub fn decide(agent: &Agent, tool: &str, arguments: &Value) -> Decision {
    let refused = refusal(agent, tool)
        .or_else(|| asks_for_change(agent, tool, arguments))
        .or_else(|| limits::refusal(agent, tool, arguments));
    match refused {
        Some(reason) => Decision::Deny(reason),
        None if agent.sandbox == SandboxMode::Off && tool == "exec" => {
            Decision::Ask("you have no sandbox, so the command would run on the host itself".to_owned())
        }
        None => Decision::Allow,
    }
}

/// The tools to tell the agent's model of: those that no call of could only be denied.
#[must_use]
pub fn offered<'a>(agent: &Agent, specs: impl IntoIterator<Item = &'a ToolSpec>) -> Vec<ToolSpec> {
    specs.into_iter().filter(|spec| offers(agent, &spec.name)).cloned().collect()
}

/// Whether the agent's model is told of the tool with this name.
#[must_use]
pub fn offers(agent: &Agent, tool: &str) -> bool {
    refusal(agent, tool).is_none()
}

/// Whether the owner's limits of commands and paths are about this tool of the agent's: each call of it is judged by its
/// arguments, so one that somebody else runs, who asks nobody, goes round them.
#[must_use]
pub fn is_limited(agent: &Agent, tool: &str) -> bool {
    limits::are_about(&agent.policy, tool)
}

/// The patterns of an agent's lists that can't be read, each with what is wrong with it.
#[must_use]
pub fn check_patterns(agent: &Agent) -> Vec<PatternError> {
    let lists = [agent.allow.as_slice(), agent.profile.as_deref().unwrap_or_default(), agent.deny.as_slice()];
    lists.concat().iter().filter_map(|text| Pattern::parse(text).err()).collect()
}

/// Tools that change the workspace, a vault or what others have, or run something.
const CHANGING: [&str; 12] = [
    "write",
    "edit",
    "apply_patch",
    "exec",
    "process",
    "flock_workspace_write",
    "flock_channel_create",
    "flock_assign_members",
    "flock_channel_archive",
    "flock_create_agent",
    "flock_decommission_agent",
    "flock_restart_gateway",
];

/// Tools of flock's own that only look, and the one that waits long for what others do.
const BESIDE: [&str; 12] = [
    "flock_channel_read",
    "flock_channel_list",
    "flock_tasks",
    "flock_discover",
    "flock_status",
    "flock_history",
    "flock_workspace_list",
    "flock_workspace_read",
    "flock_workspace_tree",
    "flock_read_skill",
    "flock_audit",
    "flock_sysadmin_request",
];

/// Whether calls of this tool may run beside others of the same turn. Any other runs alone, in its order.
#[must_use]
pub fn runs_beside(tool: &str) -> bool {
    BESIDE.contains(&tool)
}

/// Who can only read asks the sysadmin in words; what is done for a typed request is done in its name.
fn asks_for_change(agent: &Agent, tool: &str, arguments: &Value) -> Option<String> {
    let is_change = agent.autonomy == Autonomy::Readonly
        && tool == "flock_sysadmin_request"
        && arguments.get("kind").and_then(Value::as_str) != Some("other");
    is_change.then(|| "your autonomy is readonly, so you can only ask in words (kind: \"other\")".to_owned())
}

fn refusal(agent: &Agent, tool: &str) -> Option<String> {
    if let Some(reason) = role::refusal(agent.role, tool) {
        return Some(reason);
    }
    for text in &agent.deny {
        match Pattern::parse(text) {
            Ok(pattern) if pattern.matches(tool) => {
                return Some(format!("{tool} is denied to you by the tool policy (deny {text:?})"));
            }
            Ok(_) => {}
            // What was meant to be denied is not known, so everything is.
            Err(error) => {
                return Some(format!(
                    "no tool can run: the deny list of the tool policy can't be read ({error}); the owner \
                     mends it with `flock config validate`"
                ));
            }
        }
    }
    if !matches_one(&agent.allow, tool) || agent.profile.as_ref().is_some_and(|list| !matches_one(list, tool))
    {
        return Some(format!("{tool} is not among the tools you are allowed to use"));
    }
    if agent.autonomy == Autonomy::Readonly && CHANGING.contains(&tool) {
        return Some(format!("{tool} is not possible: your autonomy is readonly, so you can only read"));
    }
    // A command on the host runs once, as it was approved: nobody feeds it or looks at it in between.
    if agent.sandbox == SandboxMode::Off && tool == "process" {
        return Some("process is for background commands of a sandbox, and you have none".to_owned());
    }
    None
}

fn matches_one(patterns: &[String], tool: &str) -> bool {
    patterns.iter().filter_map(|text| Pattern::parse(text).ok()).any(|pattern| pattern.matches(tool))
}

#[cfg(test)]
mod tests;
