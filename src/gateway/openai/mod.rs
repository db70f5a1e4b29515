//! OpenAI's wire format for chat completions, as far as it has a meaning for a gateway of agents.
//!
//! Sampling parameters and the like are accepted without effect, because an agent's settings choose its model.

pub(crate) mod answer_limits;
pub(crate) mod chunk;
pub(crate) mod client_tools;
pub(crate) mod continuation;
pub(crate) mod request;
pub(crate) mod response_format;
pub(crate) mod responses;

use serde::Serialize;
use serde_json::{Value, json};

use crate::agent::{ClientCall, TurnEvent, TurnOutcome, TurnStop};
use crate::gateway::error::ApiError;
use crate::id::TurnId;
use crate::provider::Usage;

pub(crate) use answer_limits::AnswerLimits;
pub(crate) use request::{ChatInput, ChatRequest};
pub(crate) use response_format::ResponseFormat;

/// The reason why a stream ends with an error although its turn ended well.
pub(crate) const REPLACED_MESSAGE: &str = "the answer was cut off after its beginning had been sent, and another was begun; the session has the \
                        whole answer";

/// A writer for the server-sent events of one streamed answer.
pub(crate) trait AnswerWriter: Send {
    /// Writes the beginning of the answer.
    fn begin(&mut self, out: &mut Vec<u8>);

    /// Writes an event of the turn.
    fn event(&mut self, out: &mut Vec<u8>, event: &TurnEvent);

    /// Writes the end of a turn that ended well.
    fn end(&mut self, out: &mut Vec<u8>, outcome: &TurnOutcome);

    /// Writes the end of a turn that failed after the answer had begun.
    fn fail(&mut self, out: &mut Vec<u8>, error: &ApiError);
}

/// The values that are the same in every part of one answer.
#[derive(Clone, Debug)]
pub(crate) struct CompletionHead {
    /// `chatcmpl-` and the id of the turn.
    pub id: String,
    /// Unix seconds at which the answer began.
    pub created: i64,
    /// Name of the model as the client gave it.
    pub model: String,
}

impl CompletionHead {
    /// Creates the head of a turn's answer.
    #[must_use]
    pub(crate) fn new(turn: TurnId, model: String) -> Self {
        Self { id: format!("chatcmpl-{turn}"), created: crate::clock::unix_ms() / 1000, model }
    }
}

/// Returns a whole answer that is not streamed.
#[must_use]
pub(crate) fn completion(head: &CompletionHead, outcome: &TurnOutcome) -> Value {
    json!({
        "id": head.id,
        "object": "chat.completion",
        "created": head.created,
        "model": head.model,
        "choices": [{
            "index": 0,
            "message": message(outcome),
            "logprobs": null,
            "finish_reason": finish_reason(outcome.stop),
        }],
        "usage": CompletionUsage::from(outcome.usage),
        "system_fingerprint": null,
    })
}

/// Returns the message of an answer. One that only calls tools has no content.
fn message(outcome: &TurnOutcome) -> Value {
    let mut message = json!({"role": "assistant", "content": outcome.text, "refusal": null});
    if !outcome.calls.is_empty() {
        if outcome.text.is_empty() {
            message["content"] = Value::Null;
        }
        message["tool_calls"] = outcome.calls.iter().map(tool_call).collect();
    }
    message
}

/// Returns a call of a client's tool in the form of chat completions.
fn tool_call(call: &ClientCall) -> Value {
    json!({
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": arguments_text(&call.arguments)},
    })
}

/// Returns the arguments of a call as JSON text.
#[must_use]
pub(crate) fn arguments_text(arguments: &Value) -> String {
    arguments.to_string()
}

/// Returns OpenAI's word for the reason why an answer ended.
#[must_use]
pub(crate) const fn finish_reason(stop: TurnStop) -> &'static str {
    match stop {
        TurnStop::End => "stop",
        TurnStop::Length => "length",
        TurnStop::Refusal => "content_filter",
        TurnStop::ToolCalls => "tool_calls",
    }
}

/// Usage in OpenAI's terms: tokens from a cache are part of the prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct CompletionUsage {
    prompt_tokens: u64,
    completion_tokens: u64,
    total_tokens: u64,
    prompt_tokens_details: PromptDetails,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
struct PromptDetails {
    cached_tokens: u64,
}

impl From<Usage> for CompletionUsage {
    fn from(usage: Usage) -> Self {
        let prompt = usage.input.saturating_add(usage.cache_read).saturating_add(usage.cache_write);
        Self {
            prompt_tokens: prompt,
            completion_tokens: usage.output,
            total_tokens: prompt.saturating_add(usage.output),
            prompt_tokens_details: PromptDetails { cached_tokens: usage.cache_read },
        }
    }
}
