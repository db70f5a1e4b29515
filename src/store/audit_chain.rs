//! Verification of the audit's hash chain.
//!
//! The chain is walked from its start and compared with a file outside the database that names its last row. A row that
//! was changed, inserted or removed breaks the chain. Rows cut off at the end do not break it, but then the file names
//! a row that is missing. A second file names the rows that flock itself deleted at the start: a database that lacks
//! more than those has lost rows.
//!
//! Several homes can share a database on a server. Each of them keeps such a file for itself, as one witness of the
//! chain. The file may be behind the database then, or absent in a home that has just joined, and the rows at the start
//! may have been deleted from another home.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::audit::{self, AuditEntry, Level};
use super::sql::{
    self, Connection, Dialect, OptionalExtension as _, Row, Transaction, Value, params_from_iter,
};
use super::subjects::AuditLog;
use super::{Database, Store, StoreError};
use crate::home::{HomeError, atomic};
use crate::id::hex;

/// The end of the chain: the number and the hash of its last row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ChainHead {
    /// The row's number; 0 for an empty chain.
    pub(super) id: i64,
    pub(super) hash: String,
}

impl ChainHead {
    pub(super) fn new(id: i64, hash: &[u8]) -> Self {
        Self { id, hash: hex(hash) }
    }

    /// Writes it to `path`. Returns once it is on the disk.
    pub(super) fn write(&self, path: &Path) -> Result<(), HomeError> {
        atomic::write(path, serde_json::json!(self).to_string().as_bytes(), 0o600)
    }

    /// Reads it from `path`. Returns `None` if the file is absent or does not contain a head.
    fn read(path: &Path) -> Result<Option<Self>, HomeError> {
        Ok(read_side_file(path)?.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
    }
}

/// Reads a file beside the database.
///
/// Returns `None` if the file is absent, or if something else (too large, not a regular file) is in its place. A file
/// that can't be read for now is an error, because nothing is known then.
fn read_side_file(path: &Path) -> Result<Option<Vec<u8>>, HomeError> {
    use std::io::ErrorKind::{FileTooLarge, InvalidInput};
    match atomic::read(path, 4096) {
        Err(HomeError::Io { source, .. }) if matches!(source.kind(), FileTooLarge | InvalidInput) => Ok(None),
        read => read,
    }
}

/// The last row of what flock deleted at the chain's start.
///
/// It is written both before and after the rows are deleted. While the deletion runs it holds the old and the new
/// start, so that a crash in between leaves a database that matches one of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PruneMarker {
    pub(super) rows: Vec<ChainHead>,
}

impl PruneMarker {
    /// Returns the path beside the file that names the chain's end.
    fn path(head: &Path) -> PathBuf {
        head.with_file_name("audit.base")
    }

    /// Reads it. Returns an empty list if the file is absent or unreadable as JSON.
    pub(super) fn read(head: &Path) -> Result<Self, HomeError> {
        let bytes = read_side_file(&Self::path(head))?;
        Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default())
    }

    pub(super) fn write(&self, head: &Path) -> Result<(), HomeError> {
        atomic::write(&Self::path(head), serde_json::json!(self).to_string().as_bytes(), 0o600)
    }
}

/// The result of a walk along the whole chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AuditVerification {
    /// The number of rows that were read.
    pub rows: u64,
    /// The id of the last row; 0 without rows.
    pub last: i64,
    /// The first fault found.
    pub broken: Option<ChainFault>,
}

/// A fault in the chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("row {id} {reason}")]
pub struct ChainFault {
    /// The id of the row at fault.
    pub id: i64,
    /// A text that follows "row N" in a message.
    pub reason: &'static str,
}

/// The action of the row that flock appends when it finds the end of the chain cut off.
const TRUNCATED_ACTION: &str = "audit.cut";
/// The fault that such a row is reported as.
const TRUNCATION_RECORDED: &str = "says that rows before it had been cut off";

const PAGE_ROWS: u32 = 1000;

/// Returns the last row's id and hash, or those of the row that the first one follows if no row is kept.
pub(super) fn last(connection: &Connection<'_>) -> sql::Result<Option<(i64, Vec<u8>)>> {
    if let Some(end) = connection.chain_end()? {
        return Ok(Some(end));
    }
    let row = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
    let found = connection
        .prepare_cached("SELECT id, hash FROM audit ORDER BY id DESC LIMIT 1")?
        .query_row((), row)
        .optional()?;
    match found {
        Some(found) => Ok(Some(found)),
        None => base(connection),
    }
}

/// Returns the last of the rows that were deleted at the start, if any were.
pub(super) fn base(connection: &Connection<'_>) -> sql::Result<Option<(i64, Vec<u8>)>> {
    connection
        .prepare_cached("SELECT id, hash FROM audit_base")?
        .query_row((), |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()
}

/// Returns the end of the chain.
pub(super) fn head(connection: &Connection<'_>) -> sql::Result<ChainHead> {
    Ok(match last(connection)? {
        Some((id, hash)) => ChainHead::new(id, &hash),
        None => ChainHead::new(0, &[0; 32]),
    })
}

/// Compares the chain with the file when the database is opened for writing. Returns the head that is in the file now.
///
/// Rows that were cut off can't be restored, but the cut is recorded as a row of its own. Without it, the next head
/// written would hide the loss.
pub(super) fn open(connection: &Connection<'_>, path: &Path) -> Result<ChainHead, StoreError> {
    let (written, given_up) = (ChainHead::read(path)?, PruneMarker::read(path)?);
    let opened = compare(connection, path, written, &given_up);
    opened.map_err(|source| StoreError::query("read where the audit ends", source))
}

fn compare(
    connection: &Connection<'_>,
    path: &Path,
    written: Option<ChainHead>,
    given_up: &PruneMarker,
) -> sql::Result<ChainHead> {
    let now = head(connection)?;
    // A new database, or a home that has just joined a shared one: there is nothing to compare yet.
    if written.is_none() && (now.id == 0 || is_shared(connection)) {
        log_failure(now.write(path));
        return Ok(now);
    }
    if find_truncation(connection, written.as_ref(), given_up)?.is_none() {
        return Ok(written.unwrap_or(now));
    }
    tracing::error!("rows of the audit are missing");
    let entry = AuditEntry {
        actor: "system".to_owned(),
        action: TRUNCATED_ACTION,
        subject: "audit".to_owned(),
        level: Level::Red,
        detail: match &written {
            Some(head) => format!("the last row was {} with the hash {}", head.id, head.hash),
            None => "it was not written down which row was the last".to_owned(),
        },
        session: None,
        turn: None,
    };
    // Recorded before the store is used, so that this is the first row after the gap.
    connection.in_transaction(|transaction| audit::append(transaction, &entry, crate::clock::unix_ms()))?;
    let now = head(connection)?;
    log_failure(now.write(path));
    Ok(now)
}

// A failure here is only logged: a database without this file is still usable, and the next start reports the mismatch.
fn log_failure(written: Result<(), HomeError>) {
    if let Err(error) = written {
        tracing::error!(error = crate::error::chain(&error), "failed to write where the audit ends");
    }
}

/// Returns `true` if homes with files of their own can share the database.
fn is_shared(connection: &Connection<'_>) -> bool {
    connection.dialect() == Dialect::Postgres
}

/// Returns what is missing of a chain that should end with `written`, if anything is.
fn find_truncation(
    connection: &Connection<'_>,
    written: Option<&ChainHead>,
    given_up: &PruneMarker,
) -> sql::Result<Option<ChainFault>> {
    // The file that says what was given up is in the home from which it was.
    if let Some((id, hash)) = base(connection)?
        && !given_up.rows.contains(&ChainHead::new(id, &hash))
        && !is_shared(connection)
    {
        return Ok(Some(ChainFault {
            id,
            reason: "and those before it are missing, and flock did not give them up",
        }));
    }
    let Some(written) = written else {
        if is_shared(connection) {
            return Ok(None);
        }
        return Ok(Some(ChainFault {
            id: head(connection)?.id,
            reason: "is the last, and nothing says that it is",
        }));
    };
    let kept_from = base(connection)?.map_or(0, |(id, _)| id);
    // flock itself deleted the rows up to here, so the file may name one of them.
    if written.id <= kept_from {
        return Ok(None);
    }
    let hash: Option<Vec<u8>> = connection
        .prepare_cached("SELECT hash FROM audit WHERE id = ?1")?
        .query_row([written.id], |row| row.get(0))
        .optional()?;
    Ok(match hash {
        None => Some(ChainFault { id: written.id, reason: "was the last and is missing" }),
        Some(hash) if hex(&hash) != written.hash => {
            Some(ChainFault { id: written.id, reason: "is not the row that was the last" })
        }
        Some(_) => None,
    })
}

/// Walks along the chain in one read transaction. The inner error is a failure to read one of the two files.
fn verify(connection: &Connection<'_>, path: &Path) -> sql::Result<Result<AuditVerification, HomeError>> {
    // Read the files before the rows: a head written in between would name rows that this transaction does not see.
    let (written, before) = match (ChainHead::read(path), PruneMarker::read(path)) {
        (Ok(written), Ok(before)) => (written, before),
        (Err(error), _) | (_, Err(error)) => return Ok(Err(error)),
    };
    let view = connection.snapshot()?;
    let mut verified = AuditVerification { rows: 0, last: 0, broken: None };
    // The hash of row 0, before the first, is zeros.
    let (mut at, mut previous) = base(&view)?.unwrap_or_else(|| (0, vec![0; 32]));
    loop {
        let mut statement = view.prepare_cached(
            "SELECT id, previous, hash, at, actor, action, subject, level, detail, session, turn
             FROM audit WHERE id > ?1 ORDER BY id LIMIT ?2",
        )?;
        let mut rows = statement.query((at, PAGE_ROWS))?;
        let mut is_empty = true;
        while let Some(row) = rows.next()? {
            is_empty = false;
            let id: i64 = row.get(0)?;
            let hash: Vec<u8> = row.get(2)?;
            verified.rows += 1;
            verified.last = id;
            verified.broken = check_row(&row, at, &previous, &hash)?;
            if verified.broken.is_some() {
                return Ok(Ok(verified));
            }
            (at, previous) = (id, hash);
        }
        if is_empty {
            break;
        }
    }
    let is_new = verified.rows == 0 && at == 0 && written.is_none();
    if is_new {
        return Ok(Ok(verified));
    }
    // Read it again after the rows: a deletion may have finished just before this transaction began.
    let mut given_up = match PruneMarker::read(path) {
        Ok(given_up) => given_up,
        Err(error) => return Ok(Err(error)),
    };
    given_up.rows.extend(before.rows);
    verified.broken = find_truncation(&view, written.as_ref(), &given_up)?;
    Ok(Ok(verified))
}

/// Walks along the chain of an open database, and compares it with the files that belong to it.
pub(super) fn verify_at(connection: &Connection, path: &Path) -> Result<AuditVerification, StoreError> {
    let verified = verify(connection, path);
    Ok(verified.map_err(|source| StoreError::query("verify the audit", source))??)
}

/// Copies the audit rows of a damaged database into a new one.
///
/// If the old rows are an unbroken chain, they are copied as they are and replace the new ones. Otherwise only the rows
/// that follow the last row of the new chain are added.
pub(super) fn take_over(
    new: &Transaction<'_>,
    old: &Connection<'_>,
) -> sql::Result<super::sqlite::recovery::RecoveredTable> {
    let mut taken =
        super::sqlite::recovery::RecoveredTable { name: "audit".to_owned(), rows: 0, is_complete: false };
    let first = base(old).ok().map(|base| base.unwrap_or_else(|| (0, vec![0; 32])));
    let start = match first {
        Some((id, hash)) if is_continued(new, old, id, &hash)? => {
            new.execute("DELETE FROM audit", ())?;
            new.execute("DELETE FROM audit_base", ())?;
            if id > 0 {
                new.execute("INSERT INTO audit_base (id, hash) VALUES (?1, ?2)", (id, &hash))?;
            }
            (id, hash)
        }
        _ => last(new)?.unwrap_or_else(|| (0, vec![0; 32])),
    };
    let mut insert = new.prepare(
        "INSERT INTO audit (id, previous, hash, at, actor, action, subject, level, detail, session, turn)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
    )?;
    let put = |row: &Row<'_>| {
        let values: sql::Result<Vec<Value>> = (0..11).map(|column| row.get(column)).collect();
        insert.execute(params_from_iter(values?)).map(drop)
    };
    // If the successor of the last row can't be read, no row is taken.
    let (rows, is_all) = for_each_linked(old, start.0, &start.1, put).unwrap_or_default();
    taken.rows = rows;
    taken.is_complete = is_all;
    Ok(taken)
}

/// Returns `true` if all rows of the old audit from `id` on form a chain and reach at least as far as the new one.
fn is_continued(new: &Connection<'_>, old: &Connection<'_>, id: i64, hash: &[u8]) -> sql::Result<bool> {
    let mut end = id;
    let reach = |row: &Row<'_>| {
        end = row.get(0)?;
        Ok(())
    };
    let is_all = for_each_linked(old, id, hash, reach).is_ok_and(|(_, is_all)| is_all);
    Ok(is_all && end >= head(new)?.id)
}

/// Passes to `put` the rows after `id` (whose hash is `hash`), up to the first one that does not follow its
/// predecessor. Returns their number, and `true` if those were all.
fn for_each_linked(
    connection: &Connection<'_>,
    id: i64,
    hash: &[u8],
    mut put: impl FnMut(&Row<'_>) -> sql::Result<()>,
) -> sql::Result<(u64, bool)> {
    let (mut at, mut previous) = (id, hash.to_vec());
    let mut count = 0;
    let mut statement = connection.prepare(
        "SELECT id, previous, hash, at, actor, action, subject, level, detail, session, turn
         FROM audit WHERE id > ?1 ORDER BY id",
    )?;
    let mut rows = statement.query([id])?;
    loop {
        let row = match rows.next() {
            Ok(Some(row)) => row,
            Ok(None) => return Ok((count, true)),
            Err(_) => return Ok((count, false)),
        };
        let own: Vec<u8> = row.get(2)?;
        // A row that reports a cut is still a valid link: it was appended to the row that was last at the time.
        if check_row(&row, at, &previous, &own)?.is_some_and(|broken| broken.reason != TRUNCATION_RECORDED) {
            return Ok((count, false));
        }
        put(&row)?;
        (at, previous) = (row.get(0)?, own);
        count += 1;
    }
}

/// Checks a row against `before`, the id of the row in front of it, and `previous`, that row's hash.
fn check_row(row: &Row<'_>, before: i64, previous: &[u8], hash: &[u8]) -> sql::Result<Option<ChainFault>> {
    let id: i64 = row.get(0)?;
    let broken = |reason| Ok(Some(ChainFault { id, reason }));
    if id != before + 1 {
        return broken("does not follow the row before it: rows are missing");
    }
    if row.get_ref(1)?.as_blob()? != previous {
        return broken("does not follow the row before it");
    }
    let at: i64 = row.get(3)?;
    let text = |column| -> sql::Result<String> { Ok(row.get::<Option<String>>(column)?.unwrap_or_default()) };
    let fields = [at.to_string(), text(4)?, text(5)?, text(6)?, text(7)?, text(8)?, text(9)?, text(10)?];
    let texts = fields.each_ref().map(String::as_str);
    // Rows of earlier versions stay as they are. A row that fits in either way is unchanged, because no other content
    // gives the same hash.
    let is_whole =
        audit::link(previous, &audit::contents(&texts)) == hash || audit::old_link(previous, &texts) == hash;
    if !is_whole {
        return broken("was changed");
    }
    // The row is intact but reports that flock once found the chain cut off, so the audit as a whole is not complete.
    if fields[2] == TRUNCATED_ACTION {
        return broken(TRUNCATION_RECORDED);
    }
    Ok(None)
}

/// A row in a slice of the chain: its content, or only the digest of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChainRow {
    /// The digest of the row's fields, in hex.
    pub digest: String,
    /// The fields in the order in which they are hashed. `None` for a row whose content is not shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fields: Option<Vec<String>>,
}

/// A part of the chain: the row that it follows, its rows in order, and its last row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainSlice {
    pub start: (i64, String),
    pub rows: Vec<ChainRow>,
    pub end: (i64, String),
}

/// Follows the rows of a slice from a hash, and returns the hash of the last one. Returns `None` if a digest is none, or
/// is not that of the fields beside it.
#[must_use]
pub fn follow(start: &str, rows: &[ChainRow]) -> Option<String> {
    let mut hash = unhex(start)?;
    for row in rows {
        let digest = unhex(&row.digest)?;
        if let Some(fields) = &row.fields {
            let texts: Vec<&str> = fields.iter().map(String::as_str).collect();
            if audit::contents(&texts) != digest {
                return None;
            }
        }
        hash = audit::link(&hash, &digest);
    }
    Some(hex(&hash))
}

/// Decodes a SHA-256 from lower-case hex.
fn unhex(text: &str) -> Option<[u8; 32]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let bytes: Option<Vec<u8>> = text
        .as_bytes()
        .chunks(2)
        .map(|pair| match pair {
            [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
            _ => None,
        })
        .collect();
    bytes?.try_into().ok()
}

/// Reads the slice from the row after `start` to `own`, and at most `after` more rows. Only `own` shows its content.
fn slice(connection: &Connection<'_>, start: i64, own: i64, after: i64) -> sql::Result<Option<ChainSlice>> {
    let view = connection.snapshot()?;
    let first = match base(&view)? {
        Some((id, hash)) if id == start => Some(hash),
        _ if start == 0 => Some(vec![0; 32]),
        _ => view.query_row("SELECT hash FROM audit WHERE id = ?1", [start], |row| row.get(0)).optional()?,
    };
    let Some(first) = first else { return Ok(None) };
    let mut statement = view.prepare_cached(
        "SELECT id, previous, hash, at, actor, action, subject, level, detail, session, turn
         FROM audit WHERE id > ?1 AND id <= ?2 ORDER BY id",
    )?;
    let mut rows = statement.query((start, own.saturating_add(after)))?;
    let mut slice = ChainSlice { start: (start, hex(&first)), rows: Vec::new(), end: (start, hex(&first)) };
    while let Some(row) = rows.next()? {
        let id: i64 = row.get(0)?;
        let at: i64 = row.get(3)?;
        let text = |column| row.get::<Option<String>>(column).map(Option::unwrap_or_default);
        let fields =
            vec![at.to_string(), text(4)?, text(5)?, text(6)?, text(7)?, text(8)?, text(9)?, text(10)?];
        let texts: Vec<&str> = fields.iter().map(String::as_str).collect();
        let digest = hex(&audit::contents(&texts));
        slice.rows.push(ChainRow { digest, fields: (id == own).then_some(fields) });
        slice.end = (id, hex(&row.get::<Vec<u8>>(2)?));
    }
    // Rows that were deleted since leave a gap, which nobody could follow.
    let is_whole = slice.end.0 >= own && slice.end.0 - start == i64::try_from(slice.rows.len()).unwrap_or(0);
    Ok(is_whole.then_some(slice))
}

impl<A> AuditLog<&Database<A>> {
    /// Returns the number and the hash of the last row; 0 and zeros without rows.
    pub(crate) async fn end(self) -> Result<(i64, String), StoreError> {
        let end = self.read("read the end of the audit", head).await?;
        Ok((end.id, end.hash))
    }

    /// Returns the part of the chain from the row after `start` to the row `own` and at most `after` more. `None` if rows
    /// of it were deleted since.
    pub(crate) async fn slice(
        self,
        start: i64,
        own: i64,
        after: i64,
    ) -> Result<Option<ChainSlice>, StoreError> {
        self.read_long("read a part of the audit", move |connection| slice(connection, start, own, after))
            .await
    }

    /// Returns what is missing at the two ends of the audit, without walking along it; `None` if nothing is.
    ///
    /// A cut that was found when the database was opened is reported through the row that recorded it.
    ///
    /// # Errors
    ///
    /// Returns an error if the database or one of the two files beside it can't be read.
    pub(crate) async fn check_ends(self) -> Result<Option<ChainFault>, StoreError> {
        let (written, given_up) = (ChainHead::read(&self.0.head)?, PruneMarker::read(&self.0.head)?);
        self.read("look at the audit", |connection| {
            if written.is_none() && head(connection)?.id == 0 {
                return Ok(None);
            }
            if let Some(broken) = find_truncation(connection, written.as_ref(), &given_up)? {
                return Ok(Some(broken));
            }
            // An earlier cut does not show at the ends any more, only in the row that recorded it.
            let noted: Option<i64> = connection
                .prepare_cached(
                    "SELECT id FROM audit WHERE actor = 'system' AND action = ?1 ORDER BY id DESC LIMIT 1",
                )?
                .query_row([TRUNCATED_ACTION], |row| row.get(0))
                .optional()?;
            Ok(noted.map(|id| ChainFault { id, reason: TRUNCATION_RECORDED }))
        })
        .await
    }

    /// Verifies the whole audit. A broken chain is reported in the result.
    ///
    /// # Errors
    ///
    /// Returns an error if the database or one of the two files beside it can't be read.
    pub(crate) async fn verify(self) -> Result<AuditVerification, StoreError> {
        let head = self.0.head.clone();
        Ok(self.read_long("verify the audit", move |connection| verify(connection, &head)).await??)
    }
}

impl AuditLog<&Store> {
    /// Deletes the rows before `time` (Unix milliseconds), except the very last row. Returns the number of deleted
    /// rows.
    ///
    /// The remaining chain still verifies, because the file of deleted rows is updated with it.
    pub(crate) async fn prune(self, time: i64, entry: AuditEntry, now: i64) -> Result<u64, StoreError> {
        let what = "forget old rows of the audit";
        let ends =
            self.read(what, |connection| Ok((last_prunable(connection, time)?, base(connection)?))).await?;
        let (Some((id, hash)), base) = ends else { return Ok(0) };
        let end = ChainHead::new(id, &hash);
        let already = base.map(|(id, hash)| ChainHead::new(id, &hash));
        // Record the new start first. A crash after the deletion would otherwise leave a chain that looks cut.
        self.give_up(PruneMarker { rows: already.into_iter().chain([end.clone()]).collect() }).await?;
        let pruned = self.write(what, move |transaction| {
            // Two callers may prune at once: delete only up to a row that still exists.
            let is_there = transaction
                .query_row("SELECT 1 FROM audit WHERE id = ?1 AND hash = ?2", (id, &hash), |_| Ok(()))
                .optional()?;
            if is_there.is_none() {
                return Ok(0);
            }
            transaction.execute("DELETE FROM audit_base", ())?;
            transaction.execute("INSERT INTO audit_base (id, hash) VALUES (?1, ?2)", (id, hash))?;
            let pruned = transaction.execute("DELETE FROM audit WHERE id <= ?1", [id])?;
            audit::append(transaction, &entry, now)?;
            Ok(pruned as u64)
        });
        let pruned = pruned.await?;
        // The deletion is committed, so the old start is no longer valid.
        self.give_up(PruneMarker { rows: vec![end] }).await?;
        Ok(pruned)
    }

    async fn give_up(self, given_up: PruneMarker) -> Result<(), StoreError> {
        let head = self.0.head.clone();
        let written = tokio::task::spawn_blocking(move || given_up.write(&head));
        Ok(written.await.map_err(|_| StoreError::Stopped)??)
    }
}

/// Returns the last row to delete: the last before `time`, but never the last of all.
///
/// Only a prefix of the chain can be deleted. A row that a wrong clock placed after a newer one therefore stays with
/// it.
fn last_prunable(connection: &Connection<'_>, time: i64) -> sql::Result<Option<(i64, Vec<u8>)>> {
    connection
        // Rows before the first row that is young enough, by id; without such a row, all but the last.
        .query_row(
            "SELECT id, hash FROM audit
             WHERE id < coalesce((SELECT min(id) FROM audit WHERE at >= ?1), (SELECT max(id) FROM audit))
             ORDER BY id DESC LIMIT 1",
            [time],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .optional()
}
