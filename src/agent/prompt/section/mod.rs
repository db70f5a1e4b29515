//! The sections of a prompt, one file each. Their fixed texts are the `.md` files in `text/`.
//!
//! The first nine have the same order and headings in every prompt, because people and programs find their way by them.
//! The sections for a team come after those.

mod channel_media;
mod date_time;
mod identity;
mod runtime;
mod safety;
mod skills;
mod team;
mod tool_honesty;
mod tools;
mod workspace;

use super::PromptSection;
use crate::config::Agent;
use crate::provider::ToolSpec;

pub(super) use date_time::date;

/// Returns the nine sections that every prompt has.
pub(super) fn defaults() -> Vec<Box<dyn PromptSection>> {
    vec![
        Box::new(identity::Identity),
        Box::new(tool_honesty::ToolHonesty),
        Box::new(tools::Tools),
        Box::new(safety::Safety),
        Box::new(skills::Skills),
        Box::new(workspace::Workspace),
        Box::new(date_time::DateTime),
        Box::new(runtime::Runtime),
        Box::new(channel_media::ChannelMedia),
    ]
}

/// Returns those of the nine sections that another program's own prompt lacks: identity, safety and local practice. The
/// program itself tells its model about tools, folder, day and model.
pub(super) fn for_programs() -> Vec<Box<dyn PromptSection>> {
    vec![
        Box::new(identity::Identity),
        Box::new(tool_honesty::ToolHonesty),
        Box::new(safety::Safety),
        Box::new(skills::Skills),
        Box::new(channel_media::ChannelMedia),
    ]
}

/// Returns the additional sections for a member of a team.
pub(super) fn team_sections() -> Vec<Box<dyn PromptSection>> {
    vec![Box::new(team::Team), Box::new(team::Memory), Box::new(team::SharedVaults)]
}

/// Returns the introduction and the team section for an agent whose other prompt text comes from another program.
pub(super) fn role_and_team(agent: &Agent, tools: &[ToolSpec]) -> String {
    let parts = [identity::introduction(agent, tools), team::of_team(tools)];
    parts.iter().filter(|part| !part.is_empty()).cloned().collect::<Vec<_>>().join("\n\n")
}

/// Returns a fixed text without the lines that name a tool the agent lacks, because a model tries every tool it reads
/// about.
fn for_tools(text: &str, tools: &[ToolSpec]) -> String {
    let has = |line: &&str| named_tools(line).all(|name| offered(tools, name));
    text.trim_end().lines().filter(has).collect::<Vec<_>>().join("\n")
}

/// Returns the flock tools that a line names in backticks.
pub(super) fn named_tools(line: &str) -> impl Iterator<Item = &str> {
    let words = line.split('`').skip(1).step_by(2);
    // The only tool of flock without the common prefix.
    words.filter(|word| word.starts_with("flock_") || *word == "triage_decision")
}

fn offered(tools: &[ToolSpec], name: &str) -> bool {
    tools.iter().any(|tool| tool.name == name)
}
