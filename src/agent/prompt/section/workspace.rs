//! The section about the folder in which the agent's tools work.

use crate::agent::compaction::findings::{FOLDER, MAIN};
use crate::agent::prompt::PromptContext;
use crate::agent::prompt::quote::label;
use crate::config::{Network, SandboxMode};

/// Returns the section's text.
pub(super) fn text(context: &PromptContext<'_>) -> String {
    let agent = context.agent;
    let network = match agent.network {
        Network::None => "without network",
        Network::Proxy => "which reaches allowed hosts through a proxy",
    };
    // In a sandbox the folder has a fixed path. The path on the host would be of no use to the agent.
    let (folder, place) = match agent.sandbox {
        SandboxMode::All => (
            "/workspace".to_owned(),
            format!("Your tools run in your own container, {network}. Only files in this folder are kept."),
        ),
        SandboxMode::Off => (
            label(&agent.workspace.to_string_lossy()),
            "You have no sandbox. Your file tools work only in this folder.".to_owned(),
        ),
    };
    format!(
        "## Workspace\n\nWorking directory: `{folder}`\n\n{place} Paths are relative to it. Sessions share \
         only files: note what you will need in MEMORY.md, by subject, longer notes in memory/. Put findings in \
         {FOLDER}/<channel id or {MAIN}>/ as finding_*.md, staged_*, todo.txt: a compaction lists them."
    )
}
