//! The sections, in their order. Their fixed texts are the `.md` files beside this one.

use super::quote::{By, quoted};
use super::{PromptContext, PromptSection};
use crate::config::{Autonomy, Network, Role, SandboxMode};
use crate::provider::ToolSpec;
use crate::sandbox::spec::IDENTITY_FILES;

/// All of them.
pub(super) fn all() -> Vec<Box<dyn PromptSection>> {
    vec![
        Box::new(Who),
        Box::new(Team),
        Box::new(Honesty),
        Box::new(Safety),
        Box::new(Workspace),
        Box::new(Identity),
        Box::new(Memory),
        Box::new(Shared),
        Box::new(Skills),
        Box::new(Runtime),
    ]
}

/// What a role's text says.
const fn role(role: Role) -> &'static str {
    match role {
        Role::Worker => include_str!("text/worker.md"),
        Role::Orchestrator => include_str!("text/orchestrator.md"),
        Role::Sysadmin => include_str!("text/sysadmin.md"),
    }
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

struct Who;

impl PromptSection for Who {
    fn name(&self) -> &'static str {
        "who"
    }

    fn build(&self, context: &PromptContext<'_>) -> Option<String> {
        let archetype = context
            .agent
            .archetype
            .as_deref()
            .map(|name| format!(" ({})", super::quote::label(name)))
            .unwrap_or_default();
        Some(format!(
            "You are {}, the {}{archetype} in a team of AI agents on one person's machine, run by flock.\n\n{}",
            context.agent.id,
            context.agent.role.as_str(),
            for_tools(role(context.agent.role), context.tools),
        ))
    }
}

/// Only for agents that can speak in channels.
struct Team;

impl PromptSection for Team {
    fn name(&self) -> &'static str {
        "team"
    }

    fn build(&self, context: &PromptContext<'_>) -> Option<String> {
        offered(context.tools, "flock_channel_post")
            .then(|| for_tools(include_str!("text/team.md"), context.tools))
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
                "In your workspace and among the team you decide yourself; what reaches further, a person decides."
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
        let network = match context.agent.network {
            Network::None => "without network",
            Network::Proxy => "which reaches the hosts you are allowed through a proxy",
        };
        let place = match context.agent.sandbox {
            SandboxMode::All => format!(
                "Your tools run in your own container, {network}. Your workspace is /workspace there; it is \
                 the only place whose files stay. Paths are relative to it."
            ),
            SandboxMode::Off => {
                "You have no sandbox: your file tools work in your workspace and nowhere else. \
                                 Paths are relative to it."
                    .to_owned()
            }
        };
        Some(format!(
            "## Workspace\n\n{place} Nothing crosses from one session to another but files: keep what you \
             will need again in MEMORY.md, by subject, and longer notes in memory/."
        ))
    }
}

struct Identity;

impl PromptSection for Identity {
    fn name(&self) -> &'static str {
        "identity"
    }

    fn build(&self, context: &PromptContext<'_>) -> Option<String> {
        let files = &context.knowledge.files;
        let by = |name| if IDENTITY_FILES.contains(&name) { By::Owner } else { By::Agents };
        let texts: Vec<String> =
            files.iter().map(|file| quoted(file.name, by(file.name), &file.text)).collect();
        (!files.is_empty()).then(|| format!("## Your files\n\n{}", texts.join("\n\n")))
    }
}

struct Memory;

impl PromptSection for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn build(&self, context: &PromptContext<'_>) -> Option<String> {
        let memory = &context.knowledge.memory;
        (!memory.is_empty()).then(|| {
            format!(
                "## Memory\n\nYour notes in memory/, the newest first. Read what matters for the work at hand.\n\n{}",
                memory.text()
            )
        })
    }
}

/// What the team has written down, for agents that can read it.
struct Shared;

impl PromptSection for Shared {
    fn name(&self) -> &'static str {
        "shared knowledge"
    }

    fn build(&self, context: &PromptContext<'_>) -> Option<String> {
        let vaults = &context.knowledge.vaults;
        if vaults.is_empty() || !offered(context.tools, "flock_workspace_read") {
            return None;
        }
        let mut parts = vec![for_tools(include_str!("text/shared.md"), context.tools)];
        for vault in vaults {
            let mut part = format!("### {}", vault.name);
            if let Some((file, text)) = &vault.index {
                part = format!("{part}\n\n{}", quoted(file, By::Agents, text));
            }
            let files = if vault.files.is_empty() { "(empty)".to_owned() } else { vault.files.text() };
            parts.push(format!("{part}\n\n{files}"));
        }
        if context.knowledge.more_vaults {
            parts.push("There are more vaults than these.".to_owned());
        }
        Some(parts.join("\n\n"))
    }
}

struct Skills;

impl PromptSection for Skills {
    fn name(&self) -> &'static str {
        "skills"
    }

    fn build(&self, context: &PromptContext<'_>) -> Option<String> {
        let skills = &context.knowledge.skills;
        if skills.is_empty() || !offered(context.tools, "flock_read_skill") {
            return None;
        }
        let names: Vec<&str> = skills.iter().map(crate::id::FolderName::as_str).collect();
        Some(format!(
            "## Skills\n\nHow these are done here is written down; read it with `flock_read_skill` before you do \
             one: {}.",
            names.join(", ")
        ))
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
