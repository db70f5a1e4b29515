//! The section that tells the agent to treat tool results as what really happened.

use crate::agent::prompt::{PromptContext, PromptSection, SectionError};

pub(super) struct ToolHonesty;

impl PromptSection for ToolHonesty {
    fn name(&self) -> &'static str {
        "tool_honesty"
    }

    fn build(&self, _: &PromptContext<'_>) -> Result<String, SectionError> {
        Ok(include_str!("../text/honesty.md").to_owned())
    }
}
