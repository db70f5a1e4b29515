//! The audit: what was done by whom. A row's hash covers the row and the hash of the one before it, so that
//! a row that was changed or taken out shows.

use rusqlite::types::Value;
use rusqlite::{Connection, Row, Transaction, params_from_iter};
use sha2::{Digest as _, Sha256};

use super::{Reader, Store, StoreError, chain};
use crate::id::{SessionKey, TurnId};

/// How much it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Level {
    /// Everyday.
    Green,
    /// To be looked at later.
    Yellow,
    /// A person decides, or has to know.
    Red,
}

impl Level {
    /// The word in the database and for people.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Green => "GREEN",
            Self::Yellow => "YELLOW",
            Self::Red => "RED",
        }
    }
}

impl std::str::FromStr for Level {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        [Self::Green, Self::Yellow, Self::Red]
            .into_iter()
            .find(|level| level.as_str().eq_ignore_ascii_case(text))
            .ok_or_else(|| "write GREEN, YELLOW or RED".to_owned())
    }
}

/// One thing that was done. Bodies of messages and arguments are not in it, but their digests may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    /// Who did it: an agent, a person, or flock itself.
    pub actor: String,
    /// What, as in `channel.post`.
    pub action: &'static str,
    /// On what.
    pub subject: String,
    /// How much it matters.
    pub level: Level,
    /// More, in at most `MAX_DETAIL` bytes.
    pub detail: String,
    /// From which session.
    pub session: Option<SessionKey>,
    /// In which turn.
    pub turn: Option<TurnId>,
}

/// The most bytes of a detail that are kept.
pub const MAX_DETAIL: usize = 500;

/// Adds a row to the chain, in the transaction of what it tells of.
pub(super) fn append(transaction: &Transaction<'_>, entry: &AuditEntry, at: i64) -> rusqlite::Result<()> {
    let previous = chain::last(transaction)?.map_or_else(|| vec![0; 32], |(_, hash)| hash);
    let detail = &entry.detail[..entry.detail.floor_char_boundary(MAX_DETAIL)];
    let session = entry.session.as_ref().map(SessionKey::as_str);
    let turn = entry.turn.map(|turn| turn.to_string());
    let level = entry.level.as_str();
    let fields = [
        &at.to_string(),
        entry.actor.as_str(),
        entry.action,
        &entry.subject,
        level,
        detail,
        session.unwrap_or_default(),
        turn.as_deref().unwrap_or_default(),
    ];
    let hash = link(&previous, &fields);
    transaction
        .prepare_cached(
            "INSERT INTO audit (at, actor, action, subject, level, detail, session, turn, previous, hash)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        )?
        .execute((
            at,
            &entry.actor,
            entry.action,
            &entry.subject,
            level,
            detail,
            session,
            turn,
            previous,
            hash.as_slice(),
        ))
        .map(drop)
}

/// Which rows of the audit are asked for. The newest come first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// Who did it.
    pub actor: Option<String>,
    /// How much it matters.
    pub level: Option<Level>,
    /// What was done: an action, or a part of one up to a dot, as in `channel`.
    pub action: Option<String>,
    /// Not before this, in Unix milliseconds.
    pub since: Option<i64>,
    /// Only rows with a smaller number, for the next page.
    pub before: Option<i64>,
}

/// A row of the audit.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditRow {
    /// Its number in the chain.
    pub id: i64,
    /// When, in Unix milliseconds.
    pub at: i64,
    /// Who did it.
    pub actor: String,
    /// What.
    pub action: String,
    /// On what.
    pub subject: String,
    /// How much it matters.
    pub level: String,
    /// More of it.
    pub detail: String,
    /// From which session.
    pub session: Option<String>,
    /// In which turn.
    pub turn: Option<String>,
}

/// The most rows that are given at once.
pub const MAX_ROWS: u32 = 100;

fn row(row: &Row<'_>) -> rusqlite::Result<AuditRow> {
    Ok(AuditRow {
        id: row.get(0)?,
        at: row.get(1)?,
        actor: row.get(2)?,
        action: row.get(3)?,
        subject: row.get(4)?,
        level: row.get(5)?,
        detail: row.get(6)?,
        session: row.get(7)?,
        turn: row.get(8)?,
    })
}

fn query(connection: &Connection, filter: &AuditFilter, limit: u32) -> rusqlite::Result<Vec<AuditRow>> {
    let mut conditions = vec!["1"];
    let mut values: Vec<Value> = Vec::new();
    if let Some(actor) = &filter.actor {
        conditions.push("actor = ?");
        values.push(actor.clone().into());
    }
    if let Some(level) = filter.level {
        conditions.push("level = ?");
        values.push(level.as_str().to_owned().into());
    }
    if let Some(action) = &filter.action {
        conditions.push("(action = ? OR substr(action, 1, length(?) + 1) = ? || '.')");
        values.extend([(); 3].map(|()| Value::from(action.clone())));
    }
    if let Some(since) = filter.since {
        conditions.push("at >= ?");
        values.push(since.into());
    }
    if let Some(before) = filter.before {
        conditions.push("id < ?");
        values.push(before.into());
    }
    values.push(i64::from(limit.clamp(1, MAX_ROWS)).into());
    let conditions = conditions.join(" AND ");
    connection
        .prepare_cached(&format!(
            "SELECT id, at, actor, action, subject, level, detail, session, turn FROM audit
             WHERE {conditions} ORDER BY id DESC LIMIT ?"
        ))?
        .query_map(params_from_iter(values), row)?
        .collect()
}

impl Store {
    /// At most `limit` rows of the audit, and never more than [`MAX_ROWS`], the newest first.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub fn audit_rows(&self, filter: &AuditFilter, limit: u32) -> Result<Vec<AuditRow>, StoreError> {
        self.read("read the audit", |connection| query(connection, filter, limit))
    }
}

impl Store {
    /// The time of the newest row: of the audit, or the last turn of a session. `None` where nothing was written yet.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub fn newest_time(&self) -> Result<Option<i64>, StoreError> {
        self.read("look for the newest row", |connection| {
            connection.query_row(
                "SELECT max(at) FROM (SELECT at FROM (SELECT at FROM audit ORDER BY id DESC LIMIT 1)
                 UNION ALL SELECT max(updated_at) FROM session)",
                (),
                |row| row.get(0),
            )
        })
    }
}

impl Reader {
    /// As [`Store::audit_rows`].
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub fn audit_rows(&self, filter: &AuditFilter, limit: u32) -> Result<Vec<AuditRow>, StoreError> {
        self.read("read the audit", |connection| query(connection, filter, limit))
    }
}

/// The hash of a row: each field with its length before it, so that none can take part of another's place.
pub(super) fn link(previous: &[u8], fields: &[&str]) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(previous);
    for field in fields {
        hash.update(field.len().to_le_bytes());
        hash.update(field.as_bytes());
    }
    hash.finalize().into()
}

/// A digest of a text, for a row that must not hold the text itself.
#[must_use]
pub fn digest(text: &str) -> String {
    crate::id::hex(&Sha256::digest(text)[..16])
}
