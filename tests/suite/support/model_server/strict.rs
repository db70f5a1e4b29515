//! What single providers of chat completions refuse beyond the format, by the model that is named. Beside each rule is
//! where it was met.

use serde_json::Value;

fn need(condition: bool, message: impl Into<String>) -> Result<(), String> {
    if condition { Ok(()) } else { Err(message.into()) }
}

fn keys(value: &Value) -> impl Iterator<Item = &str> {
    value.as_object().into_iter().flatten().map(|(name, _)| name.as_str())
}

/// Mistral's own API: closed schemas, and ids of nine letters and digits.
pub fn mistral(body: &Value) -> Result<(), String> {
    // anon-kode#53 (stream_options), editor-code-assistant/eca#231 (max_completion_tokens)
    let known = [
        "model",
        "messages",
        "stream",
        "max_tokens",
        "tools",
        "tool_choice",
        "temperature",
        "reasoning_effort",
    ];
    for name in keys(body) {
        need(known.contains(&name), format!("extra_forbidden: body.{name}: Extra inputs are not permitted"))?;
    }
    // partITech/php-mistral#76
    need(body["tools"].as_array().is_none_or(|tools| !tools.is_empty()), "extra_forbidden: body.tools")?;
    for message in body["messages"].as_array().into_iter().flatten() {
        if message["role"] == "assistant" {
            // charmbracelet/crush#1590
            let known = ["role", "content", "tool_calls", "prefix"];
            for name in keys(message) {
                need(known.contains(&name), format!("extra_forbidden: assistant.{name}"))?;
            }
        }
        let ids = message["tool_calls"].as_array().into_iter().flatten().map(|call| &call["id"]);
        for id in ids.chain(message.get("tool_call_id")) {
            let id = id.as_str().unwrap_or_default();
            // code 3280
            need(
                id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()),
                format!("Tool call id was {id} but must be a-z, A-Z, 0-9, with a length of 9."),
            )?;
        }
    }
    Ok(())
}

/// Gemini behind OpenRouter: calls of the running turn need the reasoning that came with them.
pub fn gemini_behind_a_router(body: &Value) -> Result<(), String> {
    let messages = body["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let of_turn = messages.iter().rev().take_while(|message| message["role"] != "user");
    for message in of_turn.filter(|message| message["tool_calls"].is_array()) {
        // LibreChat-AI/agents#37
        let kept = message["reasoning_details"].as_array().is_some_and(|details| !details.is_empty());
        need(kept, "Gemini models require OpenRouter reasoning details to be preserved in each request.")?;
    }
    Ok(())
}
