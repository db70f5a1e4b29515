//! The section about tools: their names and uses. Their parameters go to the provider beside the prompt.

use std::fmt::Write as _;

use crate::agent::prompt::quote::label;
use crate::agent::prompt::{PromptContext, PromptSection, SectionError, ToolCallStyle};
use crate::clean;
use crate::provider::ToolSpec;

pub(super) struct Tools;

impl PromptSection for Tools {
    fn name(&self) -> &'static str {
        "tools"
    }

    fn build(&self, context: &PromptContext<'_>) -> Result<String, SectionError> {
        let mut text = "## Tools\n\n".to_owned();
        if context.tools.is_empty() {
            text.push_str("You have no tools here. Say so if you need one.");
            return Ok(text);
        }
        // Without tool calls in the API, the prompt is the only place for the parameters.
        if context.calls == ToolCallStyle::Text {
            write_full_tools(&mut text, context.tools);
            return Ok(text);
        }
        for (use_of, belongs) in TOOL_GROUPS {
            let names = context.tools.iter().map(|tool| tool.name.as_str());
            let names: Vec<String> = names.filter(|name| group_of(name) == *belongs).map(label).collect();
            if !names.is_empty() {
                // Writing to a `String` can't fail.
                let _ = writeln!(text, "- {use_of}: {}", names.join(", "));
            }
        }
        Ok(text)
    }
}

/// Writes each tool with its parameters, and the instructions to call it in text.
fn write_full_tools(text: &mut String, tools: &[ToolSpec]) {
    for tool in tools {
        // Names and descriptions come from flock or the owner, but are kept on one line all the same.
        let (name, description) = (label(&tool.name), clean::inline(&tool.description));
        let parameters = tool.parameters.text();
        let parameters = clean::inline(parameters);
        let _ = writeln!(text, "- **{name}**: {description}\n  Parameters: `{parameters}`");
    }
    text.push('\n');
    text.push_str(include_str!("../text/calls.md").trim_end());
}

/// The use of a tool, by which the section groups them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ToolGroup {
    Commands,
    Files,
    Sessions,
    Channels,
    Vaults,
    Team,
    Other,
}

const TOOL_GROUPS: &[(&str, ToolGroup)] = &[
    ("commands", ToolGroup::Commands),
    ("files of your workspace", ToolGroup::Files),
    ("your sessions", ToolGroup::Sessions),
    ("channels", ToolGroup::Channels),
    ("vaults and skills", ToolGroup::Vaults),
    ("team", ToolGroup::Team),
    ("other", ToolGroup::Other),
];

fn group_of(name: &str) -> ToolGroup {
    match name {
        "exec" | "process" => ToolGroup::Commands,
        "read" | "write" | "edit" | "apply_patch" | "image" => ToolGroup::Files,
        _ if name.starts_with("session") => ToolGroup::Sessions,
        // The special names come before the general prefix `flock_`.
        "flock_archive_ready" | "flock_assign_members" => ToolGroup::Channels,
        _ if name.starts_with("flock_channel_") => ToolGroup::Channels,
        "flock_read_skill" => ToolGroup::Vaults,
        _ if name.starts_with("flock_workspace_") => ToolGroup::Vaults,
        "triage_decision" => ToolGroup::Team,
        _ if name.starts_with("flock_") => ToolGroup::Team,
        _ => ToolGroup::Other,
    }
}
