//! The system prompt: ordered sections, each of which has a name and writes its part or nothing.
//!
//! A prompt is a function of its inputs. Their hash says whether a session's stored prompt is still the
//! right one, so that a provider's cache holds as long as nothing has changed.

pub mod archetype;
mod files;
mod front;
mod knowledge;
pub mod locale;
mod persona;
mod quote;
mod section;
mod skills;

use jiff::tz::TimeZone;
use sha2::{Digest as _, Sha256};

use crate::config::Agent;
use crate::provider::ToolSpec;

pub use files::{FILES, IdentityFile, MAX_CHARS, read_identity};
pub use knowledge::{Knowledge, Listing, Vault};
pub use persona::Persona;
pub(super) use quote::marks;
pub use quote::without_marks;
pub use skills::{Skill, SkillList};

/// How a model calls tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Calls {
    /// By its API, which is given what each takes.
    Native,
    /// In its answer's text: the prompt says how, and what each takes.
    Text,
}

/// What a prompt is made from.
#[derive(Clone, Debug)]
pub struct PromptContext<'a> {
    /// Whose prompt it is.
    pub agent: &'a Agent,
    /// The model, as people are shown it.
    pub model: &'a str,
    /// The tools the agent is offered.
    pub tools: &'a [ToolSpec],
    /// How it calls them.
    pub calls: Calls,
    /// Who the agent is, what it remembers and what the team has written down.
    pub knowledge: &'a Knowledge,
    /// When the session began, in Unix milliseconds.
    pub began: i64,
    /// The zone that dates are told in.
    pub zone: &'a TimeZone,
}

impl PromptContext<'_> {
    /// Hash of everything that [`SystemPromptBuilder::build`] looks at. Where it is the same, so is the
    /// prompt.
    #[must_use]
    pub fn inputs(&self) -> String {
        // Taken apart by name, so that nothing new can be forgotten.
        let Self { agent, model, tools, calls, knowledge, began: _, zone: _ } = self;
        let Knowledge { host, persona, files, memory, vaults, more_vaults, skills } = knowledge;
        let mut hash = Sha256::new();
        // Each part with its length, so that two lists of parts never look the same.
        let mut part = |text: &str| {
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text.as_bytes());
        };
        part(env!("CARGO_PKG_VERSION"));
        // More of the agent than a prompt shows: where only that has changed, the same text is made again.
        part(&format!("{agent:?}"));
        part(model);
        part(&section::date(self));
        part(&format!("{calls:?} {}", tools.len()));
        for tool in *tools {
            part(&tool.name);
            if *calls == Calls::Text {
                part(&tool.description);
                part(tool.parameters.text());
            }
        }
        part(&format!("{persona:?}"));
        part(host);
        for file in files {
            part(file.name);
            part(&file.text);
        }
        part(&format!("{memory:?}"));
        part(&format!("{vaults:?} {more_vaults}"));
        part(&format!("{skills:?}"));
        crate::id::hex(&hash.finalize())
    }
}

/// Why a section could not be written.
pub type SectionError = Box<dyn std::error::Error + Send + Sync>;

/// A prompt that could not be put together. flock's own sections never fail: what they can't read they name
/// in its place.
#[derive(Debug, thiserror::Error)]
#[error("failed to write the section {section} of the system prompt")]
pub struct PromptError {
    /// Its name.
    pub section: String,
    /// Why.
    #[source]
    pub source: SectionError,
}

/// A part of the prompt.
pub trait PromptSection: Send + Sync {
    /// Its name, for people who look at a prompt.
    fn name(&self) -> &str;

    /// Its text; empty where it has nothing to say here.
    ///
    /// # Errors
    ///
    /// Where there can be no prompt without it.
    fn build(&self, context: &PromptContext<'_>) -> Result<String, SectionError>;
}

/// A section as it stands in a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The section's name.
    pub name: String,
    /// Its text, never empty.
    pub text: String,
}

/// Puts a system prompt together from sections, in their order.
pub struct SystemPromptBuilder {
    sections: Vec<Box<dyn PromptSection>>,
}

impl SystemPromptBuilder {
    /// The nine sections that every prompt has: identity, tool honesty, tools, safety, skills, workspace,
    /// date and time, runtime, channel media.
    #[must_use]
    pub fn with_defaults() -> Self {
        Self { sections: section::defaults() }
    }

    /// The prompt of a member of a team: the nine, then how the team talks, the agent's notes, and what all
    /// have written down.
    #[must_use]
    pub fn for_team() -> Self {
        section::of_a_team().into_iter().fold(Self::with_defaults(), Self::add_section)
    }

    /// What a program is told that runs an agent's turns in flock's place and has a prompt of its own: who the agent
    /// is, what holds for all results, its safety, autonomy, policy and skills, how media arrive, how the team talks, the
    /// agent's notes, and what all have written down.
    #[must_use]
    pub fn for_runtime() -> Self {
        section::of_a_team().into_iter().fold(Self { sections: section::for_programs() }, Self::add_section)
    }

    /// Adds a section after those that are there.
    #[must_use]
    pub fn add_section(mut self, section: Box<dyn PromptSection>) -> Self {
        self.sections.push(section);
        self
    }

    /// The prompt: its sections with one blank line between two.
    ///
    /// # Errors
    ///
    /// If a section fails.
    pub fn build(&self, context: &PromptContext<'_>) -> Result<String, PromptError> {
        let texts: Vec<String> = self.parts(context)?.into_iter().map(|part| part.text).collect();
        Ok(texts.join("\n\n"))
    }

    /// Each section that has something to say.
    ///
    /// # Errors
    ///
    /// If a section fails.
    pub fn parts(&self, context: &PromptContext<'_>) -> Result<Vec<Part>, PromptError> {
        let mut parts = Vec::with_capacity(self.sections.len());
        for section in &self.sections {
            let text = section
                .build(context)
                .map_err(|source| PromptError { section: section.name().to_owned(), source })?;
            let text = text.trim();
            if !text.is_empty() {
                parts.push(Part { name: section.name().to_owned(), text: text.to_owned() });
            }
        }
        Ok(parts)
    }
}

/// What stands beside a message: the time it came and what flock says of it, under flock's own mark, and a client's system
/// text under another. It is part of the message and not of the system prompt, which a client has no say in and which must
/// not change each turn.
#[must_use]
pub fn message_context(at: i64, zone: &TimeZone, client: &[String], guidance: &[String]) -> Vec<String> {
    let open = crate::provider::message::CONTEXT_OPEN;
    let mut blocks = Vec::with_capacity(1 + client.len() + guidance.len());
    if let Ok(time) = jiff::Timestamp::from_millisecond(at) {
        let time = time.to_zoned(zone.clone());
        blocks.push(format!(
            "{open} source=\"flock\">time: {}</flock-context>",
            time.strftime("%Y-%m-%d %H:%M %:z")
        ));
    }
    for text in guidance {
        blocks.push(format!("{open} source=\"flock\">{}</flock-context>", without_marks(text)));
    }
    for text in client {
        // The text must not be able to end its own block and speak as somebody else.
        let text = without_marks(text);
        blocks.push(format!("{open} source=\"client\">\n{text}\n</flock-context>"));
    }
    blocks
}

/// What an agent with these tools is told of its role and its team where another program writes the rest of its prompt.
#[must_use]
pub fn role_and_team(agent: &Agent, tools: &[ToolSpec]) -> String {
    section::role_and_team(agent, tools)
}

#[cfg(test)]
#[path = "prompt_tests.rs"]
mod tests;
