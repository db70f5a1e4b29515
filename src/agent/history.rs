//! Converts stored messages for the model, and for people and tools that look at a session.

use jiff::tz::TimeZone;

use super::client_tools::{ClientCall, client_call_id};
use super::context_wrapper::unwrapped;
use super::engine::Engine;
use super::imported;
use super::prompt::message_context;
use super::provenance::Provenance;
use super::tool_call;
use super::transcript::{MessageRecord, TranscriptError, look, message_reader};
use super::turn::TurnError;
use crate::id::{SessionKey, TurnId};
use crate::provider::message::joined_text;
use crate::provider::{Block, Message, Role};
use crate::tool::safe_text;
use crate::tool::sessions::HistoryEntry;

/// The most bytes that are read to list a history.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// The most bytes of a tool result that are listed.
const MAX_RESULT_BYTES: usize = 500;

/// Returns a stored message as the model reads it. The words are the same each time, so that the provider's prompt
/// cache stays valid.
pub(super) fn replay(record: &MessageRecord, zone: &TimeZone) -> Message {
    shown_as(record.message.clone(), record, zone)
}

/// Does the same as [`replay`] with a message that was moved out of its record, so that loading a long conversation
/// copies nothing.
pub(super) fn shown_as(mut message: Message, record: &MessageRecord, zone: &TimeZone) -> Message {
    if record.imported {
        // An imported document must not be able to put text under flock's name, so its time and client text are not
        // shown.
        imported::message(&mut message);
    } else if let Some(client) = &record.context {
        let blocks = message_context(record.at, zone, client, &record.guidance);
        message.content.extend(blocks.into_iter().map(Block::text));
    }
    message
}

impl Engine {
    /// Returns the provenance of each committed input of a turn in order: first that of the turn's own input, then
    /// those of the messages that were delivered while it ran. Empty for a turn that wrote none.
    ///
    /// # Errors
    ///
    /// Returns an error if the database or the transcript can't be read.
    pub async fn deliveries(&self, session: &SessionKey, turn: TurnId) -> Result<Vec<Provenance>, TurnError> {
        let records = self.records_of(session, turn).await?;
        Ok(records.into_iter().filter_map(|record| record.provenance).collect())
    }

    /// Returns the final text of a turn, or `None` if the turn did not end with an answer.
    ///
    /// # Errors
    ///
    /// Returns an error if the database or the transcript can't be read.
    pub async fn answer(&self, session: &SessionKey, turn: TurnId) -> Result<Option<String>, TurnError> {
        let records = self.records_of(session, turn).await?;
        let last = records.last().filter(|record| record.message.role == Role::Assistant);
        // An answer with calls is not final: the turn broke off before the model answered again.
        let last = last.filter(|record| record.message.tool_calls().next().is_none());
        Ok(last.map(|record| joined_text(&record.message.content)))
    }

    /// Returns the text and the calls with which a turn went to its client, or `None` if it did not end that way.
    ///
    /// # Errors
    ///
    /// Returns an error if the database or the transcript can't be read.
    pub(crate) async fn handed_out(
        &self,
        session: &SessionKey,
        turn: TurnId,
    ) -> Result<Option<(String, Vec<ClientCall>)>, TurnError> {
        let records = self.records_of(session, turn).await?;
        let Some(last) = records.iter().rfind(|record| record.message.role == Role::Assistant) else {
            return Ok(None);
        };
        let results = records.iter().flat_map(|record| &record.message.content);
        let answered: Vec<&str> = results
            .filter_map(|block| match block {
                Block::ToolResult { call_id, .. } => Some(call_id.as_str()),
                _ => None,
            })
            .collect();
        let open = last.message.tool_calls().enumerate().filter(|(_, call)| !answered.contains(&call.id));
        let calls: Vec<ClientCall> = open
            .map(|(place, call)| ClientCall {
                id: client_call_id(turn, place),
                name: call.name.to_owned(),
                arguments: call.arguments.clone(),
            })
            .collect();
        Ok((!calls.is_empty()).then(|| (joined_text(&last.message.content), calls)))
    }

    /// Returns the newest `limit` messages of a session, oldest first and without thinking, or `None` if the session
    /// does not exist.
    ///
    /// # Errors
    ///
    /// Returns an error if the database or the transcript can't be read.
    pub async fn history(
        &self,
        key: &SessionKey,
        limit: usize,
    ) -> Result<Option<Vec<HistoryEntry>>, TurnError> {
        let Some(session) = self.parts.store.sessions().find(key).await? else { return Ok(None) };
        let path = self.transcript_path(&session);
        let Some(file) = look(&path)? else { return Ok(Some(Vec::new())) };
        let records = message_reader::messages(&file, limit, MAX_BYTES);
        let records = records.map_err(TranscriptError::reading(&path))?;
        Ok(Some(records.iter().map(entry).collect()))
    }

    /// Returns the messages of a turn, or none if its session has no transcript.
    async fn records_of(&self, key: &SessionKey, turn: TurnId) -> Result<Vec<MessageRecord>, TurnError> {
        let Some(session) = self.parts.store.sessions().find(key).await? else { return Ok(Vec::new()) };
        let path = self.transcript_path(&session);
        let Some(file) = look(&path)? else { return Ok(Vec::new()) };
        Ok(message_reader::of_turn(&file, turn).map_err(TranscriptError::reading(&path))?)
    }
}

/// Returns the text of a message as [`Engine::history`] lists it, without the calls of one tool and their results.
#[must_use]
pub(crate) fn said(record: &MessageRecord, without: &str) -> String {
    let is_wanted = |block: &&Block| match block {
        Block::ToolCall { name, .. } | Block::ToolResult { name, .. } => name != without,
        _ => true,
    };
    let texts = record.message.content.iter().filter(is_wanted).filter_map(shown);
    texts.collect::<Vec<_>>().join("\n")
}

/// Returns a message as people and tools read it. Context that an older version or another program stored with the
/// message is removed.
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
            Some(format!("[calls {name} {}]", tool_call::preview(arguments)))
        }
        Block::ToolResult { name, content, is_error, .. } => {
            let text = joined_text(content);
            let word = if *is_error { "failed" } else { "answered" };
            Some(format!("[{name} {word}: {}]", safe_text::middle_cut(&text, MAX_RESULT_BYTES)))
        }
        Block::Image { media_type, .. } => Some(format!("[a picture, {media_type}]")),
        Block::Other(_) => Some("[something that this flock does not know]".to_owned()),
    }
}
