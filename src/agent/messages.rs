//! The messages of a session for people and programs: questions and answers, without tool calls and results.

use std::path::Path;

use super::derived_trace;
use super::engine::Engine;
use super::recent_exchanges::words;
use super::trace_buffer;
use super::transcript::{Exchange, ExchangeScope, MessageRecord, TranscriptError, exchanges, look};
use super::turn::TurnError;
use crate::id::{AgentId, SessionKey, TurnId};
use crate::provider::Role;
use crate::runtime::NATIVE;

/// The most bytes of a transcript that one listing reads.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// The bytes of text after which a listing ends early.
const MAX_TEXT_BYTES: usize = 8 * 1024 * 1024;

/// A message as clients list it.
#[derive(Clone, Debug, PartialEq)]
pub struct ListedMessage {
    pub id: String,
    pub turn: TurnId,
    pub role: Role,
    pub content: String,
    /// The runtime of the turn: `native`, or the name of a program.
    pub runtime: String,
    /// The turn's model as `provider/model`, if known.
    pub model: Option<String>,
    /// Unix milliseconds.
    pub at: i64,
    /// The log of the turn's work. It comes with the answer, or with the last message of a turn without one. If no
    /// program reported a log, it is derived from the calls in the transcript, but only on request.
    pub trace: Vec<String>,
}

impl Engine {
    /// Returns the newest `limit` messages of a session, oldest first, or none if the session does not exist.
    /// `with_trace` also asks for derived logs of turns that no program reported one of.
    ///
    /// # Errors
    ///
    /// Returns [`TurnError::Store`] if the database can't be read, and [`TurnError::Transcript`] if the transcript
    /// can't.
    pub async fn messages(
        &self,
        key: &SessionKey,
        limit: usize,
        with_trace: bool,
    ) -> Result<Vec<ListedMessage>, TurnError> {
        let scope = if with_trace { ExchangeScope::Whole } else { ExchangeScope::All };
        let agent = key.agent().clone();
        self.read_transcript(key, move |path| {
            let mut newest: Vec<ListedMessage> = Vec::new();
            let mut size = 0;
            // Turns arrive newest first, and so do the messages within each: the whole list is turned around at the
            // end.
            read(path, scope, |exchange| {
                for message in listed_messages(exchange, &agent).into_iter().rev() {
                    size += message.content.len();
                    newest.push(message);
                }
                newest.len() < limit && size < MAX_TEXT_BYTES
            })?;
            newest.truncate(limit);
            newest.reverse();
            Ok(newest)
        })
        .await
    }

    /// Returns the answer of a turn, if it has one.
    ///
    /// # Errors
    ///
    /// Returns [`TurnError::Store`] if the database can't be read, and [`TurnError::Transcript`] if the transcript
    /// can't.
    pub(crate) async fn answer_of(
        &self,
        key: &SessionKey,
        turn: TurnId,
    ) -> Result<Option<ListedMessage>, TurnError> {
        let agent = key.agent().clone();
        self.read_transcript(key, move |path| {
            let mut found = None;
            read(path, ExchangeScope::All, |exchange| {
                let answer = listed_messages(exchange, &agent).pop();
                found = answer.filter(|answer| answer.role == Role::Assistant && answer.turn == turn);
                // The turn has only just ended. Another one of the session may have begun since, seldom more, so the
                // search is short.
                found.is_none()
            })?;
            Ok(found)
        })
        .await
    }

    /// Reads the transcript of a session, or returns the default if the session does not exist.
    pub(super) async fn read_transcript<T: Default + Send + 'static>(
        &self,
        key: &SessionKey,
        read: impl FnOnce(&Path) -> Result<T, TranscriptError> + Send + 'static,
    ) -> Result<T, TurnError> {
        let Some(session) = self.parts.store.sessions().find(key).await? else { return Ok(T::default()) };
        let path = self.transcript_path(&session);
        let own = path.clone();
        // A transcript can be long.
        let read = tokio::task::spawn_blocking(move || read(&own)).await;
        Ok(read.map_err(|stopped| TranscriptError::reading(&path)(stopped.into()))??)
    }
}

/// Reads the turns of a transcript, newest first, until `take` returns `false`.
pub(super) fn read(
    path: &Path,
    scope: ExchangeScope,
    take: impl FnMut(Exchange) -> bool,
) -> Result<(), TranscriptError> {
    let Some(file) = look(path)? else { return Ok(()) };
    exchanges(&file, scope, MAX_BYTES, take).map_err(TranscriptError::reading(path))
}

/// Returns the messages of a turn, oldest first.
fn listed_messages(exchange: Exchange, agent: &AgentId) -> Vec<ListedMessage> {
    let log = log(&exchange, agent);
    let (runtime, model) = (runtime(&exchange), model(&exchange));
    let Exchange { said, answer, .. } = exchange;
    let one = |record: MessageRecord| ListedMessage {
        turn: record.turn,
        role: record.message.role,
        content: words(&record),
        runtime: runtime.clone(),
        model: model.clone(),
        at: record.at,
        trace: Vec::new(),
        id: record.id,
    };
    let mut messages: Vec<ListedMessage> = said.into_iter().chain(answer).map(one).collect();
    if let Some(last) = messages.last_mut() {
        last.trace = log;
    }
    messages
}

/// Returns the runtime of a turn.
pub(super) fn runtime(exchange: &Exchange) -> String {
    let named = exchange.began.as_ref().and_then(|began| began.runtime.clone());
    named.unwrap_or_else(|| NATIVE.to_owned())
}

/// Returns the model of a turn, if it is known.
pub(super) fn model(exchange: &Exchange) -> Option<String> {
    // The answer names the model that gave it, which may be a fallback. The turn's beginning names the planned one.
    let of_answer = exchange.answer.as_ref().and_then(|answer| answer.model.clone());
    of_answer.or_else(|| exchange.began.as_ref().and_then(|began| began.model.clone()))
}

/// Returns the log of a turn: the one that its program reported, else one that is derived from its calls.
pub(super) fn log(exchange: &Exchange, agent: &AgentId) -> Vec<String> {
    let told = exchange.answer.iter().map(|answer| &answer.trace);
    let told: Vec<String> =
        told.chain(exchange.ended.iter().map(|end| &end.trace)).flatten().cloned().collect();
    // Imported messages are not this agent's work, so no log is derived from them.
    let is_own = !exchange.said.iter().chain(&exchange.answer).any(|message| message.imported);
    let lines = if told.is_empty() && is_own { derived_trace::trace(exchange, agent) } else { told };
    trace_buffer::checked(&lines)
}
