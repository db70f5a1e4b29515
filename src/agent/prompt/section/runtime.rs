//! The section about the machine, the model and flock's version.

use crate::agent::prompt::PromptContext;
use crate::agent::prompt::quote::label;

/// Returns the section's text.
pub(super) fn text(context: &PromptContext<'_>) -> String {
    format!(
        "## Runtime\n\nHost: {} | OS: {} | Model: {} | flock {}",
        label(&context.knowledge.host),
        std::env::consts::OS,
        label(context.model),
        env!("CARGO_PKG_VERSION"),
    )
}
