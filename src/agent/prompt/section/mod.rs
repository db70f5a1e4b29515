//! The sections, one file each. Their fixed texts are the `.md` files in `text/`.
//!
//! The first nine have the same order and headings in every prompt: people and programs read a prompt by
//! them. What a team adds comes after.

mod channel_media;
mod date_time;
mod honesty;
mod identity;
mod runtime;
mod safety;
mod skills;
mod team;
mod tools;
mod workspace;

use super::PromptSection;
use crate::config::Agent;
use crate::provider::ToolSpec;

pub(super) use date_time::date;

/// The nine that every prompt has.
pub(super) fn defaults() -> Vec<Box<dyn PromptSection>> {
    vec![
        Box::new(identity::Identity),
        Box::new(honesty::ToolHonesty),
        Box::new(tools::Tools),
        Box::new(safety::Safety),
        Box::new(skills::Skills),
        Box::new(workspace::Workspace),
        Box::new(date_time::DateTime),
        Box::new(runtime::Runtime),
        Box::new(channel_media::ChannelMedia),
    ]
}

/// Those of the nine that a program has nothing of in a prompt of its own: who the agent is, what it must not do and how
/// things are done here. Tools, the folder, the day and the model it tells its model itself.
pub(super) fn for_programs() -> Vec<Box<dyn PromptSection>> {
    vec![
        Box::new(identity::Identity),
        Box::new(honesty::ToolHonesty),
        Box::new(safety::Safety),
        Box::new(skills::Skills),
        Box::new(channel_media::ChannelMedia),
    ]
}

/// What a member of a team knows besides.
pub(super) fn of_a_team() -> Vec<Box<dyn PromptSection>> {
    vec![Box::new(team::Team), Box::new(team::Memory), Box::new(team::Shared)]
}

/// What an agent with these tools is told of its role and its team where another program writes the rest of its prompt.
pub(super) fn role_and_team(agent: &Agent, tools: &[ToolSpec]) -> String {
    let parts = [identity::introduction(agent, tools), team::of_team(tools)];
    parts.iter().filter(|part| !part.is_empty()).cloned().collect::<Vec<_>>().join("\n\n")
}

/// A fixed text without the lines that name a tool the agent does not have: what a model knows of, it tries.
fn for_tools(text: &str, tools: &[ToolSpec]) -> String {
    let has = |line: &&str| named_tools(line).all(|name| offered(tools, name));
    text.trim_end().lines().filter(has).collect::<Vec<_>>().join("\n")
}

/// The tools of flock that a line names, in backticks.
pub(super) fn named_tools(line: &str) -> impl Iterator<Item = &str> {
    let words = line.split('`').skip(1).step_by(2);
    words.filter(|word| word.starts_with("flock_") || *word == "triage_decision")
}

fn offered(tools: &[ToolSpec], name: &str) -> bool {
    tools.iter().any(|tool| tool.name == name)
}
