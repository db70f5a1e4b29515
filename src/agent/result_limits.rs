//! The limits of the result of a tool call, whoever ran it.

use crate::provider::Block;
use crate::tool::{ToolOutput, safe_text};

/// The most bytes of text in one result.
const MAX_TEXT_BYTES: usize = 64 * 1024;

/// The most pictures in one result, and the most bytes of one in base64.
const MAX_IMAGES: usize = 4;
const MAX_IMAGE_BYTES: usize = 8 * 1024 * 1024;

/// Returns a text as a result's content, cut to its limit.
pub(super) fn text(text: &str) -> Vec<Block> {
    vec![Block::text(safe_text::middle_cut(text, MAX_TEXT_BYTES))]
}

/// Cuts a result to its limits.
pub(super) fn bound(output: ToolOutput) -> Vec<Block> {
    // The limits are for the whole result, so that many small blocks can't exceed them.
    let mut room = MAX_TEXT_BYTES;
    let mut images = 0;
    let mut bound = Vec::with_capacity(output.content.len());
    for block in output.content {
        match block {
            Block::Text { text, .. } => {
                let text = if text.len() > room { safe_text::middle_cut(&text, room) } else { text };
                room = room.saturating_sub(text.len());
                bound.push(Block::text(text));
            }
            Block::Image { data, .. } if images == MAX_IMAGES || data.len() > MAX_IMAGE_BYTES => {
                let text = format!(
                    "[a picture of {} bytes was left out: it is too large, or there are too many]",
                    data.len()
                );
                bound.push(Block::text(text));
            }
            Block::Image { .. } => {
                images += 1;
                bound.push(block);
            }
            // A result may only contain texts and pictures.
            _ => {}
        }
    }
    if bound.is_empty() {
        bound.push(Block::text("(no output)"));
    }
    bound
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounded_results_state_the_cut() {
        let image = |size| Block::Image { media_type: "image/png".into(), data: "A".repeat(size) };
        let mut content = vec![Block::text("x".repeat(1 << 20)), image(MAX_IMAGE_BYTES + 1)];
        content.extend((0..6).map(|_| image(4)));
        let bound = bound(ToolOutput { content });
        let text = crate::provider::message::joined_text(&bound);
        assert!(text.len() < MAX_TEXT_BYTES + 1_000 && text.contains("left out"), "{}", text.len());
        assert_eq!(bound.iter().filter(|block| matches!(block, Block::Image { .. })).count(), MAX_IMAGES);
        assert_eq!(super::bound(ToolOutput { content: Vec::new() }).len(), 1);
    }
}
