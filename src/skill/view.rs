//! A skill as programs see it, in `--json` and in the HTTP API.

use serde::Serialize;

use super::arguments::SkillTemplate;
use super::content::SkillContent;
use super::front_matter::SkillArgument;
use super::installed::InstalledSkill;
use super::record::SkillRecord;
use crate::id::{AgentId, FolderName};

/// A skill as programs see it.
#[derive(Debug, Serialize)]
pub(crate) struct SkillView<'s> {
    name: &'s FolderName,
    /// `own`, `intact`, `changed` or `unknown`.
    state: &'static str,
    /// The part that is not in order.
    reason: Option<&'s str>,
    /// `None` if it was not imported.
    record: Option<&'s SkillRecord>,
    /// The hash of its present content, if that can be read.
    hash: Option<String>,
    /// The arguments that its text takes. Empty if its files can't be read.
    arguments: Vec<SkillArgument>,
    /// The agents that may read skills.
    agents: &'s [AgentId],
}

impl<'s> SkillView<'s> {
    /// Returns the view of a skill that these agents may read.
    pub(crate) fn new(skill: &'s InstalledSkill, agents: &'s [AgentId]) -> Self {
        let content = skill.content.as_ref();
        let template = content.map(|content| SkillTemplate::parse(content.instructions()));
        Self {
            name: &skill.name,
            state: skill.state.as_str(),
            reason: skill.state.reason(),
            record: skill.record.as_ref(),
            hash: content.map(SkillContent::hash),
            arguments: template.map(|template| template.arguments().to_vec()).unwrap_or_default(),
            agents,
        }
    }
}
