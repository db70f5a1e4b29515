//! The sections of a prompt, one file each. Their fixed texts are the `.md` files in `text/`.
//!
//! The first nine have the same order and headings in every prompt, because people and programs find their way by them.
//! The sections for a team come after those.

mod date_time;
mod identity;
mod runtime;
mod safety;
mod skills;
mod team;
mod tools;
mod workspace;

use super::{PromptContext, PromptSection, SectionError};
use crate::config::Agent;
use crate::provider::ToolSpec;

pub(super) use date_time::date;

/// A section of flock's own: its name and the function that writes its text. It never fails, because it names what it
/// can't read instead.
#[derive(Clone, Copy)]
pub(super) struct OwnSection(&'static str, fn(&PromptContext<'_>) -> String);

impl PromptSection for OwnSection {
    fn name(&self) -> &str {
        self.0
    }

    fn build(&self, context: &PromptContext<'_>) -> Result<String, SectionError> {
        Ok(self.1(context))
    }
}

/// The nine sections that every prompt has.
pub(super) const DEFAULTS: [OwnSection; 9] = [
    OwnSection("identity", identity::text),
    OwnSection("tool_honesty", |_| include_str!("../text/honesty.md").to_owned()),
    OwnSection("tools", tools::text),
    OwnSection("safety", safety::text),
    OwnSection("skills", skills::text),
    OwnSection("workspace", workspace::text),
    OwnSection("date_time", date_time::text),
    OwnSection("runtime", runtime::text),
    OwnSection("channel_media", |_| include_str!("../text/channel_media.md").to_owned()),
];

/// The additional sections for a member of a team.
pub(super) const TEAM: [OwnSection; 3] = [
    OwnSection("team", |context| team::of_team(context.tools)),
    OwnSection("memory", team::memory),
    OwnSection("shared_knowledge", team::shared_vaults),
];

/// Those of the nine sections that another program's own prompt lacks: identity, safety and local practice. The program
/// itself tells its model about tools, folder, day and model.
const FOR_PROGRAMS: [&str; 5] = ["identity", "tool_honesty", "safety", "skills", "channel_media"];

/// Returns the sections of [`FOR_PROGRAMS`].
pub(super) fn for_programs() -> impl Iterator<Item = OwnSection> {
    DEFAULTS.into_iter().filter(|section| FOR_PROGRAMS.contains(&section.0))
}

/// Returns the introduction and the team section for an agent whose other prompt text comes from another program.
pub(crate) fn role_and_team(agent: &Agent, tools: &[ToolSpec]) -> String {
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
