//! Turns: their start, state, outcome and token counts.

use super::session::{self, NewSession, PendingCall, Session, SessionState, StoredPrompt};
use super::sql::{
    self, FromSql, FromSqlError, FromSqlResult, OptionalExtension as _, Row, ToSql, ToSqlResult, Transaction,
    ValueRef, params,
};
use super::subjects::Turns;
use super::usage::{self, CallSettlement};
use super::{Database, Store, StoreError};
use crate::id::{SessionKey, TurnId};

/// The state of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnState {
    /// Running, or was running when its process died.
    Running,
    /// Ended with an answer.
    Done,
    /// Ended with an error.
    Failed,
    /// Stopped on request.
    Cancelled,
    /// Ended by the death of its process.
    Interrupted,
}

impl TurnState {
    /// Returns the name that the database, the transcript and the API use.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Interrupted => "interrupted",
        }
    }
}

impl FromSql for TurnState {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let text = value.as_str()?;
        [Self::Running, Self::Done, Self::Failed, Self::Cancelled, Self::Interrupted]
            .into_iter()
            .find(|state| state.as_str() == text)
            .ok_or(FromSqlError::InvalidType)
    }
}

impl ToSql for TurnState {
    fn to_sql(&self) -> ToSqlResult<'_> {
        Ok(self.as_str().into())
    }
}

/// Token counts as providers report them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenCounts {
    /// Input that was neither read from a cache nor written to one.
    pub input: u64,
    /// Output, including thinking.
    pub output: u64,
    /// Input read from a provider's cache.
    pub cache_read: u64,
    /// Input written to a provider's cache.
    pub cache_write: u64,
}

impl TokenCounts {
    pub(super) fn at(row: &Row<'_>, column: usize) -> sql::Result<Self> {
        let count = |offset| row.get::<i64>(column + offset).map(i64::unsigned_abs);
        Ok(Self { input: count(0)?, output: count(1)?, cache_read: count(2)?, cache_write: count(3)? })
    }
}

/// A turn as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    pub id: TurnId,
    pub session: SessionKey,
    pub state: TurnState,
    /// The model it began with, as `provider/model`.
    pub model: String,
    /// Unix milliseconds.
    pub started_at: i64,
    /// Unix milliseconds; `None` while it runs.
    pub ended_at: Option<i64>,
    /// The number of model calls.
    pub steps: u32,
    /// The tokens of all its model calls.
    pub tokens: TokenCounts,
    /// The reason for a failure.
    pub error: Option<String>,
}

/// A turn to be begun.
#[derive(Clone, Debug)]
pub struct NewTurn {
    /// Created if it does not exist.
    pub session: NewSession,
    pub turn: TurnId,
    /// The model as `provider/model`.
    pub model: String,
    pub prompt: StoredPrompt,
    /// The current time in Unix milliseconds.
    pub now: i64,
}

/// The outcome of a turn.
#[derive(Clone, Debug)]
pub struct TurnCompletion {
    /// The state that the turn ends in.
    pub state: TurnState,
    /// The number of model calls.
    pub steps: u32,
    /// The tokens of all its model calls.
    pub tokens: TokenCounts,
    /// The reason for a failure.
    pub error: Option<String>,
    /// Unix milliseconds at which it ended.
    pub at: i64,
    /// The calls of its session that wait for their results from now on. `None` leaves them as they are, for a turn
    /// whose input was not committed.
    pub pending: Option<Vec<PendingCall>>,
    /// The usage of the model call that the turn ended with, if it is not settled yet.
    pub settlement: Option<CallSettlement>,
}

const COLUMNS: &str =
    "id, session, state, model, started_at, ended_at, steps, error, input, output, cache_read, cache_write";

fn turn(row: &Row<'_>) -> sql::Result<Turn> {
    Ok(Turn {
        id: session::parsed(row, 0)?,
        session: session::parsed(row, 1)?,
        state: row.get(2)?,
        model: row.get(3)?,
        started_at: row.get(4)?,
        ended_at: row.get(5)?,
        steps: row.get(6)?,
        error: row.get(7)?,
        tokens: TokenCounts::at(row, 8)?,
    })
}

impl<A> Turns<&Database<A>> {
    /// Returns all turns that run, or were running when their process died.
    pub async fn running(self) -> Result<Vec<Turn>, StoreError> {
        self.read("list running turns", |connection| {
            // A partial index contains the running turns only, so this stays fast in a large table.
            connection
                .prepare_cached(&format!("SELECT {COLUMNS} FROM turn WHERE state = 'running' ORDER BY id"))?
                .query_map((), turn)?
                .collect()
        })
        .await
    }

    /// Returns the last turn of a session that ended with an answer.
    pub(crate) async fn last_completed(self, session: &SessionKey) -> Result<Option<Turn>, StoreError> {
        self.read("read a session's last turn", |connection| {
            // Turn ids start with a time stamp, so the highest id is the last turn.
            connection
                .prepare_cached(&format!(
                    "SELECT {COLUMNS} FROM turn WHERE session = ?1 AND state = 'done'
                     ORDER BY id DESC LIMIT 1"
                ))?
                .query_row([session.as_str()], turn)
                .optional()
        })
        .await
    }

    /// Finds a turn by its id. A turn that was refused before it began has no row.
    pub async fn find(self, id: TurnId) -> Result<Option<Turn>, StoreError> {
        self.read("read a turn", |connection| {
            connection
                .prepare_cached(&format!("SELECT {COLUMNS} FROM turn WHERE id = ?1"))?
                .query_row([id.to_string()], turn)
                .optional()
        })
        .await
    }

    /// Returns the last turns of a session, newest first, at most `limit`.
    pub async fn list(self, session: &SessionKey, limit: u32) -> Result<Vec<Turn>, StoreError> {
        self.read("list turns", |connection| {
            connection
                .prepare_cached(&format!(
                    "SELECT {COLUMNS} FROM turn WHERE session = ?1 ORDER BY id DESC LIMIT ?2"
                ))?
                .query_map((session.as_str(), limit), turn)?
                .collect()
        })
        .await
    }
}

impl Turns<&Store> {
    /// Begins a turn and creates its session if it does not exist. If the session is closed, nothing is changed.
    pub(crate) async fn begin(self, begin: NewTurn) -> Result<Session, StoreError> {
        self.write("begin a turn", move |transaction| {
            let session = session::find_or_create(transaction, &begin.session, begin.now)?;
            // The caller sees in the returned state that a closed session took no turn.
            if session.state == SessionState::Open {
                insert(transaction, &begin)?;
            }
            Ok(session)
        })
        .await
    }

    /// Ends a turn. A turn that has ended already keeps its first outcome.
    pub async fn end(self, turn: TurnId, ended: TurnCompletion) -> Result<(), StoreError> {
        self.write("end a turn", move |transaction| end(transaction, turn, &ended)).await
    }

    /// Ends a turn, as [`Self::end`] does, without waiting for the commit.
    pub(crate) fn queue_end(self, turn: TurnId, ended: TurnCompletion) {
        self.write_behind("end a turn", move |transaction| end(transaction, turn, &ended));
    }
}

fn insert(transaction: &Transaction<'_>, begin: &NewTurn) -> sql::Result<()> {
    let key = begin.session.key.as_str();
    // Sessions with the same inputs share one stored prompt.
    transaction
        .prepare_cached(
            "INSERT INTO prompt (inputs, text, built_at) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
        )?
        .send((&begin.prompt.inputs, &*begin.prompt.text, begin.now))?;
    transaction
        .prepare_cached(
            "UPDATE session SET updated_at = ?2, turns = turns + 1, model = ?3, prompt = ?4 WHERE key = ?1",
        )?
        .send((key, begin.now, &begin.model, &begin.prompt.inputs))?;
    transaction
        .prepare_cached(
            "INSERT INTO turn (id, session, state, model, started_at) VALUES (?1, ?2, 'running', ?3, ?4)",
        )?
        .send((begin.turn.to_string(), key, &begin.model, begin.now))
}

fn end(transaction: &Transaction<'_>, turn: TurnId, ended: &TurnCompletion) -> sql::Result<()> {
    let id = turn.to_string();
    let count = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    // The settlement comes first. It is the only part that waits for an answer, and if this change is committed alone, that
    // wait is also the one for `BEGIN`.
    if let Some(settlement) = ended.settlement {
        usage::settle(transaction, settlement)?;
    }
    // The session comes before the turn. It changes only while the turn runs, so with the first end: nothing is counted twice.
    // And no statement waits for the answer to another.
    if let Some(pending) = &ended.pending {
        session::set_pending(transaction, &id, pending)?;
    }
    // The sums are in the session's row because a session may have many thousands of turns.
    transaction
        .prepare_cached(
            "UPDATE session SET updated_at = max(updated_at, ?2), input = input + ?3, output = output + ?4,
                                cache_read = cache_read + ?5, cache_write = cache_write + ?6
             WHERE key = (SELECT session FROM turn WHERE id = ?1 AND state = 'running')",
        )?
        .send((
            &id,
            ended.at,
            count(ended.tokens.input),
            count(ended.tokens.output),
            count(ended.tokens.cache_read),
            count(ended.tokens.cache_write),
        ))?;
    transaction
        .prepare_cached(
            "UPDATE turn SET state = ?2, ended_at = ?3, steps = ?4, input = ?5, output = ?6, cache_read = ?7,
                             cache_write = ?8, error = ?9
             WHERE id = ?1 AND state = 'running'",
        )?
        .send(params![
            id,
            ended.state,
            ended.at,
            ended.steps,
            count(ended.tokens.input),
            count(ended.tokens.output),
            count(ended.tokens.cache_read),
            count(ended.tokens.cache_write),
            ended.error,
        ])
}

#[cfg(test)]
#[path = "turn_tests.rs"]
mod tests;
