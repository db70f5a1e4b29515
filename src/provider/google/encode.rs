//! Encoder for requests of Google's generateContent API.

use std::borrow::Cow;
use std::sync::Arc;

use super::super::call::{self, IdStyle};
use super::super::message::ToolCall;
use super::super::serialization::written;
use super::super::text_format::{self, is_blank};
use super::super::{AnswerFormat, Block, Message, Request, Role, ToolChoice, ToolSpec};
use super::family::Family;
use super::schema;
use super::signature::usable;
use super::wire::{
    Body, Call, CallingMode, Content, FunctionDeclaration, FunctionResult, GenerationConfig, Instruction,
    Output, Part, PartKind, Picture, ToolConfig, Tools,
};

/// Returns the request body as bytes.
pub(super) fn request(request: &Request, family: Family) -> serde_json::Result<Vec<u8>> {
    let has_tools = !request.tools.is_empty();
    let form = request.format.as_ref().filter(|_| family.takes_form(has_tools));
    let body = Body {
        system_instruction: (!is_blank(&request.system))
            .then(|| Instruction { parts: [text_part(&request.system)] }),
        tools: has_tools.then(|| {
            let declare = |tool| declaration(tool, family);
            [Tools { function_declarations: request.tools.iter().map(declare).collect() }]
        }),
        tool_config: has_tools.then(|| ToolConfig { function_calling_config: calling_mode(&request.choice) }),
        generation_config: GenerationConfig {
            max_output_tokens: request.max_tokens,
            response_mime_type: form.map(|_| "application/json"),
            response_json_schema: match form {
                Some(AnswerFormat::JsonSchema { schema, .. }) => Some(schema),
                _ => None,
            },
            thinking_config: request.effort.and_then(|effort| family.thinking(effort)),
        },
        contents: contents(&request.messages, family),
    };
    written(&body, request)
}

fn calling_mode(choice: &ToolChoice) -> CallingMode<'_> {
    let (mode, allowed_function_names) = match choice {
        ToolChoice::Auto => ("AUTO", None),
        ToolChoice::Required => ("ANY", None),
        ToolChoice::Named(name) => ("ANY", Some([name.as_str()])),
    };
    CallingMode { mode, allowed_function_names }
}

/// Declares a tool, with its whole JSON schema if the model accepts one, else with a reduced schema.
fn declaration(tool: &ToolSpec, family: Family) -> FunctionDeclaration<'_> {
    // Other models know only a part of the schema's keywords.
    let whole = family.supports_json_schema();
    FunctionDeclaration {
        name: &tool.name,
        description: &tool.description,
        parameters_json_schema: whole.then_some(&*tool.parameters),
        parameters: if whole { None } else { schema::reduce(&tool.parameters) },
    }
}

/// Merges consecutive messages of one role into one content. Roles must alternate, and all tool results of a step must
/// be in one content before anything else.
fn contents(messages: &[Arc<Message>], family: Family) -> Vec<Content<'_>> {
    let mut contents: Vec<Content<'_>> = Vec::with_capacity(messages.len());
    // Calls that wait for their results. Each result must carry the name of its call.
    let mut calls: Vec<ToolCall<'_>> = Vec::new();
    for message in messages {
        let (role, parts): (_, Vec<Part<'_>>) = if message.role == Role::Assistant {
            // An answer after the user's turn begins a new step, so earlier calls have their results.
            if contents.last().is_some_and(|last| last.role == "user") {
                calls.clear();
            }
            calls.extend(message.tool_calls());
            ("model", model_parts(message, family))
        } else {
            ("user", message.content.iter().flat_map(|block| user_parts(block, &calls, family)).collect())
        };
        match contents.last_mut() {
            Some(last) if last.role == role => last.parts.extend(parts),
            _ if parts.is_empty() => {}
            _ => contents.push(Content { role, parts }),
        }
    }
    for content in contents.iter_mut().filter(|content| content.role == "user") {
        // The sort is stable, so everything after the results keeps its order.
        content.parts.sort_by_key(|part| !part.is_output());
    }
    contents
}

fn model_parts(message: &Message, family: Family) -> Vec<Part<'_>> {
    message.content.iter().filter_map(|block| model_part(block, family)).collect()
}

fn model_part(block: &Block, family: Family) -> Option<Part<'_>> {
    Some(match block {
        Block::Text { text, signature } => {
            let thought_signature = usable(signature.as_deref());
            // A signature may come without any text. It is sent back in the same form.
            if is_blank(text) && thought_signature.is_none() {
                return None;
            }
            Part { thought_signature, ..text_part(text) }
        }
        // Thoughts without a signature are for people to read and are not sent back.
        Block::Thinking { thinking, signature, .. } => Part {
            kind: PartKind::Text { text: Cow::Borrowed(thinking), thought: true },
            thought_signature: Some(usable(signature.as_deref())?),
        },
        Block::ToolCall { id, name, arguments, signature } => Part {
            kind: PartKind::Call {
                function_call: Call {
                    id: wire_id(id, family),
                    name: call::wire_name(name),
                    args: call::input(arguments),
                },
            },
            thought_signature: usable(signature.as_deref()),
        },
        _ => return None,
    })
}

fn user_parts<'a>(block: &'a Block, calls: &[ToolCall<'a>], family: Family) -> Vec<Part<'a>> {
    match block {
        Block::Text { text, .. } if !is_blank(text) => vec![text_part(text)],
        Block::Image { media_type, data } => vec![image_part(media_type, data)],
        Block::ToolResult { call_id, name, content, is_error } => {
            let text = text_format::joined(content);
            let text = if is_blank(&text) { Cow::Borrowed("(no output)") } else { text };
            let mut parts: Vec<Part<'_>> = image_parts(content).collect();
            // Only Gemini 3 accepts pictures in a result. For other models they follow the result.
            let within = if family.is_gemini_3() { std::mem::take(&mut parts) } else { Vec::new() };
            // The result must carry the same name as its call, so the call's name goes before the stored one.
            let called = calls.iter().find(|call| call.id == call_id).map_or(name.as_str(), |call| call.name);
            let output = Output {
                id: wire_id(call_id, family),
                name: call::wire_name(called),
                response: if *is_error { FunctionResult::Error(text) } else { FunctionResult::Output(text) },
                parts: within,
            };
            parts.insert(0, PartKind::Output { function_response: output }.into());
            parts
        }
        _ => Vec::new(),
    }
}

fn image_parts(content: &[Block]) -> impl Iterator<Item = Part<'_>> {
    content.iter().filter_map(|block| match block {
        Block::Image { media_type, data } => Some(image_part(media_type, data)),
        _ => None,
    })
}

/// Returns the id of a call for Gemini 3. Older models match results by name and order and know no ids.
fn wire_id(id: &str, family: Family) -> Option<Cow<'_, str>> {
    family.is_gemini_3().then(|| call::wire_id(id, IdStyle::Plain))
}

fn text_part(text: &str) -> Part<'_> {
    PartKind::Text { text: Cow::Borrowed(text), thought: false }.into()
}

fn image_part<'a>(media_type: &'a str, data: &'a str) -> Part<'a> {
    if media_type.starts_with("image/") && !data.is_empty() {
        PartKind::Picture { inline_data: Picture { mime_type: media_type, data } }.into()
    } else {
        PartKind::Text { text: Cow::Owned(text_format::left_out(media_type)), thought: false }.into()
    }
}
