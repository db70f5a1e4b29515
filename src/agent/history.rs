//! What was said in a session, for the model again and for those who look at it.

use std::path::Path;

use jiff::tz::TimeZone;

use super::call;
use super::foreign;
use super::prompt::message_context;
use super::provenance::Provenance;
use super::transcript::{MessageRecord, history, look};
use super::turn::TurnError;
use super::wrapper::unwrapped;
use crate::id::TurnId;
use crate::provider::{Block, Message, Role};
use crate::tool::bounded;
use crate::tool::sessions::HistoryEntry;

/// The most bytes that are read for one look at a history.
const MOST_BYTES: u64 = 16 * 1024 * 1024;

/// The most bytes of a result that are shown.
const RESULT: usize = 500;

/// A stored message as the model is shown it, each time in the same words.
pub(super) fn replay(record: &MessageRecord, zone: &TimeZone) -> Message {
    shown_as(record.message.clone(), record, zone)
}

/// As [`replay`], with the record's message taken out of it: a long conversation is not copied to be loaded.
pub(super) fn shown_as(mut message: Message, record: &MessageRecord, zone: &TimeZone) -> Message {
    if record.imported {
        // Nor is anything shown beside it as flock's that is only what the document says: a time, a client's text.
        foreign::message(&mut message);
    } else if let Some(client) = &record.context {
        let blocks = message_context(record.at, zone, client, &record.guidance);
        message.content.extend(blocks.into_iter().map(Block::text));
    }
    message
}

/// The newest `limit` messages of a transcript, oldest first, without thinking.
pub(super) fn entries(path: &Path, limit: usize) -> Result<Vec<HistoryEntry>, TurnError> {
    let fail = |source| TurnError::Transcript { what: "read", path: path.to_owned(), source };
    let Some(file) = look(path)? else { return Ok(Vec::new()) };
    let records = history::messages(&file, limit, MOST_BYTES).map_err(fail)?;
    Ok(records.iter().map(entry).collect())
}

/// Where the inputs of a turn came from, in their order.
pub(super) fn deliveries(path: &Path, turn: TurnId) -> Result<Vec<Provenance>, TurnError> {
    let fail = |source| TurnError::Transcript { what: "read", path: path.to_owned(), source };
    let Some(file) = look(path)? else { return Ok(Vec::new()) };
    let records = history::of_turn(&file, turn).map_err(fail)?;
    Ok(records.into_iter().filter_map(|record| record.provenance).collect())
}

/// The final text of a turn: its last answer, if that calls no tool.
pub(super) fn answer(path: &Path, turn: TurnId) -> Result<Option<String>, TurnError> {
    let fail = |source| TurnError::Transcript { what: "read", path: path.to_owned(), source };
    let Some(file) = look(path)? else { return Ok(None) };
    let records = history::of_turn(&file, turn).map_err(fail)?;
    let last = records.last().filter(|record| record.message.role == Role::Assistant);
    let last = last.filter(|record| record.message.tool_calls().next().is_none());
    Ok(last.map(|record| crate::provider::message::joined_text(&record.message.content)))
}

/// A message as people and tools are shown it: without what was put beside it for the model, which an older version, or
/// another program, stored with it.
fn entry(record: &MessageRecord) -> HistoryEntry {
    let texts = record.message.content.iter().filter_map(shown);
    HistoryEntry { role: record.message.role, text: texts.collect::<Vec<_>>().join("\n"), at: record.at }
}

fn shown(block: &Block) -> Option<String> {
    match block {
        Block::Text { text, .. } => {
            let text = unwrapped(text).unwrap_or(text);
            (!text.trim().is_empty()).then(|| text.to_owned())
        }
        Block::Thinking { .. } => None,
        Block::ToolCall { name, arguments, .. } => {
            Some(format!("[calls {name} {}]", call::preview(arguments)))
        }
        Block::ToolResult { name, content, is_error, .. } => {
            let text = crate::provider::message::joined_text(content);
            let word = if *is_error { "failed" } else { "answered" };
            Some(format!("[{name} {word}: {}]", bounded::middle_cut(&text, RESULT)))
        }
        Block::Image { media_type, .. } => Some(format!("[a picture, {media_type}]")),
        Block::Other(_) => Some("[something that this flock does not know]".to_owned()),
    }
}
