//! Builds the text that tells a program what was said in the session before: the last exchanges, each with the log of
//! the agent's work, within a fixed size. A program that resumes its own conversation gets only the exchanges after the
//! last one it knows.
//!
//! Old text can't imitate other text: the first line of each message begins with its speaker, and every further line is
//! indented, so that no line can be taken for a mark or for another speaker.

use std::borrow::Cow;
use std::fs::File;
use std::io;

use super::context_wrapper::unwrapped;
use super::prompt::without_marks;
use super::trace_buffer;
use super::transcript::{Exchange, ExchangeScope, MessageRecord, TurnPhase, TurnRecord, exchanges};
use crate::clean;
use crate::id::{AgentId, TurnId};
use crate::provider::Block;
use crate::provider::message::CONTEXT_OPEN;
use crate::runtime::prompt::{END, RECENT_HEADER};

/// The most exchanges.
const MAX_EXCHANGES: usize = 5;

/// The most characters in total, marks included.
const CHARS: usize = 8_000;

/// The most bytes of a transcript that are read.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// The most characters of a failed turn's error.
const MAX_REASON_CHARS: usize = 300;

/// The earlier exchanges of a session's conversation.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct EarlierExchanges {
    /// The last exchanges. Empty if there are none.
    pub(super) recent: String,
    /// The last exchanges after the known turn, empty if there are none. `None` if no known turn was given, or the
    /// conversation no longer has it.
    pub(super) missed: Option<String>,
}

/// Reads the conversation so far from a session's transcript, and what came after the turn `known`.
///
/// # Errors
///
/// Returns an error if the file can't be read.
pub(super) fn before(file: &File, agent: &AgentId, known: Option<TurnId>) -> io::Result<EarlierExchanges> {
    let mut told = Vec::new();
    let mut size = 0;
    let mut missed = None;
    exchanges(file, ExchangeScope::Conversation, MAX_BYTES, |exchange| {
        // The exchanges come newest first, so the count so far is the number of those after the known turn.
        if missed.is_none() && known.is_some() && exchange.turn() == known {
            missed = Some(told.len());
        }
        if has_room(&told, size) {
            let text = format_exchange(&exchange, agent);
            size += text.chars().count();
            told.push(text);
        }
        // Reading goes on while there is room, or until the known turn is found.
        has_room(&told, size) || known.is_some() && missed.is_none()
    })?;
    let missed = missed.and_then(|count| told.get(..count)).map(block);
    Ok(EarlierExchanges { recent: block(&told), missed })
}

/// Returns `true` if one more exchange fits beside these, which have `size` characters.
const fn has_room(told: &[String], size: usize) -> bool {
    told.len() < MAX_EXCHANGES && size < CHARS
}

/// Formats the exchanges, which are newest first, as one block with the oldest first. Only as many as fit are included.
/// The newest is always there, with its middle cut out if it is too long.
fn block(told: &[String]) -> String {
    let Some(newest) = told.first() else { return String::new() };
    // Each exchange ends with a line feed, and an empty line separates two.
    let mut left = CHARS - RECENT_HEADER.len() - END.len() - 2;
    let newest = cut_middle(newest, left - 1);
    left -= newest.chars().count() + 1;
    let mut fitting = vec![newest];
    for text in told.iter().take(MAX_EXCHANGES).skip(1) {
        // Exchanges are included whole or not at all, except for the newest.
        let size = text.chars().count() + 2;
        if size > left {
            break;
        }
        left -= size;
        fitting.push(Cow::Borrowed(text));
    }
    fitting.reverse();
    format!("{RECENT_HEADER}\n{}\n{END}\n", fitting.join("\n\n"))
}

/// Shortens a text to at most `most` characters by cutting out its middle.
fn cut_middle(text: &str, most: usize) -> Cow<'_, str> {
    let size = text.chars().count();
    if size <= most {
        return Cow::Borrowed(text);
    }
    // The number of cut characters has at most as many digits as the text's size, so this reserves enough room for the
    // note.
    let note = |cut: usize| format!("\n  [… {cut} characters left out here …]\n  ");
    let room = most.saturating_sub(note(size).chars().count());
    let (head, tail) = (room.div_ceil(2), room / 2);
    let start = text.char_indices().nth(head).map_or(text, |(at, _)| &text[..at]);
    let end = text.char_indices().nth(size - tail).map_or("", |(at, _)| &text[at..]);
    Cow::Owned([start, &note(size - head - tail), end].concat())
}

/// Formats an exchange for a program.
fn format_exchange(exchange: &Exchange, agent: &AgentId) -> String {
    let messages = || exchange.said.iter().chain(&exchange.answer);
    // Either all of a turn is imported or nothing of it.
    let imported = messages().any(|message| message.imported);
    let mut lines: Vec<String> =
        exchange.said.iter().map(|said| format_message("user", imported, &words(said))).collect();
    let log =
        exchange.answer.iter().map(|answer| &answer.trace).chain(exchange.ended.iter().map(|end| &end.trace));
    let log: Vec<String> = log.flat_map(|lines| trace_buffer::checked(lines)).collect();
    if log.is_empty() {
        let text = exchange.answer.as_ref().map(words).unwrap_or_default();
        if !text.trim().is_empty() {
            lines.push(format_message(agent.as_str(), imported, &format!("agent: {text}")));
        }
    } else if imported {
        lines.push(format_message(agent.as_str(), true, &log.join("\n")));
    } else {
        lines.extend(format_log(&log, agent));
    }
    let unhappy = exchange.ended.as_ref().and_then(unhappy);
    lines.extend(unhappy.map(|text| format_message(agent.as_str(), imported, &text)));
    lines.join("\n")
}

/// Formats a stored log. A line that names no speaker is indented as a continuation of the line before it.
fn format_log(lines: &[String], agent: &AgentId) -> Vec<String> {
    let name = format!("[{agent}] ");
    let told = lines.iter().map(|line| without_marks(line));
    told.map(
        |line| if line.starts_with(&name) || line.starts_with("  ") { line } else { format!("  {line}") },
    )
    .collect()
}

/// Returns the reason why a turn has no answer.
fn unhappy(end: &TurnRecord) -> Option<String> {
    match end.state {
        TurnPhase::Failed => {
            let why = end.error.as_deref().unwrap_or("unknown reason");
            Some(format!("failed: {}", clean::summary(why, MAX_REASON_CHARS)))
        }
        TurnPhase::Cancelled => Some("stopped before the answer".to_owned()),
        TurnPhase::Interrupted => Some("interrupted before the answer".to_owned()),
        TurnPhase::Started | TurnPhase::Done => None,
    }
}

/// Formats a message behind its speaker's name. For an imported message the name is only the document's claim, and the
/// label says that it is imported.
fn format_message(name: &str, imported: bool, text: &str) -> String {
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

/// Returns the text of a message without thinking, calls and the context that was added for a model.
pub(super) fn words(record: &MessageRecord) -> String {
    let texts = record.message.content.iter().filter_map(|block| match block {
        // A context block is flock's own. Only text that a model or person added around it is kept.
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
