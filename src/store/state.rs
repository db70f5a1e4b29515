//! How each agent stands in the team's loop: asleep, when it last had a turn.

use rusqlite::{Connection, OptionalExtension as _, Row};

use super::audit::{self, AuditEntry};
use super::session::parsed;
use super::{Reader, Store, StoreError};
use crate::id::AgentId;

/// How an agent stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentState {
    /// Who.
    pub agent: AgentId,
    /// Since when it sleeps, in Unix milliseconds.
    pub asleep_at: Option<i64>,
    /// Why, as it said itself.
    pub sleep_reason: Option<String>,
    /// When it last had a turn for plain messages, in Unix milliseconds.
    pub last_turn_at: Option<i64>,
}

const COLUMNS: &str = "agent, asleep_at, sleep_reason, last_turn_at";

fn state(row: &Row<'_>) -> rusqlite::Result<AgentState> {
    Ok(AgentState {
        agent: parsed(row, 0)?,
        asleep_at: row.get(1)?,
        sleep_reason: row.get(2)?,
        last_turn_at: row.get(3)?,
    })
}

fn states(connection: &Connection) -> rusqlite::Result<Vec<AgentState>> {
    connection
        .prepare_cached(&format!("SELECT {COLUMNS} FROM agent_state ORDER BY agent"))?
        .query_map((), state)?
        .collect()
}

impl Reader {
    /// As [`Store::agent_states`].
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub fn agent_states(&self) -> Result<Vec<AgentState>, StoreError> {
        self.read("list the agents' states", states)
    }
}

impl Store {
    /// How all agents stand of whom anything is known.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub fn agent_states(&self) -> Result<Vec<AgentState>, StoreError> {
        self.read("list the agents' states", states)
    }

    /// How one agent stands; `None` where nothing is known of it.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub fn agent_state(&self, agent: &AgentId) -> Result<Option<AgentState>, StoreError> {
        self.read("read an agent's state", |connection| {
            connection
                .prepare_cached(&format!("SELECT {COLUMNS} FROM agent_state WHERE agent = ?1"))?
                .query_row([agent.as_str()], state)
                .optional()
        })
    }

    /// Puts an agent to sleep with its reason, or wakes it; says whether that changed anything.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub async fn set_asleep(
        &self,
        agent: AgentId,
        asleep: Option<String>,
        entry: AuditEntry,
        now: i64,
    ) -> Result<bool, StoreError> {
        self.write("put an agent to sleep or wake it", move |transaction| {
            transaction
                .prepare_cached("INSERT OR IGNORE INTO agent_state (agent) VALUES (?1)")?
                .execute([agent.as_str()])?;
            let changed = transaction
                .prepare_cached(
                    "UPDATE agent_state SET asleep_at = ?2, sleep_reason = ?3
                     WHERE agent = ?1 AND (asleep_at IS NULL) <> (?2 IS NULL)",
                )?
                .execute((agent.as_str(), asleep.as_ref().map(|_| now), &asleep))?;
            if changed == 1 {
                audit::append(transaction, &entry, now)?;
            }
            Ok(changed == 1)
        })
        .await
    }

    /// Takes note that an agent has a turn for plain messages.
    pub fn note_turn(&self, agent: AgentId, now: i64) {
        self.write_behind("note an agent's turn", move |transaction| {
            transaction
                .prepare_cached(
                    "INSERT INTO agent_state (agent, last_turn_at) VALUES (?1, ?2)
                     ON CONFLICT DO UPDATE SET last_turn_at = excluded.last_turn_at",
                )?
                .execute((agent.as_str(), now))
                .map(drop)
        });
    }

    /// Writes rows of the audit that belong to no other change.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub async fn audit_all(&self, entries: Vec<AuditEntry>, now: i64) -> Result<(), StoreError> {
        self.write("write the audit", move |transaction| {
            entries.iter().try_for_each(|entry| audit::append(transaction, entry, now))
        })
        .await
    }

    /// Writes a row of the audit that belongs to no other change.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub async fn audit(&self, entry: AuditEntry, now: i64) -> Result<(), StoreError> {
        self.write("write the audit", move |transaction| audit::append(transaction, &entry, now)).await
    }
}
