//! The system prompt as an agent's next turn would send it, by sections and with their sizes.

use jiff::tz::TimeZone;
use serde::Serialize;

use super::estimate::{text_cost, tools_cost};
use super::prompt::{Knowledge, PromptContext, PromptError, SystemPromptBuilder, ToolCallStyle, locale};
use crate::config::{Agent, Config};
use crate::home::Home;
use crate::provider::catalog::{known_models, label};
use crate::runtime::NATIVE;
use crate::tool::{catalog, policy};

/// A prompt, and the tools that are sent to the provider beside it. Tokens are estimated as for a compaction, so the
/// numbers can be compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct PromptReport {
    /// The model's name for people.
    pub model: Option<String>,
    /// The runtime of the agent's turns. One that is not flock's own has a prompt and tools of its own, and this is
    /// what flock adds to them.
    pub runtime: String,
    /// A hash of everything that the prompt is made of.
    pub inputs: String,
    pub tokens: u64,
    pub bytes: usize,
    pub sections: Vec<SectionReport>,
    /// Empty if the prompt itself describes the tools.
    pub tools: OfferedTools,
}

/// A section of a prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct SectionReport {
    pub name: String,
    pub tokens: u64,
    pub bytes: usize,
    pub text: String,
}

/// The tools that are sent beside a prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct OfferedTools {
    pub names: Vec<String>,
    pub tokens: u64,
}

impl PromptReport {
    /// Makes the prompt of a session that began at this time, in Unix milliseconds.
    ///
    /// # Errors
    ///
    /// Returns an error if a section can't be written.
    pub(crate) fn of(home: &Home, config: &Config, agent: &Agent, began: i64) -> Result<Self, PromptError> {
        let is_native = agent.runtime == NATIVE;
        // The same policy decides here as in a turn, so the list is what the model would be offered.
        let mut tools = policy::offered(agent, &catalog::specs());
        if is_native {
            locale::describe(home, agent.language.as_deref(), &mut tools);
        } else {
            // The program has its own tools besides flock's.
            tools.retain(|tool| policy::is_flocks_own(&tool.name));
        }
        // A model that can't call tools gets their descriptions in the prompt instead.
        let calls_tools = !is_native
            || agent.model.as_ref().is_none_or(|model| known_models::supports_tools(config, model));
        let name = |model| if is_native { label(model) } else { model.to_string() };
        let model = agent.model.as_ref().map(name);
        let knowledge = Knowledge::read(home, agent);
        let context = PromptContext {
            agent,
            model: model.as_deref().unwrap_or("none"),
            tools: &tools,
            calls: if calls_tools { ToolCallStyle::Native } else { ToolCallStyle::Text },
            knowledge: &knowledge,
            began,
            zone: &TimeZone::system(),
        };
        let (builder, inputs) = if is_native {
            // A native agent gets the whole prompt. Another program has its own and gets only what flock adds.
            (SystemPromptBuilder::for_team(), context.inputs())
        } else {
            (SystemPromptBuilder::for_runtime(), format!("{} {}", agent.runtime, context.inputs()))
        };
        let sections: Vec<SectionReport> = builder
            .parts(&context)?
            .into_iter()
            .map(|part| SectionReport {
                name: part.name,
                tokens: text_cost(&part.text),
                bytes: part.text.len(),
                text: part.text,
            })
            .collect();
        if !calls_tools {
            // The prompt already contains the tools.
            tools.clear();
        }
        let texts: usize = sections.iter().map(|section| section.bytes).sum();
        // One blank line stands between two sections.
        let bytes = texts + 2 * sections.len().saturating_sub(1);
        Ok(Self {
            tokens: (bytes as u64).div_ceil(4),
            bytes,
            sections,
            tools: OfferedTools {
                names: tools.iter().map(|tool| tool.name.clone()).collect(),
                tokens: tools_cost(&tools),
            },
            runtime: agent.runtime.clone(),
            inputs,
            model,
        })
    }
}
