//! Requests of agents for things that need permission. One row holds a request from the question to its result.
//!
//! A row changes its state only as [`next`] allows. Each change is one transaction with its audit row.

mod change;
mod grant;
mod query;
mod state;

use sha2::{Digest as _, Sha256};

use super::audit::{self, AuditEntry, Level};
use super::exchange::NewExchange;
use super::inbox::{self, NewInboxItem};
use super::post::{self, NewPost};
use super::session::parsed;
use crate::id::{AgentId, ChannelId, SessionKey};
use crate::store::sql::{self, Connection, Params, Row, Transaction};

pub use state::{RequestState, RequestStep, next};

/// The duration of a permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// For one time only.
    Once,
    /// Until it is revoked or the agent is removed.
    Agent,
}

impl Scope {
    /// Returns the name that the database stores.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Once => "once",
            Self::Agent => "agent",
        }
    }
}

/// A request to be added.
#[derive(Clone, Debug)]
pub struct NewRequest {
    pub id: String,
    /// The kind of action that is asked for.
    pub kind: &'static str,
    pub agent: AgentId,
    /// The session that asks, which also receives the result.
    pub session: SessionKey,
    /// The channel of that session; `None` if it does not belong to a channel.
    pub channel: Option<ChannelId>,
    /// The exact action, as canonical JSON.
    pub body: String,
    /// The agent's own explanation.
    pub reason: String,
    /// The lowest level that it can have.
    pub floor: Level,
    /// The reasons for that level.
    pub why: Vec<String>,
    pub state: RequestState,
    pub scope: Scope,
    /// Set if it waits for the sysadmin agent.
    pub asks_sysadmin: bool,
    /// Unix milliseconds at which it expires.
    pub expires_at: i64,
    /// A row for the brakes on agents that talk to each other; set if another agent is to answer it.
    pub exchange: Option<NewExchange>,
    /// The current time in Unix milliseconds.
    pub now: i64,
}

/// A request as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestRow {
    pub id: String,
    /// The kind of action that is asked for.
    pub kind: String,
    pub agent: AgentId,
    pub session: SessionKey,
    /// The channel of that session; `None` if it does not belong to a channel.
    pub channel: Option<ChannelId>,
    /// The exact action, as canonical JSON.
    pub body: String,
    /// The digest of the body at the time of the request.
    pub sha256: String,
    /// The agent's own explanation.
    pub reason: String,
    /// The lowest level that it can have.
    pub floor: Level,
    /// The current level, at least `floor`.
    pub level: Level,
    /// The reasons for that level.
    pub why: Vec<String>,
    pub state: RequestState,
    pub scope: Scope,
    /// Unix milliseconds.
    pub created_at: i64,
    /// Unix milliseconds at which it expires while it is open.
    pub expires_at: i64,
    /// The party that approved or denied it.
    pub decided_by: Option<String>,
    /// Unix milliseconds of that decision.
    pub decided_at: Option<i64>,
    /// The digest of the body that was approved.
    pub approved: Option<String>,
    /// Unix milliseconds at which it began.
    pub used_at: Option<i64>,
    /// Unix milliseconds at which it ended.
    pub ended_at: Option<i64>,
    /// A text about the outcome.
    pub result: Option<String>,
    /// Unix milliseconds at which its grant was revoked.
    pub revoked_at: Option<i64>,
    /// The party that revoked it; `None` if it ended together with its agent.
    pub revoked_by: Option<String>,
    /// Set while it waits for the sysadmin agent.
    pub asks_sysadmin: bool,
}

/// Rows that are written in the same transaction as a change of a request.
#[derive(Clone, Debug)]
pub struct Along {
    pub entry: AuditEntry,
    /// Items for the inboxes of sessions.
    pub items: Vec<NewInboxItem>,
    /// A message to a channel.
    pub post: Option<NewPost>,
}

impl Along {
    /// Returns a set with an audit row only.
    #[must_use]
    pub const fn audit(entry: AuditEntry) -> Self {
        Self { entry, items: Vec::new(), post: None }
    }

    pub(in crate::store) fn write(&self, transaction: &Transaction<'_>, now: i64) -> sql::Result<()> {
        audit::append(transaction, &self.entry, now)?;
        for item in &self.items {
            inbox::add(transaction, item)?;
        }
        if let Some(new) = &self.post {
            // A channel that no longer exists must not undo the change.
            post::post(transaction, new)?;
        }
        Ok(())
    }
}

/// The result of a change of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestTransition {
    /// The change was made; contains the new row.
    Done(RequestRow),
    /// The change is not allowed in the row's current state; contains the unchanged row.
    Not(RequestRow),
    /// The request's time was over, so it was expired instead.
    Expired(RequestRow),
    /// The body differs from what was asked for or approved.
    Changed(RequestRow),
    /// There is no such request.
    Unknown,
}

/// Returns the SHA-256 of a body, in hex.
#[must_use]
pub fn digest(body: &str) -> String {
    crate::id::hex(&Sha256::digest(body))
}

const COLUMNS: &str = "id, kind, agent, session, channel, body, sha256, reason, floor, level, why, state, scope, \
     created_at, expires_at, decided_by, decided_at, approved, used_at, ended_at, result, revoked_at, revoked_by, \
     asks_sysadmin";

fn row(row: &Row<'_>) -> sql::Result<RequestRow> {
    let why: String = row.get(10)?;
    let scope: String = row.get(12)?;
    let channel: Option<String> = row.get(4)?;
    Ok(RequestRow {
        id: row.get(0)?,
        kind: row.get(1)?,
        agent: parsed(row, 2)?,
        session: parsed(row, 3)?,
        channel: channel.map(|id| id.parse()).transpose().map_err(|_| sql::Error::Malformed)?,
        body: row.get(5)?,
        sha256: row.get(6)?,
        reason: row.get(7)?,
        floor: level(row, 8)?,
        level: level(row, 9)?,
        why: serde_json::from_str(&why).map_err(|_| sql::Error::Malformed)?,
        state: row.get(11)?,
        // An unknown scope is read as the narrower one.
        scope: if scope == Scope::Agent.as_str() { Scope::Agent } else { Scope::Once },
        created_at: row.get(13)?,
        expires_at: row.get(14)?,
        decided_by: row.get(15)?,
        decided_at: row.get(16)?,
        approved: row.get(17)?,
        used_at: row.get(18)?,
        ended_at: row.get(19)?,
        result: row.get(20)?,
        revoked_at: row.get(21)?,
        revoked_by: row.get(22)?,
        asks_sysadmin: row.get(23)?,
    })
}

fn level(row: &Row<'_>, column: usize) -> sql::Result<Level> {
    match row.get::<String>(column)?.as_str() {
        "GREEN" => Ok(Level::Green),
        "YELLOW" => Ok(Level::Yellow),
        "RED" => Ok(Level::Red),
        _ => Err(sql::Error::Malformed),
    }
}

/// Returns the requests that a condition selects, in its order.
fn select(connection: &Connection<'_>, rows: &str, params: impl Params) -> sql::Result<Vec<RequestRow>> {
    connection
        .prepare_cached(&format!("SELECT {COLUMNS} FROM request WHERE {rows}"))?
        .query_map(params, row)?
        .collect()
}

fn find(connection: &Connection<'_>, id: &str) -> sql::Result<Option<RequestRow>> {
    Ok(select(connection, "id = ?1", [id])?.pop())
}

#[cfg(test)]
pub(super) mod tests;
