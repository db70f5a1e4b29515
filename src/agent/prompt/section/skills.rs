//! What is written down about how things are done here.

use super::offered;
use crate::agent::prompt::{PromptContext, PromptSection, SectionError};

pub(super) struct Skills;

impl PromptSection for Skills {
    fn name(&self) -> &'static str {
        "skills"
    }

    fn build(&self, context: &PromptContext<'_>) -> Result<String, SectionError> {
        let skills = &context.knowledge.skills;
        if skills.is_empty() || !offered(context.tools, "flock_read_skill") {
            return Ok(String::new());
        }
        let names: Vec<&str> = skills.iter().map(crate::id::FolderName::as_str).collect();
        Ok(format!(
            "## Skills\n\nHow these are done here is written down; read it with `flock_read_skill` before you do \
             one: {}.",
            names.join(", ")
        ))
    }
}
