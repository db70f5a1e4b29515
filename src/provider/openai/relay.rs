//! Requests of agent programs to the chat completions API.

use serde_json::{Value, json};

use crate::config::Api;
use crate::provider::passthrough::ForwardKind;
use crate::provider::relay_format::{AnswerEntries, OPENAI_FORBIDDEN, RelayFormat, Rule};

pub(crate) static RELAY: RelayFormat = RelayFormat {
    api: Api::OpenAiCompletions,
    path: "/relay/completions/v1",
    kind: |path| (path == "chat/completions").then_some(ForwardKind::Answer),
    query: None,
    request_headers: &[],
    response_headers: &[],
    error,
    picture_tokens,
    model_prefix: None,
    answer: AnswerEntries::USUAL,
    top: &[
        (Rule::Data, &["model", "parallel_tool_calls", "functions", "function_call", "max_tokens"]),
        (Rule::Data, &["max_completion_tokens", "n", "temperature", "top_p", "top_k", "min_p", "top_a"]),
        (Rule::Data, &["frequency_penalty", "presence_penalty", "repetition_penalty", "logit_bias"]),
        (Rule::Data, &["logprobs", "top_logprobs", "stop", "seed", "random_seed", "stream"]),
        (Rule::Data, &["stream_options", "response_format", "prediction", "reasoning", "reasoning_effort"]),
        (Rule::Data, &["reasoning_format", "reasoning_split", "include_reasoning", "thinking"]),
        (Rule::Data, &["thinking_budget", "enable_thinking", "chat_template_kwargs", "tool_stream"]),
        (Rule::Data, &["verbosity", "usage", "metadata", "user", "safety_identifier", "safe_prompt"]),
        (Rule::Data, &["prompt_mode", "prompt_cache_key", "prompt_cache_retention", "prompt_cache_options"]),
        (Rule::Content, &["messages", "tool_choice"]),
        (Rule::Tools, &["tools"]),
        (Rule::OFF, &["store"]),
        (Rule::USUAL_TIER, &["service_tier"]),
    ],
    is_loose: false,
    within: &[(Rule::Data, &["arguments", "annotations", "logprobs"]), (Rule::Tools, &["tools"])],
    // An earlier spoken answer is stored at the provider, and `audio` refers to it.
    out: &[OPENAI_FORBIDDEN, &["audio"]],
    out_types: &["item_reference", "mcp", "web_search"],
    tools: &["function", "custom"],
    dated_tools: &[],
    // Routers also act on entries beside the type.
    tool_entries: Some(&[
        "type",
        "function",
        "custom",
        "name",
        "description",
        "parameters",
        "strict",
        "cachecontrol",
    ]),
};

/// Returns an error in the format of both of OpenAI's APIs.
pub fn error(_status: u16, kind: &str, message: &str) -> Value {
    json!({"error": {"message": message, "type": kind, "param": null, "code": null}})
}

/// Returns the most tokens that a picture can take.
pub(crate) fn picture_tokens(model: &str) -> u64 {
    // This family counts each piece of a picture about thirty times.
    if model.contains("4o-mini") { 50_000 } else { 20_000 }
}
