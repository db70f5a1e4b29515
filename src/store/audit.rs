//! The audit: what was done by whom. A row's hash covers the row and the hash of the one before it, so that
//! a row that was changed or taken out shows.

use rusqlite::{OptionalExtension as _, Transaction};
use sha2::{Digest as _, Sha256};

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
    /// More, in at most [`MAX_DETAIL`] bytes.
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
    let previous: Vec<u8> = transaction
        .prepare_cached("SELECT hash FROM audit ORDER BY id DESC LIMIT 1")?
        .query_row((), |row| row.get(0))
        .optional()?
        .unwrap_or_else(|| vec![0; 32]);
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

/// The hash of a row: each field with its length before it, so that none can take part of another's place.
fn link(previous: &[u8], fields: &[&str]) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(previous);
    for field in fields {
        hash.update(field.len().to_le_bytes());
        hash.update(field.as_bytes());
    }
    hash.finalize().into()
}

/// A digest of a text, for a row that must not hold the text itself.
pub(super) fn digest(text: &str) -> String {
    crate::id::hex(&Sha256::digest(text)[..16])
}
