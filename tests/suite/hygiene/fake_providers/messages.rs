//! The judge for Anthropic's Messages API.

use std::collections::HashSet;

use serde_json::Value;

use super::{RejectionReason, is_blank, is_picture, is_plain, list, rule};
use crate::hygiene::generator;
use flock::agent::transcript::hygiene::Target;

const MAX_PICTURE_BYTES: usize = 5 * 1024 * 1024;

pub(super) fn judge(target: &Target, body: &Value) -> Result<(), RejectionReason> {
    let turns = list(body, "messages");
    // https://docs.anthropic.com/claude/reference/messages_post
    rule!(
        turns.first().is_some_and(|turn| turn["role"] == "user"),
        "first message must use the \"user\" role"
    );
    // #77228
    rule!(
        turns.last().is_some_and(|turn| turn["role"] == "user"),
        "This model does not support assistant message prefill"
    );
    let mut ids = HashSet::new();
    let mut open: HashSet<&str> = HashSet::new();
    for (at, turn) in turns.iter().enumerate() {
        let content = list(turn, "content");
        rule!(!content.is_empty(), "messages.{at}: all messages must have non-empty content");
        let mut calls = HashSet::new();
        let mut others = false;
        for block in content {
            match block["type"].as_str().unwrap_or_default() {
                "text" => {
                    others = true;
                    // https://docs.anthropic.com/en/api/messages
                    rule!(!is_blank(&block["text"]), "messages.{at}: text content blocks must be non-empty");
                }
                "image" => {
                    others = true;
                    let source = &block["source"];
                    let (kind, data) = (source["media_type"].as_str(), source["data"].as_str());
                    // https://docs.claude.com/en/docs/build-with-claude/vision
                    let fits =
                        is_picture(kind.unwrap_or_default(), data.unwrap_or_default(), MAX_PICTURE_BYTES);
                    rule!(
                        fits,
                        "messages.{at}: image exceeds 5 MB maximum, or is not what its media type says"
                    );
                }
                "thinking" => {
                    let signature = block["signature"].as_str().unwrap_or_default();
                    // #85717, #84430
                    rule!(
                        signature == generator::signature(&target.route),
                        "messages.{at}: Invalid signature in thinking block"
                    );
                }
                "redacted_thinking" => {
                    rule!(!is_blank(&block["data"]), "messages.{at}: data: Field required");
                }
                "tool_use" => {
                    let id = block["id"].as_str().unwrap_or_default();
                    // Anthropic's API: tool_use.id should match ^[a-zA-Z0-9_-]+$
                    rule!(
                        is_plain(id, 64),
                        "messages.{at}: tool_use.id: String should match pattern: {id:?}"
                    );
                    rule!(
                        is_plain(block["name"].as_str().unwrap_or_default(), 64),
                        "messages.{at}: tool_use.name"
                    );
                    rule!(
                        block["input"].is_object(),
                        "messages.{at}: tool_use.input: Input should be a valid dictionary"
                    );
                    rule!(ids.insert(id), "messages.{at}: tool_use ids must be unique: {id}");
                    calls.insert(id);
                }
                "tool_result" => {
                    let id = block["tool_use_id"].as_str().unwrap_or_default();
                    // #9769
                    rule!(
                        open.remove(id),
                        "messages.{at}: unexpected tool_use_id found in tool_result blocks: {id}"
                    );
                    rule!(!others, "messages.{at}: tool_result blocks must come first");
                    let blank = list(block, "content")
                        .iter()
                        .any(|part| part["type"] == "text" && is_blank(&part["text"]));
                    rule!(!blank, "messages.{at}: text content blocks must contain non-whitespace text");
                }
                other => return Err(format!("messages.{at}: unknown block {other}")),
            }
        }
        // #8536
        rule!(
            open.is_empty(),
            "messages.{at}: tool_use ids were found without tool_result blocks immediately after: {open:?}"
        );
        open = calls;
    }
    rule!(open.is_empty(), "tool_use ids were found without tool_result blocks immediately after: {open:?}");
    Ok(())
}
