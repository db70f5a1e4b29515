//! The sections for a member of a team: the team's conventions, the agent's own notes, and the shared vaults.

use super::{for_tools, offered};
use crate::agent::prompt::PromptContext;
use crate::agent::prompt::quote::{FileAuthor, quoted};
use crate::provider::ToolSpec;

/// Returns the team's conventions for an agent with these tools, or an empty text if it can't post.
pub(super) fn of_team(tools: &[ToolSpec]) -> String {
    if offered(tools, "flock_channel_post") {
        for_tools(include_str!("../text/team.md"), tools)
    } else {
        String::new()
    }
}

/// Returns the list of the files in the agent's own `memory/`.
pub(super) fn memory(context: &PromptContext<'_>) -> String {
    let memory = &context.knowledge.memory;
    if memory.is_empty() {
        return String::new();
    }
    format!(
        "## Memory\n\nYour notes in memory/, newest first. Read those that matter for your task.\n\n{}",
        memory.text()
    )
}

/// Returns the shared vaults, for agents that can read them.
pub(super) fn shared_vaults(context: &PromptContext<'_>) -> String {
    let vaults = &context.knowledge.vaults;
    // An agent that can't read the vaults is not told about them.
    if vaults.is_empty() || !offered(context.tools, "flock_workspace_read") {
        return String::new();
    }
    let mut parts = vec![for_tools(include_str!("../text/shared.md"), context.tools)];
    for vault in vaults {
        let mut part = format!("### {}", vault.name);
        if let Some((file, text)) = &vault.index {
            // Agents write the vaults, so the index is quoted as information.
            part = format!("{part}\n\n{}", quoted(file, FileAuthor::Agents, text));
        }
        let files = if vault.files.is_empty() { "(empty)".to_owned() } else { vault.files.text() };
        parts.push(format!("{part}\n\n{files}"));
    }
    if context.knowledge.more_vaults {
        parts.push("There are more vaults than these.".to_owned());
    }
    parts.join("\n\n")
}
