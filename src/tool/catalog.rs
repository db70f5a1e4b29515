//! The table of all tools, and the registry of the built-in ones.

use std::sync::Arc;

use super::function::FunctionTool;
use super::sessions::{self, SessionService};
use super::{AgentLookup, Registry, ToolDefinition, ToolError, exec, files, process, team};
use crate::provider::ToolSpec;
use crate::sandbox::Sandbox;
use crate::sandbox::workspace_files::Workspaces;

/// All tools, in the order in which they are offered.
pub static TOOLS: [&ToolDefinition; 45] = [
    // Tools stand at the beginning of each request, so another order would invalidate every prompt cache.
    &exec::EXEC,
    &process::PROCESS,
    &files::read::READ,
    &files::write::WRITE,
    &files::edit::EDIT,
    &files::apply_patch::APPLY_PATCH,
    &files::image::IMAGE,
    &sessions::LIST,
    &sessions::HISTORY,
    &sessions::SEND,
    &sessions::SPAWN,
    &sessions::STATUS,
    &team::CHANNEL_POST,
    &team::CHANNEL_READ,
    &team::CHANNEL_LIST,
    &team::ARCHIVE_READY,
    &team::CHANNEL_CREATE,
    &team::ASSIGN_MEMBERS,
    &team::CHANNEL_ARCHIVE,
    &team::STATUS,
    &team::SLEEP,
    &team::MESSAGE,
    &team::TASKS,
    &team::TASK_RESPOND,
    &team::HISTORY,
    &team::DISCOVER,
    &team::UPDATE_CARD,
    &team::AUDIT,
    &team::WORKSPACE_LIST,
    &team::WORKSPACE_READ,
    &team::WORKSPACE_WRITE,
    &team::WORKSPACE_TREE,
    &team::READ_SKILL,
    &team::SCHEDULE,
    &team::MEMORY_SEARCH,
    &team::SYSADMIN_REQUEST,
    &team::TRIAGE_DECISION,
    &team::RESTART_GATEWAY,
    &team::CREATE_AGENT,
    &team::DECOMMISSION_AGENT,
    &team::BRIDGE,
    &team::PROJECT_STATUS,
    &team::PROJECT_SUBMIT,
    &team::PROJECT_CLAIM,
    &team::PROJECT_REVIEW,
];

/// Returns the definition of the tool with this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static ToolDefinition> {
    TOOLS.into_iter().find(|tool| tool.name == name)
}

/// Returns the built-in tools. An agent program brings its own version of each.
pub(crate) fn built_in() -> impl Iterator<Item = &'static ToolDefinition> {
    TOOLS.into_iter().filter(|tool| tool.roles.is_none())
}

/// Returns flock's own tools.
pub fn flocks_own() -> impl Iterator<Item = &'static ToolDefinition> {
    TOOLS.into_iter().filter(|tool| tool.roles.is_some())
}

/// Returns the descriptions of all tools.
#[must_use]
pub fn specs() -> Vec<ToolSpec> {
    TOOLS.into_iter().map(ToolDefinition::spec).collect()
}

/// Returns a registry of tools that have a description but can't be called. It serves commands that measure what the
/// descriptions cost.
#[must_use]
pub(crate) fn described() -> Registry {
    let mut registry = Registry::default();
    // No turn runs with these tools, so their functions are never reached.
    for tool in TOOLS {
        registry.add(FunctionTool::<(), String>::shared(tool, &Arc::new(()), |_, _, _| {
            Box::pin(async { Err(ToolError::model("no tool can be called here")) })
        }));
    }
    registry
}

/// The services that the tools use.
#[derive(Clone)]
pub struct ToolServices {
    /// The sandbox in which commands run.
    pub sandbox: Arc<dyn Sandbox>,
    /// The gateway's sessions.
    pub sessions: Arc<dyn SessionService>,
    /// Looks up an agent's current configuration: its workspace and its sandbox mode.
    pub agents: AgentLookup,
    /// The ways to the agents' workspaces.
    pub workspaces: Workspaces,
}

/// Returns the registry of all built-in tools.
#[must_use]
pub fn build(parts: &ToolServices) -> Registry {
    let mut registry = Registry::default();
    registry.add(exec::tool(&parts.sandbox));
    registry.add(process::tool(&parts.sandbox));
    files::all(&parts.agents, &parts.workspaces).into_iter().for_each(|tool| registry.add(tool));
    sessions::all(&parts.sessions).into_iter().for_each(|tool| registry.add(tool));
    registry
}

#[cfg(test)]
#[path = "catalog_tests.rs"]
mod tests;
