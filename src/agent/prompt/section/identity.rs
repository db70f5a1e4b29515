//! The section about the agent: its role, then the files about it.

use super::for_tools;
use crate::agent::prompt::PromptContext;
use crate::agent::prompt::quote::{FileAuthor, label, marked};
use crate::config::{Agent, Role};
use crate::provider::ToolSpec;
use crate::sandbox::spec::IDENTITY_FILES;

/// Returns the section's text.
pub(super) fn text(context: &PromptContext<'_>) -> String {
    let mut parts = vec!["## Project Context".to_owned(), introduction(context.agent, context.tools)];
    if let Some(persona) = &context.knowledge.persona {
        // A persona may come from a place that agents can write to. Then its text counts as information only.
        let by = if persona.by_agents { FileAuthor::Agents } else { FileAuthor::Owner };
        parts.push(format!("### {}\n\n{}", label(&persona.name), marked(by, &persona.text)));
    }
    for file in &context.knowledge.files {
        // Only the five identity files are the owner's. The others are in the workspace, which the agent can write.
        let by = if IDENTITY_FILES.contains(&file.name) { FileAuthor::Owner } else { FileAuthor::Agents };
        parts.push(format!("### {}\n\n{}", file.name, marked(by, &file.text)));
    }
    parts.join("\n\n")
}

/// Returns the introduction of an agent with these tools: its name and the text of its role.
pub(super) fn introduction(agent: &Agent, tools: &[ToolSpec]) -> String {
    let archetype = agent.archetype.as_deref().map(|name| format!(" ({})", label(name)));
    format!(
        "You are {}, the {}{} in a team of AI agents on one person's machine, run by flock.\n\n{}",
        agent.id,
        agent.role.as_str(),
        archetype.unwrap_or_default(),
        for_tools(role(agent.role), tools),
    )
}

/// Returns the text of a role.
const fn role(role: Role) -> &'static str {
    match role {
        Role::Worker => include_str!("../text/worker.md"),
        Role::Orchestrator => include_str!("../text/orchestrator.md"),
        Role::Sysadmin => include_str!("../text/sysadmin.md"),
    }
}
