//! What agents asked for that is not theirs to do: one row from the question to what came of it. A row moves
//! only as [`next`] says, each move with its row of the audit in one transaction.

use std::sync::atomic::Ordering;

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, OptionalExtension as _, Row, Transaction};
use sha2::{Digest as _, Sha256};

use super::audit::{self, AuditEntry, Level};
use super::exchange::{self, NewExchange};
use super::inbox::{self, NewItem};
use super::post::{self, NewPost};
use super::session::parsed;
use super::{Reader, Store, StoreError, token};
use crate::id::{AgentId, ChannelId, SessionKey};

/// Where a request stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RequestState {
    /// Nobody has to be asked so far.
    Triage,
    /// A person decides.
    Waiting,
    /// A person agreed, and it has not begun.
    Approved,
    /// It has begun.
    Running,
    /// It is done.
    Done,
    /// It failed, or nobody knows.
    Failed,
    /// A person refused.
    Denied,
    /// Nobody decided in time, or what was approved did not begin in time.
    Expired,
}

impl RequestState {
    /// All of them.
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

    /// The word in the database.
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

    /// Whether something can still become of it.
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

/// What may happen to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Its level was raised to the one that a person decides.
    Hold,
    /// A person agrees.
    Approve,
    /// A person refuses, or takes back what was agreed.
    Deny,
    /// Its time is over.
    Expire,
    /// It begins.
    Begin,
    /// It was answered in words; nothing is done.
    Answer,
    /// It is done.
    Finish,
    /// It failed.
    Fail,
}

impl Step {
    /// All of them.
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

/// The state after a step; `None` where the step can't be taken. What a person has to decide begins only
/// from [`RequestState::Approved`], and nothing begins twice.
#[must_use]
pub const fn next(state: RequestState, level: Level, step: Step) -> Option<RequestState> {
    use RequestState::{Approved, Denied, Done, Expired, Failed, Running, Triage, Waiting};
    match (state, step) {
        (Triage, Step::Hold) => Some(Waiting),
        (Triage, Step::Begin) if !matches!(level, Level::Red) => Some(Running),
        (Triage, Step::Answer) | (Running, Step::Finish) => Some(Done),
        (Waiting, Step::Approve) => Some(Approved),
        (Triage | Waiting | Approved, Step::Deny) => Some(Denied),
        (Triage | Waiting | Approved, Step::Expire) => Some(Expired),
        (Approved, Step::Begin) => Some(Running),
        (Running, Step::Fail) => Some(Failed),
        _ => None,
    }
}

/// How long a permission holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// For this one time.
    Once,
    /// As long as the agent is there, or until it is revoked.
    Agent,
}

impl Scope {
    /// The word in the database.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Once => "once",
            Self::Agent => "agent",
        }
    }
}

/// A request that is to be.
#[derive(Clone, Debug)]
pub struct NewRequest {
    /// Its id.
    pub id: String,
    /// The kind of what is asked for.
    pub kind: &'static str,
    /// Who asks.
    pub agent: AgentId,
    /// From which session; what comes of it goes there.
    pub session: SessionKey,
    /// The channel of that session, if it is one's.
    pub channel: Option<ChannelId>,
    /// What exactly would be done, as canonical JSON.
    pub body: String,
    /// Why, in the agent's words.
    pub reason: String,
    /// The least level it can have.
    pub floor: Level,
    /// Why it has that level.
    pub why: Vec<String>,
    /// Where it stands.
    pub state: RequestState,
    /// How long a permission holds.
    pub scope: Scope,
    /// Whether it waits for the sysadmin's word.
    pub asks_sysadmin: bool,
    /// When it is over by itself, in Unix milliseconds.
    pub expires_at: i64,
    /// What counts for the brakes, where another agent is to answer it.
    pub exchange: Option<NewExchange>,
    /// Now, in Unix milliseconds.
    pub now: i64,
}

/// A request as the database knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestRow {
    /// Its id.
    pub id: String,
    /// The kind of what is asked for.
    pub kind: String,
    /// Who asks.
    pub agent: AgentId,
    /// From which session.
    pub session: SessionKey,
    /// From which channel.
    pub channel: Option<ChannelId>,
    /// What exactly would be done.
    pub body: String,
    /// The digest of the body when it was asked for.
    pub sha256: String,
    /// Why, in the agent's words.
    pub reason: String,
    /// The least level it can have.
    pub floor: Level,
    /// The level it has.
    pub level: Level,
    /// Why it has that level.
    pub why: Vec<String>,
    /// Where it stands.
    pub state: RequestState,
    /// How long a permission holds.
    pub scope: Scope,
    /// When it was asked for, in Unix milliseconds.
    pub created_at: i64,
    /// When it is over by itself.
    pub expires_at: i64,
    /// Who decided.
    pub decided_by: Option<String>,
    /// When.
    pub decided_at: Option<i64>,
    /// The digest of what was approved.
    pub approved: Option<String>,
    /// When it began.
    pub used_at: Option<i64>,
    /// When it ended.
    pub ended_at: Option<i64>,
    /// What came of it.
    pub result: Option<String>,
    /// When what it granted was taken back.
    pub revoked_at: Option<i64>,
    /// Who took it back; `None` where it ended with its agent.
    pub revoked_by: Option<String>,
    /// Whether it waits for the sysadmin's word.
    pub asks_sysadmin: bool,
}

/// What goes with a change of a request, in the same transaction.
#[derive(Clone, Debug)]
pub struct Along {
    /// The row of the audit.
    pub entry: AuditEntry,
    /// What sessions are given.
    pub items: Vec<NewItem>,
    /// What a channel is told.
    pub post: Option<NewPost>,
}

impl Along {
    /// The audit alone.
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
            // That there is no such channel any more is no reason to fail.
            post::post(transaction, new)?;
        }
        Ok(())
    }
}

/// What became of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Moved {
    /// It was made; the row as it is now.
    Done(RequestRow),
    /// The row is as it was: the change can't be made from where it stands.
    Not(RequestRow),
    /// Its time is over; that was written down instead.
    Expired(RequestRow),
    /// What is in the row is not what was asked for, or not what was approved.
    Changed(RequestRow),
    /// There is no such request.
    Unknown,
}

/// The digest of a body, in hex.
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
    found.reverse();
    Ok(found)
}

/// Takes a step, if it can be taken from where the row stands; what is over by then expires instead.
fn take(transaction: &Transaction<'_>, id: &str, step: Step, now: i64) -> rusqlite::Result<Moved> {
    let Some(found) = find(transaction, id)? else { return Ok(Moved::Unknown) };
    let Some(state) = next(found.state, found.level, step) else { return Ok(Moved::Not(found)) };
    let is_over = found.expires_at <= now && matches!(step, Step::Approve | Step::Begin);
    let state = if is_over { RequestState::Expired } else { state };
    let ends = !state.is_open();
    transaction
        .prepare_cached(
            "UPDATE request SET state = ?2, ended_at = CASE WHEN ?3 THEN ?4 ELSE ended_at END WHERE id = ?1",
        )?
        .execute((id, state, ends, now))?;
    let Some(found) = find(transaction, id)? else { return Ok(Moved::Unknown) };
    if !is_over {
        return Ok(Moved::Done(found));
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
    Ok(Moved::Expired(found))
}

impl Store {
    /// Keeps a request. `false` where there is one with this id already: take another.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub async fn open_request(&self, new: NewRequest, along: Along) -> Result<bool, StoreError> {
        self.write("keep a request", move |transaction| {
            let why = serde_json::to_string(&new.why).unwrap_or_else(|_| "[]".to_owned());
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

    /// Takes the step that needs nothing but its name: hold, deny, expire, answer, finish, fail. `result` is
    /// what came of it.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub async fn step_request(
        &self,
        id: String,
        step: Step,
        result: Option<String>,
        along: Along,
        now: i64,
    ) -> Result<Moved, StoreError> {
        let moved = self.write("change a request", move |transaction| {
            // These two have conditions of their own.
            if matches!(step, Step::Approve | Step::Begin) {
                return Ok(find(transaction, &id)?.map_or(Moved::Unknown, Moved::Not));
            }
            let moved = take(transaction, &id, step, now)?;
            let Moved::Done(mut found) = moved else { return Ok(moved) };
            let decides = step == Step::Deny;
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
            Ok(Moved::Done(found))
        });
        let moved = moved.await;
        self.grants.fetch_add(1, Ordering::SeqCst);
        moved
    }

    /// A person agrees to exactly the body with this digest. It has to begin before `expires_at`.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub async fn approve_request(
        &self,
        id: String,
        sha256: String,
        expires_at: i64,
        along: Along,
        now: i64,
    ) -> Result<Moved, StoreError> {
        self.write("approve a request", move |transaction| {
            let Some(found) = find(transaction, &id)? else { return Ok(Moved::Unknown) };
            if found.sha256 != sha256 || digest(&found.body) != sha256 {
                return Ok(Moved::Changed(found));
            }
            let moved = take(transaction, &id, Step::Approve, now)?;
            let Moved::Done(mut found) = moved else { return Ok(moved) };
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
            Ok(Moved::Done(found))
        })
        .await
    }

    /// Marks a request as begun, if it may begin: its body is what was asked for and, where a person decides,
    /// what was approved, it is in time, and it never began before. What is not what it was fails for good.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub async fn begin_request(&self, id: String, entry: AuditEntry, now: i64) -> Result<Moved, StoreError> {
        self.write("begin a request", move |transaction| {
            let Some(found) = find(transaction, &id)? else { return Ok(Moved::Unknown) };
            let may_begin = next(found.state, found.level, Step::Begin).is_some();
            if !may_begin || found.used_at.is_some() || found.asks_sysadmin {
                return Ok(Moved::Not(found));
            }
            let held = found.level == Level::Red || found.state == RequestState::Approved;
            let actual = digest(&found.body);
            let intact = actual == found.sha256 && (!held || found.approved.as_ref() == Some(&actual));
            let moved = take(transaction, &id, Step::Begin, now)?;
            let Moved::Done(found) = moved else { return Ok(moved) };
            transaction
                .prepare_cached("UPDATE request SET used_at = ?2 WHERE id = ?1")?
                .execute((&id, now))?;
            if intact {
                audit::append(transaction, &entry, now)?;
                return Ok(Moved::Done(RequestRow { used_at: Some(now), ..found }));
            }
            take(transaction, &id, Step::Fail, now)?;
            let result = "not run: it is not what was asked for and approved";
            transaction
                .prepare_cached("UPDATE request SET result = ?2 WHERE id = ?1")?
                .execute((&id, result))?;
            let entry = AuditEntry { level: Level::Red, detail: result.to_owned(), ..entry };
            audit::append(transaction, &entry, now)?;
            Ok(Moved::Changed(find(transaction, &id)?.unwrap_or(found)))
        })
        .await
    }

    /// Raises a request's level, with the reason for it. A level is never lowered, and one that has begun
    /// is not changed: [`Moved::Not`]. From a level that nobody decides it goes to a person's.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub async fn raise_request(
        &self,
        id: String,
        level: Level,
        why: String,
        along: Along,
        now: i64,
    ) -> Result<Moved, StoreError> {
        self.write("raise a request's level", move |transaction| {
            let Some(found) = find(transaction, &id)? else { return Ok(Moved::Unknown) };
            let early = matches!(found.state, RequestState::Triage | RequestState::Waiting);
            if !early || level <= found.level {
                return Ok(Moved::Not(found));
            }
            let mut reasons = found.why.clone();
            reasons.push(why.clone());
            let reasons = serde_json::to_string(&reasons).unwrap_or_else(|_| "[]".to_owned());
            transaction
                .prepare_cached("UPDATE request SET level = ?2, why = ?3, asks_sysadmin = 0 WHERE id = ?1")?
                .execute((&id, level.as_str(), reasons))?;
            if level == Level::Red && found.state == RequestState::Triage {
                take(transaction, &id, Step::Hold, now)?;
            }
            along.write(transaction, now)?;
            Ok(find(transaction, &id)?.map_or(Moved::Unknown, Moved::Done))
        })
        .await
    }

    /// Takes down that the sysadmin lets a request begin that waits for its word. [`Moved::Not`] where it does not.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub async fn release_request(
        &self,
        id: String,
        why: String,
        along: Along,
        now: i64,
    ) -> Result<Moved, StoreError> {
        self.write("let a request begin", move |transaction| {
            let Some(found) = find(transaction, &id)? else { return Ok(Moved::Unknown) };
            if !found.asks_sysadmin || found.state != RequestState::Triage {
                return Ok(Moved::Not(found));
            }
            let mut reasons = found.why;
            reasons.push(why.clone());
            let reasons = serde_json::to_string(&reasons).unwrap_or_else(|_| "[]".to_owned());
            transaction
                .prepare_cached("UPDATE request SET why = ?2, asks_sysadmin = 0 WHERE id = ?1")?
                .execute((&id, reasons))?;
            along.write(transaction, now)?;
            Ok(find(transaction, &id)?.map_or(Moved::Unknown, Moved::Done))
        })
        .await
    }

    /// Gives back what a request granted and was taken back by somebody. [`Moved::Not`] where nothing was.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub async fn restore_grant(
        &self,
        id: String,
        sha256: String,
        along: Along,
        now: i64,
    ) -> Result<Moved, StoreError> {
        let moved = self.write("give back what was taken back", move |transaction| {
            let Some(found) = find(transaction, &id)? else { return Ok(Moved::Unknown) };
            if found.sha256 != sha256 || digest(&found.body) != sha256 {
                return Ok(Moved::Changed(found));
            }
            if found.revoked_by.is_none() || found.state != RequestState::Done {
                return Ok(Moved::Not(found));
            }
            transaction
                .prepare_cached(
                    "UPDATE request SET revoked_at = NULL, revoked_by = NULL, decided_by = ?2, decided_at = ?3,
                        approved = ?4 WHERE id = ?1",
                )?
                .execute((&id, &along.entry.actor, now, &sha256))?;
            along.write(transaction, now)?;
            Ok(find(transaction, &id)?.map_or(Moved::Unknown, Moved::Done))
        });
        let moved = moved.await;
        self.grants.fetch_add(1, Ordering::SeqCst);
        moved
    }

    /// The requests of an agent of this kind whose grants somebody took back, the newest first.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
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

    /// The requests of an agent of this kind that were carried out and not taken back, the newest first.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
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

    /// The hosts that were granted by an older flock without a person and have not been listed yet.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub fn grants_to_list(&self) -> Result<Vec<RequestRow>, StoreError> {
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

    /// Takes down that older grants were listed, with their row of the audit.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub async fn note_listed(&self, ids: Vec<String>, entry: AuditEntry, now: i64) -> Result<(), StoreError> {
        self.write("note that grants were listed", move |transaction| {
            for id in &ids {
                transaction.prepare_cached("UPDATE request SET to_list = 0 WHERE id = ?1")?.execute([id])?;
            }
            audit::append(transaction, &entry, now)
        })
        .await
    }

    /// A request.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub fn request(&self, id: &str) -> Result<Option<RequestRow>, StoreError> {
        self.read("read a request", |connection| find(connection, id))
    }

    /// The newest requests, at most `limit`, the oldest of them first; or only those that are not over.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub fn requests(&self, open: bool, limit: u32) -> Result<Vec<RequestRow>, StoreError> {
        self.read("list requests", |connection| list(connection, open, limit))
    }

    /// The bodies of what an agent was granted of this kind and was not taken back.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub fn grants(&self, agent: &AgentId, kind: &str) -> Result<Vec<String>, StoreError> {
        self.read("read what was granted", |connection| {
            let found: Vec<(String, String)> = connection
                .prepare_cached(
                    "SELECT body, sha256 FROM request WHERE agent = ?1 AND kind = ?2 AND state = 'done'
                     AND scope = 'agent' AND revoked_at IS NULL ORDER BY created_at",
                )?
                .query_map((agent.as_str(), kind), |row| Ok((row.get(0)?, row.get(1)?)))?
                .collect::<rusqlite::Result<_>>()?;
            Ok(found
                .into_iter()
                .filter(|(body, sha256)| digest(body) == *sha256)
                .map(|(body, _)| body)
                .collect())
        })
    }

    /// The requests of an agent of this kind that a person denied at or after `since`, the newest first.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
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

    /// What an agent asked for of this kind at or after `since` that was or will be done.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub fn asked_since(
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

    /// Requests that ran without a person and have not been given to the sysadmin for review, the oldest first,
    /// at most `limit`; and when the sysadmin was last given some.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub fn to_review(&self, limit: u32) -> Result<(Vec<RequestRow>, Option<i64>), StoreError> {
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

    /// Gives the sysadmin these requests for review, in one transaction with `item`.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub async fn review_requests(&self, ids: Vec<String>, item: NewItem) -> Result<(), StoreError> {
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

    /// The agents that were granted something, wait for it, or are named in a client's token.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub fn granted_agents(&self) -> Result<Vec<AgentId>, StoreError> {
        self.read("read who was granted something", |connection| {
            let granted: Vec<AgentId> = connection
                .prepare_cached(
                    "SELECT DISTINCT agent FROM request WHERE revoked_at IS NULL
                     AND (state = 'done' AND scope = 'agent' OR state IN ('triage', 'waiting', 'approved'))",
                )?
                .query_map((), |row| parsed(row, 0))?
                .collect::<rusqlite::Result<_>>()?;
            let mut all = [granted, token::named_agents(connection)?].concat();
            all.sort_unstable();
            all.dedup();
            Ok(all)
        })
    }

    /// Takes back what an agent was granted, or what one request granted; says how many. What of it still
    /// waits is denied, and clients' tokens that name the agent are not for it any more. Where only one request is meant, who took it back is kept with it, and an installed package
    /// and a new agent count as granted, too.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
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
                // Whoever gets this name later is another agent, to whom nobody denied anything.
                transaction
                    .prepare_cached("UPDATE request SET revoked_by = NULL WHERE agent = ?1")?
                    .execute([agent.as_str()])?;
            }
            let open: Vec<String> = transaction
                .prepare_cached(
                    "SELECT id FROM request WHERE agent = ?1 AND ?2 IS NULL
                     AND state IN ('triage', 'waiting', 'approved')",
                )?
                .query_map((agent.as_str(), &only), |row| row.get(0))?
                .collect::<rusqlite::Result<_>>()?;
            let mut denied = 0;
            for id in open {
                if let Moved::Done(_) = take(transaction, &id, Step::Deny, now)? {
                    transaction
                        .prepare_cached(
                            "UPDATE request SET decided_by = ?2, decided_at = ?3, result = ?4 WHERE id = ?1",
                        )?
                        .execute((&id, &entry.actor, now, "the agent was removed"))?;
                    denied += 1;
                }
            }
            let narrowed = if only.is_none() { token::drop_agent(transaction, &agent)? } else { 0 };
            if revoked + denied + narrowed > 0 {
                audit::append(transaction, &entry, now)?;
            }
            Ok(revoked)
        });
        let revoked = revoked.await;
        self.grants.fetch_add(1, Ordering::SeqCst);
        revoked
    }

    /// Makes a grant one of an older flock's.
    #[cfg(test)]
    pub(crate) async fn mark_to_list(&self, id: &str) {
        let id = id.to_owned();
        let mark = |transaction: &Transaction<'_>, id: &str| {
            transaction.execute("UPDATE request SET to_list = 1 WHERE id = ?1", [id]).map(drop)
        };
        self.write("mark a grant", move |transaction| mark(transaction, &id)).await.unwrap();
    }

    /// Another number after each change of what was granted, made here.
    #[must_use]
    pub fn grants_version(&self) -> u64 {
        self.grants.load(Ordering::SeqCst)
    }
}

impl Reader {
    /// As [`Store::request`].
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub fn request(&self, id: &str) -> Result<Option<RequestRow>, StoreError> {
        self.read("read a request", |connection| find(connection, id))
    }

    /// As [`Store::requests`].
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub fn requests(&self, open: bool, limit: u32) -> Result<Vec<RequestRow>, StoreError> {
        self.read("list requests", |connection| list(connection, open, limit))
    }

    /// The requests of this kind that grant something and that no person decided about.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub fn granted_alone(&self, kind: &str) -> Result<Vec<RequestRow>, StoreError> {
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

    /// What was granted of this kind and was not taken back: who has it, the request's id, its body.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
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
