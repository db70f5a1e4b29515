//! What was said in a session, as people and programs read it: questions and answers, without calls and results.

use std::path::Path;

use super::engine::Engine;
use super::recent::words;
use super::trace;
use super::transcript::{Exchange, MessageRecord, Scope, exchanges, look};
use super::turn::TurnError;
use crate::id::{SessionKey, TurnId};
use crate::provider::Role;
use crate::runtime::NATIVE;

/// The most bytes of a transcript that are looked through for one listing.
const MOST_BYTES: u64 = 64 * 1024 * 1024;

/// One message.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored {
    /// Its id.
    pub id: String,
    /// Its turn.
    pub turn: TurnId,
    /// Who said it.
    pub role: Role,
    /// What was said.
    pub content: String,
    /// What ran the turn: `native`, or a program.
    pub runtime: String,
    /// The turn's model, as `provider/model`, where it is known.
    pub model: Option<String>,
    /// When it was written, in Unix milliseconds.
    pub at: i64,
    /// What the program told of its work: with the answer, or with the last message of a turn without one.
    pub trace: Vec<String>,
}

impl Engine {
    /// The newest `limit` messages of a session, oldest first; none where there is no such session.
    ///
    /// # Errors
    ///
    /// As [`TurnError`] says.
    pub fn messages(&self, key: &SessionKey, limit: usize) -> Result<Vec<Stored>, TurnError> {
        let mut newest = Vec::new();
        self.each_turn(key, |exchange| {
            newest.extend(stored(exchange).into_iter().rev());
            newest.len() < limit
        })?;
        newest.truncate(limit);
        newest.reverse();
        Ok(newest)
    }

    /// The answer of a turn, if it has one.
    ///
    /// # Errors
    ///
    /// As [`TurnError`] says.
    pub fn answer_of(&self, key: &SessionKey, turn: TurnId) -> Result<Option<Stored>, TurnError> {
        let mut found = None;
        self.each_turn(key, |exchange| {
            let answer = stored(exchange).pop().filter(|last| last.role == Role::Assistant);
            found = answer.filter(|answer| answer.turn == turn);
            // It has just ended: another one of the session may have begun since, and seldom more.
            found.is_none()
        })?;
        Ok(found)
    }

    fn each_turn(&self, key: &SessionKey, take: impl FnMut(Exchange) -> bool) -> Result<(), TurnError> {
        let Some(session) = self.parts.store.session(key)? else { return Ok(()) };
        let path = self.transcript_path(&session);
        read(&path, take)
    }
}

fn read(path: &Path, take: impl FnMut(Exchange) -> bool) -> Result<(), TurnError> {
    let Some(file) = look(path)? else { return Ok(()) };
    exchanges(&file, Scope::All, MOST_BYTES, take).map_err(|source| TurnError::Transcript {
        what: "read",
        path: path.to_owned(),
        source,
    })
}

/// The messages of a turn, oldest first.
fn stored(exchange: Exchange) -> Vec<Stored> {
    let Exchange { said, answer, began, ended, .. } = exchange;
    let runtime = began.as_ref().and_then(|began| began.runtime.clone()).unwrap_or_else(|| NATIVE.to_owned());
    let model = answer
        .as_ref()
        .and_then(|answer| answer.model.clone())
        .or_else(|| began.and_then(|began| began.model));
    let one = |record: MessageRecord| Stored {
        turn: record.turn,
        role: record.message.role,
        content: words(&record),
        runtime: runtime.clone(),
        model: model.clone(),
        at: record.at,
        trace: trace::checked(&record.trace),
        id: record.id,
    };
    let mut messages: Vec<Stored> = said.into_iter().chain(answer).map(one).collect();
    if let (Some(last), Some(end)) = (messages.last_mut(), ended)
        && last.trace.is_empty()
    {
        last.trace = trace::checked(&end.trace);
    }
    messages
}
