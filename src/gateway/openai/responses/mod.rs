//! OpenAI's Responses API: a turn of an agent as a response with items.

pub(crate) mod output;
pub(crate) mod request;

use serde_json::{Map, Value, json};

use super::AnswerLimits;
use crate::clock::unix_ms;
use crate::id::TurnId;
use crate::provider::Usage;

pub(crate) use output::{ResponseOutput, ResponseWriter};
pub(crate) use request::ResponseRequest;

/// The beginning of each response's id. The id of its turn follows.
const ID_PREFIX: &str = "resp_";

/// Returns the id of a turn's response.
#[must_use]
pub(crate) fn response_id(turn: TurnId) -> String {
    format!("{ID_PREFIX}{turn}")
}

/// Returns the turn that the id of a response's item names.
#[must_use]
pub(crate) fn turn_of_item(id: &str) -> Option<TurnId> {
    let (_, rest) = id.split_once('_')?;
    rest.rsplit_once('_')?.0.parse().ok()
}

/// Returns the turn that a response's id names.
#[must_use]
pub(crate) fn turn_of(id: &str) -> Option<TurnId> {
    id.strip_prefix(ID_PREFIX)?.parse().ok()
}

/// The values of a response that are known when its turn begins.
#[derive(Clone, Debug)]
pub(crate) struct ResponseHead {
    turn: TurnId,
    /// The response object without items. It repeats what the client asked for.
    fields: Map<String, Value>,
}

/// The parts of a request that its response repeats.
#[derive(Clone, Debug, Default)]
pub(crate) struct RepeatedFields {
    /// Name of the model as the client gave it.
    pub(crate) model: String,
    pub(crate) instructions: Option<String>,
    /// The id of the response that this one continues.
    pub(crate) previous: Option<String>,
    /// The client's own key-value pairs.
    pub(crate) metadata: Map<String, Value>,
    /// The `text` parameter.
    pub(crate) text: Option<Value>,
    pub(crate) user: Option<String>,
    /// The parameters about tools.
    pub(crate) tools: Option<Value>,
    pub(crate) tool_choice: Option<Value>,
    pub(crate) parallel_tool_calls: Option<bool>,
    pub(crate) is_stored: bool,
}

impl ResponseHead {
    /// Creates the head of a turn's response.
    #[must_use]
    pub(crate) fn new(turn: TurnId, repeated: RepeatedFields, bound: &AnswerLimits) -> Self {
        let fields = json!({
            "id": response_id(turn),
            "object": "response",
            "created_at": unix_ms() / 1000,
            "status": "in_progress",
            "background": false,
            "error": null,
            "incomplete_details": null,
            "instructions": repeated.instructions,
            "max_output_tokens": bound.tokens,
            "max_tool_calls": null,
            "metadata": repeated.metadata,
            "model": repeated.model,
            "output": [],
            "parallel_tool_calls": repeated.parallel_tool_calls.unwrap_or(true),
            "previous_response_id": repeated.previous,
            "reasoning": {"effort": null, "summary": null},
            "service_tier": "default",
            "store": repeated.is_stored,
            "temperature": null,
            "text": repeated.text.unwrap_or_else(|| json!({"format": {"type": "text"}})),
            "tool_choice": repeated.tool_choice.unwrap_or_else(|| json!("auto")),
            "tools": repeated.tools.unwrap_or_else(|| json!([])),
            "top_logprobs": 0,
            "top_p": null,
            "truncation": "auto",
            "usage": null,
            "user": repeated.user,
        });
        let fields = if let Value::Object(fields) = fields { fields } else { Map::new() };
        Self { turn, fields }
    }

    /// Returns the response with these fields changed.
    fn with(&self, changed: Value) -> Value {
        let mut fields = self.fields.clone();
        if let Value::Object(changed) = changed {
            fields.extend(changed);
        }
        Value::Object(fields)
    }
}

/// Returns a turn's usage in the terms of the Responses API: tokens from a cache are part of the input.
fn usage(usage: Usage) -> Value {
    let input = usage.input.saturating_add(usage.cache_read).saturating_add(usage.cache_write);
    json!({
        "input_tokens": input,
        "input_tokens_details": {"cached_tokens": usage.cache_read},
        "output_tokens": usage.output,
        // Providers report thinking as a part of the output, and not each of them separately.
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": input.saturating_add(usage.output),
    })
}
