//! What the real APIs refuse, so that a test that passes here would not fail there.

use std::collections::HashSet;

use axum::http::HeaderMap;
use serde_json::Value;

use super::strict;

pub(super) fn need(condition: bool, message: &str) -> Result<(), String> {
    if condition { Ok(()) } else { Err(message.to_owned()) }
}

pub(super) fn is_name(text: &str, limit: usize) -> bool {
    !text.is_empty()
        && text.len() <= limit
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

pub(super) fn is_blank(value: &Value) -> bool {
    value.as_str().is_none_or(|text| text.trim().is_empty())
}

pub(super) fn list<'a>(value: &'a Value, what: &str) -> Result<&'a [Value], String> {
    match value.as_array() {
        Some(items) if !items.is_empty() => Ok(items),
        _ => Err(format!("{what}: a list that is not empty is needed")),
    }
}

/// Refuses a schema that a model can't be held to (the guide to structured outputs, "JSON schema limitations").
pub fn held_to(schema: &Value) -> Result<(), String> {
    let known = [
        "type",
        "title",
        "description",
        "enum",
        "const",
        "anyOf",
        "format",
        "properties",
        "required",
        "additionalProperties",
        "items",
    ];
    let kind = &schema["type"];
    let object = schema.as_object().ok_or("an object is needed")?;
    for name in object.keys() {
        need(
            known.contains(&name.as_str()),
            &format!("For {kind} type, property '{name}' is not supported"),
        )?;
    }
    if *kind == "object" {
        need(
            schema["additionalProperties"] == false,
            "For 'object' type, 'additionalProperties' must be explicitly set to false",
        )?;
    }
    let properties = schema["properties"].as_object().into_iter().flat_map(|all| all.values());
    let choices = schema["anyOf"].as_array().into_iter().flatten();
    properties.chain(choices).chain(schema.get("items")).try_for_each(held_to)
}

/// Refuses what Anthropic's Messages API refuses.
pub fn anthropic(headers: &HeaderMap, body: &Value) -> Result<(), String> {
    let has_key = |name| headers.get(name).is_some_and(|key| !key.is_empty());
    need(has_key("x-api-key") || has_key("authorization"), "x-api-key header is required")?;
    need(headers.get("anthropic-version").is_some(), "anthropic-version: header is required")?;
    need(!is_blank(&body["model"]), "model: Field required")?;
    need(body["max_tokens"].as_u64().is_some_and(|tokens| tokens > 0), "max_tokens: Field required")?;
    if let Some(system) = body.get("system") {
        if let Some(parts) = system.as_array() {
            for part in parts {
                need(!is_blank(&part["text"]), "system: text content blocks must be non-empty")?;
            }
        } else {
            need(system.is_string(), "system: Input should be a valid string")?;
        }
    }
    if let Some(tools) = body.get("tools") {
        let mut names = HashSet::new();
        for tool in tools.as_array().ok_or("tools: a list is needed")? {
            let name = tool["name"].as_str().unwrap_or_default();
            need(is_name(name, 128), "tools.name: does not match the pattern")?;
            need(names.insert(name), "tools: Tool names must be unique.")?;
            need(tool["input_schema"]["type"] == "object", "tools.input_schema.type: Field required")?;
        }
    }
    if let Some(thinking) = body.get("thinking") {
        // The guides to extended and adaptive thinking: a budget of at least 1,024, below max_tokens; and with a
        // budget a chain of calls begins with the thought that led to it.
        if thinking["type"] == "enabled" {
            let budget = thinking["budget_tokens"].as_u64().unwrap_or_default();
            need(
                budget >= 1024,
                "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024",
            )?;
            need(
                body["max_tokens"].as_u64() > Some(budget),
                "`max_tokens` must be greater than `thinking.budget_tokens`",
            )?;
            need(
                chain_began_thinking(body),
                "Expected `thinking` or `redacted_thinking`, but found `tool_use`",
            )?;
        } else {
            need(
                thinking["type"] == "adaptive" || thinking["type"] == "disabled",
                "thinking.type: Input should be 'enabled', 'disabled', 'adaptive'",
            )?;
        }
    }
    if let Some(format) = body["output_config"].get("format") {
        // The guide to structured outputs.
        let model = body["model"].as_str().unwrap_or_default();
        let older = ["claude-3", "claude-sonnet-4-2", "claude-opus-4-2", "claude-opus-4-1"];
        let takes = model.contains("claude") && !older.iter().any(|older| model.contains(older));
        need(takes, &format!("'{model}' does not support output format."))?;
        let names: Vec<&str> =
            format.as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect();
        need(
            names == ["schema", "type"] || names == ["type", "schema"],
            "output_config.format: Extra inputs",
        )?;
        need(format["type"] == "json_schema", "output_config.format.type: Input should be 'json_schema'")?;
        held_to(&format["schema"]).map_err(|error| format!("output_config.format.schema: {error}"))?;
    }
    need(body.to_string().matches("cache_control").count() <= 4, "a maximum of 4 blocks with cache_control")?;
    let messages = list(&body["messages"], "messages")?;
    need(messages[0]["role"] == "user", "messages: first message must use the \"user\" role")?;
    let mut ids = HashSet::new();
    let mut open: Vec<String> = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        let role = message["role"].as_str().unwrap_or_default();
        need(matches!(role, "user" | "assistant"), "messages.role: Input should be 'user' or 'assistant'")?;
        if message["content"].is_string() {
            need(!is_blank(&message["content"]), "messages: text content blocks must be non-empty")?;
            need(open.is_empty(), "tool_use ids were found without tool_result blocks immediately after")?;
            continue;
        }
        let content = list(&message["content"], "messages.content")?;
        let mut results = Vec::new();
        let mut uses = Vec::new();
        for block in content {
            let kind = block["type"].as_str().unwrap_or_default();
            anthropic_block(role, kind, block).map_err(|error| format!("messages.{at}: {error}"))?;
            if kind == "tool_result" {
                results.push(block["tool_use_id"].as_str().unwrap_or_default().to_owned());
            } else {
                need(
                    kind == "tool_use" || open.iter().all(|id| results.contains(id)),
                    "tool_use ids were found without tool_result blocks immediately after",
                )?;
            }
            if kind == "tool_use" {
                let id = block["id"].as_str().unwrap_or_default().to_owned();
                need(ids.insert(id.clone()), "messages: `tool_use` ids must be unique")?;
                uses.push(id);
            }
        }
        for id in &results {
            need(open.contains(id), "unexpected `tool_use_id` found in `tool_result` blocks")?;
        }
        let distinct: HashSet<&String> = results.iter().collect();
        need(distinct.len() == results.len(), "each tool_use must have a single result")?;
        need(
            open.iter().all(|id| results.contains(id)),
            "tool_use ids were found without tool_result blocks immediately after",
        )?;
        open = uses;
    }
    need(open.is_empty(), "tool_use ids were found without tool_result blocks immediately after")
}

fn chain_began_thinking(body: &Value) -> bool {
    let messages = body["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let in_chain =
        |message: &&Value| message["role"] == "assistant" || message["content"][0]["type"] == "tool_result";
    let first =
        messages.iter().rev().take_while(in_chain).filter(|message| message["role"] == "assistant").last();
    first.is_none_or(|first| {
        first["content"][0]["type"].as_str().is_some_and(|kind| kind.contains("thinking"))
    })
}

fn anthropic_block(role: &str, kind: &str, block: &Value) -> Result<(), String> {
    match (role, kind) {
        (_, "text") => need(!is_blank(&block["text"]), "text content blocks must be non-empty"),
        ("user", "image") => image(&block["source"]),
        ("user", "tool_result") => {
            need(is_name(block["tool_use_id"].as_str().unwrap_or_default(), 1000), "tool_use_id: pattern")?;
            if let Some(parts) = block["content"].as_array() {
                for part in parts {
                    match part["type"].as_str() {
                        Some("text") => need(!is_blank(&part["text"]), "tool_result: empty text block")?,
                        Some("image") => image(&part["source"])?,
                        _ => return Err("tool_result: unknown block".to_owned()),
                    }
                }
            }
            Ok(())
        }
        ("assistant", "tool_use") => {
            need(is_name(block["id"].as_str().unwrap_or_default(), 1000), "tool_use.id: pattern")?;
            need(is_name(block["name"].as_str().unwrap_or_default(), 128), "tool_use.name: pattern")?;
            need(block["input"].is_object(), "tool_use.input: Input should be a valid dictionary")
        }
        ("assistant", "thinking") => {
            need(block["thinking"].is_string(), "thinking: Field required")?;
            need(!is_blank(&block["signature"]), "thinking.signature: Field required")
        }
        ("assistant", "redacted_thinking") => need(!is_blank(&block["data"]), "data: Field required"),
        _ => Err(format!("{kind} is not allowed in a message of {role}")),
    }
}

fn image(source: &Value) -> Result<(), String> {
    let known = ["image/png", "image/jpeg", "image/gif", "image/webp"];
    need(source["type"] == "base64" && !is_blank(&source["data"]), "image.source.data: Field required")?;
    need(known.contains(&source["media_type"].as_str().unwrap_or_default()), "image.source.media_type")
}

/// Refuses what OpenAI's chat completions, or one of the strict servers like it, refuse.
pub fn openai(body: &Value) -> Result<(), String> {
    need(!is_blank(&body["model"]), "you must provide a model parameter")?;
    if let Some(tools) = body.get("tools") {
        let mut names = HashSet::new();
        for tool in list(tools, "tools")? {
            let name = tool["function"]["name"].as_str().unwrap_or_default();
            need(tool["type"] == "function" && is_name(name, 64), "tools.function.name: pattern")?;
            need(names.insert(name), "tools: names must be unique")?;
        }
    }
    let model = body["model"].as_str().unwrap_or_default();
    let is_mistral = model.contains("mistral");
    if ["mistral-", "devstral-", "codestral-"].iter().any(|name| model.starts_with(name)) {
        strict::mistral(body)?;
    }
    if model.starts_with("google/gemini-3") {
        strict::gemini_behind_a_router(body)?;
    }
    let mut open: Vec<&str> = Vec::new();
    let mut before = "";
    for message in list(&body["messages"], "messages")? {
        let role = message["role"].as_str().unwrap_or_default();
        let after = std::mem::replace(&mut before, role);
        need(!is_mistral || (after, role) != ("tool", "user"), "Unexpected role 'user' after role 'tool'")?;
        need((after, role) != ("user", "user"), "conversation roles must alternate user and assistant")?;
        if role == "tool" {
            let id = message["tool_call_id"].as_str().unwrap_or_default();
            let at = open.iter().position(|open| *open == id).ok_or(
                "messages with role 'tool' must be a response to a preceding message with 'tool_calls'",
            )?;
            open.remove(at);
            need(text_parts(&message["content"], false), "tool: only text is allowed")?;
            continue;
        }
        need(
            open.is_empty(),
            "an assistant message with 'tool_calls' must be followed by tool messages for each call",
        )?;
        match role {
            "system" | "developer" => {
                let content = &message["content"];
                let says = if content.is_array() { text_parts(content, false) } else { !is_blank(content) };
                need(says, "system: content is needed")?;
            }
            "user" => need(text_parts(&message["content"], true), "user: content is not valid")?,
            "assistant" => open = openai_assistant(message)?,
            _ => return Err(format!("{role} is not one of system, user, assistant, tool")),
        }
    }
    need(open.is_empty(), "an assistant message with 'tool_calls' must be followed by tool messages")
}

fn openai_assistant(message: &Value) -> Result<Vec<&str>, String> {
    let Some(calls) = message.get("tool_calls") else {
        need(message["content"].is_string(), "assistant: content is null and there are no tool_calls")?;
        return Ok(Vec::new());
    };
    let mut ids = Vec::new();
    for call in list(calls, "tool_calls")? {
        let function = &call["function"];
        need(call["type"] == "function", "tool_calls.type: should be 'function'")?;
        need(
            is_name(function["name"].as_str().unwrap_or_default(), 64),
            "tool_calls.function.name: pattern",
        )?;
        let arguments = function["arguments"].as_str().ok_or("tool_calls.function.arguments: a string")?;
        let parsed = serde_json::from_str::<Value>(arguments);
        need(parsed.is_ok_and(|parsed| parsed.is_object()), "tool_calls.function.arguments: not JSON")?;
        let id = call["id"].as_str().unwrap_or_default();
        need(!id.is_empty() && !ids.contains(&id), "tool_calls.id: must be there and be unique")?;
        ids.push(id);
    }
    Ok(ids)
}

fn text_parts(content: &Value, images: bool) -> bool {
    if content.is_string() {
        return true;
    }
    content.as_array().is_some_and(|parts| {
        !parts.is_empty()
            && parts.iter().all(|part| match part["type"].as_str() {
                Some("text") => !is_blank(&part["text"]),
                Some("image_url") => {
                    let url = part["image_url"]["url"].as_str().unwrap_or_default();
                    images && url.starts_with("data:image/") && url.contains(";base64,")
                }
                _ => false,
            })
    })
}
