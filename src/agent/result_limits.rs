//! The limits of the result of a tool call, whoever ran it.

use crate::provider::Block;
use crate::tool::{ToolOutput, safe_text};

/// The most bytes of text in one result.
const MAX_TEXT_BYTES: usize = 64 * 1024;

/// The most pictures in one result, and the most bytes of one in base64.
const MAX_IMAGES: usize = 4;
const MAX_IMAGE_BYTES: usize = 8 * 1024 * 1024;

/// The most sounds and files in one result for a program, and the most bytes of one in base64.
const MAX_ATTACHED_FILES: usize = 4;
const MAX_ATTACHED_FILE_BYTES: usize = 8 * 1024 * 1024;

/// Returns a text as a result's content, cut to its limit.
pub(super) fn text(text: &str) -> Vec<Block> {
    vec![Block::text(safe_text::middle_cut(text, MAX_TEXT_BYTES))]
}

/// Cuts a result to its limits.
pub(super) fn bound(output: ToolOutput) -> ToolOutput {
    // The limits are for the whole result, so that many small blocks can't exceed them.
    let mut room = MAX_TEXT_BYTES;
    let mut images = 0;
    let mut bound = Vec::with_capacity(output.content.len());
    // The position of each block that is kept.
    let mut places = Vec::with_capacity(output.content.len());
    for block in output.content {
        let place = bound.len();
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
        places.push((bound.len() > place).then_some(place));
    }
    if bound.is_empty() {
        bound.push(Block::text("(no output)"));
    }
    let mut files = 0;
    let attachments = output.attachments.into_iter().filter_map(|mut attachment| {
        attachment.block = places.get(attachment.block).copied().flatten()?;
        if let Some(size) = attachment.content.data_len() {
            // Without the attachment, the text of its block stays, which says that it was left out.
            if files == MAX_ATTACHED_FILES || size > MAX_ATTACHED_FILE_BYTES {
                return None;
            }
            files += 1;
        }
        Some(attachment)
    });
    let attachments = attachments.collect();
    ToolOutput { content: bound, attachments }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::{AttachedContent, Attachment, ResourceLink};

    #[test]
    fn bounded_results_state_the_cut() {
        let image = |size| Block::Image { media_type: "image/png".into(), data: "A".repeat(size) };
        let mut content = vec![Block::text("x".repeat(1 << 20)), image(MAX_IMAGE_BYTES + 1)];
        content.extend((0..6).map(|_| image(4)));
        let bound = bound(content.into()).content;
        let text = crate::provider::message::joined_text(&bound);
        assert!(text.len() < MAX_TEXT_BYTES + 1_000 && text.contains("left out"), "{}", text.len());
        assert_eq!(bound.iter().filter(|block| matches!(block, Block::Image { .. })).count(), MAX_IMAGES);
        assert_eq!(super::bound(Vec::new().into()).content.len(), 1);
    }

    #[test]
    fn attached_files_are_bounded_and_stay_with_their_blocks() {
        let sound = |block, size| Attachment {
            block,
            label: "a sound".to_owned(),
            content: AttachedContent::Sound { media_type: "audio/wav".to_owned(), data: "A".repeat(size) },
        };
        let link = |block| Attachment {
            block,
            label: "a link".to_owned(),
            content: AttachedContent::Link(ResourceLink {
                uri: "file:///a".to_owned(),
                name: "a".to_owned(),
                title: None,
                description: None,
                media_type: None,
                size: None,
            }),
        };
        let mut content = vec![Block::Other(serde_json::json!({})), Block::text("0")];
        content.extend((1..8).map(|at| Block::text(at.to_string())));
        let mut attachments = vec![sound(0, 4), sound(1, MAX_ATTACHED_FILE_BYTES + 1)];
        attachments.extend((2..8).map(|block| sound(block, 4)));
        attachments.push(link(8));
        let bound = bound(ToolOutput { content, attachments });
        // The block that is no content is gone with its sound. The others moved forward.
        let kept: Vec<(usize, Option<usize>)> =
            bound.attachments.iter().map(|kept| (kept.block, kept.content.data_len())).collect();
        assert_eq!(kept[..3], [(1, Some(4)), (2, Some(4)), (3, Some(4))]);
        assert_eq!(kept.last(), Some(&(7, None)), "a link is no file");
        assert_eq!(kept.len(), MAX_ATTACHED_FILES + 1, "{kept:?}");
        assert_eq!(bound.content[7], Block::text("7"));
    }
}
