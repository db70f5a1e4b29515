//! Requests of agent programs to the Responses API.

use crate::config::Api;
use crate::provider::openai;
use crate::provider::passthrough::ForwardKind;
use crate::provider::relay_format::{AnswerEntries, OPENAI_FORBIDDEN, RelayFormat, Rule};

pub(crate) static RELAY: RelayFormat = RelayFormat {
    api: Api::OpenAiResponses,
    path: "/relay/responses/v1",
    kind: |path| (path == "responses").then_some(ForwardKind::Answer),
    query: None,
    request_headers: &["openai-beta"],
    response_headers: &["openai-model", "openai-version", "x-models-etag", "x-reasoning-included"],
    error: openai::relay::error,
    picture_tokens: openai::relay::picture_tokens,
    model_prefix: None,
    answer: AnswerEntries::USUAL,
    top: &[
        (Rule::Data, &["model", "parallel_tool_calls", "max_tool_calls", "reasoning", "text", "include"]),
        (Rule::Data, &["stream", "stream_options", "max_output_tokens", "temperature", "top_p"]),
        (Rule::Data, &["top_logprobs", "truncation", "context_management", "metadata", "client_metadata"]),
        (Rule::Data, &["user", "safety_identifier", "prompt_cache_key", "prompt_cache_retention"]),
        (Rule::Data, &["prompt_cache_options"]),
        (Rule::Content, &["input", "instructions", "tool_choice"]),
        (Rule::Tools, &["tools"]),
        // With these, something would stay or run at the provider after the turn.
        (Rule::OFF, &["store", "background"]),
        (Rule::USUAL_TIER, &["service_tier"]),
    ],
    is_loose: false,
    // A call of a program's own tool carries the arguments from the model, and an answer carries its sources. Both are
    // data.
    within: &[
        (Rule::Data, &["arguments", "annotations", "action", "operation", "logprobs"]),
        (Rule::Tools, &["tools"]),
    ],
    out: &[OPENAI_FORBIDDEN],
    out_types: &[
        "item_reference",
        "image_generation_call",
        "mcp_call",
        "mcp_approval_response",
        "mcp_list_tools",
        "file_search_call",
        "code_interpreter_call",
        "web_search_call",
        "computer_call",
    ],
    tools: &["function", "custom", "local_shell", "apply_patch", "namespace"],
    dated_tools: &[],
    tool_entries: None,
};
