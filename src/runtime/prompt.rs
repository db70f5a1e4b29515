//! What a program that has to begin its conversation anew is told of before, and where what is new begins.

use crate::provider::{Block, Message, Role};

/// The line before what was said in the session.
pub const RECENT: &str = "[Recent Context]";
/// The line after it.
pub const END: &str = "---";
/// The line before what is new. Every prompt has it: programs take a prompt that begins with a slash for a command of
/// theirs, and what a person wrote must not be one.
pub const CURRENT: &str = "[Current Message]";

/// The prompt of a turn: `recent` as in [`super::Order::recent`], empty where the program goes on with a conversation
/// of its own, and what is new.
#[must_use]
pub fn compose(recent: &str, text: &str) -> String {
    [recent, CURRENT, "\n", text].concat()
}

/// What is new, as text. A program is given no pictures; it is told that there was one.
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
        let recent = format!("{RECENT}\n[user] a\n{END}\n");
        assert_eq!(compose(&recent, "b"), "[Recent Context]\n[user] a\n---\n[Current Message]\nb");
    }
}
