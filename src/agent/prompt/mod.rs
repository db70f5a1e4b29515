//! The system prompt: a list of named sections, each of which writes its text or nothing.
//!
//! A prompt is a function of its inputs. A hash of the inputs tells if a session's stored prompt is still right, so
//! that the provider's cache stays valid as long as nothing has changed.

pub mod archetype;
mod files;
mod knowledge;
pub(crate) mod locale;
mod persona;
mod quote;
mod section;
mod skills;

use jiff::tz::TimeZone;
use sha2::{Digest as _, Sha256};

use crate::config::Agent;
use crate::provider::ToolSpec;

pub use files::{FILES, read_identity};
pub use knowledge::Knowledge;
pub(crate) use quote::without_marks;
pub(super) use quote::{call_marks, marks};
pub(crate) use section::role_and_team;
pub(crate) use skills::purpose as skill_purpose;

/// The way in which a model calls tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolCallStyle {
    /// Through the API, which gets the tools' parameters.
    Native,
    /// In the text of its answer. The prompt explains how, and lists the parameters.
    Text,
}

/// The inputs of a prompt.
#[derive(Clone, Debug)]
pub struct PromptContext<'a> {
    pub agent: &'a Agent,
    /// The model's name for people.
    pub model: &'a str,
    /// The tools that the agent is offered.
    pub tools: &'a [ToolSpec],
    pub calls: ToolCallStyle,
    /// The agent's identity and memory, and the team's vaults.
    pub knowledge: &'a Knowledge,
    /// Start of the session in Unix milliseconds.
    pub began: i64,
    /// The time zone in which dates are written.
    pub zone: &'a TimeZone,
}

impl PromptContext<'_> {
    /// Returns a hash of everything that [`SystemPromptBuilder::build`] reads. If the hash is the same, so is the
    /// prompt.
    #[must_use]
    pub fn inputs(&self) -> String {
        // Destructured by name, so that the compiler points here when a field is added.
        let Self { agent, model, tools, calls, knowledge, began: _, zone: _ } = self;
        let Knowledge { host, persona, files, memory, vaults, more_vaults, skills } = knowledge;
        let mut hash = Sha256::new();
        // Each part is preceded by its length, so that two different lists of parts never hash the same bytes.
        let mut part = |text: &str| {
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text.as_bytes());
        };
        part(env!("CARGO_PKG_VERSION"));
        // This covers more of the agent than a prompt shows. If only the rest has changed, the same text is built
        // again.
        part(&format!("{agent:?}"));
        part(model);
        part(&section::date(self));
        part(&format!("{calls:?} {}", tools.len()));
        for tool in *tools {
            part(&tool.name);
            // The descriptions are in the prompt only if the model calls tools in text.
            if *calls == ToolCallStyle::Text {
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

/// An error of a section.
pub type SectionError = Box<dyn std::error::Error + Send + Sync>;

/// A prompt that could not be built. flock's own sections never fail: they name what they can't read instead.
#[derive(Debug, thiserror::Error)]
#[error("failed to write the section {section} of the system prompt")]
pub struct PromptError {
    pub section: String,
    #[source]
    pub source: SectionError,
}

/// A section of the prompt.
pub(crate) trait PromptSection: Send + Sync {
    /// Returns the section's name, for people who inspect a prompt.
    fn name(&self) -> &str;

    /// Returns the section's text, which is empty if it does not apply.
    ///
    /// # Errors
    ///
    /// Returns an error if there can be no prompt without this section.
    fn build(&self, context: &PromptContext<'_>) -> Result<String, SectionError>;
}

/// The text of one section of a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SectionText {
    pub name: String,
    /// The text, which is never empty.
    pub text: String,
}

/// Builds a system prompt from sections, in order.
pub struct SystemPromptBuilder {
    sections: Vec<Box<dyn PromptSection>>,
}

impl SystemPromptBuilder {
    /// Creates a builder with the nine sections that every prompt has: identity, tool honesty, tools, safety, skills,
    /// workspace, date and time, runtime, channel media.
    #[must_use]
    pub(crate) fn with_defaults() -> Self {
        Self { sections: Vec::new() }.with(section::DEFAULTS)
    }

    /// Creates the builder for a member of a team: the nine sections, then the team's conventions, the agent's notes
    /// and the shared vaults.
    #[must_use]
    pub fn for_team() -> Self {
        Self::with_defaults().with(section::TEAM)
    }

    /// Creates the builder for a program that runs an agent's turns and has a prompt of its own. It adds the agent's
    /// identity, the rule about tool results, safety with autonomy and policy, skills, media, the team's conventions,
    /// the agent's notes and the shared vaults.
    #[must_use]
    pub(crate) fn for_runtime() -> Self {
        Self { sections: Vec::new() }.with(section::for_programs()).with(section::TEAM)
    }

    fn with(self, sections: impl IntoIterator<Item = section::OwnSection>) -> Self {
        sections.into_iter().fold(self, |builder, section| builder.add_section(Box::new(section)))
    }

    /// Adds a section at the end.
    #[must_use]
    pub(crate) fn add_section(mut self, section: Box<dyn PromptSection>) -> Self {
        self.sections.push(section);
        self
    }

    /// Builds the prompt, with a blank line between two sections.
    ///
    /// # Errors
    ///
    /// Returns an error if a section fails.
    pub fn build(&self, context: &PromptContext<'_>) -> Result<String, PromptError> {
        let texts: Vec<String> = self.parts(context)?.into_iter().map(|part| part.text).collect();
        Ok(texts.join("\n\n"))
    }

    /// Returns the sections that are not empty.
    ///
    /// # Errors
    ///
    /// Returns an error if a section fails.
    pub fn parts(&self, context: &PromptContext<'_>) -> Result<Vec<SectionText>, PromptError> {
        let mut parts = Vec::with_capacity(self.sections.len());
        for section in &self.sections {
            let text = section
                .build(context)
                .map_err(|source| PromptError { section: section.name().to_owned(), source })?;
            // An empty section leaves no gap in the prompt.
            let text = text.trim();
            if !text.is_empty() {
                parts.push(SectionText { name: section.name().to_owned(), text: text.to_owned() });
            }
        }
        Ok(parts)
    }
}

/// Returns the texts that stand beside a message: the time and flock's own remarks under flock's mark, and a client's
/// system text under another mark.
///
/// They belong to the message, not to the system prompt: a client has no say in that, and it must not change with each
/// turn.
#[must_use]
pub(crate) fn message_context(
    at: i64,
    zone: &TimeZone,
    client: &[String],
    guidance: &[String],
) -> Vec<String> {
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
        // The text must not be able to end its own block and speak under another name.
        let text = without_marks(text);
        blocks.push(format!("{open} source=\"client\">\n{text}\n</flock-context>"));
    }
    blocks
}

#[cfg(test)]
#[path = "prompt_tests.rs"]
mod tests;
