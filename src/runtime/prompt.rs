//! The prompt of a turn for a program: the earlier messages, if its conversation begins anew, and a mark before the new
//! ones.

use crate::provider::{Block, Message, Role};

/// The line before the earlier messages of the session.
pub const RECENT_HEADER: &str = "[Recent Context]";
/// The line after them.
pub const END: &str = "---";
/// The line before the new messages. Every prompt has it, because programs treat a prompt that begins with a slash as a
/// command, and a person's message must not become one.
pub const CURRENT: &str = "[Current Message]";

/// Composes the prompt of a turn from the earlier messages, as in [`super::RuntimeRequest::recent`], and the new text. `recent`
/// is empty if the program continues its own conversation.
#[must_use]
pub fn compose(recent: &str, text: &str) -> String {
    [recent, CURRENT, "\n", text].concat()
}

/// Returns the new messages as text. A picture cannot be passed to a program, so a note takes its place.
#[must_use]
pub fn said(messages: &[Message]) -> String {
    let texts = messages.iter().filter(|message| message.role == Role::User).flat_map(|message| {
        message.content.iter().filter_map(|block| match block {
            Block::Text { text, .. } => Some(text.as_str()),
            Block::Image { .. } => Some("(a picture, which can't be passed on here)"),
            _ => None,
        })
    });
    texts.collect::<Vec<_>>().join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_begins_with_a_line_that_nobody_wrote() {
        assert_eq!(compose("", "/init"), "[Current Message]\n/init");
        let recent = format!("{RECENT_HEADER}\n[user] a\n{END}\n");
        assert_eq!(compose(&recent, "b"), "[Recent Context]\n[user] a\n---\n[Current Message]\nb");
    }
}
