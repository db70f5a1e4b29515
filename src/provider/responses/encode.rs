//! Encoder for requests of OpenAI's Responses API.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::super::call;
use super::super::data_url::DataUrl;
use super::super::openai::effort;
use super::super::serialization::written;
use super::super::text_format::{self, is_blank};
use super::super::{Block, Effort, Message, Request, Role, ToolChoice};
use super::item::{MessageSignature, ReasoningItem, split_id};
use super::wire::{Body, Item, Output, Part, ReasoningOptions, TextOptions, Tool, TypedItem};

/// The differences between the servers that speak this API.
#[derive(Clone, Copy, Debug)]
pub(super) struct Variant {
    /// `true` if items are sent back with their ids.
    pub ids: bool,
    /// `true` if a limit of the answer is accepted.
    pub limit: bool,
    /// `true` if instructions are required, even empty ones.
    pub instructions: bool,
}

impl Variant {
    /// The form for OpenAI's public API and compatible servers.
    pub(crate) const PUBLIC: Self = Self { ids: true, limit: true, instructions: false };
    /// The form for Codex, which refuses a limit and does not recognise the ids that it issues.
    pub(crate) const CODEX: Self = Self { ids: false, limit: false, instructions: true };
}

/// Returns the request body as bytes.
pub(super) fn request(request: &Request, form: Variant) -> serde_json::Result<Vec<u8>> {
    let reasons = effort::reasons(&request.model);
    let tools = request.tools.iter().map(|tool| Tool {
        kind: "function",
        name: &tool.name,
        description: &tool.description,
        parameters: &tool.parameters,
        strict: false,
    });
    let told = request.effort.and_then(|effort| Some((effort, effort::word(&request.model, effort)?)));
    let body = Body {
        model: &request.model,
        stream: true,
        store: false,
        instructions: Some(request.system.as_str()).filter(|text| form.instructions || !is_blank(text)),
        tools: tools.collect(),
        tool_choice: choice(&request.choice),
        // The reasoning is returned encrypted only on request. Without it, later requests could not contain it.
        include: if reasons { vec!["reasoning.encrypted_content"] } else { Vec::new() },
        prompt_cache_key: request.cache_key.as_deref(),
        max_output_tokens: form.limit.then_some(request.max_tokens.max(MIN_OUTPUT_TOKENS)),
        reasoning: told.map(|(effort, word)| ReasoningOptions {
            effort: word,
            // The reasoning itself is encrypted. Only its summary can be shown.
            summary: (effort != Effort::Off).then_some("auto"),
        }),
        text: request.format.as_ref().map(|format| TextOptions { format }),
        input: items(request, form),
    };
    written(&body, request)
}

fn choice(choice: &ToolChoice) -> Option<Value> {
    match choice {
        ToolChoice::Auto => None,
        ToolChoice::Required => Some(json!("required")),
        ToolChoice::Named(name) => Some(json!({"type": "function", "name": name})),
    }
}

/// The smallest limit that the API accepts.
const MIN_OUTPUT_TOKENS: u32 = 16;

fn items(request: &Request, form: Variant) -> Vec<Item<'_>> {
    let mut items = Vec::with_capacity(request.messages.len());
    for message in &request.messages {
        if message.role == Role::Assistant {
            // An item with an id is refused without the reasoning that preceded it, so ids are sent only after
            // reasoning.
            let mut ids = false;
            for block in &message.content {
                let item = assistant_item(block, form, ids);
                ids |= form.ids && matches!(item, Some(Item::Reasoning(_)));
                items.extend(item);
            }
        } else {
            // The results come before the user's own content of the same message.
            items.extend(message.content.iter().filter_map(output).map(Item::Own));
            items.extend(user_item(message).map(Item::Own));
        }
    }
    items
}

/// Returns a block of the model as an item, or `None` if it cannot be sent.
fn assistant_item(block: &Block, form: Variant, ids: bool) -> Option<Item<'_>> {
    Some(match block {
        Block::Thinking { signature, .. } => {
            Item::Reasoning(ReasoningItem::read(signature.as_deref()?, form.ids)?)
        }
        Block::Text { text, signature } if !is_blank(text) => {
            let MessageSignature { id, phase, .. } = MessageSignature::read(signature.as_deref());
            let id = id.filter(|_| ids);
            // An item with an id is one of the API's own items, which have these fields.
            let (status, annotations) =
                if id.is_some() { (Some("completed"), Some([])) } else { (None, None) };
            let content = vec![Part::OutputText { text, annotations }];
            Item::Own(TypedItem::Message { role: "assistant", id, status, phase, content })
        }
        Block::ToolCall { id, name, arguments, .. } => {
            let (call_id, id) = split_id(id);
            Item::Own(TypedItem::FunctionCall {
                id: id.filter(|_| ids),
                call_id,
                name: call::wire_name(name),
                arguments: call::input(arguments),
            })
        }
        _ => return None,
    })
}

fn output(block: &Block) -> Option<TypedItem<'_>> {
    let Block::ToolResult { call_id, content, is_error, .. } = block else { return None };
    let said = text_format::result(content, *is_error);
    let mut pictures = content.iter().filter_map(picture).peekable();
    let output = if pictures.peek().is_none() {
        Output::Text(said)
    } else {
        Output::Parts(std::iter::once(Part::InputText { text: said }).chain(pictures).collect())
    };
    Some(TypedItem::FunctionCallOutput { call_id: split_id(call_id).0, output })
}

fn user_item(message: &Message) -> Option<TypedItem<'_>> {
    let parts = message.content.iter().filter_map(|block| match block {
        Block::Text { text, .. } if !is_blank(text) => Some(Part::InputText { text: Cow::Borrowed(text) }),
        other => picture(other),
    });
    let content: Vec<Part<'_>> = parts.collect();
    (!content.is_empty()).then_some(TypedItem::Message {
        role: "user",
        id: None,
        status: None,
        phase: None,
        content,
    })
}

fn picture(block: &Block) -> Option<Part<'_>> {
    let Block::Image { media_type, data } = block else { return None };
    Some(if media_type.starts_with("image/") && !data.is_empty() {
        Part::InputImage { image_url: DataUrl { media_type, data }, detail: "auto" }
    } else {
        Part::InputText { text: Cow::Owned(text_format::left_out(media_type)) }
    })
}
