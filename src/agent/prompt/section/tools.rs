//! The section about tools: their names and uses. Their parameters go to the provider beside the prompt.

use std::fmt::Write as _;

use crate::agent::prompt::quote::label;
use crate::agent::prompt::{PromptContext, ToolCallStyle};
use crate::clean;
use crate::provider::ToolSpec;
use crate::tool::catalog;
use crate::tool::definition::ToolGroup;

/// Returns the section's text.
pub(super) fn text(context: &PromptContext<'_>) -> String {
    let mut text = "## Tools\n\n".to_owned();
    if context.tools.is_empty() {
        text.push_str("You have no tools here. Say so if you need one.");
        return text;
    }
    // Without tool calls in the API, the prompt is the only place for the parameters.
    if context.calls == ToolCallStyle::Text {
        write_full_tools(&mut text, context.tools);
        return text;
    }
    for (use_of, groups) in TOOL_USES {
        let names = context.tools.iter().map(|tool| tool.name.as_str());
        let group = |name| catalog::find(name).map(|tool| tool.group);
        let names: Vec<String> = names.filter(|name| groups.contains(&group(name))).map(label).collect();
        if !names.is_empty() {
            // Writing to a `String` can't fail.
            let _ = writeln!(text, "- {use_of}: {}", names.join(", "));
        }
    }
    text
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

/// The uses of tools, with the groups of each. `None` stands for a tool that is not in the table.
const TOOL_USES: [(&str, &[Option<ToolGroup>]); 7] = [
    ("commands", &[Some(ToolGroup::Commands)]),
    ("files of your workspace", &[Some(ToolGroup::Files), Some(ToolGroup::Pictures)]),
    ("your sessions", &[Some(ToolGroup::Sessions)]),
    ("channels", &[Some(ToolGroup::Channels)]),
    ("vaults and skills", &[Some(ToolGroup::Vaults)]),
    ("team", &[Some(ToolGroup::Team)]),
    ("other", &[None]),
];
