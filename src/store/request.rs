//! Requests of agents for things that need permission. One row holds a request from the question to its result.
//!
//! A row changes its state only as [`next`] allows. Each change is one transaction with its audit row.

use std::sync::atomic::Ordering;

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, OptionalExtension as _, Row, Transaction};
use sha2::{Digest as _, Sha256};

use super::audit::{self, AuditEntry, Level};
use super::exchange::{self, NewExchange};
use super::inbox::{self, NewInboxItem};
use super::post::{self, NewPost};
use super::session::parsed;
use super::{Reader, Store, StoreError, token};
use crate::id::{AgentId, ChannelId, SessionKey};

/// The state of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RequestState {
    /// No person has to decide so far.
    Triage,
    /// Waits for a person's decision.
    Waiting,
    /// A person approved it, and it has not begun.
    Approved,
    /// Carrying it out has begun.
    Running,
    /// It was carried out or answered.
    Done,
    /// It failed, or its outcome is unknown.
    Failed,
    /// A person denied it.
    Denied,
    /// No decision was made in time, or it was approved and did not begin in time.
    Expired,
}

impl RequestState {
    /// All states.
    pub const ALL: [Self; 8] = [
        Self::Triage,
        Self::Waiting,
        Self::Approved,
        Self::Running,
        Self::Done,
        Self::Failed,
        Self::Denied,
        Self::Expired,
    ];

    /// Returns the name that the database stores.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Triage => "triage",
            Self::Waiting => "waiting",
            Self::Approved => "approved",
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Denied => "denied",
            Self::Expired => "expired",
        }
    }

    /// Returns `true` if the request can still change its state.
    #[must_use]
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Triage | Self::Waiting | Self::Approved | Self::Running)
    }
}

impl FromSql for RequestState {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let text = value.as_str()?;
        Self::ALL.into_iter().find(|state| state.as_str() == text).ok_or(FromSqlError::InvalidType)
    }
}

impl ToSql for RequestState {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.as_str().into())
    }
}

/// An event that may change the state of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RequestStep {
    /// Its level was raised, so that a person has to decide.
    Hold,
    /// A person approves it.
    Approve,
    /// A person denies it, or withdraws an approval.
    Deny,
    /// Its deadline has passed.
    Expire,
    /// Carrying it out begins.
    Begin,
    /// It is answered with text; nothing is carried out.
    Answer,
    /// It has been carried out.
    Finish,
    /// Carrying it out failed.
    Fail,
}

impl RequestStep {
    /// All steps.
    pub const ALL: [Self; 8] = [
        Self::Hold,
        Self::Approve,
        Self::Deny,
        Self::Expire,
        Self::Begin,
        Self::Answer,
        Self::Finish,
        Self::Fail,
    ];
}

/// Returns the state after a step, or `None` if the step is not allowed.
///
/// A request whose level needs a person begins only from [`RequestState::Approved`]. No request begins twice.
#[must_use]
pub const fn next(state: RequestState, level: Level, step: RequestStep) -> Option<RequestState> {
    use RequestState::{Approved, Denied, Done, Expired, Failed, Running, Triage, Waiting};
    match (state, step) {
        (Triage, RequestStep::Hold) => Some(Waiting),
        // A level that needs a person never begins from here, whatever the row's state says.
        (Triage, RequestStep::Begin) if !matches!(level, Level::Red) => Some(Running),
        (Triage, RequestStep::Answer) | (Running, RequestStep::Finish) => Some(Done),
        (Waiting, RequestStep::Approve) => Some(Approved),
        // An approval can be withdrawn until the request begins.
        (Triage | Waiting | Approved, RequestStep::Deny) => Some(Denied),
        (Triage | Waiting | Approved, RequestStep::Expire) => Some(Expired),
        (Approved, RequestStep::Begin) => Some(Running),
        (Running, RequestStep::Fail) => Some(Failed),
        _ => None,
    }
}

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

    fn write(&self, transaction: &Transaction<'_>, now: i64) -> rusqlite::Result<()> {
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

fn row(row: &Row<'_>) -> rusqlite::Result<RequestRow> {
    let why: String = row.get(10)?;
    let scope: String = row.get(12)?;
    let channel: Option<String> = row.get(4)?;
    Ok(RequestRow {
        id: row.get(0)?,
        kind: row.get(1)?,
        agent: parsed(row, 2)?,
        session: parsed(row, 3)?,
        channel: channel.map(|id| id.parse()).transpose().map_err(|_| rusqlite::Error::InvalidQuery)?,
        body: row.get(5)?,
        sha256: row.get(6)?,
        reason: row.get(7)?,
        floor: level(row, 8)?,
        level: level(row, 9)?,
        why: serde_json::from_str(&why).map_err(|_| rusqlite::Error::InvalidQuery)?,
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

fn level(row: &Row<'_>, column: usize) -> rusqlite::Result<Level> {
    match row.get::<_, String>(column)?.as_str() {
        "GREEN" => Ok(Level::Green),
        "YELLOW" => Ok(Level::Yellow),
        "RED" => Ok(Level::Red),
        _ => Err(rusqlite::Error::InvalidQuery),
    }
}

fn find(connection: &Connection, id: &str) -> rusqlite::Result<Option<RequestRow>> {
    connection
        .prepare_cached(&format!("SELECT {COLUMNS} FROM request WHERE id = ?1"))?
        .query_row([id], row)
        .optional()
}

fn list(connection: &Connection, open: bool, limit: u32) -> rusqlite::Result<Vec<RequestRow>> {
    let condition = if open { "state IN ('triage', 'waiting', 'approved', 'running')" } else { "1" };
    let mut found: Vec<RequestRow> = connection
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM request WHERE {condition} ORDER BY created_at DESC, id DESC LIMIT ?1"
        ))?
        .query_map([limit], row)?
        .collect::<rusqlite::Result<_>>()?;
    // The query selects the newest rows; the caller gets them oldest first.
    found.reverse();
    Ok(found)
}

/// Takes a step if the current state allows it. A request whose time is over is expired instead of approved or begun.
fn take(
    transaction: &Transaction<'_>,
    id: &str,
    step: RequestStep,
    now: i64,
) -> rusqlite::Result<RequestTransition> {
    let Some(found) = find(transaction, id)? else { return Ok(RequestTransition::Unknown) };
    let Some(state) = next(found.state, found.level, step) else { return Ok(RequestTransition::Not(found)) };
    // Other steps need no check: a denial or a result is true however late it comes.
    let is_over = found.expires_at <= now && matches!(step, RequestStep::Approve | RequestStep::Begin);
    let state = if is_over { RequestState::Expired } else { state };
    let ends = !state.is_open();
    transaction
        .prepare_cached(
            "UPDATE request SET state = ?2, ended_at = CASE WHEN ?3 THEN ?4 ELSE ended_at END WHERE id = ?1",
        )?
        .execute((id, state, ends, now))?;
    let Some(found) = find(transaction, id)? else { return Ok(RequestTransition::Unknown) };
    if !is_over {
        return Ok(RequestTransition::Done(found));
    }
    let entry = AuditEntry {
        actor: "system".to_owned(),
        action: "request.expire",
        subject: id.to_owned(),
        level: found.level,
        detail: String::new(),
        session: None,
        turn: None,
    };
    audit::append(transaction, &entry, now)?;
    Ok(RequestTransition::Expired(found))
}

impl Store {
    /// Adds a request. Returns `false` if the id is in use, and the caller takes another one.
    pub async fn add_request(&self, new: NewRequest, along: Along) -> Result<bool, StoreError> {
        self.write("keep a request", move |transaction| {
            let why = serde_json::to_string(&new.why).unwrap_or_else(|_| "[]".to_owned());
            // A new request starts at its lowest level: `?9` is bound to both columns.
            let level = new.floor.as_str();
            let inserted = transaction
                .prepare_cached(
                    "INSERT OR IGNORE INTO request (id, kind, agent, session, channel, body, sha256, reason,
                        floor, level, why, state, scope, created_at, expires_at, asks_sysadmin)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
                )?
                .execute(rusqlite::params![
                    new.id,
                    new.kind,
                    new.agent.as_str(),
                    new.session.as_str(),
                    new.channel.as_ref().map(ChannelId::as_str),
                    new.body,
                    digest(&new.body),
                    new.reason,
                    level,
                    why,
                    new.state,
                    new.scope.as_str(),
                    new.now,
                    new.expires_at,
                    new.asks_sysadmin,
                ])?;
            // A refused id must leave nothing in the audit or in an inbox.
            if inserted == 1 {
                along.write(transaction, new.now)?;
                if let Some(exchange) = &new.exchange {
                    exchange::add(transaction, exchange)?;
                }
            }
            Ok(inserted == 1)
        })
        .await
    }

    /// Takes a step that has no condition besides the state: hold, deny, expire, answer, finish or fail. `result` is a
    /// text about the outcome.
    pub async fn step_request(
        &self,
        id: String,
        step: RequestStep,
        result: Option<String>,
        along: Along,
        now: i64,
    ) -> Result<RequestTransition, StoreError> {
        let moved = self.write("change a request", move |transaction| {
            // These two steps have more conditions, and functions of their own.
            if matches!(step, RequestStep::Approve | RequestStep::Begin) {
                return Ok(find(transaction, &id)?.map_or(RequestTransition::Unknown, RequestTransition::Not));
            }
            let moved = take(transaction, &id, step, now)?;
            let RequestTransition::Done(mut found) = moved else { return Ok(moved) };
            // Of the steps that are allowed here, only a denial is a decision.
            let decides = step == RequestStep::Deny;
            let decided_by = decides.then_some(along.entry.actor.as_str());
            transaction
                .prepare_cached(
                    "UPDATE request SET result = coalesce(?2, result), decided_by = coalesce(?3, decided_by),
                        decided_at = coalesce(?4, decided_at) WHERE id = ?1",
                )?
                .execute((&id, &result, decided_by, decides.then_some(now)))?;
            along.write(transaction, now)?;
            if let Some(written) = find(transaction, &id)? {
                found = written;
            }
            Ok(RequestTransition::Done(found))
        });
        let moved = moved.await;
        // Counted even after an error: an outdated count would keep a stale cache, while one count too many costs only
        // a new read.
        self.grants.fetch_add(1, Ordering::SeqCst);
        moved
    }

    /// Approves exactly the body with this digest, in the name of the person in the audit row. The request must begin
    /// before `expires_at`.
    pub async fn approve_request(
        &self,
        id: String,
        sha256: String,
        expires_at: i64,
        along: Along,
        now: i64,
    ) -> Result<RequestTransition, StoreError> {
        self.write("approve a request", move |transaction| {
            let Some(found) = find(transaction, &id)? else { return Ok(RequestTransition::Unknown) };
            // The digest is compared with the stored one and with the body itself, so an edited row can't be approved.
            if found.sha256 != sha256 || digest(&found.body) != sha256 {
                return Ok(RequestTransition::Changed(found));
            }
            let moved = take(transaction, &id, RequestStep::Approve, now)?;
            let RequestTransition::Done(mut found) = moved else { return Ok(moved) };
            // Until now the deadline was that of the decision. From here on it is that of the start.
            transaction
                .prepare_cached(
                    "UPDATE request SET decided_by = ?2, decided_at = ?3, approved = ?4, expires_at = ?5
                     WHERE id = ?1",
                )?
                .execute((&id, &along.entry.actor, now, &sha256, expires_at))?;
            along.write(transaction, now)?;
            if let Some(written) = find(transaction, &id)? {
                found = written;
            }
            Ok(RequestTransition::Done(found))
        })
        .await
    }

    /// Marks a request as begun if it may begin.
    ///
    /// It must be in time, must never have begun before, and must not wait for the sysadmin. Its body must still be the
    /// one that was asked for and, if a person decides, the one that was approved. A request with another body fails
    /// permanently, and [`RequestTransition::Changed`] is returned.
    pub async fn begin_request(
        &self,
        id: String,
        entry: AuditEntry,
        now: i64,
    ) -> Result<RequestTransition, StoreError> {
        self.write("begin a request", move |transaction| {
            let Some(found) = find(transaction, &id)? else { return Ok(RequestTransition::Unknown) };
            let may_begin = next(found.state, found.level, RequestStep::Begin).is_some();
            // `used_at` is a second guard against beginning twice, independent of the state.
            if !may_begin || found.used_at.is_some() || found.asks_sysadmin {
                return Ok(RequestTransition::Not(found));
            }
            // A body must match its approval if the request was approved or needs an approval.
            let held = found.level == Level::Red || found.state == RequestState::Approved;
            let actual = digest(&found.body);
            let intact = actual == found.sha256 && (!held || found.approved.as_ref() == Some(&actual));
            let moved = take(transaction, &id, RequestStep::Begin, now)?;
            let RequestTransition::Done(found) = moved else { return Ok(moved) };
            transaction
                .prepare_cached("UPDATE request SET used_at = ?2 WHERE id = ?1")?
                .execute((&id, now))?;
            if intact {
                audit::append(transaction, &entry, now)?;
                return Ok(RequestTransition::Done(RequestRow { used_at: Some(now), ..found }));
                // The row goes through Running to Failed, so that it can't begin again.
            }
            take(transaction, &id, RequestStep::Fail, now)?;
            let result = "not run: it is not what was asked for and approved";
            transaction
                .prepare_cached("UPDATE request SET result = ?2 WHERE id = ?1")?
                .execute((&id, result))?;
            let entry = AuditEntry { level: Level::Red, detail: result.to_owned(), ..entry };
            audit::append(transaction, &entry, now)?;
            Ok(RequestTransition::Changed(find(transaction, &id)?.unwrap_or(found)))
        })
        .await
    }

    /// Raises the level of a request and adds the reason. A level that needs a person moves the request to
    /// [`RequestState::Waiting`].
    ///
    /// Returns [`RequestTransition::Not`] if the new level is not higher, or if the request is past its decision.
    pub async fn raise_request(
        &self,
        id: String,
        level: Level,
        why: String,
        along: Along,
        now: i64,
    ) -> Result<RequestTransition, StoreError> {
        self.write("raise a request's level", move |transaction| {
            let Some(found) = find(transaction, &id)? else { return Ok(RequestTransition::Unknown) };
            let early = matches!(found.state, RequestState::Triage | RequestState::Waiting);
            if !early || level <= found.level {
                return Ok(RequestTransition::Not(found));
            }
            let mut reasons = found.why.clone();
            reasons.push(why.clone());
            // A raise also answers the question to the sysadmin, so the flag is cleared with it.
            let reasons = serde_json::to_string(&reasons).unwrap_or_else(|_| "[]".to_owned());
            transaction
                .prepare_cached("UPDATE request SET level = ?2, why = ?3, asks_sysadmin = 0 WHERE id = ?1")?
                .execute((&id, level.as_str(), reasons))?;
            if level == Level::Red && found.state == RequestState::Triage {
                take(transaction, &id, RequestStep::Hold, now)?;
            }
            along.write(transaction, now)?;
            Ok(find(transaction, &id)?.map_or(RequestTransition::Unknown, RequestTransition::Done))
        })
        .await
    }

    /// Records that the sysadmin lets a waiting request begin. Returns [`RequestTransition::Not`] if it does not wait for the
    /// sysadmin.
    pub async fn release_request(
        &self,
        id: String,
        why: String,
        along: Along,
        now: i64,
    ) -> Result<RequestTransition, StoreError> {
        self.write("let a request begin", move |transaction| {
            let Some(found) = find(transaction, &id)? else { return Ok(RequestTransition::Unknown) };
            if !found.asks_sysadmin || found.state != RequestState::Triage {
                return Ok(RequestTransition::Not(found));
            }
            let mut reasons = found.why;
            reasons.push(why.clone());
            let reasons = serde_json::to_string(&reasons).unwrap_or_else(|_| "[]".to_owned());
            transaction
                .prepare_cached("UPDATE request SET why = ?2, asks_sysadmin = 0 WHERE id = ?1")?
                .execute((&id, reasons))?;
            along.write(transaction, now)?;
            Ok(find(transaction, &id)?.map_or(RequestTransition::Unknown, RequestTransition::Done))
        })
        .await
    }

    /// Restores the grant of a request that somebody revoked. Returns [`RequestTransition::Not`] if it was not revoked by anybody.
    pub async fn restore_grant(
        &self,
        id: String,
        sha256: String,
        along: Along,
        now: i64,
    ) -> Result<RequestTransition, StoreError> {
        let moved = self.write("give back what was taken back", move |transaction| {
            let Some(found) = find(transaction, &id)? else { return Ok(RequestTransition::Unknown) };
            if found.sha256 != sha256 || digest(&found.body) != sha256 {
                return Ok(RequestTransition::Changed(found));
            }
            // Without a `revoked_by` the grant ended with its agent, and there is nobody to get it back.
            if found.revoked_by.is_none() || found.state != RequestState::Done {
                return Ok(RequestTransition::Not(found));
            }
            // Restoring a grant is a new approval of the same body.
            transaction
                .prepare_cached(
                    "UPDATE request SET revoked_at = NULL, revoked_by = NULL, decided_by = ?2, decided_at = ?3,
                        approved = ?4 WHERE id = ?1",
                )?
                .execute((&id, &along.entry.actor, now, &sha256))?;
            along.write(transaction, now)?;
            Ok(find(transaction, &id)?.map_or(RequestTransition::Unknown, RequestTransition::Done))
        });
        let moved = moved.await;
        self.grants.fetch_add(1, Ordering::SeqCst);
        moved
    }

    /// Returns an agent's requests of this kind whose grants somebody revoked, last revoked first.
    pub fn revoked_requests(&self, agent: &AgentId, kind: &str) -> Result<Vec<RequestRow>, StoreError> {
        self.read("look for what was taken back", |connection| {
            connection
                .prepare_cached(&format!(
                    "SELECT {COLUMNS} FROM request WHERE agent = ?1 AND kind = ?2 AND state = 'done'
                     AND revoked_by IS NOT NULL ORDER BY revoked_at DESC"
                ))?
                .query_map((agent.as_str(), kind), row)?
                .collect()
        })
    }

    /// Returns an agent's requests of this kind that were carried out and not revoked, newest first.
    pub fn granted_requests(&self, agent: &AgentId, kind: &str) -> Result<Vec<RequestRow>, StoreError> {
        self.read("look for what was granted", |connection| {
            connection
                .prepare_cached(&format!(
                    "SELECT {COLUMNS} FROM request WHERE agent = ?1 AND kind = ?2 AND state = 'done'
                     AND revoked_at IS NULL ORDER BY created_at DESC"
                ))?
                .query_map((agent.as_str(), kind), row)?
                .collect()
        })
    }

    /// Returns the hosts that an older version of flock granted without a person and that have not been listed to
    /// anybody yet.
    pub fn unlisted_grants(&self) -> Result<Vec<RequestRow>, StoreError> {
        self.read("look for older grants", |connection| {
            connection
                .prepare_cached(&format!(
                    "SELECT {COLUMNS} FROM request WHERE to_list = 1 AND state = 'done' AND revoked_at IS NULL
                     ORDER BY agent, created_at"
                ))?
                .query_map((), row)?
                .collect()
        })
    }

    /// Records that older grants were listed, with a row in the audit.
    pub async fn mark_listed(&self, ids: Vec<String>, entry: AuditEntry, now: i64) -> Result<(), StoreError> {
        self.write("note that grants were listed", move |transaction| {
            for id in &ids {
                transaction.prepare_cached("UPDATE request SET to_list = 0 WHERE id = ?1")?.execute([id])?;
            }
            audit::append(transaction, &entry, now)
        })
        .await
    }

    /// Returns the bodies of an agent's current grants of this kind.
    pub fn grants(&self, agent: &AgentId, kind: &str) -> Result<Vec<String>, StoreError> {
        self.read("read what was granted", |connection| {
            let found: Vec<(String, String)> = connection
                .prepare_cached(
                    "SELECT body, sha256 FROM request WHERE agent = ?1 AND kind = ?2 AND state = 'done'
                     AND scope = 'agent' AND revoked_at IS NULL ORDER BY created_at",
                )?
                .query_map((agent.as_str(), kind), |row| Ok((row.get(0)?, row.get(1)?)))?
                .collect::<rusqlite::Result<_>>()?;
            // A body that no longer matches its digest was edited in the database, so it grants nothing.
            Ok(found
                .into_iter()
                .filter(|(body, sha256)| digest(body) == *sha256)
                .map(|(body, _)| body)
                .collect())
        })
    }

    /// Returns an agent's requests of this kind that a person denied at or after `since`, last denied first.
    pub fn denied_requests(
        &self,
        agent: &AgentId,
        kind: &str,
        since: i64,
    ) -> Result<Vec<RequestRow>, StoreError> {
        self.read("look for a denial", |connection| {
            connection
                .prepare_cached(&format!(
                    "SELECT {COLUMNS} FROM request WHERE agent = ?1 AND kind = ?2 AND state = 'denied'
                     AND decided_at >= ?3 ORDER BY decided_at DESC"
                ))?
                .query_map((agent.as_str(), kind, since), row)?
                .collect()
        })
    }

    /// Returns an agent's requests of this kind since `since`, without those that were denied or expired.
    pub fn requests_since(
        &self,
        agent: &AgentId,
        kind: &str,
        since: i64,
    ) -> Result<Vec<RequestRow>, StoreError> {
        self.read("count an agent's requests", |connection| {
            connection
                .prepare_cached(&format!(
                    "SELECT {COLUMNS} FROM request WHERE created_at >= ?3 AND agent = ?1 AND kind = ?2
                     AND state NOT IN ('denied', 'expired')"
                ))?
                .query_map((agent.as_str(), kind, since), row)?
                .collect()
        })
    }

    /// Returns finished requests that no person decided and that the sysadmin has not reviewed, oldest first, at most
    /// `limit`. The second value is the time of the last review.
    pub fn unreviewed_requests(&self, limit: u32) -> Result<(Vec<RequestRow>, Option<i64>), StoreError> {
        self.read("look what is to be reviewed", |connection| {
            let rows = connection
                .prepare_cached(&format!(
                    "SELECT {COLUMNS} FROM request WHERE level = 'YELLOW' AND reviewed_at IS NULL
                     AND ended_at IS NOT NULL AND state IN ('done', 'failed') ORDER BY ended_at, id LIMIT ?1"
                ))?
                .query_map([limit], row)?
                .collect::<rusqlite::Result<_>>()?;
            let last = connection
                .prepare_cached("SELECT max(reviewed_at) FROM request")?
                .query_row((), |row| row.get(0))?;
            Ok((rows, last))
        })
    }

    /// Marks requests as reviewed and adds `item`, which asks the sysadmin for the review, in one transaction.
    pub async fn mark_reviewed(&self, ids: Vec<String>, item: NewInboxItem) -> Result<(), StoreError> {
        self.write("give requests for review", move |transaction| {
            for id in &ids {
                transaction
                    .prepare_cached("UPDATE request SET reviewed_at = ?2 WHERE id = ?1")?
                    .execute((id, item.now))?;
            }
            inbox::add(transaction, &item).map(drop)
        })
        .await
    }

    /// Returns the agents that have a grant, wait for one, or are named in a client's token, sorted and without
    /// duplicates.
    pub fn granted_agents(&self) -> Result<Vec<AgentId>, StoreError> {
        self.read("read who was granted something", |connection| {
            let granted: Vec<AgentId> = connection
                .prepare_cached(
                    "SELECT DISTINCT agent FROM request WHERE revoked_at IS NULL
                     AND (state = 'done' AND scope = 'agent' OR state IN ('triage', 'waiting', 'approved'))",
                )?
                .query_map((), |row| parsed(row, 0))?
                .collect::<rusqlite::Result<_>>()?;
            // A token can name an agent that has never made a request.
            let mut all = [granted, token::named_agents(connection)?].concat();
            all.sort_unstable();
            all.dedup();
            Ok(all)
        })
    }

    /// Revokes all grants of an agent, or with `only` those of one request. Returns the number of revoked grants.
    ///
    /// Without `only` the agent itself is going away: its open requests are denied, and it is removed from the tokens
    /// of clients. With `only`, the party that revoked is recorded, and an installed package and a created agent count
    /// as grants too.
    pub async fn revoke_grants(
        &self,
        agent: AgentId,
        only: Option<String>,
        entry: AuditEntry,
        now: i64,
    ) -> Result<usize, StoreError> {
        let revoked = self.write("take back what was granted", move |transaction| {
            let revoked = transaction
                .prepare_cached(
                    "UPDATE request SET revoked_at = ?3, revoked_by = CASE WHEN ?2 IS NULL THEN NULL ELSE ?4 END
                     WHERE agent = ?1 AND (?2 IS NULL OR id = ?2) AND state = 'done' AND revoked_at IS NULL
                     AND (scope = 'agent' OR ?2 IS NOT NULL AND kind IN ('package', 'agent-create'))",
                )?
                .execute((agent.as_str(), &only, now, &entry.actor))?;
            if only.is_none() {
                // A later agent with this id is another agent, to which nobody denied anything.
                transaction
                    .prepare_cached("UPDATE request SET revoked_by = NULL WHERE agent = ?1")?
                    .execute([agent.as_str()])?;
            }
            // An open request of an agent that is going away must not become a grant for its successor.
            let open: Vec<String> = transaction
                .prepare_cached(
                    "SELECT id FROM request WHERE agent = ?1 AND ?2 IS NULL
                     AND state IN ('triage', 'waiting', 'approved')",
                )?
                .query_map((agent.as_str(), &only), |row| row.get(0))?
                .collect::<rusqlite::Result<_>>()?;
            let mut denied = 0;
            for id in open {
                if let RequestTransition::Done(_) = take(transaction, &id, RequestStep::Deny, now)? {
                    transaction
                        .prepare_cached(
                            "UPDATE request SET decided_by = ?2, decided_at = ?3, result = ?4 WHERE id = ?1",
                        )?
                        .execute((&id, &entry.actor, now, "the agent was removed"))?;
                    denied += 1;
                }
            }
            let narrowed = if only.is_none() { token::remove_agent(transaction, &agent)? } else { 0 };
            // A call that changed nothing leaves no audit row.
            if revoked + denied + narrowed > 0 {
                audit::append(transaction, &entry, now)?;
            }
            Ok(revoked)
        });
        let revoked = revoked.await;
        self.grants.fetch_add(1, Ordering::SeqCst);
        revoked
    }

    /// Marks a grant as one that an older version of flock made.
    #[cfg(test)]
    pub(crate) async fn mark_unlisted(&self, id: &str) {
        let id = id.to_owned();
        let mark = |transaction: &Transaction<'_>, id: &str| {
            transaction.execute("UPDATE request SET to_list = 1 WHERE id = ?1", [id]).map(drop)
        };
        self.write("mark a grant", move |transaction| mark(transaction, &id)).await.unwrap();
    }

    /// Returns a number that changes with each change of a grant made through this store.
    #[must_use]
    pub fn grants_version(&self) -> u64 {
        self.grants.load(Ordering::SeqCst)
    }
}

impl Reader {
    /// Finds a request by its id.
    pub fn request(&self, id: &str) -> Result<Option<RequestRow>, StoreError> {
        self.read("read a request", |connection| find(connection, id))
    }

    /// Returns the newest requests, at most `limit`, in the order of their creation; with `open`, only those not
    /// finished.
    pub fn requests(&self, open: bool, limit: u32) -> Result<Vec<RequestRow>, StoreError> {
        self.read("list requests", |connection| list(connection, open, limit))
    }

    /// Returns the requests of this kind that grant something and that no person decided.
    pub fn automatic_grants(&self, kind: &str) -> Result<Vec<RequestRow>, StoreError> {
        self.read("read what was granted", |connection| {
            connection
                .prepare_cached(&format!(
                    "SELECT {COLUMNS} FROM request WHERE kind = ?1 AND state = 'done' AND scope = 'agent'
                     AND revoked_at IS NULL AND decided_by IS NULL ORDER BY agent, created_at"
                ))?
                .query_map([kind], row)?
                .collect()
        })
    }

    /// Returns the current grants of this kind, each with its agent, the request's id and its body.
    pub fn granted(&self, kind: &str) -> Result<Vec<(AgentId, String, String)>, StoreError> {
        self.read("read what was granted", |connection| {
            let mut statement = connection.prepare_cached(
                "SELECT agent, id, body, sha256 FROM request WHERE kind = ?1 AND state = 'done'
                 AND scope = 'agent' AND revoked_at IS NULL ORDER BY agent, created_at",
            )?;
            let mut rows = statement.query([kind])?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                let (body, sha256): (String, String) = (row.get(2)?, row.get(3)?);
                // As in [`Store::grants`], an edited body grants nothing.
                if digest(&body) == sha256 {
                    found.push((parsed(row, 0)?, row.get(1)?, body));
                }
            }
            Ok(found)
        })
    }
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
