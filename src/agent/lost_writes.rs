//! Compares transcripts with the database at start. After a disk lost writes, for instance in a power cut, one of them
//! may be behind the other.

use std::path::Path;

use super::engine::Engine;
use super::provenance::Provenance;
use super::transcript::{Record, TranscriptError, look};
use super::turn::TurnError;
use crate::error::chain;
use crate::home::reverse_lines::ReverseLines;
use crate::id::{AgentId, SessionKey, TurnId};
use crate::store::Session;

/// Number of sessions that are compared, the most recently used first: only the newest writes can be lost.
const MAX_SESSIONS: u32 = 200;

/// A loss that was found in a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LostWrites {
    /// The transcript lacks the last turn that ended well.
    Transcript {
        /// The session whose transcript is behind.
        session: SessionKey,
        /// Sequence number of the newest channel message in the transcript, if it has any.
        shown: Option<u64>,
    },
    /// The database lacks the last turn of the transcript.
    Database {
        /// The session that the database is behind on.
        session: SessionKey,
    },
}

/// Number of turns, from the end of a transcript, that are searched for the last one that ended well. Later turns may
/// have been broken off.
const MAX_TURNS: usize = 20;

/// The newest records of a transcript.
#[derive(Debug, Default)]
struct TranscriptEnd {
    /// The turns of these records, newest first.
    turns: Vec<TurnId>,
    shown: Option<u64>,
}

impl Engine {
    /// Returns the sessions whose transcript and database disagree about their turns because a disk lost writes, of the agents
    /// for which `is_wanted` returns `true`. To be called before any turn of them.
    ///
    /// # Errors
    ///
    /// Returns an error if the database can't be read. A transcript that can't be read is logged and skipped.
    pub async fn lost(&self, is_wanted: impl Fn(&AgentId) -> bool) -> Result<Vec<LostWrites>, TurnError> {
        let mut found = Vec::new();
        for session in self
            .parts
            .store
            .sessions()
            .list(None, MAX_SESSIONS)
            .await?
            .into_iter()
            .filter(|session| session.turns > 0 && is_wanted(session.key.agent()))
        {
            match compare_session(self, &session).await {
                Ok(lost) => found.extend(lost),
                Err(error) => {
                    tracing::warn!(session = %session.key, error = chain(&error), "a transcript could not be compared");
                }
            }
        }
        Ok(found)
    }
}

async fn compare_session(engine: &Engine, session: &Session) -> Result<Option<LostWrites>, TurnError> {
    let store = engine.store();
    // A failed turn may have written nothing, so only finished ones are expected. Turns before the conversation was
    // reset are not looked for.
    let last =
        store.turns().last_completed(&session.key).await?.filter(|turn| turn.started_at >= session.began_at);
    let end = read_end(&engine.transcript_path(session), last.as_ref().map(|turn| turn.id))?;
    // The first turn is the newest. If the database does not know it, the database lost it.
    if let Some(turn) = end.turns.first()
        && store.turns().find(*turn).await?.is_none()
    {
        return Ok(Some(LostWrites::Database { session: session.key.clone() }));
    }
    let Some(missing) = last.filter(|turn| !end.turns.contains(&turn.id)) else { return Ok(None) };
    if contains_turn(&engine.transcript_path(session), missing.id)? {
        // The turn is there, only further up than expected: the clock was set back in the meantime.
        return Ok(None);
    }
    Ok(Some(LostWrites::Transcript { session: session.key.clone(), shown: end.shown }))
}

/// Returns `true` if the transcript has a record of the turn anywhere.
fn contains_turn(path: &Path, turn: TurnId) -> Result<bool, TranscriptError> {
    let fail = TranscriptError::reading(path);
    let Some(file) = look(path)? else { return Ok(false) };
    let mut tail = ReverseLines::new(&file).map_err(&fail)?;
    // The bytes are searched first: parsing every line of a long transcript would take much longer.
    let id = turn.to_string();
    let finder = memchr::memmem::Finder::new(id.as_bytes());
    while let Some(line) = tail.next_line().map_err(&fail)? {
        if finder.find(line).is_some() && is_of(line, turn) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns `true` if the line is a record of the turn. The id alone proves nothing: a message or a tool result of
/// another turn may quote it.
fn is_of(line: &[u8], turn: TurnId) -> bool {
    match Record::parse(line) {
        Ok(Record::Message(message)) => message.turn == turn,
        Ok(Record::Turn(record)) => record.turn == turn,
        _ => false,
    }
}

/// Reads a transcript from its end until it finds the wanted turn, or has seen enough others.
fn read_end(path: &Path, wanted: Option<TurnId>) -> Result<TranscriptEnd, TranscriptError> {
    let fail = TranscriptError::reading(path);
    let Some(file) = look(path)? else { return Ok(TranscriptEnd::default()) };
    let mut tail = ReverseLines::new(&file).map_err(&fail)?;
    let mut end = TranscriptEnd::default();
    // Without a wanted turn only the newest one is needed, to look it up in the database.
    let most = if wanted.is_some() { MAX_TURNS } else { 1 };
    while end.turns.len() < most && !wanted.is_some_and(|turn| end.turns.contains(&turn)) {
        let Some(line) = tail.next_line().map_err(&fail)? else { break };
        let turn = match Record::parse(line) {
            Ok(Record::Message(message)) => {
                if let Some(Provenance::Channel { to, .. }) = message.provenance {
                    end.shown.get_or_insert(to.unsigned_abs());
                }
                message.turn
            }
            Ok(Record::Turn(record)) => record.turn,
            // Before these records is another conversation, or one from another home.
            Ok(Record::Session(_) | Record::Reset(_) | Record::Imported(_)) => break,
            Ok(Record::Compaction(_) | Record::Rewind(_) | Record::Command(_) | Record::Unknown) | Err(_) => {
                continue;
            }
        };
        if end.turns.last() != Some(&turn) {
            end.turns.push(turn);
        }
    }
    Ok(end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::transcript::MessageRecord;
    use crate::provider::{Message, Role};

    #[test]
    fn a_turn_that_another_one_quotes_is_not_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.jsonl");
        let (lost, other) = (TurnId::new(), TurnId::new());
        let mut text = Vec::new();
        let mut says = |turn: TurnId, said: &str| {
            let message = MessageRecord::new(turn, 1, Message::text(Role::User, said));
            Record::Message(Box::new(message)).write_to(&mut text);
            std::fs::write(&path, &text).unwrap();
        };
        says(other, &format!(r#"{{"turn":"{lost}"}} and turn {lost}"#));
        assert!(contains_turn(&path, other).unwrap());
        assert!(!contains_turn(&path, lost).unwrap(), "it is only quoted");
        says(lost, "hello");
        assert!(contains_turn(&path, lost).unwrap());
    }
}
