//! Sessions: their keys, transcripts, system prompts and usage totals.

use std::collections::HashMap;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::sql::{
    self, Connection, FromSql, FromSqlError, FromSqlResult, OptionalExtension as _, Row, ToSql, ToSqlResult,
    Transaction, ValueRef,
};
use super::subjects::Sessions;
use super::{Database, Store, StoreError, TokenCounts};
use crate::id::{AgentId, SessionKey, SessionKind};

/// The ability of a session to take turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionState {
    /// Accepts new turns.
    Open,
    /// Is kept for reading only.
    Closed,
}

impl SessionState {
    /// Returns the name that the database and the API use.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Closed => "closed",
        }
    }
}

impl FromSql for SessionState {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        match value.as_str()? {
            "open" => Ok(Self::Open),
            "closed" => Ok(Self::Closed),
            _ => Err(FromSqlError::InvalidType),
        }
    }
}

impl ToSql for SessionState {
    fn to_sql(&self) -> ToSqlResult<'_> {
        Ok(self.as_str().into())
    }
}

/// A call of a client's tool that waits for its result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingCall {
    /// The id of the call as the client knows it.
    pub id: String,
    /// The name of the tool.
    pub name: String,
}

/// A session as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    pub key: SessionKey,
    /// The file name of the transcript without its extension: a UUIDv7.
    pub file: String,
    pub state: SessionState,
    /// Unix milliseconds of its creation.
    pub created_at: i64,
    /// Unix milliseconds at which its conversation was begun, last restarted or last compacted.
    pub began_at: i64,
    /// Unix milliseconds at which a turn last began or ended.
    pub updated_at: i64,
    /// The number of turns that were begun.
    pub turns: u64,
    /// Set while one of them runs.
    pub running: bool,
    /// The model of the last turn, as `provider/model`.
    pub model: Option<String>,
    /// The tokens used by all ended turns.
    pub tokens: TokenCounts,
    /// The calls that the last turn handed to its client and that wait for their results.
    pub pending: Vec<PendingCall>,
}

/// The values of a session that is created if it does not exist.
#[derive(Clone, Debug)]
pub struct NewSession {
    pub key: SessionKey,
    /// The file name of the transcript without its extension.
    pub file: String,
}

/// A system prompt and the hash of everything that it was built from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredPrompt {
    /// The hash of the inputs.
    pub inputs: String,
    pub text: std::sync::Arc<str>,
}

// Whether a turn runs is computed from the turns, so it can't contradict them.
const COLUMNS: &str = "key, file, state, created_at, updated_at, turns,
    EXISTS (SELECT 1 FROM turn WHERE turn.session = session.key AND turn.state = 'running'),
    model, input, output, cache_read, cache_write, pending_calls";

/// The time at which a session's conversation was begun, last restarted or last compacted. Read after [`COLUMNS`].
const BEGAN_AT: &str = "coalesce(renewed_at, created_at)";

fn session(row: &Row<'_>) -> sql::Result<Session> {
    Ok(Session {
        key: parsed(row, 0)?,
        file: row.get(1)?,
        state: row.get(2)?,
        created_at: row.get(3)?,
        updated_at: row.get(4)?,
        turns: row.get::<i64>(5)?.unsigned_abs(),
        running: row.get(6)?,
        model: row.get(7)?,
        tokens: TokenCounts::at(row, 8)?,
        began_at: row.get(13)?,
        pending: pending_calls(row, 12)?,
    })
}

fn pending_calls(row: &Row<'_>, column: usize) -> sql::Result<Vec<PendingCall>> {
    let Some(text) = row.get_ref(column)?.as_str_or_null()? else { return Ok(Vec::new()) };
    serde_json::from_str(text).map_err(|error| sql::Error::column(column, error))
}

/// Sets the calls that wait for their results, of the session of a running turn.
pub(super) fn set_pending(
    transaction: &Transaction<'_>,
    turn: &str,
    calls: &[PendingCall],
) -> sql::Result<()> {
    let text = if calls.is_empty() { None } else { serde_json::to_string(calls).ok() };
    transaction
        .prepare_cached(
            "UPDATE session SET pending_calls = ?2
             WHERE key = (SELECT session FROM turn WHERE id = ?1 AND state = 'running')",
        )?
        .send((turn, text))
}

/// Parses the text of a column into a type with its own syntax.
pub(super) fn parsed<T>(row: &Row<'_>, column: usize) -> sql::Result<T>
where
    T: FromStr<Err: std::error::Error + Send + Sync + 'static>,
{
    let text = row.get_ref(column)?.as_str()?;
    text.parse().map_err(|error| sql::Error::column(column, error))
}

/// Finds a session by its exact key, or creates it.
pub(super) fn find_or_create(
    transaction: &Transaction<'_>,
    new: &NewSession,
    now: i64,
) -> sql::Result<Session> {
    // Callers pass the key in its established spelling, so an exact comparison is enough.
    if let Some(found) = find_where(transaction, &new.key, "key = ?1")? {
        return Ok(found);
    }
    transaction
        .prepare_cached(
            "INSERT INTO session (key, file, agent, kind, created_at, updated_at) VALUES (?1, ?2, ?3, ?4, ?5, ?5)",
        )?
        .send((new.key.as_str(), &new.file, new.key.agent().as_str(), new.key.kind().as_str(), now))?;
    Ok(Session {
        key: new.key.clone(),
        file: new.file.clone(),
        state: SessionState::Open,
        created_at: now,
        began_at: now,
        updated_at: now,
        turns: 0,
        running: false,
        model: None,
        tokens: TokenCounts::default(),
        pending: Vec::new(),
    })
}

/// Finds a session by its exact key, or else by a key that differs in case only. Of several such sessions, the one used
/// last wins.
fn find(connection: &Connection<'_>, key: &SessionKey) -> sql::Result<Option<Session>> {
    // The exact key comes first, because the keys of two sessions may differ in case only. One statement looks for both. With a
    // second one, each new session would need one more way to the server and back.
    find_where(
        connection,
        key,
        "key = ?1 COLLATE NOCASE
         ORDER BY CASE WHEN key = ?1 THEN 0 ELSE 1 END, updated_at DESC, key DESC LIMIT 1",
    )
}

fn find_where(connection: &Connection<'_>, key: &SessionKey, compared: &str) -> sql::Result<Option<Session>> {
    connection
        .prepare_cached(&format!("SELECT {COLUMNS}, {BEGAN_AT} FROM session WHERE {compared}"))?
        .query_row([key.as_str()], session)
        .optional()
}

/// Returns a key in its established spelling: with the channel's id as the channel was created, or as an existing
/// session spells it. Returns `None` if neither exists.
fn spelled(connection: &Connection<'_>, key: &SessionKey) -> sql::Result<Option<SessionKey>> {
    // A channel keeps the case that it was created with, and the key has to follow it.
    if key.kind() == SessionKind::Channel {
        let id: Option<String> = connection
            .prepare_cached("SELECT id FROM channel WHERE id = ?1")?
            .query_row([key.peer()], |row| row.get(0))
            .optional()?;
        if let Some(id) = id {
            return Ok(Some(SessionKey::new(key.agent(), SessionKind::Channel, &id)));
        }
    }
    Ok(find(connection, key)?.map(|found| found.key))
}

/// Spellings of the keys of sessions that may be about to be created.
///
/// A turn waits in the queue of its session's key before the session is in the database. If two clients begin the same
/// session at the same moment in different case, both must get the same key by then.
#[derive(Debug, Default)]
pub(super) struct PendingKeys(Mutex<HashMap<String, SessionKey>>);

/// The most spellings that are remembered. A session is in the database moments after its key was asked for, so few are
/// needed.
const MAX_PENDING_KEYS: usize = 1024;

impl PendingKeys {
    /// Returns the key as its first user spelled it.
    fn first(&self, key: &SessionKey) -> SessionKey {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Forgetting is harmless: sessions with older spellings are in the database by now.
        if known.len() >= MAX_PENDING_KEYS {
            known.clear();
        }
        known.entry(key.as_str().to_ascii_lowercase()).or_insert_with(|| key.clone()).clone()
    }
}

fn list(connection: &Connection<'_>, agent: Option<&AgentId>, limit: u32) -> sql::Result<Vec<Session>> {
    // Two statements, because each of them has its own index.
    match agent {
        Some(agent) => connection
            .prepare_cached(&format!(
                "SELECT {COLUMNS}, {BEGAN_AT} FROM session WHERE agent = ?1
                 ORDER BY updated_at DESC, key DESC LIMIT ?2"
            ))?
            .query_map((agent.as_str(), limit), session)?
            .collect(),
        None => connection
            .prepare_cached(&format!(
                "SELECT {COLUMNS}, {BEGAN_AT} FROM session ORDER BY updated_at DESC, key DESC LIMIT ?1"
            ))?
            .query_map([limit], session)?
            .collect(),
    }
}

impl<A> Sessions<&Database<A>> {
    /// Returns the number of sessions.
    pub(crate) async fn count(self) -> Result<i64, StoreError> {
        self.read("count sessions", |connection| {
            connection.query_row("SELECT count(*) FROM session", (), |row| row.get(0))
        })
        .await
    }

    /// Returns the session of each of these agents that was used last, if it has one.
    pub(crate) async fn last_of(
        self,
        agents: Vec<AgentId>,
    ) -> Result<HashMap<AgentId, SessionKey>, StoreError> {
        self.read("look for the last sessions", move |connection| {
            let mut select = connection.prepare_cached(
                "SELECT key FROM session WHERE agent = ?1 ORDER BY updated_at DESC, key DESC LIMIT 1",
            )?;
            let mut found = HashMap::new();
            for agent in agents {
                if let Some(key) = select.query_row([agent.as_str()], |row| parsed(row, 0)).optional()? {
                    found.insert(agent, key);
                }
            }
            Ok(found)
        })
        .await
    }

    /// Returns the agents that have sessions.
    pub(crate) async fn agents(self) -> Result<Vec<AgentId>, StoreError> {
        self.read("list agents with sessions", |connection| {
            let mut select = connection.prepare("SELECT DISTINCT agent FROM session")?;
            select.query_map((), |row| parsed(row, 0))?.collect()
        })
        .await
    }

    /// Returns sessions of single requests that were last used before `before` and have no running turn, at most
    /// `limit`.
    pub(crate) async fn old_requests(self, before: i64, limit: u32) -> Result<Vec<Session>, StoreError> {
        self.read("find old request sessions", |connection| {
            connection
                .prepare_cached(&format!(
                    "SELECT {COLUMNS}, {BEGAN_AT} FROM session WHERE kind = 'request' AND updated_at < ?1
                       AND NOT EXISTS
                         (SELECT 1 FROM turn WHERE turn.session = session.key AND turn.state = 'running')
                     ORDER BY updated_at, key LIMIT ?2"
                ))?
                .query_map((before, limit), session)?
                .collect()
        })
        .await
    }

    /// Returns a key in its established spelling. Case makes no difference: a key that a client writes in another case
    /// names the same session.
    pub async fn canonical_key(self, key: &SessionKey) -> Result<SessionKey, StoreError> {
        let known = self.read("find a session", |connection| spelled(connection, key)).await?;
        // The session does not exist yet, so the first spelling that was asked for becomes the established one.
        Ok(known.unwrap_or_else(|| self.0.spellings.first(key)))
    }

    /// Finds a session by its key, ignoring case if there is no exact match.
    pub async fn find(self, key: &SessionKey) -> Result<Option<Session>, StoreError> {
        self.read("find a session", |connection| find(connection, key)).await
    }

    /// Returns the Unix milliseconds at which a session's conversation was begun, last restarted or last compacted. `None` if
    /// there is no session with exactly this key.
    pub(crate) async fn began_at(self, key: &SessionKey) -> Result<Option<i64>, StoreError> {
        self.read("find a session", |connection| {
            connection
                .prepare_cached(&format!("SELECT {BEGAN_AT} FROM session WHERE key = ?1"))?
                .query_row([key.as_str()], |row| row.get(0))
                .optional()
        })
        .await
    }

    /// Returns the prompt that a session was last given, if it is stored.
    pub(crate) async fn prompt(self, key: &SessionKey) -> Result<Option<StoredPrompt>, StoreError> {
        self.read("read a prompt", |connection| {
            connection
                .prepare_cached(
                    "SELECT prompt.inputs, prompt.text FROM session JOIN prompt ON prompt.inputs = session.prompt
                     WHERE session.key = ?1",
                )?
                .query_row([key.as_str()], |row| {
                    Ok(StoredPrompt { inputs: row.get(0)?, text: row.get::<String>(1)?.into() })
                })
                .optional()
        })
        .await
    }

    /// Returns the file names of an agent's transcripts without their extension, last used first, at most `limit`.
    pub(crate) async fn recent_files(self, agent: &AgentId, limit: u32) -> Result<Vec<String>, StoreError> {
        self.read("list transcripts", |connection| {
            connection
                .prepare_cached(
                    "SELECT file FROM session WHERE agent = ?1 ORDER BY updated_at DESC, key DESC LIMIT ?2",
                )?
                .query_map((agent.as_str(), limit), |row| row.get(0))?
                .collect()
        })
        .await
    }

    /// Returns sessions of one agent or of all, last used first, at most `limit`.
    pub async fn list(self, agent: Option<&AgentId>, limit: u32) -> Result<Vec<Session>, StoreError> {
        let agent = agent.cloned();
        self.read_long("list sessions", move |connection| list(connection, agent.as_ref(), limit)).await
    }
}

impl Sessions<&Store> {
    /// Deletes sessions with their turns, and the prompts that no other session uses.
    pub(crate) async fn delete(self, keys: Vec<SessionKey>) -> Result<(), StoreError> {
        self.write("forget sessions", move |transaction| {
            let mut delete = transaction.prepare_cached("DELETE FROM session WHERE key = ?1")?;
            for key in &keys {
                delete.execute([key.as_str()])?;
            }
            // A deleted session's prompt may be shared with sessions that stay.
            transaction.execute(
                "DELETE FROM prompt WHERE inputs NOT IN (SELECT prompt FROM session WHERE prompt IS NOT NULL)",
                (),
            )?;
            Ok(())
        })
        .await
    }

    /// Records that a session's conversation was restarted or compacted at `at`, and its new prompt if that is built
    /// already.
    pub(crate) async fn renew(
        self,
        key: SessionKey,
        prompt: Option<StoredPrompt>,
        at: i64,
    ) -> Result<(), StoreError> {
        self.write("renew a session", move |transaction| {
            if let Some(prompt) = &prompt {
                // Sessions with the same inputs share one stored prompt.
                transaction
                    .prepare_cached(
                        "INSERT INTO prompt (inputs, text, built_at) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
                    )?
                    .execute((&prompt.inputs, &*prompt.text, at))?;
            }
            transaction
                .prepare_cached(
                    "UPDATE session SET renewed_at = ?2, prompt = coalesce(?3, prompt) WHERE key = ?1",
                )?
                .execute((key.as_str(), at, prompt.map(|prompt| prompt.inputs)))?;
            Ok(())
        })
        .await
    }

    /// Forgets the calls of a session that wait for their results, because its conversation was restarted or set back.
    pub(crate) async fn forget_calls(self, key: SessionKey) -> Result<(), StoreError> {
        self.write("forget calls", move |transaction| {
            transaction
                .prepare_cached("UPDATE session SET pending_calls = NULL WHERE key = ?1")?
                .execute([key.as_str()])?;
            Ok(())
        })
        .await
    }

    /// Creates a session for an existing transcript. Returns `false` if the key is in use.
    pub async fn create(self, new: NewSession, now: i64) -> Result<bool, StoreError> {
        self.write("make a session", move |transaction| {
            // A key that differs in case only counts as in use.
            if find(transaction, &new.key)?.is_some() {
                return Ok(false);
            }
            find_or_create(transaction, &new, now)?;
            Ok(true)
        })
        .await
    }
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
