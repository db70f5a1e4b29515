//! How an agent is told of messages.
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
//! A message is whatever somebody wrote, so what begins a line is flock's alone: a message of several lines
//! stands in lines that begin with `| `, and no other character that may end or turn a line gets through as
//! it is. So nothing can pass for a head, for another message, or for another author, and what was written
//! can be told exactly from what is read, but for the way in which lines end.

use std::fmt::Write as _;

use crate::clean::{self, is_unseen};
use crate::id::Party;
use crate::store::MOST_COUNTED;

/// One message.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    /// Its number.
    pub seq: u64,
    /// Who said it.
    pub author: &'a Party,
    /// Its length in bytes.
    pub size: usize,
    /// What it says; `None` where it is only to be named.
    pub text: Option<&'a str>,
}

impl<'a> Line<'a> {
    /// A message with all that it says.
    #[must_use]
    pub const fn whole(seq: u64, author: &'a Party, text: &'a str) -> Self {
        Self { seq, author, size: text.len(), text: Some(text) }
    }
}

/// What an agent is told of.
#[derive(Clone, Debug)]
pub struct Notice<'a> {
    /// The channel's id.
    pub channel: &'a str,
    /// Its topic.
    pub topic: &'a str,
    /// The messages, the oldest first.
    pub lines: &'a [Line<'a>],
    /// How many follow with the next notification, counted up to [`MOST_COUNTED`].
    pub more: u64,
    /// The most bytes that one message may take; a longer one is named by its number and size.
    pub budget: usize,
}

/// The notification.
#[must_use]
pub fn render(notice: &Notice<'_>) -> String {
    let channel = notice.channel;
    let mut text = format!("[Channel: #{channel}]\nTopic: {}\n", one_line(notice.topic));
    if let (Some(first), Some(last)) = (notice.lines.first(), notice.lines.last()) {
        // Writing to a String does not fail.
        let _ = writeln!(text, "New messages: seq {}..{} ({})", first.seq, last.seq, notice.lines.len());
    }
    for Line { seq, author, size, text: body } in notice.lines {
        // Shown, a text never gets shorter.
        let shown = body.filter(|body| body.len() <= notice.budget).map(|body| line(*seq, author, body));
        match shown.filter(|line| line.len() <= notice.budget) {
            Some(line) => {
                let _ = writeln!(text, "{line}");
            }
            None => {
                let after = seq.saturating_sub(1);
                let _ = writeln!(
                    text,
                    "[seq {seq}, {size} bytes] {author}: too long to show here; \
                     flock_channel_read(channelId: \"{channel}\", after: {after}, limit: 1)"
                );
            }
        }
    }
    if notice.more > 0 {
        let least = if notice.more >= MOST_COUNTED { "At least " } else { "" };
        let _ = writeln!(text, "{least}{} more follow with the next notification.", notice.more);
    }
    let _ = write!(
        text,
        "Read the rest with flock_channel_read(channelId: \"{channel}\"); answer with flock_channel_post."
    );
    text
}

/// One message under its number and author.
#[must_use]
pub fn line(seq: u64, author: &Party, text: &str) -> String {
    if text.contains('\n') {
        format!("[seq {seq}] {author}:\n{}", quoted(text))
    } else {
        format!("[seq {seq}] {author}: {}", one_line(text))
    }
}

/// A text as lines that each begin with `| `.
#[must_use]
pub fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 16);
    for line in text.split('\n') {
        if !quoted.is_empty() {
            quoted.push('\n');
        }
        quoted.push_str("| ");
        spelled(line.strip_suffix('\r').unwrap_or(line), &mut quoted);
    }
    // A carriage return before no line end is no part of one.
    if text.ends_with('\r') {
        clean::spell(&mut quoted, '\r');
    }
    quoted
}

/// A text on one line: what ends or turns a line, and every other control character but the tab, is shown
/// by its number, as in `\u{1b}`.
#[must_use]
pub fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    spelled(text, &mut line);
    line
}

fn spelled(text: &str, out: &mut String) {
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        if (is_unseen(c) && c != '\t') || (c == '\\' && is_spelling(rest.as_str())) {
            clean::spell(out, c);
        } else {
            out.push(c);
        }
    }
}

/// Whether a backslash and this would read as a character that was spelled out. Then the backslash is
/// spelled out itself: what one sees is what was written.
fn is_spelling(rest: &str) -> bool {
    let digits = rest.strip_prefix("u{").and_then(|rest| rest.get(..rest.find('}').filter(|end| *end <= 6)?));
    let c = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()).and_then(char::from_u32);
    c.is_some_and(|c| c == '\\' || is_unseen(c))
}

#[cfg(test)]
#[path = "notice_tests.rs"]
mod tests;
