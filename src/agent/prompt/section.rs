//! The sections, in their order. Their fixed texts are the `.md` files beside this one.

use super::{PromptContext, PromptSection};
use crate::config::{Autonomy, Role, SandboxMode};

/// All of them.
pub(super) fn all() -> Vec<Box<dyn PromptSection>> {
    vec![
        Box::new(Who),
        Box::new(Honesty),
        Box::new(Safety),
        Box::new(Workspace),
        Box::new(Identity),
        Box::new(Runtime),
    ]
}

struct Who;

impl PromptSection for Who {
    fn name(&self) -> &'static str {
        "who"
    }

    fn build(&self, context: &PromptContext<'_>) -> Option<String> {
        let role = match context.agent.role {
            Role::Worker => include_str!("text/worker.md"),
            Role::Orchestrator => include_str!("text/orchestrator.md"),
            Role::Sysadmin => include_str!("text/sysadmin.md"),
        };
        let archetype =
            context.agent.archetype.as_deref().map(|name| format!(" ({name})")).unwrap_or_default();
        Some(format!(
            "You are {}, the {}{archetype} in a team of AI agents on one person's machine, run by flock.\n\n{role}",
            context.agent.id,
            context.agent.role.as_str(),
        ))
    }
}

struct Honesty;

impl PromptSection for Honesty {
    fn name(&self) -> &'static str {
        "tool honesty"
    }

    fn build(&self, context: &PromptContext<'_>) -> Option<String> {
        Some(if context.tools.is_empty() {
            "## Tools\n\nYou have no tools here. Say so where one would be needed.".to_owned()
        } else {
            include_str!("text/honesty.md").to_owned()
        })
    }
}

struct Safety;

impl PromptSection for Safety {
    fn name(&self) -> &'static str {
        "safety"
    }

    fn build(&self, context: &PromptContext<'_>) -> Option<String> {
        let autonomy = match context.agent.autonomy {
            Autonomy::Readonly => "You may look at things and not change them.",
            Autonomy::Supervised => {
                "Inside your workspace you decide yourself; whatever reaches beyond it, a person decides."
            }
            Autonomy::Full => "You decide yourself, within what your tools allow.",
        };
        Some(format!("{}\n{autonomy}", include_str!("text/safety.md").trim_end()))
    }
}

struct Workspace;

impl PromptSection for Workspace {
    fn name(&self) -> &'static str {
        "workspace"
    }

    fn build(&self, context: &PromptContext<'_>) -> Option<String> {
        let place = match context.agent.sandbox {
            SandboxMode::All => {
                "Your tools run in your own container, without network. Your workspace is /workspace there; \
                 it is the only place whose files stay. Paths are relative to it."
            }
            SandboxMode::Off => {
                "You have no sandbox: your file tools work in your workspace and nowhere else. Paths are \
                 relative to it."
            }
        };
        Some(format!(
            "## Workspace\n\n{place} Nothing crosses from one session to another but files: keep what you \
             will need again in MEMORY.md."
        ))
    }
}

struct Identity;

impl PromptSection for Identity {
    fn name(&self) -> &'static str {
        "identity"
    }

    fn build(&self, context: &PromptContext<'_>) -> Option<String> {
        if context.files.is_empty() {
            return None;
        }
        let file = |file: &super::IdentityFile| format!("### {}\n\n{}", file.name, file.text);
        let files: Vec<String> = context.files.iter().map(file).collect();
        Some(format!("## Your files\n\n{}", files.join("\n\n")))
    }
}

struct Runtime;

impl PromptSection for Runtime {
    fn name(&self) -> &'static str {
        "date and runtime"
    }

    fn build(&self, context: &PromptContext<'_>) -> Option<String> {
        Some(format!(
            "## Runtime\n\nThis session began on {}; the time of each message stands beside it. Model: {}. \
             flock {}.",
            date(context),
            context.model,
            env!("CARGO_PKG_VERSION"),
        ))
    }
}

/// The day a session began, with the zone it is told in.
pub(super) fn date(context: &PromptContext<'_>) -> String {
    let zone = context.zone.iana_name().unwrap_or("local time");
    match jiff::Timestamp::from_millisecond(context.began) {
        Ok(time) => format!("{} ({zone})", time.to_zoned(context.zone.clone()).strftime("%A %Y-%m-%d")),
        Err(_) => format!("an unknown day ({zone})"),
    }
}
