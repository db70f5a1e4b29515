//! Requests of agent programs to generateContent.

use serde_json::{Value, json};

use crate::config::Api;
use crate::provider::passthrough::ForwardKind;
use crate::provider::relay_format::{AnswerEntries, RelayFormat, Rule};

pub(crate) static RELAY: RelayFormat = RelayFormat {
    api: Api::GoogleGenerativeAi,
    path: "/relay/google",
    kind,
    query: Some(("alt", "sse")),
    request_headers: &["x-goog-api-client"],
    response_headers: &[],
    error,
    picture_tokens: |_| 8_000,
    model_prefix: Some("models/"),
    answer: AnswerEntries {
        parents: &["generationConfig", "generation_config"],
        max_tokens: &["maxOutputTokens", "max_output_tokens"],
        count: &["candidateCount", "candidate_count"],
        has_thinking_budget: false,
    },
    top: &[
        (Rule::Data, &["model", "toolConfig", "safetySettings", "labels"]),
        // The generation settings are content and not data, because they can choose another model: see `out`.
        (Rule::Content, &["contents", "systemInstruction", "generationConfig"]),
        (Rule::Tools, &["tools"]),
        (Rule::OFF, &["store"]),
        (Rule::USUAL_TIER, &["serviceTier"]),
    ],
    is_loose: true,
    within: &[
        (Rule::Data, &["args", "response", "responseSchema", "response_schema", "responseJsonSchema"]),
        (Rule::Data, &["response_json_schema"]),
        (Rule::Tools, &["tools"]),
    ],
    // The generation settings can choose another model.
    out: &[
        &["filedata", "fileuri", "fileid", "cachedcontent"],
        &["routingconfig", "modelconfig", "modelselectionconfig"],
    ],
    out_types: &[],
    tools: &[],
    dated_tools: &[],
    tool_entries: Some(&["functiondeclarations", "computeruse"]),
};

fn kind(path: &str) -> Option<ForwardKind> {
    let (model, method) = path.strip_prefix("v1beta/models/")?.rsplit_once(':')?;
    // Such a path is not one of the methods below.
    if model.is_empty() || model.contains('/') {
        return None;
    }
    match method {
        "generateContent" => Some(ForwardKind::Answer),
        "streamGenerateContent" => Some(ForwardKind::Stream),
        "countTokens" => Some(ForwardKind::Count),
        _ => None,
    }
}

fn error(status: u16, _kind: &str, message: &str) -> Value {
    let word = match status {
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        429 => "RESOURCE_EXHAUSTED",
        400..=499 => "INVALID_ARGUMENT",
        _ => "INTERNAL",
    };
    json!({"error": {"code": status, "message": message, "status": word}})
}
