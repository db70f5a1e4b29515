//! Encoder for requests of the chat completions API.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::super::call;
use super::super::data_url::DataUrl;
use super::super::serialization::written;
use super::super::text_format::{self, is_blank};
use super::super::{AnswerFormat, Block, Message, Request, Role, ToolChoice};
use super::dialect::{Dialect, ReasoningField, wants_thinking_back};
use super::reasoning_details;
use super::wire::{
    Body, CacheControl, CalledFunction, Content, Image, Part, StreamOptions, Tool, UsageOptions, WireMessage,
    WireToolCall,
};

/// The text of an assistant message that has to be inserted between tool results and a user message.
const RESULTS_READ: &str = "[the results were read]";

/// Returns the request body as bytes.
pub(super) fn request(request: &Request, dialect: Dialect) -> serde_json::Result<Vec<u8>> {
    let (max_tokens, max_completion_tokens) = if dialect.max_completion_tokens {
        (None, Some(request.max_tokens))
    } else {
        (Some(request.max_tokens), None)
    };
    let body = Body {
        model: &request.model,
        stream: true,
        stream_options: dialect.ask_usage.then_some(StreamOptions { include_usage: true }),
        usage: dialect.routes.then_some(UsageOptions { include: true }),
        max_tokens,
        max_completion_tokens,
        reasoning_effort: dialect.word(&request.model, request.effort, !request.tools.is_empty()),
        // Only OpenAI's own servers know this field, and some others refuse unknown fields.
        prompt_cache_key: request.cache_key.as_deref().filter(|_| dialect.max_completion_tokens),
        // Many other servers either enforce a form or let the model call tools, but not both.
        response_format: request.format.as_ref().filter(|_| dialect.max_completion_tokens).map(format),
        tools: request.tools.iter().map(|tool| Tool { kind: "function", function: tool }).collect(),
        tool_choice: choice(&request.choice),
        messages: messages(request, dialect),
    };
    written(&body, request)
}

fn choice(choice: &ToolChoice) -> Option<Value> {
    match choice {
        // It is the default, and some servers refuse fields that they do not know.
        ToolChoice::Auto => None,
        ToolChoice::Required => Some(json!("required")),
        ToolChoice::Named(name) => Some(json!({"type": "function", "function": {"name": name}})),
    }
}

fn format(format: &AnswerFormat) -> Value {
    match format {
        AnswerFormat::JsonObject => json!({"type": "json_object"}),
        AnswerFormat::JsonSchema { name, schema, strict } => {
            let mut described = json!({"name": name, "schema": schema});
            if let Some(strict) = strict {
                described["strict"] = (*strict).into();
            }
            json!({"type": "json_schema", "json_schema": described})
        }
    }
}

fn messages(request: &Request, dialect: Dialect) -> Vec<WireMessage<'_>> {
    let mut wire = Vec::with_capacity(request.messages.len() + 1);
    let marks = dialect.marks(&request.model);
    if !is_blank(&request.system) {
        let text = Cow::Borrowed(request.system.as_str());
        let content = if marks {
            Content::Parts(vec![Part::Text { text, cache_control: Some(CacheControl::Ephemeral) }])
        } else {
            Content::Text(text)
        };
        wire.push(WireMessage::System { content });
    }
    let style = dialect.id_style_for(&request.model);
    let wants = wants_thinking_back(&request.model);
    // Content of the user's next message. A tool result holds text only, so its pictures follow in a user message after
    // all results. Everything is collected because some servers refuse two user messages in a row.
    let mut pending: Vec<Part<'_>> = Vec::new();
    for message in &request.messages {
        match message.role {
            Role::Assistant => {
                // An answer without content is skipped, and the user's messages around it become one.
                if let Some(answer) = assistant_message(message, style, wants, dialect) {
                    flush(&mut wire, &mut pending, style, marks);
                    wire.push(answer);
                }
            }
            Role::User | Role::Tool => {
                for block in &message.content {
                    if let Block::ToolResult { call_id, name, content, is_error } = block {
                        wire.push(WireMessage::Tool {
                            tool_call_id: call::wire_id(call_id, style),
                            content: text_format::result(content, *is_error),
                        });
                        collect_pictures(name, content, &mut pending);
                    }
                }
                collect_user_parts(message, &mut pending);
            }
        }
    }
    flush(&mut wire, &mut pending, style, marks);
    if marks {
        mark_cache_end(&mut wire);
    }
    wire
}

/// Marks the last message for the cache: the next request of this turn continues after it.
fn mark_cache_end(wire: &mut [WireMessage<'_>]) {
    if let Some(WireMessage::User { content: Content::Parts(parts) }) = wire.last_mut()
        && let Some(Part::Text { cache_control, .. }) = parts.last_mut()
    {
        *cache_control = Some(CacheControl::Ephemeral);
    }
}

fn flush<'a>(
    wire: &mut Vec<WireMessage<'a>>,
    pending: &mut Vec<Part<'a>>,
    style: call::IdStyle,
    marks: bool,
) {
    if pending.is_empty() {
        return;
    }
    // Mistral's models refuse a user message directly after a tool result.
    if style == call::IdStyle::Nine && matches!(wire.last(), Some(WireMessage::Tool { .. })) {
        wire.push(WireMessage::Assistant {
            content: Some(Cow::Borrowed(RESULTS_READ)),
            reasoning_content: None,
            reasoning: None,
            reasoning_details: Vec::new(),
            tool_calls: Vec::new(),
        });
    }
    let parts = std::mem::take(pending);
    // With cache marks all messages have the same form, so that the cached beginning stays the same when the mark
    // moves.
    wire.push(WireMessage::User { content: if marks { Content::Parts(parts) } else { content(parts) } });
}

fn collect_user_parts<'a>(message: &'a Message, pending: &mut Vec<Part<'a>>) {
    pending.extend(message.content.iter().filter_map(|block| match block {
        Block::Text { text, .. } if !is_blank(text) => Some(Part::text(text.as_str())),
        Block::Image { media_type, data } => Some(image_part(media_type, data)),
        _ => None,
    }));
}

fn content(mut parts: Vec<Part<'_>>) -> Content<'_> {
    if parts.iter().any(|part| matches!(part, Part::ImageUrl { .. })) {
        return Content::Parts(parts);
    }
    if let [Part::Text { text, .. }] = parts.as_mut_slice() {
        return Content::Text(std::mem::take(text));
    }
    let texts = parts.iter().filter_map(|part| match part {
        Part::Text { text, .. } => Some(text.as_ref()),
        Part::ImageUrl { .. } => None,
    });
    Content::Text(Cow::Owned(texts.collect::<Vec<_>>().join("\n\n")))
}

/// Returns the model's message, or `None` if nothing of it can be sent. `wants` is `true` if the model refuses calls
/// without reasoning, even if it is empty.
fn assistant_message(
    message: &Message,
    style: call::IdStyle,
    wants: bool,
    dialect: Dialect,
) -> Option<WireMessage<'_>> {
    let tool_calls: Vec<WireToolCall<'_>> = message
        .tool_calls()
        .map(|call| WireToolCall {
            id: call::wire_id(call.id, style),
            kind: "function",
            function: CalledFunction {
                name: call::wire_name(call.name),
                arguments: call::input(call.arguments),
            },
        })
        .collect();
    let content = Some(text_format::joined(&message.content)).filter(|text| !is_blank(text));
    // Reasoning alone makes no message in this format.
    if content.is_none() && tool_calls.is_empty() {
        return None;
    }
    let wants = wants && dialect.accepts_reasoning();
    let thought = thinking(&message.content);
    // A model that requires the field gets it empty if the call came without reasoning.
    let thought = (!is_blank(&thought) || (wants && !tool_calls.is_empty())).then_some(thought);
    let (reasoning_content, reasoning) = match dialect.reasoning {
        _ if wants => (thought, None),
        ReasoningField::Content => (thought, None),
        ReasoningField::Reasoning => (None, thought),
        ReasoningField::None => (None, None),
    };
    let reasoning_details = if dialect.routes { reasoning_details(&message.content) } else { Vec::new() };
    Some(WireMessage::Assistant { content, reasoning_content, reasoning, reasoning_details, tool_calls })
}

/// Returns the details that were kept as signatures of thinking blocks. Signatures of other providers are skipped.
fn reasoning_details(content: &[Block]) -> Vec<Value> {
    let signatures = content.iter().filter_map(|block| match block {
        Block::Thinking { signature, .. } => signature.as_deref(),
        _ => None,
    });
    signatures.filter_map(reasoning_details::open).flatten().collect()
}

fn thinking(content: &[Block]) -> String {
    let thinking = content.iter().filter_map(|block| match block {
        Block::Thinking { thinking, .. } => Some(thinking.as_str()),
        _ => None,
    });
    thinking.collect()
}

fn collect_pictures<'a>(tool: &str, content: &'a [Block], pictures: &mut Vec<Part<'a>>) {
    let mut first = true;
    for block in content {
        // The pictures stand in a user message, so a text says which tool they came from.
        if let Block::Image { media_type, data } = block {
            if std::mem::take(&mut first) {
                pictures.push(Part::text(format!("[from the result of {tool}]")));
            }
            pictures.push(image_part(media_type, data));
        }
    }
}

fn image_part<'a>(media_type: &'a str, data: &'a str) -> Part<'a> {
    if media_type.starts_with("image/") && !data.is_empty() {
        Part::ImageUrl { image_url: Image { url: DataUrl { media_type, data } } }
    } else {
        Part::text(text_format::left_out(media_type))
    }
}
