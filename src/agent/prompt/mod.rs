//! The system prompt: ordered sections, each of which has a name and writes its part or nothing.
//!
//! A prompt is a function of its inputs. Their hash says whether a session's stored prompt is still the
//! right one, so that a provider's cache holds as long as nothing has changed.

pub mod archetype;
mod files;
mod knowledge;
mod quote;
mod section;

use jiff::tz::TimeZone;
use sha2::{Digest as _, Sha256};

use crate::config::Agent;
use crate::provider::ToolSpec;

pub use files::{IdentityFile, MAX_CHARS, read_identity};
pub use knowledge::{Knowledge, Listing, Vault};
pub(super) use quote::without_marks;

/// What a prompt is made from.
#[derive(Clone, Debug)]
pub struct PromptContext<'a> {
    /// Whose prompt it is.
    pub agent: &'a Agent,
    /// The model, as people are shown it.
    pub model: &'a str,
    /// The tools the agent is offered.
    pub tools: &'a [ToolSpec],
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
        let mut hash = Sha256::new();
        // Each part with its length, so that two lists of parts never look the same.
        let mut part = |text: &str| {
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text.as_bytes());
        };
        part(env!("CARGO_PKG_VERSION"));
        part(self.agent.id.as_str());
        part(self.agent.role.as_str());
        part(&format!("{:?} {:?} {:?}", self.agent.autonomy, self.agent.sandbox, self.agent.network));
        part(self.agent.archetype.as_deref().unwrap_or_default());
        part(self.model);
        part(&section::date(self));
        for tool in self.tools {
            part(&tool.name);
        }
        for file in &self.knowledge.files {
            part(file.name);
            part(&file.text);
        }
        part(&format!("{:?}", self.knowledge.memory));
        part(&format!("{:?} {}", self.knowledge.vaults, self.knowledge.more_vaults));
        part(&format!("{:?}", self.knowledge.skills));
        crate::id::hex(&hash.finalize())
    }
}

/// A part of the prompt.
pub trait PromptSection: Send + Sync {
    /// Its name, for people who look at a prompt.
    fn name(&self) -> &'static str;

    /// Its text; `None` where it has nothing to say here.
    fn build(&self, context: &PromptContext<'_>) -> Option<String>;
}

/// Puts a system prompt together from sections, in their order.
pub struct SystemPromptBuilder {
    sections: Vec<Box<dyn PromptSection>>,
}

impl Default for SystemPromptBuilder {
    fn default() -> Self {
        Self { sections: section::all() }
    }
}

impl SystemPromptBuilder {
    /// The prompt.
    #[must_use]
    pub fn build(&self, context: &PromptContext<'_>) -> String {
        let texts: Vec<String> = self.parts(context).into_iter().map(|(_, text)| text).collect();
        texts.join("\n\n")
    }

    /// The name and text of each section that has something to say.
    #[must_use]
    pub fn parts(&self, context: &PromptContext<'_>) -> Vec<(&'static str, String)> {
        let part = |section: &dyn PromptSection| {
            let text = section.build(context)?;
            Some((section.name(), text.trim().to_owned()))
        };
        self.sections.iter().filter_map(|section| part(&**section)).collect()
    }
}

/// What stands beside a person's message: the time it came, and a client's system text. It is part of the
/// message and not of the system prompt, which a client has no say in and which must not change each turn.
#[must_use]
pub fn message_context(at: i64, zone: &TimeZone, client: &[String]) -> Vec<String> {
    let open = crate::provider::message::CONTEXT_OPEN;
    let mut blocks = Vec::with_capacity(1 + client.len());
    if let Ok(time) = jiff::Timestamp::from_millisecond(at) {
        let time = time.to_zoned(zone.clone());
        blocks.push(format!(
            "{open} source=\"flock\">time: {}</flock-context>",
            time.strftime("%Y-%m-%d %H:%M %:z")
        ));
    }
    for text in client {
        // The text must not be able to end its own block and speak as somebody else.
        let text = without_marks(text);
        blocks.push(format!("{open} source=\"client\">\n{text}\n</flock-context>"));
    }
    blocks
}

#[cfg(test)]
#[path = "prompt_tests.rs"]
mod tests;
