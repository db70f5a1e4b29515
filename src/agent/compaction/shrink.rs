//! Cuts single messages if taking out whole ones does not make enough room: the marker, the conversation's first
//! message, and the results of a step. Pure; stored messages are not changed.

use super::marker;
use crate::agent::estimate::{ImageEstimate, block_cost};
use crate::provider::message::joined_text;
use crate::provider::{Block, Message, Role};
use crate::tool::safe_text;

/// The fewest characters that a marker is cut to.
pub const MIN_MARKER_CHARS: usize = 500;

/// Returns the most characters of a marker for a room of `room` tokens: a fifth of the room, and at least
/// [`MIN_MARKER_CHARS`].
#[must_use]
pub fn marker_limit(room: u64) -> usize {
    // A token is about four characters.
    let characters = usize::try_from(room.saturating_mul(4) / 5).unwrap_or(usize::MAX);
    characters.max(MIN_MARKER_CHARS)
}

/// Returns a marker of at most `limit` characters. The line of the findings is cut last, because findings are worth
/// more than plans.
#[must_use]
pub fn marker(text: &str, limit: usize) -> String {
    let mut over = text.chars().count().saturating_sub(limit);
    if over == 0 {
        return text.to_owned();
    }
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    // From the least to the most useful line.
    for begin in [marker::TODO, marker::COMPLETED, marker::STAGED, marker::STATUS] {
        let Some(line) = lines.iter_mut().find(|line| line.starts_with(begin)) else { continue };
        over = over.saturating_sub(cut(line, over, begin.chars().count()));
        if over == 0 {
            return lines.join("\n");
        }
    }
    if let Some(line) = lines.iter_mut().find(|line| line.starts_with(marker::FINDINGS)) {
        cut(line, over, 0);
    }
    // A text that is not flock's own marker has no such lines and is cut at its end.
    lines.join("\n").chars().take(limit).collect()
}

/// Removes up to `over` characters from the end of a line and returns how many were removed. At least `least`
/// characters stay, and an ellipsis shows that something is missing.
fn cut(line: &mut String, over: usize, least: usize) -> usize {
    let before = line.chars().count();
    // The ellipsis takes two characters.
    let keep = before.saturating_sub(over + 2).max(least);
    if keep + 2 >= before {
        return 0;
    }
    *line = line.chars().take(keep).chain(" …".chars()).collect();
    before - keep - 2
}

/// Cuts the texts of a message to about `share` tokens and replaces its pictures by a note.
pub fn message(message: &mut Message, share: u64) {
    let bytes = usize::try_from(share.saturating_mul(4)).unwrap_or(usize::MAX);
    let text = joined_text(&message.content);
    let pictures = message.content.iter().filter(|block| matches!(block, Block::Image { .. })).count();
    message.content = vec![Block::text(safe_text::middle_cut(&text, bytes))];
    if pictures > 0 {
        message.content.push(Block::text(format!("[{pictures} pictures were left out to make room]")));
    }
}

/// Cuts the results of a message so that they cost at most `room` tokens together, with an equal share for each.
pub fn results(message: &mut Message, room: u64, images: ImageEstimate) {
    if message.role != Role::Tool {
        return;
    }
    // Every result gets an equal share, so that one long result can't push out the others.
    let share = room / (message.content.len() as u64).max(1);
    for block in &mut message.content {
        if block_cost(block, images) > share
            && let Block::ToolResult { content, .. } = block
        {
            // The 60 tokens are for the note about the cut, and for the block itself.
            let bytes = usize::try_from(share.saturating_sub(60) * 4).unwrap_or(usize::MAX);
            *content = [Block::text(safe_text::middle_cut(&joined_text(content), bytes))].into();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn full() -> String {
        let line = |begin: &str, length: usize| format!("{begin} {}", "x".repeat(length));
        [
            marker::HEAD.to_owned(),
            line(marker::STATUS, 200),
            line(marker::COMPLETED, 2_000),
            line(marker::STAGED, 1_000),
            line(marker::FINDINGS, 400),
            line(marker::TODO, 3_000),
        ]
        .join("\n")
    }

    fn line<'t>(text: &'t str, begin: &str) -> &'t str {
        text.lines().find(|line| line.starts_with(begin)).unwrap_or_default()
    }

    #[test]
    fn the_findings_are_cut_last() {
        let full = full();
        let findings = line(&full, marker::FINDINGS);
        for limit in [6_000, 5_000, 3_000, 1_000, 600, MIN_MARKER_CHARS] {
            let cut = marker(&full, limit);
            assert!(cut.chars().count() <= limit, "{limit}: {}", cut.chars().count());
            assert!(cut.starts_with(marker::HEAD));
            assert_eq!(cut.lines().count(), 6, "{cut}");
            if limit > MIN_MARKER_CHARS {
                assert_eq!(line(&cut, marker::FINDINGS), findings, "at {limit}");
            }
        }
        let least = marker(&full, MIN_MARKER_CHARS);
        assert!(line(&least, marker::FINDINGS).len() > 350, "{least}");
        assert_eq!(line(&least, marker::TODO), "Todo: …");
    }

    #[test]
    fn the_marker_limit_is_a_fifth_of_the_room_and_at_least_500() {
        assert_eq!(marker_limit(0), 500);
        assert_eq!(marker_limit(600), 500);
        assert_eq!(marker_limit(10_000), 8_000);
    }

    proptest! {
        #[test]
        fn a_shrunk_marker_never_exceeds_its_limit(text in "(\\PC{0,40}\n|STATUS: \\PC{0,90}\n|Todo: a\n|Long-term memory \\(findings\\): \\PC{0,900}){0,9}", limit in 500_usize..2_000) {
            let cut = marker(&text, limit);
            prop_assert!(cut.chars().count() <= limit);
            prop_assert!(cut.chars().count() <= text.chars().count());
        }
    }
}
