//! Renders the notifications of new messages that an agent gets.
//!
//! ```text
//! [Channel: #build]
//! Topic: the release
//! New messages: seq 4..7 (3)
//! [seq 4] coder:
//! | it fails with
//! | error: no space left
//! [seq 5] human:kim: look at the disk
//! [seq 7, 200000 bytes] coder: too long to show here; flock_channel_read(channelId: "build", after: 6, limit: 1)
//! Read the rest with …
//! ```
//!
//! The author of a message controls its text completely. Therefore only flock writes the beginning of a line: a message
//! of several lines is shown in lines that begin with `| `, and every other character that may end or reverse a line is
//! escaped. So no text can pass for a header, for another message, or for another author. The original can be recovered
//! exactly from what is shown, except for the kind of its line ends.

use std::fmt::Write as _;

use crate::clean::{self, is_unseen};
use crate::id::Party;
use crate::store::{Given, MOST_COUNTED};

/// Renders the notification of a batch as text for the model. A message that is longer than `budget` bytes is listed by
/// number and size only.
#[must_use]
pub(crate) fn render(channel: &str, topic: &str, messages: &[Given], more: u64, budget: usize) -> String {
    let mut text = format!("[Channel: #{channel}]\nTopic: {}\n", one_line(topic));
    if let (Some(first), Some(last)) = (messages.first(), messages.last()) {
        // Writing to a `String` can't fail.
        let _ = writeln!(text, "New messages: seq {}..{} ({})", first.seq, last.seq, messages.len());
    }
    for Given { seq, author, size, content, .. } in messages {
        // Escaping only makes a text longer, so one that is too long now need not be rendered.
        let shown = content.as_ref().filter(|body| body.len() <= budget).map(|body| line(*seq, author, body));
        match shown.filter(|line| line.len() <= budget) {
            Some(line) => {
                let _ = writeln!(text, "{line}");
            }
            None => {
                // The tool returns messages after this number, so the one that is too long comes first.
                let after = seq.saturating_sub(1);
                let _ = writeln!(
                    text,
                    "[seq {seq}, {size} bytes] {author}: too long to show here; \
                     flock_channel_read(channelId: \"{channel}\", after: {after}, limit: 1)"
                );
            }
        }
    }
    if more > 0 {
        let least = if more >= MOST_COUNTED { "At least " } else { "" };
        let _ = writeln!(text, "{least}{more} more follow with the next notification.");
    }
    let _ = write!(
        text,
        "Read the rest with flock_channel_read(channelId: \"{channel}\"); answer with flock_channel_post."
    );
    text
}

/// Renders one message with its number and author.
#[must_use]
pub(crate) fn line(seq: u64, author: &Party, text: &str) -> String {
    if text.contains('\n') {
        format!("[seq {seq}] {author}:\n{}", quoted(text))
    } else {
        format!("[seq {seq}] {author}: {}", one_line(text))
    }
}

/// Renders a text as lines that each begin with `| `.
#[must_use]
pub(crate) fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 16);
    for line in text.split('\n') {
        if !quoted.is_empty() {
            quoted.push('\n');
        }
        quoted.push_str("| ");
        spelled(line.strip_suffix('\r').unwrap_or(line), &mut quoted);
    }
    // A carriage return at the very end does not belong to a line end, so it is shown escaped.
    if text.ends_with('\r') {
        clean::push_escape(&mut quoted, '\r');
    }
    quoted
}

/// Renders a text on one line. Every control character except the tab, including those that end or reverse a line, is
/// shown by its code point, for example `\u{1b}`.
#[must_use]
pub(crate) fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    spelled(text, &mut line);
    line
}

fn spelled(text: &str, out: &mut String) {
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        if (is_unseen(c) && c != '\t') || (c == '\\' && looks_escaped(rest.as_str())) {
            clean::push_escape(out, c);
        } else {
            out.push(c);
        }
    }
}

/// Returns `true` if a backslash before this text would look like an escaped character. Such a backslash is escaped
/// itself, so that the rendering stays unambiguous.
fn looks_escaped(rest: &str) -> bool {
    let digits = rest.strip_prefix("u{").and_then(|rest| rest.get(..rest.find('}').filter(|end| *end <= 6)?));
    let c = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()).and_then(char::from_u32);
    c.is_some_and(|c| c == '\\' || is_unseen(c))
}

#[cfg(test)]
#[path = "notice_tests.rs"]
mod tests;
