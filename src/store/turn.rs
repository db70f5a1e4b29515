//! Turns: that one began, how it ended and what it cost.

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use rusqlite::{OptionalExtension as _, Row, Transaction};

use super::session::{self, NewSession, Session, SessionState, StoredPrompt};
use super::{Store, StoreError};
use crate::id::{SessionKey, TurnId};

/// Where a turn is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnState {
    /// It runs, or ran when its process died.
    Running,
    /// It ended with an answer.
    Done,
    /// It ended with an error.
    Failed,
    /// It was stopped.
    Cancelled,
    /// Its process died.
    Interrupted,
}

impl TurnState {
    /// The word in the database, the transcript and the API.
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
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.as_str().into())
    }
}

/// Tokens as providers count them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Fresh input.
    pub input: u64,
    /// Output, thinking included.
    pub output: u64,
    /// Input read from a provider's cache.
    pub cache_read: u64,
    /// Input written to a provider's cache.
    pub cache_write: u64,
}

impl Tokens {
    pub(super) fn at(row: &Row<'_>, column: usize) -> rusqlite::Result<Self> {
        let count = |offset| row.get::<_, i64>(column + offset).map(i64::unsigned_abs);
        Ok(Self { input: count(0)?, output: count(1)?, cache_read: count(2)?, cache_write: count(3)? })
    }
}

/// A turn as the database knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Its id.
    pub id: TurnId,
    /// Its session.
    pub session: SessionKey,
    /// Where it is.
    pub state: TurnState,
    /// The model it was begun with, as `provider/model`.
    pub model: String,
    /// When it began, in Unix milliseconds.
    pub started_at: i64,
    /// When it ended, in Unix milliseconds.
    pub ended_at: Option<i64>,
    /// How many model calls it took.
    pub steps: u32,
    /// What they cost.
    pub tokens: Tokens,
    /// Why it failed.
    pub error: Option<String>,
}

/// A turn that begins.
#[derive(Clone, Debug)]
pub struct Begin {
    /// Its session; made if it does not exist.
    pub session: NewSession,
    /// Its id.
    pub turn: TurnId,
    /// Its model, as `provider/model`.
    pub model: String,
    /// The system prompt it gets.
    pub prompt: StoredPrompt,
    /// Now, in Unix milliseconds.
    pub now: i64,
}

/// How a turn ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Its state from now on.
    pub state: TurnState,
    /// How many model calls it took.
    pub steps: u32,
    /// What they cost.
    pub tokens: Tokens,
    /// Why it failed.
    pub error: Option<String>,
    /// When, in Unix milliseconds.
    pub at: i64,
}

const COLUMNS: &str =
    "id, session, state, model, started_at, ended_at, steps, error, input, output, cache_read, cache_write";

fn turn(row: &Row<'_>) -> rusqlite::Result<Turn> {
    Ok(Turn {
        id: session::parsed(row, 0)?,
        session: session::parsed(row, 1)?,
        state: row.get(2)?,
        model: row.get(3)?,
        started_at: row.get(4)?,
        ended_at: row.get(5)?,
        steps: row.get(6)?,
        error: row.get(7)?,
        tokens: Tokens::at(row, 8)?,
    })
}

impl Store {
    /// Begins a turn and makes its session if it does not exist. In a closed session nothing is changed.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub async fn begin_turn(&self, begin: Begin) -> Result<Session, StoreError> {
        self.write("begin a turn", move |transaction| {
            let session = session::find_or_make(transaction, &begin.session, begin.now)?;
            if session.state == SessionState::Open {
                insert(transaction, &begin)?;
            }
            Ok(session)
        })
        .await
    }

    /// Ends a turn; one that has ended already stays as it is.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub async fn end_turn(&self, turn: TurnId, ended: Ended) -> Result<(), StoreError> {
        self.write("end a turn", move |transaction| end(transaction, turn, &ended)).await
    }

    /// Like [`Self::end_turn`], where nobody can wait for it.
    pub fn end_turn_behind(&self, turn: TurnId, ended: Ended) {
        self.write_behind("end a turn", move |transaction| end(transaction, turn, &ended));
    }

    /// All turns that run, or ran when their process died.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub fn running_turns(&self) -> Result<Vec<Turn>, StoreError> {
        self.read("list running turns", |connection| {
            connection
                .prepare_cached(&format!("SELECT {COLUMNS} FROM turn WHERE state = 'running' ORDER BY id"))?
                .query_map((), turn)?
                .collect()
        })
    }

    /// The last turn of a session that ended well; `None` where there is none.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub fn last_done(&self, session: &SessionKey) -> Result<Option<Turn>, StoreError> {
        self.read("read a session's last turn", |connection| {
            connection
                .prepare_cached(&format!(
                    "SELECT {COLUMNS} FROM turn WHERE session = ?1 AND state = 'done' ORDER BY id DESC LIMIT 1"
                ))?
                .query_row([session.as_str()], turn)
                .optional()
        })
    }

    /// One turn; `None` where it never began.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub fn turn(&self, id: TurnId) -> Result<Option<Turn>, StoreError> {
        self.read("read a turn", |connection| {
            connection
                .prepare_cached(&format!("SELECT {COLUMNS} FROM turn WHERE id = ?1"))?
                .query_row([id.to_string()], turn)
                .optional()
        })
    }

    /// The last turns of a session, at most `limit`, newest first.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub fn turns(&self, session: &SessionKey, limit: u32) -> Result<Vec<Turn>, StoreError> {
        self.read("list turns", |connection| {
            connection
                .prepare_cached(&format!(
                    "SELECT {COLUMNS} FROM turn WHERE session = ?1 ORDER BY id DESC LIMIT ?2"
                ))?
                .query_map((session.as_str(), limit), turn)?
                .collect()
        })
    }
}

fn insert(transaction: &Transaction<'_>, begin: &Begin) -> rusqlite::Result<()> {
    let key = begin.session.key.as_str();
    transaction
        .prepare_cached("INSERT OR IGNORE INTO prompt (inputs, text, built_at) VALUES (?1, ?2, ?3)")?
        .execute((&begin.prompt.inputs, &*begin.prompt.text, begin.now))?;
    transaction
        .prepare_cached(
            "UPDATE session SET updated_at = ?2, turns = turns + 1, model = ?3, prompt = ?4 WHERE key = ?1",
        )?
        .execute((key, begin.now, &begin.model, &begin.prompt.inputs))?;
    transaction
        .prepare_cached(
            "INSERT INTO turn (id, session, state, model, started_at) VALUES (?1, ?2, 'running', ?3, ?4)",
        )?
        .execute((begin.turn.to_string(), key, &begin.model, begin.now))?;
    Ok(())
}

fn end(transaction: &Transaction<'_>, turn: TurnId, ended: &Ended) -> rusqlite::Result<()> {
    let id = turn.to_string();
    let count = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    let changed = transaction
        .prepare_cached(
            "UPDATE turn SET state = ?2, ended_at = ?3, steps = ?4, input = ?5, output = ?6, cache_read = ?7,
                             cache_write = ?8, error = ?9
             WHERE id = ?1 AND state = 'running'",
        )?
        .execute(rusqlite::params![
            id,
            ended.state,
            ended.at,
            ended.steps,
            count(ended.tokens.input),
            count(ended.tokens.output),
            count(ended.tokens.cache_read),
            count(ended.tokens.cache_write),
            ended.error,
        ])?;
    if changed > 0 {
        transaction
            .prepare_cached(
                "UPDATE session SET updated_at = max(updated_at, ?2), input = input + ?3, output = output + ?4,
                                    cache_read = cache_read + ?5, cache_write = cache_write + ?6
                 WHERE key = (SELECT session FROM turn WHERE id = ?1)",
            )?
            .execute((
                id,
                ended.at,
                count(ended.tokens.input),
                count(ended.tokens.output),
                count(ended.tokens.cache_read),
                count(ended.tokens.cache_write),
            ))?;
    }
    Ok(())
}
