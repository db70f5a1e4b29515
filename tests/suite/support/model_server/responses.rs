//! OpenAI's Responses, and as Codex speaks it: what they refuse, and an answer as they stream it.

use std::collections::HashSet;
use std::fmt::Write as _;

use axum::http::HeaderMap;
use serde_json::{Value, json};

use super::Answer;
use super::check::{is_blank, is_name, list, need};

/// Refuses what the public API refuses, with what follows from `store: false`: what an item stands for must
/// be in it.
pub fn public(_: &HeaderMap, body: &Value) -> Result<(), String> {
    common(body)?;
    // The reference: max_output_tokens, at least 16.
    need(
        body["max_output_tokens"].as_u64().is_none_or(|tokens| tokens >= 16),
        "max_output_tokens: minimum 16",
    )?;
    let items = input(body)?;
    for (at, item) in items.iter().enumerate() {
        let follows = items.get(at + 1).is_some_and(|next| {
            matches!(next["type"].as_str(), Some("reasoning" | "function_call"))
                || (next["type"] == "message" && next["role"] == "assistant")
        });
        match item["type"].as_str() {
            Some("reasoning") => {
                let id = item["id"].as_str().unwrap_or_default();
                need(id.starts_with("rs_"), "input.id: Expected an ID that begins with 'rs'")?;
                need(item["summary"].is_array(), "input.summary: Missing required parameter")?;
                // OpenAI answers so to an item that it has not stored and that holds nothing itself.
                need(!is_blank(&item["encrypted_content"]), &format!("Item with id '{id}' not found."))?;
                need(
                    follows,
                    &format!(
                        "Item '{id}' of type 'reasoning' was provided without its required following item."
                    ),
                )?;
            }
            Some(kind @ ("function_call" | "message")) if item.get("id").is_some() => {
                let id = item["id"].as_str().unwrap_or_default();
                let prefix = if kind == "message" { "msg" } else { "fc" };
                need(id.starts_with(prefix) && is_name(id, 64), "input.id: Expected an ID of its own kind")?;
                let before = items[..at].iter().rev().take_while(|item| is_answer(item));
                let reasoned = before.into_iter().any(|item| item["type"] == "reasoning");
                need(
                    reasoned,
                    &format!(
                        "Item '{id}' of type '{kind}' was provided without its required 'reasoning' item"
                    ),
                )?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Refuses what Azure's refuses: as the public one, with the key in its own header.
pub fn azure(headers: &HeaderMap, body: &Value) -> Result<(), String> {
    need(headers.contains_key("api-key"), "Access denied due to missing subscription key")?;
    public(headers, body)
}

/// Refuses what ChatGPT's own API refuses.
pub fn codex(headers: &HeaderMap, body: &Value) -> Result<(), String> {
    common(body)?;
    need(headers.get("originator").is_some(), "originator is missing")?;
    need(body["instructions"].is_string(), "Instructions are required")?;
    // Seen as {"detail":"Unsupported parameter: max_output_tokens"}.
    need(body.get("max_output_tokens").is_none(), "Unsupported parameter: max_output_tokens")?;
    // Nothing is stored, so that an id stands for nothing.
    need(
        input(body)?.iter().all(|item| item.get("id").is_none()),
        "Items are not persisted when `store` is false",
    )
}

fn is_answer(item: &Value) -> bool {
    matches!(item["type"].as_str(), Some("reasoning" | "function_call")) || item["role"] == "assistant"
}

fn input(body: &Value) -> Result<&[Value], String> {
    list(&body["input"], "input")
}

fn common(body: &Value) -> Result<(), String> {
    need(!is_blank(&body["model"]), "Missing required parameter: 'model'")?;
    need(body["store"] == false && body["stream"] == true, "Store must be set to false")?;
    let known = [
        "model",
        "stream",
        "store",
        "instructions",
        "tools",
        "tool_choice",
        "include",
        "prompt_cache_key",
        "max_output_tokens",
        "reasoning",
        "input",
    ];
    for name in body.as_object().ok_or("an object is needed")?.keys() {
        need(known.contains(&name.as_str()), &format!("Unknown parameter: '{name}'."))?;
    }
    let older = body["model"].as_str().is_some_and(|model| model.starts_with("gpt-4"));
    // Seen as: Encrypted content is not supported with this model.
    need(!older || body.get("include").is_none(), "Encrypted content is not supported with this model.")?;
    need(!older || body.get("reasoning").is_none(), "Unsupported parameter: 'reasoning.effort'")?;
    for tool in body.get("tools").map_or(Ok(&[][..]), |tools| list(tools, "tools"))? {
        need(tool["type"] == "function", "tools.type: only functions")?;
        need(is_name(tool["name"].as_str().unwrap_or_default(), 64), "tools.name: pattern")?;
        // The guide to functions: what is strict must close every object and require every property.
        need(tool["strict"] == false, "Invalid schema for function: 'additionalProperties' is required")?;
    }
    let mut open = HashSet::new();
    let mut answered = HashSet::new();
    for item in input(body)? {
        need(
            item.as_object().is_some_and(|item| item.values().all(|value| !value.is_null())),
            "input: null",
        )?;
        match item["type"].as_str() {
            Some("message") => message(item)?,
            Some("reasoning") => {}
            Some("function_call") => {
                let id = item["call_id"].as_str().unwrap_or_default();
                need(is_name(id, 64), "input.call_id: string too long, or not of its pattern")?;
                need(is_name(item["name"].as_str().unwrap_or_default(), 64), "input.name: pattern")?;
                let arguments = item["arguments"].as_str().ok_or("input.arguments: a string is needed")?;
                need(serde_json::from_str::<Value>(arguments).is_ok(), "input.arguments: not JSON")?;
                need(open.insert(id), &format!("Duplicate function call id {id}"))?;
            }
            Some("function_call_output") => {
                let id = item["call_id"].as_str().unwrap_or_default();
                need(
                    open.contains(id),
                    &format!("No tool call found for function call output with call_id {id}."),
                )?;
                need(answered.insert(id), "a call has one output")?;
                output(&item["output"])?;
            }
            other => return Err(format!("Invalid value: {other:?}. Supported values are: 'message', …")),
        }
    }
    let left = open.difference(&answered).next();
    left.map_or(Ok(()), |id| Err(format!("No tool output found for function call {id}.")))
}

fn message(item: &Value) -> Result<(), String> {
    let wanted: &[&str] = match item["role"].as_str() {
        Some("user" | "developer" | "system") => &["input_text", "input_image"],
        Some("assistant") => &["output_text", "refusal"],
        other => return Err(format!("input.role: {other:?}")),
    };
    for part in list(&item["content"], "input.content")? {
        let kind = part["type"].as_str().unwrap_or_default();
        need(wanted.contains(&kind), &format!("Invalid value: '{kind}'. Supported values are: {wanted:?}"))?;
        self::part(part)?;
    }
    Ok(())
}

fn output(output: &Value) -> Result<(), String> {
    if output.is_string() {
        return Ok(());
    }
    for part in list(output, "input.output")? {
        need(matches!(part["type"].as_str(), Some("input_text" | "input_image")), "input.output.type")?;
        self::part(part)?;
    }
    Ok(())
}

fn part(part: &Value) -> Result<(), String> {
    if part["type"] == "input_image" {
        let url = part["image_url"].as_str().unwrap_or_default();
        return need(url.starts_with("data:image/") && url.contains(";base64,"), "Invalid image_url");
    }
    need(part["text"].is_string(), "input.content.text: a string is needed")
}

/// The item of reasoning that a rendered answer holds.
pub fn reasoning(thinking: &str) -> Value {
    json!({"id": "rs_1", "type": "reasoning", "summary": [{"type": "summary_text", "text": thinking}],
        "encrypted_content": "gAAAplanted", "content": null, "status": null})
}

pub fn render(_: &Value, answer: &Answer) -> (&'static str, String) {
    let mut text = String::new();
    let mut number = 0;
    let mut event = |kind: &str, mut value: Value| {
        value["type"] = json!(kind);
        value["sequence_number"] = json!(number);
        number += 1;
        writeln!(text, "event: {kind}\ndata: {value}\n").unwrap();
    };
    event("response.created", json!({"response": {"id": "resp_1", "status": "in_progress", "output": []}}));
    let mut output = Vec::new();
    if !answer.thinking.is_empty() {
        let item = reasoning(&answer.thinking);
        let index = output.len();
        event(
            "response.output_item.added",
            json!({"output_index": index, "item": {"id": "rs_1", "type": "reasoning", "summary": []}}),
        );
        event("response.reasoning_summary_part.added", json!({"output_index": index, "summary_index": 0}));
        event(
            "response.reasoning_summary_text.delta",
            json!({"output_index": index, "summary_index": 0, "delta": answer.thinking}),
        );
        event("response.output_item.done", json!({"output_index": index, "item": item}));
        output.push(item);
    }
    if !answer.pieces.is_empty() {
        let index = output.len();
        event(
            "response.output_item.added",
            json!({"output_index": index, "item": {"id": "msg_1", "type": "message", "role": "assistant",
                "status": "in_progress", "content": []}}),
        );
        for piece in &answer.pieces {
            event("response.output_text.delta", json!({"output_index": index, "delta": piece}));
        }
        let item = json!({"id": "msg_1", "type": "message", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": answer.pieces.concat(), "annotations": []}]});
        event("response.output_item.done", json!({"output_index": index, "item": item}));
        output.push(item);
    }
    for (id, name, arguments) in &answer.calls {
        let index = output.len();
        let item = |arguments: &str| {
            json!({"id": format!("fc_{id}"), "type": "function_call", "call_id": id, "name": name,
                "arguments": arguments, "status": "completed"})
        };
        event("response.output_item.added", json!({"output_index": index, "item": item("")}));
        let (first, second) = arguments.split_at(arguments.floor_char_boundary(arguments.len() / 2));
        for part in [first, second] {
            event("response.function_call_arguments.delta", json!({"output_index": index, "delta": part}));
        }
        event(
            "response.function_call_arguments.done",
            json!({"output_index": index, "arguments": arguments}),
        );
        event("response.output_item.done", json!({"output_index": index, "item": item(arguments)}));
        output.push(item(arguments));
    }
    let (input, written) = answer.usage;
    let (kind, status, details) = match answer.finish.as_deref() {
        Some("length") => ("response.incomplete", "incomplete", json!({"reason": "max_output_tokens"})),
        Some("content_filter") => ("response.incomplete", "incomplete", json!({"reason": "content_filter"})),
        _ => ("response.completed", "completed", Value::Null),
    };
    event(
        kind,
        json!({"response": {"id": "resp_1", "status": status, "output": output, "incomplete_details": details,
            "error": null, "usage": {"input_tokens": input, "input_tokens_details": {"cached_tokens": answer.cached},
            "output_tokens": written, "output_tokens_details": {"reasoning_tokens": 0}}}}),
    );
    ("text/event-stream", text)
}
