//! A conversation in a form that every provider takes: it begins with a user's message, each message of calls
//! is followed by one with exactly their results in their order, and no message is empty. Pure.

use std::collections::HashSet;
use std::sync::Arc;

use super::estimate::Images;
use super::transcript::Entry;
use crate::provider::{Block, Message, Role};

/// What a call is told to have given when nobody knows.
pub const INTERRUPTED: &str = "interrupted, outcome unknown";

/// The messages of a request. Those before `this_turn` are of earlier turns: thinking belongs to the turn it
/// was thought in.
#[must_use]
pub fn messages(entries: &[Entry], this_turn: usize, images: Images) -> Vec<Arc<Message>> {
    let first = entries.iter().position(|entry| entry.role() == Role::User).unwrap_or(entries.len());
    let mut said: Vec<Message> = Vec::with_capacity(entries.len() - first);
    for (at, entry) in entries.iter().enumerate().skip(first) {
        let mut message = Message::clone(&entry.message);
        if at < this_turn {
            message.content.retain(|block| !matches!(block, Block::Thinking { .. }));
        }
        if images == Images::Named {
            name_images(&mut message.content);
        }
        said.push(message);
    }
    paired(said).into_iter().map(Arc::new).collect()
}

/// The result of a call of which nobody knows what it did.
#[must_use]
pub fn unknown_result(id: &str, name: &str) -> Block {
    Block::ToolResult {
        call_id: id.to_owned(),
        name: name.to_owned(),
        content: [Block::text(INTERRUPTED)].into(),
        is_error: true,
    }
}

/// Brings calls and results together: one message of results after each message of calls, in the calls'
/// order. A call without a result gets [`INTERRUPTED`]; a result without a call, and a message without
/// content, goes.
fn paired(said: Vec<Message>) -> Vec<Message> {
    let mut paired: Vec<Message> = Vec::with_capacity(said.len());
    let mut messages = said.into_iter().peekable();
    while let Some(mut message) = messages.next() {
        match message.role {
            Role::Tool => continue,
            Role::User => message
                .content
                .retain(|block| !matches!(block, Block::ToolCall { .. } | Block::ToolResult { .. })),
            Role::Assistant => {
                let mut seen = HashSet::new();
                message.content.retain(|block| match block {
                    Block::ToolCall { id, .. } => seen.insert(id.clone()),
                    Block::ToolResult { .. } => false,
                    _ => true,
                });
            }
        }
        let mut given = Vec::new();
        while let Some(results) = messages.next_if(|next| next.role == Role::Tool) {
            given.extend(results.content);
        }
        let results: Vec<Block> =
            message.tool_calls().map(|call| take_result(&mut given, call.id, call.name)).collect();
        let says = |block: &Block| !matches!(block, Block::Text { text, .. } if text.trim().is_empty());
        message.content.retain(says);
        if message.content.is_empty() {
            continue;
        }
        paired.push(message);
        if !results.is_empty() {
            paired.push(Message { role: Role::Tool, content: results });
        }
    }
    // A conversation whose first question says nothing begins with its next one.
    let first = paired.iter().position(|message| message.role == Role::User).unwrap_or(paired.len());
    paired.drain(..first);
    paired
}

fn take_result(given: &mut Vec<Block>, id: &str, name: &str) -> Block {
    let is_it = |block: &Block| matches!(block, Block::ToolResult { call_id, .. } if call_id == id);
    match given.iter().position(is_it) {
        Some(at) => given.swap_remove(at),
        None => unknown_result(id, name),
    }
}

fn name_images(content: &mut [Block]) {
    for block in content {
        match block {
            Block::Image { media_type, .. } => {
                *block =
                    Block::text(format!("[a picture ({media_type}); this model does not take pictures]"));
            }
            Block::ToolResult { content, .. }
                if content.iter().any(|block| matches!(block, Block::Image { .. })) =>
            {
                let mut named = content.to_vec();
                name_images(&mut named);
                *content = named.into();
            }
            _ => {}
        }
    }
}
