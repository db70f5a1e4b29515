//! A request's body as the bytes that are sent.

use serde::Serialize;
use serde::ser::Error as _;

use super::{Block, Request};

/// What a request takes besides its messages, and a block besides its texts, in bytes; about.
const BESIDES: usize = 8 * 1024;
const AROUND: usize = 96;

/// Writes a body. Its buffer is made large enough at once: one that grows under a long conversation is copied at each
/// step. Where the beginning was kept, it is put before the rest.
///
/// # Errors
///
/// If the body can't be written as JSON, or begins otherwise than what was kept.
pub(super) fn written(body: &impl Serialize, request: &Request) -> serde_json::Result<Vec<u8>> {
    let messages: usize = request.messages.iter().map(|message| size(&message.content)).sum();
    let mut bytes = Vec::with_capacity(BESIDES + request.system.len() + messages);
    serde_json::to_writer(&mut bytes, body)?;
    let Some(prefix) = &request.prefix else { return Ok(bytes) };
    prefix
        .joined(&bytes)
        .ok_or_else(|| serde_json::Error::custom("it does not begin as the requests before it"))
}

/// About how many bytes blocks take, a little more rather than less: where lines end, two letters stand for one.
fn size(blocks: &[Block]) -> usize {
    let text = |text: &str| text.len() + text.len() / 16;
    let one = |block: &Block| match block {
        Block::Text { text: said, .. } => text(said),
        Block::Thinking { thinking, signature, redacted } => {
            text(thinking) + [signature, redacted].into_iter().flatten().map(String::len).sum::<usize>()
        }
        Block::ToolResult { content, .. } => size(content),
        Block::Image { data, .. } => data.len(),
        _ => 0,
    };
    blocks.iter().map(|block| one(block) + AROUND).sum()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::provider::{Message, Role};

    #[test]
    fn a_body_of_many_lines_fits_what_was_set_aside_for_it() {
        let lines = "A line of a file, or of what a command has printed.\n".repeat(10_000);
        let message = Message { role: Role::User, content: vec![Block::text(lines)] };
        let request = Request { messages: vec![Arc::new(message)], ..Request::default() };
        let bytes = written(&*request.messages[0], &request).unwrap();
        assert!(bytes.len() > 500_000 && bytes.capacity() < bytes.len() + bytes.len() / 8, "{}", bytes.len());
        assert_eq!(serde_json::from_slice::<Message>(&bytes).unwrap(), *request.messages[0]);
    }
}
