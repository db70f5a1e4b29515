//! Estimates the tokens of texts, messages and requests at four bytes per token. Pure.

use serde_json::Value;

use crate::provider::{Block, Request, ResolvedModel, ToolSpec};

/// Tokens of a picture of any size: providers scale pictures down to about this cost.
const IMAGE_TOKENS: u64 = 1_600;

/// Tokens of the text that replaces a picture for a model without picture input.
const REPLACED_IMAGE_TOKENS: u64 = 20;

/// Tokens of a message besides its content.
pub(crate) const MESSAGE_TOKENS: u64 = 8;

/// Tokens of the time that is shown beside a message.
pub(crate) const TIME_TOKENS: u64 = 20;

/// The model's handling of pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageEstimate {
    /// The model takes pictures.
    Shown,
    /// The model gets a text in place of each picture.
    Named,
}

impl ImageEstimate {
    /// Returns the handling of pictures for this model.
    #[must_use]
    pub const fn of(model: &ResolvedModel) -> Self {
        if model.images { Self::Shown } else { Self::Named }
    }
}

/// Estimates the tokens of a message with this content.
#[must_use]
pub fn cost(content: &[Block], images: ImageEstimate) -> u64 {
    content.iter().map(|block| block_cost(block, images)).sum::<u64>() + MESSAGE_TOKENS
}

/// Estimates the tokens of one block.
#[must_use]
pub(crate) fn block_cost(block: &Block, images: ImageEstimate) -> u64 {
    match block {
        Block::Text { text, .. } => text_cost(text),
        // Signatures and encrypted thinking are sent back as text, so they cost tokens as well.
        Block::Thinking { thinking, signature, redacted } => {
            [Some(thinking), signature.as_ref(), redacted.as_ref()]
                .into_iter()
                .flatten()
                .map(|text| text_cost(text))
                .sum()
        }
        Block::ToolCall { id, name, arguments, .. } => {
            text_cost(id) + text_cost(name) + text_cost(&arguments.to_string())
        }
        Block::ToolResult { call_id, content, .. } => {
            let inner: u64 = content.iter().map(|block| block_cost(block, images)).sum();
            text_cost(call_id) + inner + MESSAGE_TOKENS
        }
        Block::Image { .. } => match images {
            ImageEstimate::Shown => IMAGE_TOKENS,
            ImageEstimate::Named => REPLACED_IMAGE_TOKENS,
        },
        // Unknown blocks are not sent.
        Block::Other(_) => 0,
    }
}

/// Estimates the tokens of a request besides its messages: the system prompt and the tools.
#[must_use]
pub(crate) fn fixed_cost(request: &Request) -> u64 {
    text_cost(&request.system) + tools_cost(&request.tools)
}

/// Estimates the tokens of a request's tool definitions.
#[must_use]
pub(crate) fn tools_cost(tools: &[ToolSpec]) -> u64 {
    let cost = |tool: &ToolSpec| {
        text_cost(&tool.name) + text_cost(&tool.description) + text_cost(tool.parameters.text())
    };
    tools.iter().map(cost).sum()
}

/// Estimates the tokens of an answer's text.
#[must_use]
pub fn written(content: &[Block]) -> u64 {
    content.iter().map(text_bytes).sum::<u64>().div_ceil(4)
}

/// Estimates the tokens of a request's text. Thinking is left out, because not every API has a field for it.
#[must_use]
pub fn asked(request: &Request) -> u64 {
    let blocks = request.messages.iter().flat_map(|message| &message.content);
    let said = blocks.filter(|block| !matches!(block, Block::Thinking { .. }));
    let before = request.prefix.as_ref().map_or(0, |prefix| prefix.text());
    fixed_cost(request) + (before + said.map(text_bytes).sum::<u64>()).div_ceil(4)
}

/// Returns the bytes of text in a block, without the JSON around them.
fn text_bytes(block: &Block) -> u64 {
    match block {
        Block::Text { text, .. } => text.len() as u64,
        Block::Thinking { thinking, .. } => thinking.len() as u64,
        Block::ToolCall { name, arguments, .. } => name.len() as u64 + value_bytes(arguments),
        Block::ToolResult { content, .. } => content.iter().map(text_bytes).sum(),
        Block::Image { .. } | Block::Other(_) => 0,
    }
}

fn value_bytes(value: &Value) -> u64 {
    match value {
        Value::String(text) => text.len() as u64,
        Value::Array(items) => items.iter().map(value_bytes).sum(),
        Value::Object(entries) => {
            entries.iter().map(|(name, value)| name.len() as u64 + value_bytes(value)).sum()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
    }
}

/// Estimates the tokens of what is shown beside a message: the time and a client's system text.
#[must_use]
pub(crate) fn context_tokens(client: &[String]) -> u64 {
    // Each block also has an opening and a closing tag.
    client.iter().map(|text| text_cost(text) + TIME_TOKENS).sum::<u64>() + TIME_TOKENS
}

/// Estimates the tokens of a text.
#[must_use]
pub(crate) const fn text_cost(text: &str) -> u64 {
    (text.len() as u64).div_ceil(4)
}
