//! What Converse refuses. Beside each rule is where it was met: the API reference of `ConverseStream`, or a report of
//! the refusal.

use base64::Engine as _;
use serde_json::Value;

use crate::support::model_server::check::held_to;

fn need(condition: bool, message: impl Into<String>) -> Result<(), String> {
    if condition { Ok(()) } else { Err(message.into()) }
}

fn is_name(value: &Value) -> bool {
    let good = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    value.as_str().is_some_and(|text| (1..=64).contains(&text.len()) && text.chars().all(good))
}

fn is_blank(value: &Value) -> bool {
    value.as_str().is_none_or(|text| text.trim().is_empty())
}

/// The one key that a block has: it is a union.
fn kind(block: &Value) -> Result<(&str, &Value), String> {
    match block.as_object().map(|object| object.iter().collect::<Vec<_>>()).as_deref() {
        Some([(name, value)]) => Ok((name, value)),
        _ => Err(format!("a block is a union with one member: {block}")),
    }
}

pub fn converse(model: &str, body: &Value) -> Result<(), String> {
    let known = [
        "messages",
        "system",
        "inferenceConfig",
        "toolConfig",
        "additionalModelRequestFields",
        "outputConfig",
    ];
    for name in body.as_object().ok_or("an object is needed")?.keys() {
        need(known.contains(&name.as_str()), format!("{name} is not a member of the request"))?;
    }
    let unlimited = effort(model, body)?;
    if let Some(config) = body.get("outputConfig") {
        // OutputFormat and JsonSchemaDefinition; the models are those of the user guide, "Structured outputs".
        let takes = ["-4-5", "-4-6", "-4-7", "gpt-oss", "qwen3"].iter().any(|line| model.contains(line));
        need(takes, "This model doesn't support the outputConfig field.")?;
        let format = &config["textFormat"];
        need(format["type"] == "json_schema", "textFormat.type")?;
        let (_, definition) = kind(&format["structure"])?;
        need(definition["name"].is_string(), "jsonSchema.name")?;
        let schema = definition["schema"].as_str().ok_or("jsonSchema.schema: a text")?;
        let schema: Value =
            serde_json::from_str(schema).map_err(|error| format!("jsonSchema.schema: {error}"))?;
        held_to(&schema)?;
    }
    // InferenceConfiguration: maxTokens is at least 1.
    let limit = body["inferenceConfig"].get("maxTokens");
    need(limit.map_or(unlimited, |tokens| tokens.as_u64().is_some_and(|tokens| tokens > 0)), "maxTokens")?;
    for part in body["system"].as_array().into_iter().flatten() {
        if let ("text", text) = kind(part)? {
            need(!is_blank(text), "The text field in system is blank")?;
        }
    }
    tools(&body["toolConfig"])?;
    // At most four cache points, and none for a model that can't keep prompts ("prompt caching" in the user guide).
    let points = body.to_string().matches("cachePoint").count();
    need(points <= 4, "too many cache points")?;
    need(points == 0 || model.contains("claude") || model.contains("nova"), "cachePoint is not supported")?;
    let messages = body["messages"].as_array().filter(|all| !all.is_empty()).ok_or("messages: length")?;
    need(messages[0]["role"] == "user", "A conversation must start with a user message.")?;
    let mut open: Vec<&str> = Vec::new();
    let mut before = "";
    for (at, message) in messages.iter().enumerate() {
        let role = message["role"].as_str().unwrap_or_default();
        need(matches!(role, "user" | "assistant"), "role")?;
        // langchain-ai/langchainjs#6724
        need(role != before, "A conversation must alternate between user and assistant roles.")?;
        before = role;
        let content = message["content"].as_array().filter(|all| !all.is_empty());
        let content =
            content.ok_or(format!("The content field in the Message object at messages.{at} is empty."))?;
        let mut results = Vec::new();
        let mut uses = Vec::new();
        for part in content {
            let (name, value) = kind(part)?;
            block(model, role, name, value).map_err(|error| format!("messages.{at}: {error}"))?;
            // vxcontrol/pentagi#196
            need(
                !matches!(name, "toolUse" | "toolResult") || body["toolConfig"].is_object(),
                "The toolConfig field must be defined when using toolUse and toolResult content blocks.",
            )?;
            match name {
                "toolUse" => uses.push(value["toolUseId"].as_str().unwrap_or_default()),
                "toolResult" => results.push(value["toolUseId"].as_str().unwrap_or_default()),
                _ => {}
            }
        }
        let (mut wanted, mut given) = (open.clone(), results.clone());
        wanted.sort_unstable();
        given.sort_unstable();
        // ToolResultBlock: the result of a call is in the message after it.
        need(wanted == given, format!("Expected toolResult blocks at messages.{at} for the Ids {wanted:?}"))?;
        open = uses;
    }
    need(open.is_empty(), "Expected toolResult blocks after the last message")
}

/// The fields that are passed on, as each maker's models take them; whether there may be no limit of the answer.
fn effort(model: &str, body: &Value) -> Result<bool, String> {
    let Some(fields) = body.get("additionalModelRequestFields") else { return Ok(false) };
    let known: &[&str] = match model {
        _ if model.contains("claude") => &["thinking", "output_config", "anthropic_beta"],
        _ if model.contains("nova-2") => &["reasoningConfig"],
        _ if model.contains("gpt-oss") => &["reasoning_effort"],
        _ => &[],
    };
    for name in fields.as_object().ok_or("additionalModelRequestFields: an object")?.keys() {
        need(known.contains(&name.as_str()), format!("{name}: Extra inputs are not permitted"))?;
    }
    if let Some(beta) = fields.get("anthropic_beta") {
        // Anthropic's guide to extended thinking: other platforms refuse it for other models.
        let takes = model.contains("opus-4") || model.contains("sonnet-4");
        need(takes && beta[0] == "interleaved-thinking-2025-05-14", "invalid beta flag")?;
    }
    match fields["thinking"]["type"].as_str() {
        // The user guide, "Adaptive thinking": older models take a budget, the newest no budget.
        Some("adaptive") => need(
            ["-4-6", "-4-7", "-5"].iter().any(|version| model.contains(version)) && !model.contains("4-5"),
            "adaptive thinking is not supported on this model",
        )?,
        Some("enabled") => {
            let budget = fields["thinking"]["budget_tokens"].as_u64().unwrap_or_default();
            need(budget >= 1024, "thinking.enabled.budget_tokens: greater than or equal to 1024")?;
            let limit = body["inferenceConfig"]["maxTokens"].as_u64();
            need(limit > Some(budget), "`max_tokens` must be greater than `thinking.budget_tokens`")?;
        }
        None => need(fields.get("thinking").is_none(), "thinking.type")?,
        Some(_) => return Err("thinking.type".to_owned()),
    }
    // Nova's user guide, "Extended thinking in Amazon Nova 2": no limit beside the highest effort.
    let high = fields["reasoningConfig"]["maxReasoningEffort"] == "high";
    need(
        !high || body["inferenceConfig"].get("maxTokens").is_none(),
        "maxTokens with maxReasoningEffort high",
    )?;
    Ok(high)
}

fn tools(config: &Value) -> Result<(), String> {
    if config.is_null() {
        return Ok(());
    }
    // ToolConfiguration: at least one tool.
    for tool in config["tools"].as_array().filter(|all| !all.is_empty()).ok_or("toolConfig.tools: length")? {
        if let ("toolSpec", spec) = kind(tool)? {
            need(is_name(&spec["name"]), "toolSpec.name: pattern")?;
            need(spec.get("description").is_none_or(|text| !is_blank(text)), "toolSpec.description: length")?;
            need(spec["inputSchema"]["json"]["type"] == "object", "inputSchema.json.type must be object")?;
        }
    }
    Ok(())
}

fn block(model: &str, role: &str, name: &str, value: &Value) -> Result<(), String> {
    let rich = model.contains("claude") || model.contains("nova");
    match (role, name) {
        // aws-samples/bedrock-engineer#8; white space alone: NousResearch/hermes-agent#61318
        (_, "text") => need(!is_blank(value), "The text field in the ContentBlock object is blank."),
        (_, "cachePoint") => need(value["type"] == "default", "cachePoint.type"),
        ("user", "image") => image(value),
        ("user", "toolResult") => {
            need(is_name(&value["toolUseId"]), "toolUseId: pattern")?;
            // ToolResultBlock: the status is for Claude and Nova only.
            need(rich || value.get("status").is_none(), "status is not supported by this model")?;
            let content = value["content"].as_array().filter(|all| !all.is_empty());
            for part in content.ok_or("toolResult.content is empty")? {
                match kind(part)? {
                    // NousResearch/hermes-agent#55092
                    ("text", text) => need(!is_blank(text), "text content blocks must be non-empty")?,
                    ("image", picture) if rich => image(picture)?,
                    (other, _) => return Err(format!("toolResult can't hold {other}")),
                }
            }
            Ok(())
        }
        ("assistant", "toolUse") => {
            need(is_name(&value["toolUseId"]) && is_name(&value["name"]), "toolUse: pattern")?;
            need(value["input"].is_object(), "toolUse.input must be an object")
        }
        ("assistant", "reasoningContent") => match kind(value)? {
            ("reasoningText", text) => {
                need(!is_blank(&text["text"]) && !is_blank(&text["signature"]), "reasoningText is blank")
            }
            ("redactedContent", data) => need(!is_blank(data), "redactedContent is blank"),
            _ => Err("reasoningContent".to_owned()),
        },
        _ => Err(format!("{name} is not allowed in a message of {role}")),
    }
}

fn image(value: &Value) -> Result<(), String> {
    let formats = ["png", "jpeg", "gif", "webp"];
    need(formats.contains(&value["format"].as_str().unwrap_or_default()), "image.format")?;
    let bytes = value["source"]["bytes"].as_str().unwrap_or_default();
    let bytes = base64::engine::general_purpose::STANDARD.decode(bytes).map_err(|_| "image.source.bytes")?;
    need(!bytes.is_empty(), "image.source.bytes is empty")
}
