//! Requests of agent programs to the Messages API.

use serde_json::json;

use crate::config::Api;
use crate::provider::passthrough::ForwardKind;
use crate::provider::relay_format::{AnswerEntries, RelayFormat, Rule};

pub(crate) static RELAY: RelayFormat = RelayFormat {
    api: Api::AnthropicMessages,
    path: "/relay/anthropic",
    kind: |path| match path {
        "v1/messages" => Some(ForwardKind::Answer),
        "v1/messages/count_tokens" => Some(ForwardKind::Count),
        _ => None,
    },
    query: Some(("beta", "true")),
    request_headers: &["anthropic-beta", "anthropic-dangerous-direct-browser-access", "anthropic-version"],
    response_headers: &["anthropic-ratelimit-"],
    error: |_, kind, message| json!({"type": "error", "error": {"type": kind, "message": message}}),
    picture_tokens: |_| 5_000,
    model_prefix: None,
    answer: AnswerEntries { has_thinking_budget: true, ..AnswerEntries::USUAL },
    top: &[
        (Rule::Data, &["model", "max_tokens", "metadata", "stop_sequences", "stream", "temperature"]),
        (Rule::Data, &["top_p", "top_k", "thinking", "tool_choice", "output_config", "output_format"]),
        (Rule::Data, &["context_management", "cache_control", "diagnostics"]),
        (Rule::Content, &["messages", "system"]),
        (Rule::Tools, &["tools"]),
        // Both of these set the price.
        (Rule::USUAL_TIER, &["service_tier", "speed"]),
    ],
    is_loose: false,
    within: &[
        // Arguments and schemas of the program's tools are data, whatever names occur in them.
        (Rule::Data, &["input", "input_schema", "input_examples"]),
        (Rule::Tools, &["tools"]),
        (Rule::Tool, &["definition"]),
    ],
    // These names are folded: `file_id` and `fileId` are the same.
    out: &[
        &["fileid", "fileids", "container", "containerid"],
        &["mcpservers", "mcpservername", "authorizationtoken"],
    ],
    out_types: &["url", "file", "container_upload", "server_tool_use", "mcp_tool_use", "mcp_toolset"],
    tools: &["custom"],
    dated_tools: &["bash", "text_editor", "computer", "memory"],
    tool_entries: None,
};
