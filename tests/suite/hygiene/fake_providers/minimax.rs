//! The judge for MiniMax's Messages API: the rules beyond Anthropic's. All its rejections have code 2013.

use serde_json::Value;

use super::{RejectionReason, is_blank, list, rule};
use flock::agent::transcript::hygiene::Target;

pub(super) fn judge(target: &Target, body: &Value) -> Result<(), RejectionReason> {
    let third = target.route.model().starts_with("MiniMax-M3");
    if let Some(thinking) = body["thinking"]["type"].as_str() {
        // CherryHQ/cherry-studio#16431
        rule!(third && matches!(thinking, "adaptive" | "disabled"), "invalid thinking.type: {thinking:?}");
    }
    for tool in list(body, "tools") {
        // QwenLM/qwen-code#11834
        rule!(tool["input_schema"].is_object(), "function parameters is empty");
    }
    let mut open: Vec<&str> = Vec::new();
    for (at, turn) in list(body, "messages").iter().enumerate() {
        let role = turn["role"].as_str().unwrap_or_default();
        // BigPizzaV3/CodexPlusPlus#267
        rule!(matches!(role, "user" | "assistant"), "{at}: chat content has invalid message role: {role}");
        let content = list(turn, "content");
        let results: Vec<&str> = content.iter().filter_map(|block| block["tool_use_id"].as_str()).collect();
        for id in &results {
            // MiniMax-AI/MiniMax-M2#76, #56021
            rule!(open.contains(id), "{at}: tool result's tool id({id}) not found");
        }
        // anomalyco/opencode#32609: results come right after their calls and alone in their turn.
        let alone = results.is_empty() || results.len() == content.len();
        rule!(alone, "{at}: tool call result does not follow tool call");
        rule!(
            open.iter().all(|id| results.contains(id)),
            "{at}: tool call result does not follow tool call: {open:?}"
        );
        open.clear();
        for block in content {
            match block["type"].as_str().unwrap_or_default() {
                "tool_use" => {
                    let id = block["id"].as_str().unwrap_or_default();
                    // #56021
                    rule!(!id.trim().is_empty(), "{at}: tool call id is invalid");
                    // earendil-works/pi#5468
                    rule!(
                        block["input"].is_object(),
                        "{at}: invalid function arguments json string, tool_call_id: {id}"
                    );
                    open.push(id);
                }
                // platform.minimax.io, "Anthropic SDK": the models of the second generation take no pictures.
                "image" => rule!(third, "{at}: image is not supported"),
                "tool_result" => {
                    let pictures = list(block, "content").iter().any(|part| part["type"] == "image");
                    rule!(third || !pictures, "{at}: image is not supported");
                }
                "text" => rule!(!is_blank(&block["text"]), "{at}: chat content is empty"),
                "thinking" | "redacted_thinking" => {}
                other => return Err(format!("{at}: invalid content type: {other}")),
            }
        }
    }
    rule!(open.is_empty(), "tool call and result not match: {open:?}");
    Ok(())
}
