//! Serialises a request body into bytes.

use serde::ser::Error as _;
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::{Block, Request};

/// Estimated bytes of a request without its system prompt and messages.
const BASE_BYTES: usize = 8 * 1024;
/// Estimated bytes of a block without its texts.
const BLOCK_OVERHEAD: usize = 96;

/// Returns the request body as bytes. If the request has a cached prefix, the prefix is put before the rest.
///
/// The buffer gets its estimated size at once. A buffer that grows with a long conversation is copied at each step.
///
/// # Errors
///
/// Returns an error if the body cannot be written as JSON, or if it does not begin like the cached prefix.
pub(super) fn written(body: &impl Serialize, request: &Request) -> serde_json::Result<Vec<u8>> {
    let messages: usize = request.messages.iter().map(|message| estimate_bytes(&message.content)).sum();
    let mut bytes = Vec::with_capacity(BASE_BYTES + request.system.len() + messages);
    serde_json::to_writer(&mut bytes, body)?;
    // With a prefix, the body was written for the following messages only and is not complete.
    let Some(prefix) = &request.prefix else { return Ok(bytes) };
    prefix
        .joined(&bytes)
        .ok_or_else(|| serde_json::Error::custom("it does not begin as the requests before it"))
}

/// Serialises the arguments of a call as a text, which is their form in both of OpenAI's APIs.
pub(super) fn as_json_text<S: Serializer>(arguments: &Value, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(arguments)
}

/// Estimates the size of blocks as JSON, rather too high than too low: a line break takes two characters there.
fn estimate_bytes(blocks: &[Block]) -> usize {
    let text = |text: &str| text.len() + text.len() / 16;
    let one = |block: &Block| match block {
        Block::Text { text: said, .. } => text(said),
        Block::Thinking { thinking, signature, redacted } => {
            text(thinking) + [signature, redacted].into_iter().flatten().map(String::len).sum::<usize>()
        }
        Block::ToolResult { content, .. } => estimate_bytes(content),
        Block::Image { data, .. } => data.len(),
        _ => 0,
    };
    blocks.iter().map(|block| one(block) + BLOCK_OVERHEAD).sum()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::provider::{Message, Role};

    #[test]
    fn the_estimated_size_fits_a_body_of_many_lines() {
        let lines = "A line of a file, or of what a command has printed.\n".repeat(10_000);
        let message = Message { role: Role::User, content: vec![Block::text(lines)] };
        let request = Request { messages: vec![Arc::new(message)], ..Request::default() };
        let bytes = written(&*request.messages[0], &request).unwrap();
        assert!(bytes.len() > 500_000 && bytes.capacity() < bytes.len() + bytes.len() / 8, "{}", bytes.len());
        assert_eq!(serde_json::from_slice::<Message>(&bytes).unwrap(), *request.messages[0]);
    }
}
