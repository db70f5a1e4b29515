//! The audit: a hash chain of who did what.
//!
//! The hash of a row covers the row and the hash of the row before it. A row that is changed or removed therefore
//! breaks the chain.

use std::borrow::Cow;

use sha2::{Digest as _, Sha256};

use super::sql::{self, Connection, Row, Transaction, Value, params_from_iter};
use super::subjects::AuditLog;
use super::{Database, StoreError, audit_chain};
use crate::id::{SessionKey, TurnId};

/// The severity of an audit row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Level {
    /// Routine; nobody has to look at it.
    Green,
    /// Worth a look later.
    Yellow,
    /// Needs a person's decision or attention.
    Red,
}

impl Level {
    /// Returns the name that the database stores and people read.
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

/// An action to be recorded. It never contains message bodies or arguments, at most their digests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    /// An agent, a person, or flock itself.
    pub actor: String,
    /// A dotted name, as in `channel.post`.
    pub action: &'static str,
    pub subject: String,
    pub level: Level,
    /// Free text; bytes beyond `MAX_DETAIL_BYTES` are cut off.
    pub detail: String,
    pub session: Option<SessionKey>,
    pub turn: Option<TurnId>,
}

impl AuditEntry {
    /// Creates the record of an action that belongs to no session.
    #[must_use]
    pub fn new(actor: &str, action: &'static str, subject: &str, level: Level, detail: String) -> Self {
        Self {
            actor: actor.to_owned(),
            action,
            subject: subject.to_owned(),
            level,
            detail,
            session: None,
            turn: None,
        }
    }
}

/// The most bytes of a detail that are stored.
pub const MAX_DETAIL_BYTES: usize = 500;

/// Appends a row to the chain, in the same transaction as the change that it records.
pub(super) fn append(transaction: &Transaction<'_>, entry: &AuditEntry, at: i64) -> sql::Result<()> {
    // The first row of all follows a hash of zeros.
    // The rows are numbered without a gap, which a sequence of the database does not promise.
    let (last, previous) = audit_chain::last(transaction)?.unwrap_or_else(|| (0, vec![0; 32]));
    let [actor, subject, detail] = [&entry.actor, &entry.subject, &entry.detail].map(|text| storable(text));
    // Cut between two characters, because the column contains text.
    let detail = &detail[..detail.floor_char_boundary(MAX_DETAIL_BYTES)];
    let session = entry.session.as_ref().map(SessionKey::as_str);
    let turn = entry.turn.map(|turn| turn.to_string());
    let level = entry.level.as_str();
    // This order is part of the stored format: `audit_chain` hashes the same fields in the same order to verify a row.
    let fields = [
        &at.to_string(),
        &*actor,
        entry.action,
        &*subject,
        level,
        detail,
        session.unwrap_or_default(),
        turn.as_deref().unwrap_or_default(),
    ];
    let hash = link(&previous, &contents(&fields));
    transaction.add_row(
        "INSERT INTO audit (id, at, actor, action, subject, level, detail, session, turn, previous, hash)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
        (
            last + 1,
            at,
            &*actor,
            entry.action,
            &*subject,
            level,
            detail,
            session,
            turn,
            previous,
            hash.as_slice(),
        ),
    )?;
    transaction.set_chain_end((last + 1, hash.to_vec()));
    Ok(())
}

/// Appends a row for a change of this many rows of another table, and returns `true`. Nothing is appended for a change of none.
pub(super) fn append_if_any(
    transaction: &Transaction<'_>,
    changed: usize,
    entry: &AuditEntry,
    at: i64,
) -> sql::Result<bool> {
    if changed > 0 {
        append(transaction, entry, at)?;
    }
    Ok(changed > 0)
}

/// Replaces the NUL character, which PostgreSQL can't store: what its driver would replace has to be so in the hash.
fn storable(text: &str) -> Cow<'_, str> {
    if text.contains('\0') { text.replace('\0', sql::NUL_REPLACEMENT).into() } else { text.into() }
}

/// The selection of audit rows that a query returns, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditFilter {
    pub actor: Option<String>,
    pub level: Option<Level>,
    /// An action, or its prefix up to a dot: `channel` also matches `channel.post`.
    pub action: Option<String>,
    /// The earliest time, in Unix milliseconds.
    pub since: Option<i64>,
    /// Returns only rows with a smaller id, which gives the next page.
    pub before: Option<i64>,
}

/// A stored row of the audit.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditRow {
    /// The row's number in the chain, from 1.
    pub id: i64,
    /// Unix milliseconds.
    pub at: i64,
    pub actor: String,
    pub action: String,
    pub subject: String,
    pub level: String,
    pub detail: String,
    pub session: Option<String>,
    pub turn: Option<String>,
}

/// The most rows that one query returns.
pub const MAX_ROWS: u32 = 100;

fn row(row: &Row<'_>) -> sql::Result<AuditRow> {
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

fn select_rows(connection: &Connection<'_>, filter: &AuditFilter, limit: u32) -> sql::Result<Vec<AuditRow>> {
    // The condition that is always true keeps the list from being empty.
    let mut conditions = vec!["true".to_owned()];
    let mut values: Vec<Value> = Vec::new();
    // `?` stands for the number of the parameter.
    let mut add = |condition: &str, value: Value| {
        values.push(value);
        conditions.push(condition.replace('?', &format!("?{}", values.len())));
    };
    if let Some(actor) = &filter.actor {
        add("actor = ?", actor.clone().into());
    }
    if let Some(level) = filter.level {
        add("level = ?", level.as_str().to_owned().into());
    }
    // The prefix ends at a dot, so `channel` does not match `channels`.
    if let Some(action) = &filter.action {
        add("(action = ? OR substr(action, 1, length(?) + 1) = ? || '.')", action.clone().into());
    }
    if let Some(since) = filter.since {
        add("at >= ?", since.into());
    }
    if let Some(before) = filter.before {
        add("id < ?", before.into());
    }
    values.push(i64::from(limit.clamp(1, MAX_ROWS)).into());
    let (conditions, most) = (conditions.join(" AND "), values.len());
    connection
        .prepare_cached(&format!(
            "SELECT id, at, actor, action, subject, level, detail, session, turn FROM audit
             WHERE {conditions} ORDER BY id DESC LIMIT ?{most}"
        ))?
        .query_map(params_from_iter(values), row)?
        .collect()
}

impl<A> AuditLog<&Database<A>> {
    /// Returns the Unix milliseconds of the newest audit row or session turn, whichever is later, or `None` in an empty
    /// database.
    pub(crate) async fn newest_time(self) -> Result<Option<i64>, StoreError> {
        // Both parts read one entry of an index, so this is fast in a large database.
        self.read("look for the newest row", |connection| {
            connection.query_row(
                "SELECT max(at) FROM (SELECT at FROM (SELECT at FROM audit ORDER BY id DESC LIMIT 1) AS last
                 UNION ALL SELECT max(updated_at) FROM session) AS newest",
                (),
                |row| row.get(0),
            )
        })
        .await
    }

    /// Returns rows of the audit, newest first: at most `limit`, and never more than [`MAX_ROWS`].
    pub async fn rows(self, filter: &AuditFilter, limit: u32) -> Result<Vec<AuditRow>, StoreError> {
        let filter = filter.clone();
        self.read_long("read the audit", move |connection| select_rows(connection, &filter, limit)).await
    }
}

#[cfg(test)]
impl<A> AuditLog<&Database<A>> {
    /// Returns the rows about an action, or about all actions of a kind, newest first.
    pub(crate) async fn rows_about(self, action: &str) -> Vec<AuditRow> {
        let filter = AuditFilter { action: Some(action.to_owned()), ..AuditFilter::default() };
        self.rows(&filter, 100).await.unwrap()
    }

    /// Returns the actions in the audit, oldest first.
    pub(crate) async fn actions(self) -> Vec<String> {
        self.read("read the audit", |connection| {
            connection
                .prepare("SELECT action FROM audit ORDER BY id")?
                .query_map((), |row| row.get(0))?
                .collect()
        })
        .await
        .unwrap()
    }
}

/// Computes the hash of a row from the hash of the row before it and the digest of its own fields. So a part of the chain
/// can be verified by somebody who may not see what its rows say.
pub(super) fn link(previous: &[u8], contents: &[u8; 32]) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(b"flock-audit-2\0");
    hash.update(previous);
    hash.update(contents);
    hash.finalize().into()
}

/// Computes the digest of a row's fields.
///
/// Each field is preceded by its length, so text cannot move from one field into the next without changing the digest.
pub(super) fn contents(fields: &[&str]) -> [u8; 32] {
    let mut hash = Sha256::new();
    add_fields(&mut hash, fields);
    hash.finalize().into()
}

/// Computes the hash of a row that was written by flock 0.2 or earlier, which had no digest of the fields alone.
pub(super) fn old_link(previous: &[u8], fields: &[&str]) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(previous);
    add_fields(&mut hash, fields);
    hash.finalize().into()
}

fn add_fields(hash: &mut Sha256, fields: &[&str]) {
    for field in fields {
        hash.update(field.len().to_le_bytes());
        hash.update(field.as_bytes());
    }
}

/// Returns a short digest of a text, for a row that must not contain the text itself.
#[must_use]
pub fn digest(text: &str) -> String {
    crate::id::hex(&Sha256::digest(text)[..16])
}
