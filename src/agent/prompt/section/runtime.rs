//! The section about the machine, the model and flock's version.

use crate::agent::prompt::quote::label;
use crate::agent::prompt::{PromptContext, PromptSection, SectionError};

pub(super) struct Runtime;

impl PromptSection for Runtime {
    fn name(&self) -> &'static str {
        "runtime"
    }

    fn build(&self, context: &PromptContext<'_>) -> Result<String, SectionError> {
        Ok(format!(
            "## Runtime\n\nHost: {} | OS: {} | Model: {} | flock {}",
            label(&context.knowledge.host),
            std::env::consts::OS,
            label(context.model),
            env!("CARGO_PKG_VERSION"),
        ))
    }
}
