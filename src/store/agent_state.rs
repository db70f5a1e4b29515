//! The scheduling state of agents: asleep or awake, and the time of the last turn.

use super::audit::{self, AuditEntry};
use super::session::parsed;
use super::sql::{self, Connection, OptionalExtension as _, Row};
use super::subjects::Agents;
use super::subjects::AuditLog;
use super::{Database, Store, StoreError};
use crate::id::AgentId;

/// The scheduling state of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentState {
    pub agent: AgentId,
    /// Unix milliseconds at which it was put to sleep; `None` while it is awake.
    pub asleep_at: Option<i64>,
    /// The reason that the agent gave.
    pub sleep_reason: Option<String>,
    /// Unix milliseconds of its last turn for ordinary messages.
    pub last_turn_at: Option<i64>,
}

const COLUMNS: &str = "agent, asleep_at, sleep_reason, last_turn_at";

fn state(row: &Row<'_>) -> sql::Result<AgentState> {
    Ok(AgentState {
        agent: parsed(row, 0)?,
        asleep_at: row.get(1)?,
        sleep_reason: row.get(2)?,
        last_turn_at: row.get(3)?,
    })
}

fn states(connection: &Connection<'_>) -> sql::Result<Vec<AgentState>> {
    connection
        .prepare_cached(&format!("SELECT {COLUMNS} FROM agent_state ORDER BY agent"))?
        .query_map((), state)?
        .collect()
}

impl<A> Agents<&Database<A>> {
    /// Returns the states of all agents that have one.
    pub async fn states(self) -> Result<Vec<AgentState>, StoreError> {
        self.read("list the agents' states", states).await
    }

    /// Returns the state of one agent, if it has one.
    pub async fn state(self, agent: &AgentId) -> Result<Option<AgentState>, StoreError> {
        self.read("read an agent's state", |connection| {
            connection
                .prepare_cached(&format!("SELECT {COLUMNS} FROM agent_state WHERE agent = ?1"))?
                .query_row([agent.as_str()], state)
                .optional()
        })
        .await
    }
}

impl Agents<&Store> {
    /// Puts an agent to sleep with a reason, or wakes it if `asleep` is `None`. Returns `true` if that changed its
    /// state.
    pub(crate) async fn set_asleep(
        self,
        agent: AgentId,
        asleep: Option<String>,
        entry: AuditEntry,
        now: i64,
    ) -> Result<bool, StoreError> {
        self.write("put an agent to sleep or wake it", move |transaction| {
            // The agent may have no row yet, and the update below would then change nothing.
            transaction
                .prepare_cached("INSERT INTO agent_state (agent) VALUES (?1) ON CONFLICT DO NOTHING")?
                .execute([agent.as_str()])?;
            // Only a change between asleep and awake counts. An agent that sleeps keeps its first reason.
            let changed = transaction
                .prepare_cached(
                    "UPDATE agent_state SET asleep_at = ?2, sleep_reason = ?3
                     WHERE agent = ?1 AND (asleep_at IS NULL) <> (CAST(?2 AS BIGINT) IS NULL)",
                )?
                .execute((agent.as_str(), asleep.as_ref().map(|_| now), &asleep))?;
            audit::append_if_any(transaction, changed, &entry, now)
        })
        .await
    }

    /// Records, without waiting, that an agent has a turn for ordinary messages.
    pub fn record_turn(self, agent: AgentId, now: i64) {
        self.write_behind("note an agent's turn", move |transaction| {
            transaction
                .prepare_cached(
                    "INSERT INTO agent_state (agent, last_turn_at) VALUES (?1, ?2)
                     ON CONFLICT (agent) DO UPDATE SET last_turn_at = excluded.last_turn_at",
                )?
                .execute((agent.as_str(), now))
                .map(drop)
        });
    }
}

impl AuditLog<&Store> {
    /// Appends audit rows that belong to no other change.
    pub(crate) async fn append_all(self, entries: Vec<AuditEntry>, now: i64) -> Result<(), StoreError> {
        self.write("write the audit", move |transaction| {
            entries.iter().try_for_each(|entry| audit::append(transaction, entry, now))
        })
        .await
    }

    /// Appends an audit row that belongs to no other change.
    pub async fn append(self, entry: AuditEntry, now: i64) -> Result<(), StoreError> {
        self.write("write the audit", move |transaction| audit::append(transaction, &entry, now)).await
    }
}
