//! What is not done, by how far the agent may go, and the policy that holds whatever it thinks of it.

use crate::agent::prompt::{PromptContext, PromptSection, SectionError};
use crate::config::Autonomy;

pub(super) struct Safety;

impl PromptSection for Safety {
    fn name(&self) -> &'static str {
        "safety"
    }

    fn build(&self, context: &PromptContext<'_>) -> Result<String, SectionError> {
        let autonomy = match context.agent.autonomy {
            Autonomy::Readonly => include_str!("../text/readonly.md"),
            Autonomy::Supervised => include_str!("../text/supervised.md"),
            Autonomy::Full => include_str!("../text/full.md"),
        };
        Ok(format!(
            "{}\n{}\n\n### Active Security Policy\n\n**Autonomy level**: {}",
            include_str!("../text/safety.md").trim_end(),
            autonomy.trim_end(),
            context.agent.autonomy.as_str(),
        ))
    }
}
