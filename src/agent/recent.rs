//! What a program is told of what was said in the session: the last exchanges, each with the log of what the agent did,
//! within a fixed size. One that goes on with its conversation is told of those only that came after the last that it has.
//!
//! Old text can't pass for anything but itself: the first line of what somebody said begins with who it was, every
//! further line of it is indented, so none of them is one of the marks or another speaker's.

use std::borrow::Cow;
use std::fs::File;
use std::io;

use super::prompt::without_marks;
use super::trace;
use super::transcript::{Exchange, MessageRecord, Phase, Scope, TurnRecord, exchanges};
use super::wrapper::unwrapped;
use crate::clean;
use crate::id::{AgentId, TurnId};
use crate::provider::Block;
use crate::provider::message::CONTEXT_OPEN;
use crate::runtime::prompt::{END, RECENT};

/// The most exchanges.
const EXCHANGES: usize = 5;

/// The most characters in all, marks included.
const CHARS: usize = 8_000;

/// The most bytes of a transcript that are looked through.
const MOST_BYTES: u64 = 64 * 1024 * 1024;

/// The most characters of why a turn failed.
const REASON: usize = 300;

/// What was said in a session's conversation before a turn.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Before {
    /// The last of it; empty where nothing was.
    pub(super) recent: String,
    /// The last of what came after the turn that was asked about, empty where nothing did; `None` where none was asked
    /// about, or the conversation has not that one any more.
    pub(super) missed: Option<String>,
}

/// What was said in a session's conversation so far, from its transcript, and what of it after the turn `known`.
///
/// # Errors
///
/// If the file can't be read.
pub(super) fn before(file: &File, agent: &AgentId, known: Option<TurnId>) -> io::Result<Before> {
    let mut told = Vec::new();
    let mut size = 0;
    let mut missed = None;
    exchanges(file, Scope::Conversation, MOST_BYTES, |exchange| {
        if missed.is_none() && known.is_some() && exchange.turn() == known {
            missed = Some(told.len());
        }
        if has_room(&told, size) {
            let text = tell(&exchange, agent);
            size += text.chars().count();
            told.push(text);
        }
        has_room(&told, size) || known.is_some() && missed.is_none()
    })?;
    let missed = missed.and_then(|count| told.get(..count)).map(block);
    Ok(Before { recent: block(&told), missed })
}

/// Whether one more exchange is told beside these, which have so many characters.
const fn has_room(told: &[String], size: usize) -> bool {
    told.len() < EXCHANGES && size < CHARS
}

/// The block of these exchanges, which are newest first: as many of them as fit, oldest first. The newest is there in
/// any case, without its middle if need be.
fn block(told: &[String]) -> String {
    let Some(newest) = told.first() else { return String::new() };
    // Each exchange ends its line, and an empty one stands between two.
    let mut left = CHARS - RECENT.len() - END.len() - 2;
    let newest = middle_cut(newest, left - 1);
    left -= newest.chars().count() + 1;
    let mut fitting = vec![newest];
    for text in told.iter().take(EXCHANGES).skip(1) {
        let size = text.chars().count() + 2;
        if size > left {
            break;
        }
        left -= size;
        fitting.push(Cow::Borrowed(text));
    }
    fitting.reverse();
    format!("{RECENT}\n{}\n{END}\n", fitting.join("\n\n"))
}

/// A text of at most so many characters: its start and its end, where it has more.
fn middle_cut(text: &str, most: usize) -> Cow<'_, str> {
    let size = text.chars().count();
    if size <= most {
        return Cow::Borrowed(text);
    }
    // The number of characters is no longer than that of the text.
    let note = |cut: usize| format!("\n  [… {cut} characters left out here …]\n  ");
    let room = most.saturating_sub(note(size).chars().count());
    let (head, tail) = (room.div_ceil(2), room / 2);
    let start = text.char_indices().nth(head).map_or(text, |(at, _)| &text[..at]);
    let end = text.char_indices().nth(size - tail).map_or("", |(at, _)| &text[at..]);
    Cow::Owned([start, &note(size - head - tail), end].concat())
}

/// An exchange as a program is told it.
fn tell(exchange: &Exchange, agent: &AgentId) -> String {
    let messages = || exchange.said.iter().chain(&exchange.answer);
    // Of a turn that was brought from elsewhere all is.
    let imported = messages().any(|message| message.imported);
    let mut lines: Vec<String> =
        exchange.said.iter().map(|said| label("user", imported, &words(said))).collect();
    let log =
        exchange.answer.iter().map(|answer| &answer.trace).chain(exchange.ended.iter().map(|end| &end.trace));
    let log: Vec<String> = log.flat_map(|lines| trace::checked(lines)).collect();
    if log.is_empty() {
        let text = exchange.answer.as_ref().map(words).unwrap_or_default();
        if !text.trim().is_empty() {
            lines.push(label(agent.as_str(), imported, &format!("agent: {text}")));
        }
    } else if imported {
        lines.push(label(agent.as_str(), true, &log.join("\n")));
    } else {
        lines.extend(logged(&log, agent));
    }
    let unhappy = exchange.ended.as_ref().and_then(unhappy);
    lines.extend(unhappy.map(|text| label(agent.as_str(), imported, &text)));
    lines.join("\n")
}

/// A stored log; lines that nobody is named in go on with the one before them.
fn logged(lines: &[String], agent: &AgentId) -> Vec<String> {
    let name = format!("[{agent}] ");
    let told = lines.iter().map(|line| without_marks(line));
    told.map(
        |line| if line.starts_with(&name) || line.starts_with("  ") { line } else { format!("  {line}") },
    )
    .collect()
}

/// Why a turn has no answer.
fn unhappy(end: &TurnRecord) -> Option<String> {
    match end.state {
        Phase::Failed => {
            let why = end.error.as_deref().unwrap_or("nobody knows why");
            Some(format!("failed: {}", clean::summary(why, REASON)))
        }
        Phase::Cancelled => Some("stopped before the answer".to_owned()),
        Phase::Interrupted => Some("interrupted before the answer".to_owned()),
        Phase::Started | Phase::Done => None,
    }
}

/// What somebody said, behind who it was: as the record knows it, or, of what was brought from elsewhere, as that says.
fn label(name: &str, imported: bool, text: &str) -> String {
    let imported = if imported { ", imported" } else { "" };
    let mut told = format!("[{name}{imported}] ");
    let text = without_marks(text).replace("\r\n", "\n");
    for (at, line) in text.trim().split(clean::is_line_end).enumerate() {
        if at > 0 {
            told.push_str("\n  ");
        }
        told.push_str(&clean::block(line));
    }
    told
}

/// The words of a message: without thinking, calls and what was put beside it for a model.
pub(super) fn words(record: &MessageRecord) -> String {
    let texts = record.message.content.iter().filter_map(|block| match block {
        Block::Text { text, .. } if text.starts_with(CONTEXT_OPEN) => unwrapped(text).map(str::to_owned),
        Block::Text { text, .. } => Some(unwrapped(text).unwrap_or(text).to_owned()),
        Block::Image { media_type, .. } => Some(format!("[a picture, {}]", clean::summary(media_type, 40))),
        _ => None,
    });
    texts.filter(|text| !text.trim().is_empty()).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
#[path = "recent_tests.rs"]
mod tests;
