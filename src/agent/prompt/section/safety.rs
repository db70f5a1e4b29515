//! The section about safety: forbidden actions for the agent's level of autonomy, and the policy that is enforced in
//! any case.

use crate::agent::prompt::PromptContext;
use crate::agent::prompt::quote::label;
use crate::config::Autonomy;

/// Returns the section's text.
pub(super) fn text(context: &PromptContext<'_>) -> String {
    let autonomy = match context.agent.autonomy {
        Autonomy::Readonly => include_str!("../text/readonly.md"),
        Autonomy::Supervised => include_str!("../text/supervised.md"),
        Autonomy::Full => include_str!("../text/full.md"),
    };
    // The policy is enforced by flock. The prompt names it so that the agent does not try what would be refused.
    let policy = &context.agent.policy;
    let commands = match policy.allowed_commands.as_deref() {
        None => "any".to_owned(),
        Some(names) => joined_names(names),
    };
    format!(
        "{}\n{}\n\n### Active Security Policy\n\n**Autonomy level**: {}\n**Allowed shell commands**: {commands}\n\
         **Forbidden paths**: {}",
        include_str!("../text/safety.md").trim_end(),
        autonomy.trim_end(),
        context.agent.autonomy.as_str(),
        joined_names(&policy.forbidden_paths),
    )
}

fn joined_names(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{}`", label(name))).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
