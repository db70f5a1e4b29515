//! Encoder for requests of Anthropic's Messages API. Anything that the API would refuse only for its form is corrected
//! here: blank texts, ids of other providers, and tool results that are spread over several messages.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::{Value, json};

use super::super::call::{self, IdStyle};
use super::super::serialization::written;
use super::super::text_format::{is_blank, left_out};
use super::super::{AnswerFormat, Block, Message, Request, Role, ToolChoice, strict_schema};
use super::thinking::{self, Thinking};
use super::wire::{Body, CacheControl, Format, OutputConfig, Part, Source, Tool, Turn, WireBlock};

/// Returns the request body as bytes.
pub(super) fn request(request: &Request) -> serde_json::Result<Vec<u8>> {
    let system = (!is_blank(&request.system)).then(|| {
        let text = Cow::Borrowed(request.system.as_str());
        [Part { kind: WireBlock::Text { text }, cache_control: Some(CacheControl::Ephemeral) }]
    });
    let mut tools: Vec<Tool<'_>> = request
        .tools
        .iter()
        .map(|tool| Tool {
            name: &tool.name,
            description: &tool.description,
            input_schema: &tool.parameters,
            cache_control: None,
        })
        .collect();
    // Tools come before the system text in the cached part, so the system text's mark covers them too.
    if system.is_none()
        && let Some(last) = tools.last_mut()
    {
        last.cache_control = Some(CacheControl::Ephemeral);
    }
    let mut messages = turns(&request.messages);
    if thinking::is_minimax(&request.model) {
        split_tool_results(&mut messages);
    }
    mark_cache_end(&mut messages);
    let told = thinking::of(&request.model, request.effort, request.max_tokens);
    // The API refuses a thinking budget if the current chain of tool calls began without thinking. That is the case if
    // another model began it.
    let told =
        told.filter(|(kind, _)| !matches!(kind, Thinking::Enabled { .. }) || starts_with_thinking(&messages));
    let effort = told.and_then(|(_, effort)| effort);
    let format = output_format(request);
    let has_output = effort.is_some() || format.is_some();
    let body = Body {
        model: &request.model,
        max_tokens: request.max_tokens,
        stream: true,
        thinking: told.map(|(thinking, _)| thinking),
        output_config: has_output.then_some(OutputConfig { effort, format }),
        tools,
        tool_choice: choice(&request.choice),
        system,
        messages,
    };
    written(&body, request)
}

fn choice(choice: &ToolChoice) -> Option<Value> {
    match choice {
        ToolChoice::Auto => None,
        ToolChoice::Required => Some(json!({"type": "any"})),
        ToolChoice::Named(name) => Some(json!({"type": "tool", "name": name})),
    }
}

/// Returns the required form of the answer, for models from version 4.5 on, if the schema fits the enforceable subset.
fn output_format(request: &Request) -> Option<Format> {
    let Some(AnswerFormat::JsonSchema { schema, .. }) = &request.format else { return None };
    let schema = thinking::takes_form(&request.model).then(|| strict_schema::close(schema))??;
    Some(Format::JsonSchema { schema })
}

/// Marks the last message for the cache: the next request of this turn continues after it.
fn mark_cache_end(messages: &mut [Turn<'_>]) {
    let last = messages.last_mut().filter(|turn| turn.role == "user");
    if let Some(part) = last.and_then(|turn| turn.content.last_mut()) {
        part.cache_control = Some(CacheControl::Ephemeral);
    }
}

/// Returns `true` if the current chain of tool calls began with thinking, or if there is no such chain.
fn starts_with_thinking(messages: &[Turn<'_>]) -> bool {
    let is_chain = |turn: &&Turn<'_>| {
        turn.role == "assistant"
            || matches!(turn.content.first(), Some(Part { kind: WireBlock::ToolResult { .. }, .. }))
    };
    let first = messages.iter().rev().take_while(is_chain).filter(|turn| turn.role == "assistant").last();
    first.and_then(|turn| turn.content.first()).is_none_or(|part| {
        matches!(part.kind, WireBlock::Thinking { .. } | WireBlock::RedactedThinking { .. })
    })
}

/// Merges consecutive messages of one role into one turn, with tool results first.
fn turns(messages: &[Arc<Message>]) -> Vec<Turn<'_>> {
    let mut turns: Vec<Turn<'_>> = Vec::with_capacity(messages.len());
    for message in messages {
        let role = if message.role == Role::Assistant { "assistant" } else { "user" };
        let parts = message.content.iter().filter_map(|block| part(role, block)).map(Part::from);
        match turns.last_mut() {
            Some(last) if last.role == role => last.content.extend(parts),
            _ => {
                // The API refuses a turn without content.
                let content: Vec<Part<'_>> = parts.collect();
                if !content.is_empty() {
                    turns.push(Turn { role, content });
                }
            }
        }
    }
    for turn in turns.iter_mut().filter(|turn| turn.role == "user") {
        // The API requires the results before everything else in the turn. The sort is stable, so the rest keeps its
        // order.
        turn.content.sort_by_key(|part| !matches!(part.kind, WireBlock::ToolResult { .. }));
    }
    turns
}

/// Moves the content that follows tool results into a turn of its own, because MiniMax refuses both in one turn ("tool
/// call result does not follow tool call (2013)", anomalyco/opencode#32609).
fn split_tool_results(turns: &mut Vec<Turn<'_>>) {
    let is_result = |part: &Part<'_>| matches!(part.kind, WireBlock::ToolResult { .. });
    let mut at = 0;
    while let Some(turn) = turns.get_mut(at) {
        at += 1;
        let results = turn.content.iter().take_while(|part| is_result(part)).count();
        if results > 0 && results < turn.content.len() {
            let content = turn.content.split_off(results);
            turns.insert(at, Turn { role: "user", content });
            at += 1;
        }
    }
}

/// Returns a block in the wire format, or `None` if it has no place in a turn of this role.
fn part<'a>(role: &str, block: &'a Block) -> Option<WireBlock<'a>> {
    match block {
        Block::Text { text, .. } => text_part(text),
        Block::Image { media_type, data } if role == "user" => Some(image(media_type, data)),
        // The model's own turns cannot contain pictures.
        Block::Image { .. } => None,
        // Thinking without a signature comes from another provider and would be refused.
        Block::Thinking { thinking, signature, redacted } if role == "assistant" => {
            match (redacted, signature) {
                (Some(data), _) if !is_blank(data) => Some(WireBlock::RedactedThinking { data }),
                (_, Some(signature)) if !is_blank(signature) => {
                    Some(WireBlock::Thinking { thinking, signature })
                }
                _ => None,
            }
        }
        Block::Thinking { .. } => None,
        Block::ToolCall { id, name, arguments, .. } if role == "assistant" => Some(WireBlock::ToolUse {
            id: call::wire_id(id, IdStyle::Plain),
            name: call::wire_name(name),
            input: call::input(arguments),
        }),
        Block::ToolCall { .. } => None,
        Block::ToolResult { call_id, content, is_error, .. } if role == "user" => {
            Some(WireBlock::ToolResult {
                tool_use_id: call::wire_id(call_id, IdStyle::Plain),
                content: content.iter().filter_map(result_part).collect(),
                is_error: *is_error,
            })
        }
        Block::ToolResult { .. } | Block::Other(_) => None,
    }
}

fn result_part(block: &Block) -> Option<WireBlock<'_>> {
    match block {
        Block::Text { text, .. } => text_part(text),
        Block::Image { media_type, data } => Some(image(media_type, data)),
        _ => None,
    }
}

fn text_part(text: &str) -> Option<WireBlock<'_>> {
    (!is_blank(text)).then(|| WireBlock::Text { text: Cow::Borrowed(text) })
}

fn image<'a>(media_type: &'a str, data: &'a str) -> WireBlock<'a> {
    // Anthropic takes these four formats only.
    if matches!(media_type, "image/png" | "image/jpeg" | "image/gif" | "image/webp") && !data.is_empty() {
        WireBlock::Image { source: Source { kind: "base64", media_type, data } }
    } else {
        WireBlock::Text { text: Cow::Owned(left_out(media_type)) }
    }
}
