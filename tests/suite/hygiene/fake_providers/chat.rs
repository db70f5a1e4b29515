//! The judge for Chat Completions at OpenAI, Mistral and routers, and on servers with a strict chat template.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::Value;

use super::{RejectionReason, is_blank, is_picture, is_plain, list, rule};
use crate::hygiene::generator;
use flock::agent::transcript::hygiene::Target;
use flock::agent::transcript::hygiene::policy::PolicyRow;
use flock::provider::{Block, Message, Role};

const MAX_PICTURE_BYTES: usize = 5 * 1024 * 1024;

pub(super) fn judge(
    target: &Target,
    row: PolicyRow,
    messages: &[Arc<Message>],
    body: &Value,
) -> Result<(), RejectionReason> {
    check_reasoning(row, messages, body)?;
    let said: Vec<&Value> =
        list(body, "messages").iter().filter(|message| message["role"] != "system").collect();
    let role = |at: usize| said.get(at).and_then(|message| message["role"].as_str()).unwrap_or_default();
    let mut ids = HashSet::new();
    let mut open: Vec<&str> = Vec::new();
    for (at, message) in said.iter().enumerate() {
        if role(at) == "tool" {
            let id = message["tool_call_id"].as_str().unwrap_or_default();
            // OpenAI: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'
            let place = open.iter().position(|open| *open == id);
            rule!(place.is_some(), "{at}: no call {id:?} waits for this message with role 'tool'");
            open.remove(place.unwrap_or(0));
            continue;
        }
        // OpenAI: an assistant message with 'tool_calls' must be followed by tool messages
        rule!(open.is_empty(), "{at}: tool_call_ids did not have response messages: {open:?}");
        content(at, message)?;
        for call in list(message, "tool_calls") {
            let id = call["id"].as_str().unwrap_or_default();
            check_id(row, at, id)?;
            rule!(ids.insert(id), "{at}: duplicate tool call id {id}");
            let function = &call["function"];
            rule!(is_plain(function["name"].as_str().unwrap_or_default(), 64), "{at}: invalid function name");
            let arguments = function["arguments"].as_str().unwrap_or_default();
            let arguments: Option<Value> = serde_json::from_str(arguments).ok();
            rule!(arguments.is_some_and(|value| value.is_object()), "{at}: arguments are no JSON object");
            open.push(id);
        }
        for detail in list(message, "reasoning_details") {
            let seal = detail["data"].as_str().or(detail["signature"].as_str());
            let own = seal.is_none_or(|seal| seal == generator::signature(&target.route));
            rule!(own, "{at}: Provider returned error: Invalid signature in reasoning_details");
        }
        // #91558
        let has_reasoning = message["reasoning_content"].is_string();
        let is_kimi = target.route.model().starts_with("kimi");
        let lacks = is_kimi && !open.is_empty() && !has_reasoning;
        rule!(
            !lacks,
            "thinking is enabled but reasoning_content is missing in assistant tool call message at index {at}"
        );
    }
    rule!(open.is_empty(), "tool_call_ids did not have response messages: {open:?}");
    if row == PolicyRow::Compatible {
        // #38962: templates of Gemma and Qwen on vLLM
        rule!(role(0) == "user", "conversation roles must alternate and begin with user: {}", role(0));
        let in_a_row = (1..said.len()).any(|at| role(at) == role(at - 1) && role(at) != "tool");
        rule!(!in_a_row, "conversation roles must alternate user/assistant/user/assistant");
    }
    if row == PolicyRow::Mistral {
        // https://docs.mistral.ai/api: unexpected role 'user' after role 'tool' (3230)
        let after = (1..said.len()).any(|at| role(at) == "user" && role(at - 1) == "tool");
        rule!(!after, "Unexpected role 'user' after role 'tool'");
    }
    if matches!(row, PolicyRow::RouterClaude | PolicyRow::CopilotClaude) {
        // #77228
        rule!(
            role(said.len().wrapping_sub(1)) != "assistant",
            "This model does not support assistant message prefill"
        );
    }
    Ok(())
}

/// Checks the reasoning of answers under each field name: all of it if the server accepts it, and none if it does not.
fn check_reasoning(row: PolicyRow, messages: &[Arc<Message>], body: &Value) -> Result<(), RejectionReason> {
    let answers = list(body, "messages").iter().filter(|message| message["role"] == "assistant");
    let written = answers.filter_map(|message| {
        let field = message["reasoning_content"].as_str().or(message["reasoning"].as_str());
        field.filter(|text| !text.trim().is_empty())
    });
    let written: Vec<String> = written.map(str::to_owned).collect();
    if row != PolicyRow::Compatible {
        // Mistral's models are served behind any server.
        rule!(written.is_empty() || row == PolicyRow::Mistral, "unknown field reasoning_content");
        return Ok(());
    }
    let thought = |message: &Message| -> String {
        let thinking = message.content.iter().filter_map(|block| match block {
            Block::Thinking { thinking, .. } => Some(thinking.as_str()),
            _ => None,
        });
        thinking.collect()
    };
    let is_sent = |message: &&Arc<Message>| {
        message.role == Role::Assistant
            && (message.tool_calls().next().is_some() || !message.joined_text().trim().is_empty())
    };
    let given: Vec<String> = messages
        .iter()
        .filter(is_sent)
        .map(|message| thought(message))
        .filter(|thought| !thought.trim().is_empty())
        .collect();
    rule!(given == written, "of the reasoning {given:?} the request has {written:?}");
    Ok(())
}

fn check_id(row: PolicyRow, at: usize, id: &str) -> Result<(), RejectionReason> {
    if row == PolicyRow::Mistral {
        // opencode #1680: invalid_function_call, code 3280
        let nine = id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
        rule!(nine, "{at}: Tool call id was {id} but must be a-z, A-Z, 0-9, with a length of 9");
    }
    // OpenAI and Azure: string too long, expected a string with maximum length 40
    rule!((1..=40).contains(&id.len()), "{at}: tool_calls.id: string too long: {id}");
    if matches!(row, PolicyRow::RouterClaude | PolicyRow::CopilotClaude) {
        // Anthropic's API behind it: tool_use.id should match ^[a-zA-Z0-9_-]+$
        rule!(is_plain(id, 64), "{at}: tool_use.id: String should match pattern: {id:?}");
    }
    Ok(())
}

fn content(at: usize, message: &Value) -> Result<(), RejectionReason> {
    let calls = !list(message, "tool_calls").is_empty();
    match &message["content"] {
        Value::Array(parts) => {
            for part in parts {
                match part["type"].as_str().unwrap_or_default() {
                    "text" => rule!(!is_blank(&part["text"]), "{at}: blank text"),
                    _ => {
                        let url = part["image_url"]["url"].as_str().unwrap_or_default();
                        let parts = url.strip_prefix("data:").and_then(|url| url.split_once(";base64,"));
                        let fits =
                            parts.is_some_and(|(kind, data)| is_picture(kind, data, MAX_PICTURE_BYTES));
                        // OpenAI: you uploaded an unsupported image
                        rule!(fits, "{at}: unsupported image");
                    }
                }
            }
            rule!(!parts.is_empty(), "{at}: empty content");
        }
        Value::Null => rule!(calls, "{at}: neither content nor tool_calls"),
        text => rule!(calls || !is_blank(text), "{at}: blank content"),
    }
    Ok(())
}
