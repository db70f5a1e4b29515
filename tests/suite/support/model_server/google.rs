//! Google's generateContent: what it refuses, and an answer as it streams it.

use std::fmt::Write as _;

use axum::http::{HeaderMap, Uri};
use serde_json::{Value, json};

use super::Answer;
use super::check::{is_blank, is_name, list, need};

/// The words of the OpenAPI schema that `parameters` takes (the reference of Schema).
const WORDS: [&str; 19] = [
    "type",
    "format",
    "title",
    "description",
    "nullable",
    "enum",
    "items",
    "properties",
    "required",
    "minItems",
    "maxItems",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "pattern",
    "anyOf",
    "example",
    "propertyOrdering",
];

/// Refuses what the Gemini API refuses.
pub fn check(uri: &Uri, headers: &HeaderMap, body: &Value) -> Result<(), String> {
    let query = uri.query().unwrap_or_default();
    need(!query.contains("key="), "the key is in the address")?;
    need(query.split('&').any(|pair| pair == "alt=sse"), "alt=sse is missing")?;
    need(headers.get("x-goog-api-key").is_some_and(|key| !key.is_empty()), "API key not valid.")?;
    need(uri.path().ends_with(":streamGenerateContent"), "no such method")?;
    let third = uri.path().contains("gemini-3");
    let known = ["systemInstruction", "tools", "toolConfig", "generationConfig", "contents"];
    only(body, &known)?;
    if let Some(system) = body.get("systemInstruction") {
        for part in list(&system["parts"], "systemInstruction.parts")? {
            need(!is_blank(&part["text"]), "systemInstruction: empty text")?;
        }
    }
    for tool in body.get("tools").map_or(Ok(&[][..]), |tools| list(tools, "tools"))? {
        for declaration in list(&tool["functionDeclarations"], "functionDeclarations")? {
            only(declaration, &["name", "description", "parameters", "parametersJsonSchema"])?;
            need(is_name(declaration["name"].as_str().unwrap_or_default(), 64), "Invalid function name")?;
            if let Some(parameters) = declaration.get("parameters") {
                schema(parameters)?;
                let any = parameters["properties"].as_object().is_some_and(|all| !all.is_empty());
                need(any, "parameters.properties: should be non-empty for OBJECT type")?;
            }
        }
    }
    let config = &body["generationConfig"];
    only(config, &["maxOutputTokens", "thinkingConfig", "responseMimeType", "responseJsonSchema"])?;
    if let Some(kind) = config.get("responseMimeType") {
        // The guide to structured outputs, and the refusals that it is silent of.
        need(kind == "application/json", "responseMimeType: unknown")?;
        need(uri.path().contains("gemini-"), "JSON mode is not enabled for this model")?;
        need(
            third || body.get("tools").is_none(),
            "Function calling with a response mime type: 'application/json' is unsupported",
        )?;
    }
    need(
        config.get("responseJsonSchema").is_none() || config.get("responseMimeType").is_some(),
        "response_json_schema with a response mime type: 'text/plain' is unsupported",
    )?;
    if let Some(thinking) = config.get("thinkingConfig") {
        // The guide to thinking: a level with 3, a budget with 2.5, and an error with both.
        only(thinking, &["includeThoughts", "thinkingLevel", "thinkingBudget"])?;
        let is_both = thinking.get("thinkingLevel").is_some() && thinking.get("thinkingBudget").is_some();
        need(!is_both, "You can only set only one of thinking budget and thinking level.")?;
        need(
            third || thinking.get("thinkingLevel").is_none(),
            "Thinking level is not supported for this model.",
        )?;
    }
    contents(list(&body["contents"], "contents")?, third)
}

fn only(value: &Value, known: &[&str]) -> Result<(), String> {
    for name in value.as_object().ok_or("an object is needed")?.keys() {
        need(known.contains(&name.as_str()), &format!("Unknown name \"{name}\": Cannot find field."))?;
    }
    Ok(())
}

fn schema(value: &Value) -> Result<(), String> {
    only(value, &WORDS)?;
    need(value["type"] != "array" || value["items"].is_object(), "items: missing field.")?;
    let properties = value["properties"].as_object().into_iter().flat_map(|all| all.values());
    let choices = value["anyOf"].as_array().into_iter().flatten();
    properties.chain(choices).chain(value.get("items")).try_for_each(schema)
}

/// The order of sides, and what each holds.
fn contents(contents: &[Value], third: bool) -> Result<(), String> {
    let mut before = "";
    let mut calls: Vec<&Value> = Vec::new();
    for content in contents {
        let role = content["role"].as_str().unwrap_or_default();
        need(matches!(role, "user" | "model"), "Please use a valid role: user, model.")?;
        // The Gemini API's words for a call: it comes right after a user's turn or a response.
        need(role != before, "Please ensure that multiturn requests alternate between user and model.")?;
        need(!before.is_empty() || role == "user", "Please ensure that multiturn requests begin with user")?;
        before = role;
        let parts = list(&content["parts"], "contents.parts")?;
        parts.iter().try_for_each(|part| self::part(role, part))?;
        let outputs: Vec<&Value> = parts.iter().filter_map(|part| part.get("functionResponse")).collect();
        if role == "user" {
            need(
                outputs.len() == calls.len(),
                "Please ensure that the number of function response parts is equal to the number of function \
                 call parts of the function call turn.",
            )?;
            for (call, output) in calls.iter().zip(&outputs) {
                need(call["name"] == output["name"], "function response name does not match")?;
                need(call.get("id") == output.get("id"), "function response id does not match")?;
            }
            calls.clear();
            continue;
        }
        calls = parts.iter().filter_map(|part| part.get("functionCall")).collect();
        // The guide to thought signatures: the first call of each step, with the third family.
        let first = parts.iter().find(|part| part.get("functionCall").is_some());
        let signed = first.is_none_or(|first| !is_blank(&first["thoughtSignature"]));
        need(!third || signed, "Function call is missing a thought_signature in functionCall parts.")?;
    }
    need(calls.is_empty(), "the last function call has no response")
}

fn part(role: &str, part: &Value) -> Result<(), String> {
    only(part, &["text", "thought", "thoughtSignature", "inlineData", "functionCall", "functionResponse"])?;
    if let Some(signature) = part.get("thoughtSignature") {
        let text = signature.as_str().unwrap_or_default();
        let letters = |c: char| c.is_ascii_alphanumeric() || "+/-_=".contains(c);
        need(!text.is_empty() && text.chars().all(letters), "Base64 decoding failed for thought_signature")?;
    }
    let kinds = ["text", "inlineData", "functionCall", "functionResponse"];
    let kinds: Vec<&str> = kinds.into_iter().filter(|kind| part.get(*kind).is_some()).collect();
    match (role, kinds.as_slice()) {
        (_, ["text"]) => {
            need(!is_blank(&part["text"]) || part.get("thoughtSignature").is_some(), "text must not be empty")
        }
        ("user", ["inlineData"]) => {
            let picture = &part["inlineData"];
            need(picture["mimeType"].as_str().is_some_and(|kind| kind.starts_with("image/")), "mimeType")?;
            need(!is_blank(&picture["data"]), "inlineData.data is empty")
        }
        ("user", ["functionResponse"]) => {
            only(&part["functionResponse"], &["id", "name", "response", "parts"])?;
            need(part["functionResponse"]["response"].is_object(), "functionResponse.response: an object")
        }
        ("model", ["functionCall"]) => {
            let name = part["functionCall"]["name"].as_str().unwrap_or_default();
            need(is_name(name, 64), "functionCall.name: pattern")?;
            need(part["functionCall"]["args"].is_object(), "functionCall.args: an object")
        }
        _ => Err(format!("required oneof field 'data' must have one initialized field: {kinds:?}")),
    }
}

pub fn render(_: &Value, answer: &Answer) -> (&'static str, String) {
    let (input, output) = answer.usage;
    let usage = json!({"promptTokenCount": input, "candidatesTokenCount": output, "totalTokenCount": input + output,
            "cachedContentTokenCount": answer.cached});
    let mut text = String::new();
    let mut chunk = |parts: Vec<Value>, finish: Option<&str>| {
        let mut candidate = json!({"content": {"role": "model", "parts": parts}, "index": 0});
        if let Some(finish) = finish {
            candidate["finishReason"] = json!(finish);
        }
        let value = json!({"candidates": [candidate], "usageMetadata": usage, "modelVersion": "m"});
        write!(text, "data: {value}\r\n\r\n").unwrap();
    };
    if !answer.thinking.is_empty() {
        chunk(vec![json!({"text": answer.thinking, "thought": true})], None);
    }
    for piece in &answer.pieces {
        chunk(vec![json!({"text": piece})], None);
    }
    let calls = answer.calls.iter().enumerate().map(|(at, (id, name, arguments))| {
        let args = serde_json::from_str(arguments).unwrap_or_else(|_| json!({}));
        let mut part = json!({"functionCall": {"id": id, "name": name, "args": args}});
        if at == 0 {
            part["thoughtSignature"] = json!("c2lnbmVk");
        }
        part
    });
    let calls: Vec<Value> = calls.collect();
    if !calls.is_empty() {
        chunk(calls, None);
    }
    let finish = match answer.finish.as_deref() {
        Some("length") => "MAX_TOKENS",
        Some("content_filter") => "SAFETY",
        _ => "STOP",
    };
    chunk(vec![json!({"text": ""})], Some(finish));
    ("text/event-stream", text)
}
