//! MiniMax, which speaks Anthropic's Messages with rules of its own. Beside each is where it was met.

use axum::http::HeaderMap;
use serde_json::Value;

use super::check::{is_blank, list, need};

/// Refuses what MiniMax's Messages refuse; `anthropic` has what both do.
pub fn check(headers: &HeaderMap, body: &Value) -> Result<(), String> {
    let model = body["model"].as_str().unwrap_or_default();
    let third = model.starts_with("MiniMax-M3");
    // platform.minimax.io, "Anthropic SDK": other models don't answer here.
    need(third || model.starts_with("MiniMax-M2"), "invalid params, unknown model (2013)")?;
    // nearai/ironclaw#1742
    let has_key = ["x-api-key", "authorization"].iter().any(|name| headers.contains_key(*name));
    need(has_key, "login fail: Please carry the API secret key (1004)")?;
    if let Some(thinking) = body["thinking"]["type"].as_str() {
        // CherryHQ/cherry-studio#16431
        let known = matches!(thinking, "adaptive" | "disabled");
        need(
            known,
            &format!(
                "invalid params, invalid thinking.type: {thinking:?} (allowed: adaptive, disabled) (2013)"
            ),
        )?;
        need(third, "invalid params, invalid chat setting (2013)")?;
    }
    for tool in body["tools"].as_array().into_iter().flatten() {
        // QwenLM/qwen-code#11834
        need(tool["input_schema"].is_object(), "invalid params, function parameters is empty (2013)")?;
    }
    let mut open: Vec<&str> = Vec::new();
    for message in list(&body["messages"], "messages")? {
        let role = message["role"].as_str().unwrap_or_default();
        // BigPizzaV3/CodexPlusPlus#267
        need(
            matches!(role, "user" | "assistant"),
            &format!("invalid params, chat content has invalid message role: {role} (2013)"),
        )?;
        let content = message["content"].as_array().map(Vec::as_slice).unwrap_or_default();
        let results: Vec<&str> = content.iter().filter_map(|block| block["tool_use_id"].as_str()).collect();
        for id in &results {
            // MiniMax-AI/MiniMax-M2#76
            need(
                open.contains(id),
                &format!("invalid params, tool result's tool id({id}) not found (2013)"),
            )?;
        }
        // anomalyco/opencode#32609: results come right after their calls, and nothing else is said with them.
        let alone = results.is_empty() || results.len() == content.len();
        let follows = open.iter().all(|id| results.contains(id));
        need(alone && follows, "invalid params, tool call result does not follow tool call (2013)")?;
        open.clear();
        for block in content {
            match block["type"].as_str().unwrap_or_default() {
                // openclaw/openclaw#56021
                "tool_use" => {
                    let id = block["id"].as_str().unwrap_or_default();
                    need(!id.trim().is_empty(), "invalid params, tool call id is invalid (2013)")?;
                    // earendil-works/pi#5468
                    need(
                        block["input"].is_object(),
                        &format!(
                            "invalid params, invalid function arguments json string, tool_call_id: {id} (2013)"
                        ),
                    )?;
                    open.push(id);
                }
                // platform.minimax.io, "Anthropic SDK": the second ones take texts and calls, no pictures, no documents.
                "image" => need(third, "invalid params, image is not supported (2013)")?,
                "tool_result" => {
                    let pictures = block["content"]
                        .as_array()
                        .is_some_and(|parts| parts.iter().any(|part| part["type"] == "image"));
                    need(third || !pictures, "invalid params, image is not supported (2013)")?;
                }
                "text" => need(!is_blank(&block["text"]), "invalid params, chat content is empty (2013)")?,
                "thinking" | "redacted_thinking" => {}
                other => return Err(format!("invalid params, invalid content type: {other} (2013)")),
            }
        }
    }
    need(open.is_empty(), "invalid params, tool call and result not match (2013)")?;
    super::check::anthropic(headers, body)
}
