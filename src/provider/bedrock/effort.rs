//! Settings for the reasoning of models behind Converse. They are model-specific fields that Converse passes on.

use serde::Serialize;

use super::super::anthropic::thinking::{self, INTERLEAVED_BETA, Thinking};
use super::super::{Effort, Request};

/// The additional fields of a request. The maker of the model determines which ones it knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub(super) enum AdditionalFields {
    /// Fields of Anthropic's models (the user guide, "Extended thinking" and "Adaptive thinking").
    Claude {
        thinking: Thinking,
        #[serde(skip_serializing_if = "Option::is_none")]
        output_config: Option<OutputConfig>,
        #[serde(skip_serializing_if = "Option::is_none")]
        anthropic_beta: Option<[&'static str; 1]>,
    },
    /// Fields of Amazon's Nova 2 (its user guide, "Extended thinking in Amazon Nova 2").
    #[serde(rename_all = "camelCase")]
    Nova { reasoning_config: ReasoningConfig },
    /// Fields of OpenAI's open models (the user guide, "OpenAI models").
    OpenAi { reasoning_effort: &'static str },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct OutputConfig {
    effort: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub(super) enum ReasoningConfig {
    #[serde(rename_all = "camelCase")]
    Enabled { max_reasoning_effort: &'static str },
}

impl AdditionalFields {
    /// Returns `true` if the model accepts no token limit together with these fields.
    pub(super) fn excludes_token_limit(&self) -> bool {
        matches!(
            self,
            Self::Nova { reasoning_config: ReasoningConfig::Enabled { max_reasoning_effort: "high" } }
        )
    }
}

/// Returns the fields to send, or `None` if the model is told nothing.
///
/// `began_thinking` returns `true` if the current chain of tool calls began with thinking. A budget is refused
/// otherwise.
pub(super) fn of(request: &Request, began_thinking: impl FnOnce() -> bool) -> Option<AdditionalFields> {
    let effort = request.effort?;
    if let Some((thinking, word)) = thinking::of(&request.model, Some(effort), request.max_tokens) {
        return (!matches!(thinking, Thinking::Enabled { .. }) || began_thinking()).then(|| {
            AdditionalFields::Claude {
                thinking,
                output_config: word.map(|effort| OutputConfig { effort }),
                anthropic_beta: thinking::uses_interleaved_thinking(request).then_some([INTERLEAVED_BETA]),
            }
        });
    }
    // Nova does not reason unless told to, and OpenAI's models cannot be told not to.
    if effort == Effort::Off {
        return None;
    }
    let name = request.model.rsplit('/').next().unwrap_or(&request.model);
    if name.contains("amazon.nova-2") {
        let max_reasoning_effort = effort.as_str();
        return Some(AdditionalFields::Nova {
            reasoning_config: ReasoningConfig::Enabled { max_reasoning_effort },
        });
    }
    name.contains("openai.gpt-oss").then_some(AdditionalFields::OpenAi { reasoning_effort: effort.as_str() })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::provider::ToolSpec;

    fn told(model: &str, effort: Effort, tools: bool, began: bool) -> Value {
        let tool = ToolSpec { name: "exec".into(), description: "x".into(), parameters: json!({}).into() };
        let request = Request {
            model: model.into(),
            max_tokens: 20_000,
            effort: Some(effort),
            tools: if tools { vec![tool] } else { Vec::new() },
            ..Request::default()
        };
        serde_json::to_value(of(&request, || began)).unwrap()
    }

    #[test]
    fn each_model_maker_gets_its_own_reasoning_fields() {
        assert_eq!(
            told("global.anthropic.claude-opus-4-6-v1", Effort::Medium, true, false),
            json!({"thinking": {"type": "adaptive"}, "output_config": {"effort": "medium"}})
        );
        let budget = json!({"thinking": {"type": "enabled", "budget_tokens": 8192}});
        let sonnet = "us.anthropic.claude-sonnet-4-5-20250929-v1:0";
        assert_eq!(told(sonnet, Effort::Medium, false, true), budget);
        let mut interleaved = budget.clone();
        interleaved["anthropic_beta"] = json!(["interleaved-thinking-2025-05-14"]);
        assert_eq!(told(sonnet, Effort::Medium, true, true), interleaved);
        // Bedrock refuses the beta for these models.
        for model in ["anthropic.claude-3-7-sonnet-20250219-v1:0", "anthropic.claude-haiku-4-5-20251001-v1:0"]
        {
            assert_eq!(told(model, Effort::Medium, true, true), budget, "{model}");
        }
        assert_eq!(told(sonnet, Effort::Medium, true, false), Value::Null);
        assert_eq!(
            told("us.amazon.nova-2-lite-v1:0", Effort::Low, true, true),
            json!({"reasoningConfig": {"type": "enabled", "maxReasoningEffort": "low"}})
        );
        assert_eq!(
            told("openai.gpt-oss-120b-1:0", Effort::High, true, true),
            json!({"reasoning_effort": "high"})
        );
    }

    #[test]
    fn models_without_effort_settings_get_no_fields() {
        for model in
            ["amazon.nova-pro-v1:0", "meta.llama3-3-70b-instruct-v1:0", "anthropic.claude-3-5-haiku-v1:0"]
        {
            assert_eq!(told(model, Effort::High, true, true), Value::Null, "{model}");
        }
        for model in ["amazon.nova-2-lite-v1:0", "openai.gpt-oss-20b-1:0", "anthropic.claude-opus-4-6-v1"] {
            assert_eq!(told(model, Effort::Off, true, true), Value::Null, "{model}");
        }
    }
}
