//! Encoder for requests of Bedrock's Converse API. Anything that the API would refuse only for its form is corrected
//! here: blank texts, empty contents, two turns of one role in a row, a first turn of the model, ids of other
//! providers, tool results that do not come first, and tool calls in a conversation whose request has no tools.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::json;

use super::super::call::{self, IdStyle};
use super::super::serialization::written;
use super::super::text_format::{is_blank, left_out};
use super::super::{AnswerFormat, Block, Message, Request, Role, ToolChoice, strict_schema};
use super::effort::{self, AdditionalFields};
use super::family::Family;
use super::wire::{
    Body, CachePoint, Image, Inference, JsonSchema, OutputConfig, Part, Reasoning, Schema, Source, Structure,
    TextFormat, Tool, ToolConfig, Turn,
};

const USER: &str = "user";
const ASSISTANT: &str = "assistant";
/// The text before an answer that opens the conversation, because a conversation must begin with the user. Hygiene
/// ensures that; this protects requests that are made without it.
const CONVERSATION_CONTINUES: &str = "[the conversation goes on]";
/// The content of a tool result without any output. Converse refuses an empty one.
const NO_OUTPUT: &str = "(no output)";

/// Returns the request body as bytes.
pub(super) fn request(request: &Request) -> serde_json::Result<Vec<u8>> {
    let family = Family::of(&request.model);
    let mut messages = turns(&request.messages, family);
    let mut system: Vec<Part<'_>> = text(&request.system).into_iter().collect();
    let mut tool_config = tools(request, &messages);
    // Models that cannot cache prompts refuse the marks.
    if family.caches {
        // Tools come before the system text in the cached part, so the system text's mark covers them too.
        if system.is_empty() {
            if let Some(config) = &mut tool_config {
                config.tools.push(Tool::CachePoint(CachePoint::Default));
            }
        } else {
            system.push(Part::CachePoint(CachePoint::Default));
        }
        // The next request of this turn continues after the last message.
        if let Some(last) = messages.last_mut().filter(|turn| turn.role == USER) {
            last.content.push(Part::CachePoint(CachePoint::Default));
        }
    }
    let told = effort::of(request, || starts_with_thinking(&messages));
    // Nova refuses a token limit together with its highest effort.
    let max_tokens =
        (!told.as_ref().is_some_and(AdditionalFields::excludes_token_limit)).then_some(request.max_tokens);
    let inference_config = Inference { max_tokens };
    let body = Body {
        inference_config,
        additional_model_request_fields: told,
        output_config: form(request, family),
        tool_config,
        system,
        messages,
    };
    written(&body, request)
}

/// Returns the required form of the answer, if the model supports one and the schema fits the enforceable subset.
fn form(request: &Request, family: Family) -> Option<OutputConfig<'_>> {
    let Some(AnswerFormat::JsonSchema { name, schema, .. }) = &request.format else { return None };
    let schema = family.takes_form.then(|| strict_schema::close(schema))??.to_string();
    let structure = Structure { json_schema: Schema { name, schema } };
    Some(OutputConfig { text_format: TextFormat::JsonSchema { structure } })
}

/// Returns `true` if the current chain of tool calls began with thinking, or if there is no such chain.
fn starts_with_thinking(turns: &[Turn<'_>]) -> bool {
    let is_chain = |turn: &&Turn<'_>| {
        turn.role == ASSISTANT || matches!(turn.content.first(), Some(Part::ToolResult { .. }))
    };
    let first = turns.iter().rev().take_while(is_chain).filter(|turn| turn.role == ASSISTANT).last();
    first.and_then(|turn| turn.content.first()).is_none_or(|part| matches!(part, Part::ReasoningContent(_)))
}

fn tools<'a>(request: &'a Request, messages: &[Turn<'a>]) -> Option<ToolConfig<'a>> {
    let mut tools: Vec<Tool<'a>> = request
        .tools
        .iter()
        .map(|tool| Tool::ToolSpec {
            name: Cow::Borrowed(tool.name.as_str()),
            // The API refuses a blank description.
            description: Some(tool.description.as_str()).filter(|text| !is_blank(text)),
            input_schema: JsonSchema { json: Cow::Borrowed(&*tool.parameters) },
        })
        .collect();
    if tools.is_empty() {
        // The API refuses a conversation with tool calls if the request has no tools, so the called ones are declared.
        tools = called_tools(messages)
            .into_iter()
            .map(|name| Tool::ToolSpec {
                name: Cow::Owned(name),
                description: None,
                input_schema: JsonSchema { json: Cow::Owned(json!({"type": "object"})) },
            })
            .collect();
    }
    let tool_choice = match &request.choice {
        ToolChoice::Auto => None,
        ToolChoice::Required => Some(json!({"any": {}})),
        ToolChoice::Named(name) => Some(json!({"tool": {"name": name}})),
    };
    (!tools.is_empty()).then_some(ToolConfig { tools, tool_choice })
}

/// Returns the names of the tools that the conversation has calls of, sorted.
fn called_tools(messages: &[Turn<'_>]) -> BTreeSet<String> {
    let parts = messages.iter().flat_map(|turn| &turn.content);
    let names = parts.filter_map(|part| match part {
        Part::ToolUse { name, .. } => Some(name.clone().into_owned()),
        _ => None,
    });
    names.collect()
}

/// Merges consecutive messages of one role into one turn, with tool results first.
fn turns(messages: &[Arc<Message>], family: Family) -> Vec<Turn<'_>> {
    let mut turns: Vec<Turn<'_>> = Vec::with_capacity(messages.len());
    for message in messages {
        let role = if message.role == Role::Assistant { ASSISTANT } else { USER };
        let parts: Vec<Part<'_>> = if role == ASSISTANT {
            message.content.iter().filter_map(|block| assistant_part(block, family)).collect()
        } else {
            message.content.iter().flat_map(|block| user_parts(block, family)).collect()
        };
        match turns.last_mut() {
            // The API refuses a turn without content.
            _ if parts.is_empty() => {}
            Some(last) if last.role == role => last.content.extend(parts),
            _ => turns.push(Turn { role, content: parts }),
        }
    }
    for turn in turns.iter_mut().filter(|turn| turn.role == USER) {
        // The API requires the results before everything else in the turn. The sort is stable, so the rest keeps its
        // order.
        turn.content.sort_by_key(|part| !matches!(part, Part::ToolResult { .. }));
    }
    if turns.first().is_some_and(|turn| turn.role == ASSISTANT) {
        turns
            .insert(0, Turn { role: USER, content: vec![Part::Text(Cow::Borrowed(CONVERSATION_CONTINUES))] });
    }
    turns
}

/// Returns a block of the model in the wire format, or `None` if it cannot be sent.
fn assistant_part(block: &Block, family: Family) -> Option<Part<'_>> {
    match block {
        Block::Text { text: words, .. } => text(words),
        Block::ToolCall { id, name, arguments, .. } => Some(Part::ToolUse {
            tool_use_id: call::wire_id(id, IdStyle::Plain),
            name: call::wire_name(name),
            input: call::input(arguments),
        }),
        // Thinking without a signature comes from another provider and would be refused. So would thinking without
        // text.
        Block::Thinking { thinking, signature, redacted } if family.thinks => match (redacted, signature) {
            (Some(data), _) if !is_blank(data) => {
                Some(Part::ReasoningContent(Reasoning::RedactedContent(data)))
            }
            (_, Some(signature)) if !is_blank(signature) && !is_blank(thinking) => {
                Some(Part::ReasoningContent(Reasoning::ReasoningText { text: thinking, signature }))
            }
            _ => None,
        },
        Block::Thinking { .. } | Block::ToolResult { .. } | Block::Image { .. } | Block::Other(_) => None,
    }
}

/// Returns a block of the user, or a tool result, in the wire format. If a model's results cannot contain pictures, the
/// pictures follow the result.
fn user_parts(block: &Block, family: Family) -> Vec<Part<'_>> {
    match block {
        Block::Text { text: words, .. } => text(words).into_iter().collect(),
        Block::Image { media_type, data } => vec![image_part(media_type, data)],
        Block::ToolResult { call_id, content, is_error, .. } => {
            let shown = content.iter().filter_map(|block| match block {
                Block::Text { text: words, .. } => text(words),
                Block::Image { media_type, data } => Some(image_part(media_type, data)),
                _ => None,
            });
            let (mut inside, after): (Vec<_>, Vec<_>) =
                shown.partition(|part| family.rich_results || matches!(part, Part::Text(_)));
            // These models have no status for results, so a text marks the failure.
            if *is_error && !family.rich_results {
                inside.insert(0, Part::Text(Cow::Borrowed("error:")));
            }
            if inside.is_empty() {
                inside.push(Part::Text(Cow::Borrowed(NO_OUTPUT)));
            }
            let result = Part::ToolResult {
                tool_use_id: call::wire_id(call_id, IdStyle::Plain),
                content: inside,
                status: (*is_error && family.rich_results).then_some("error"),
            };
            std::iter::once(result).chain(after).collect()
        }
        Block::Thinking { .. } | Block::ToolCall { .. } | Block::Other(_) => Vec::new(),
    }
}

fn text(text: &str) -> Option<Part<'_>> {
    (!is_blank(text)).then_some(Part::Text(Cow::Borrowed(text)))
}

fn image_part<'a>(media_type: &'a str, data: &'a str) -> Part<'a> {
    match media_type.strip_prefix("image/") {
        Some(format @ ("png" | "jpeg" | "gif" | "webp")) if !data.is_empty() => {
            Part::Image(Image { format, source: Source { bytes: data } })
        }
        _ => Part::Text(Cow::Owned(left_out(media_type))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::super::super::ToolSpec;
    use super::*;

    #[test]
    fn a_choice_of_tools_has_the_form_of_converse() {
        let spec = |name: &str| ToolSpec {
            name: name.to_owned(),
            description: "x".to_owned(),
            parameters: json!({"type": "object", "properties": {}}).into(),
        };
        let choice = |choice: ToolChoice| -> Value {
            let asked = Request {
                messages: vec![Arc::new(Message::text(Role::User, "hi"))],
                tools: vec![spec("weather")],
                choice,
                ..Request::default()
            };
            let body: Value = serde_json::from_slice(&request(&asked).unwrap()).unwrap();
            body["toolConfig"]["toolChoice"].clone()
        };
        assert_eq!(choice(ToolChoice::Auto), Value::Null);
        assert_eq!(choice(ToolChoice::Required), json!({"any": {}}));
        assert_eq!(choice(ToolChoice::Named("weather".into())), json!({"tool": {"name": "weather"}}));
    }
}
