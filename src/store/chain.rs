//! The chain that the rows of the audit make: walked from its beginning, and compared with a file that says
//! where it ends. A row that was changed, put in or taken out breaks the chain; rows that were cut off its
//! end leave the file behind, which is why the end is written down outside of the database. So is what flock
//! itself gave up at its beginning: a database that says so of more than that has lost rows.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension as _, Row, TransactionBehavior};
use serde::{Deserialize, Serialize};

use super::audit::{self, AuditEntry, Level};
use super::{Reader, Store, StoreError};
use crate::home::{HomeError, atomic};
use crate::id::hex;

/// Where the chain ends: the number and the hash of its last row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Head {
    /// The row's number; 0 before the first.
    pub(super) id: i64,
    /// Its hash in hex.
    pub(super) hash: String,
}

impl Head {
    pub(super) fn new(id: i64, hash: &[u8]) -> Self {
        Self { id, hash: hex(hash) }
    }

    /// Puts it at `path` and returns when it is on the disk.
    pub(super) fn write(&self, path: &Path) -> Result<(), HomeError> {
        atomic::write(path, serde_json::json!(self).to_string().as_bytes(), 0o600)
    }

    /// What is at `path`; `None` where nothing of the kind is there.
    fn read(path: &Path) -> Result<Option<Self>, HomeError> {
        Ok(content(path)?.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
    }
}

/// What a file beside the database holds; `None` where it is not there, or somebody put something else in its place. That it
/// can't be read for now is neither.
fn content(path: &Path) -> Result<Option<Vec<u8>>, HomeError> {
    use std::io::ErrorKind::{FileTooLarge, InvalidInput};
    match atomic::read(path, 4096) {
        Err(HomeError::Io { source, .. }) if matches!(source.kind(), FileTooLarge | InvalidInput) => Ok(None),
        read => read,
    }
}

/// What was given up of the chain's beginning: its last row. Written down before the rows go and after, so
/// that a crash in between leaves one of the two.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct GivenUp {
    pub(super) rows: Vec<Head>,
}

impl GivenUp {
    /// Beside the file that says where the chain ends.
    fn path(head: &Path) -> PathBuf {
        head.with_file_name("audit.base")
    }

    /// None where nothing of the kind is there.
    fn read(head: &Path) -> Result<Self, HomeError> {
        let bytes = content(&Self::path(head))?;
        Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default())
    }

    pub(super) fn write(&self, head: &Path) -> Result<(), HomeError> {
        atomic::write(&Self::path(head), serde_json::json!(self).to_string().as_bytes(), 0o600)
    }
}

/// What a walk along the whole chain found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verified {
    /// How many rows there are.
    pub rows: u64,
    /// The number of the last one; 0 where there is none.
    pub last: i64,
    /// The first thing that does not fit.
    pub broken: Option<Broken>,
}

/// Where a chain does not fit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("row {id} {reason}")]
pub struct Broken {
    /// The row.
    pub id: i64,
    /// What is wrong with it.
    pub reason: &'static str,
}

/// The action of the row that says that the chain had been cut off when flock opened it.
const CUT: &str = "audit.cut";
/// What such a row is said to be.
const SAYS_CUT: &str = "says that rows before it had been cut off";

const PAGE: u32 = 1000;

/// The chain's last row, or that which the first row follows.
pub(super) fn last(connection: &Connection) -> rusqlite::Result<Option<(i64, Vec<u8>)>> {
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

/// What was the last of the rows that are not kept any more.
pub(super) fn base(connection: &Connection) -> rusqlite::Result<Option<(i64, Vec<u8>)>> {
    connection
        .prepare_cached("SELECT id, hash FROM audit_base")?
        .query_row((), |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()
}

/// Where the chain ends.
pub(super) fn head(connection: &Connection) -> rusqlite::Result<Head> {
    Ok(match last(connection)? {
        Some((id, hash)) => Head::new(id, &hash),
        None => Head::new(0, &[0; 32]),
    })
}

/// Compares the chain with the file when the database is opened to be written. What was cut off is lost, but
/// that it was must not be: the next head would cover it up. Gives the head that is in the file now.
pub(super) fn open(connection: &mut Connection, path: &Path) -> Result<Head, StoreError> {
    let (written, given_up) = (Head::read(path)?, GivenUp::read(path)?);
    let opened = compare(connection, path, written, &given_up);
    opened.map_err(|source| StoreError::query("read where the audit ends", source))
}

fn compare(
    connection: &mut Connection,
    path: &Path,
    written: Option<Head>,
    given_up: &GivenUp,
) -> rusqlite::Result<Head> {
    let now = head(connection)?;
    if written.is_none() && now.id == 0 {
        note(now.write(path));
        return Ok(now);
    }
    if cut(connection, written.as_ref(), given_up)?.is_none() {
        return Ok(written.unwrap_or(now));
    }
    tracing::error!("rows of the audit are missing");
    let entry = AuditEntry {
        actor: "system".to_owned(),
        action: CUT,
        subject: "audit".to_owned(),
        level: Level::Red,
        detail: match &written {
            Some(head) => format!("the last row was {} with the hash {}", head.id, head.hash),
            None => "it was not written down which row was the last".to_owned(),
        },
        session: None,
        turn: None,
    };
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    audit::append(&transaction, &entry, crate::clock::unix_ms())?;
    transaction.commit()?;
    let now = head(connection)?;
    note(now.write(path));
    Ok(now)
}

fn note(written: Result<(), HomeError>) {
    if let Err(error) = written {
        tracing::error!(error = crate::error::chain(&error), "failed to write where the audit ends");
    }
}

/// What is missing of the chain that ended with `written`.
fn cut(
    connection: &Connection,
    written: Option<&Head>,
    given_up: &GivenUp,
) -> rusqlite::Result<Option<Broken>> {
    if let Some((id, hash)) = base(connection)?
        && !given_up.rows.contains(&Head::new(id, &hash))
    {
        return Ok(Some(Broken {
            id,
            reason: "and those before it are missing, and flock did not give them up",
        }));
    }
    let Some(written) = written else {
        return Ok(Some(Broken {
            id: head(connection)?.id,
            reason: "is the last, and nothing says that it is",
        }));
    };
    let kept_from = base(connection)?.map_or(0, |(id, _)| id);
    if written.id <= kept_from {
        return Ok(None);
    }
    let hash: Option<Vec<u8>> = connection
        .prepare_cached("SELECT hash FROM audit WHERE id = ?1")?
        .query_row([written.id], |row| row.get(0))
        .optional()?;
    Ok(match hash {
        None => Some(Broken { id: written.id, reason: "was the last and is missing" }),
        Some(hash) if hex(&hash) != written.hash => {
            Some(Broken { id: written.id, reason: "is not the row that was the last" })
        }
        Some(_) => None,
    })
}

/// Walks along the chain in one view of the database. The inner error is that of a file beside it.
fn verify(connection: &Connection, path: &Path) -> rusqlite::Result<Result<Verified, HomeError>> {
    // Before the rows: a head that is written meanwhile would name rows that this view does not hold.
    let (written, before) = match (Head::read(path), GivenUp::read(path)) {
        (Ok(written), Ok(before)) => (written, before),
        (Err(error), _) | (_, Err(error)) => return Ok(Err(error)),
    };
    let view = connection.unchecked_transaction()?;
    let mut verified = Verified { rows: 0, last: 0, broken: None };
    let (mut at, mut previous) = base(&view)?.unwrap_or_else(|| (0, vec![0; 32]));
    loop {
        let mut statement = view.prepare_cached(
            "SELECT id, previous, hash, at, actor, action, subject, level, detail, session, turn
             FROM audit WHERE id > ?1 ORDER BY id LIMIT ?2",
        )?;
        let mut rows = statement.query((at, PAGE))?;
        let mut is_empty = true;
        while let Some(row) = rows.next()? {
            is_empty = false;
            let id: i64 = row.get(0)?;
            let hash: Vec<u8> = row.get(2)?;
            verified.rows += 1;
            verified.last = id;
            verified.broken = fault(row, at, &previous, &hash)?;
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
    // And after them: rows may have been given up just before this view began.
    let mut given_up = match GivenUp::read(path) {
        Ok(given_up) => given_up,
        Err(error) => return Ok(Err(error)),
    };
    given_up.rows.extend(before.rows);
    verified.broken = cut(&view, written.as_ref(), &given_up)?;
    Ok(Ok(verified))
}

/// Takes over the rows of another database's audit. Where all of them follow each other they are taken as they are, else
/// those that follow the last row here.
pub(super) fn take_over(
    new: &rusqlite::Transaction<'_>,
    old: &Connection,
) -> rusqlite::Result<super::salvage::Taken> {
    let mut taken = super::salvage::Taken { name: "audit".to_owned(), rows: 0, is_complete: false };
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
        let values: rusqlite::Result<Vec<rusqlite::types::Value>> =
            (0..11).map(|column| row.get(column)).collect();
        insert.execute(rusqlite::params_from_iter(values?)).map(drop)
    };
    // Where what follows the last of them can't be read, none is taken.
    let (rows, is_all) = follows(old, start.0, &start.1, put).unwrap_or_default();
    taken.rows = rows;
    taken.is_complete = is_all;
    Ok(taken)
}

/// Whether all rows of the old audit follow each other, from `id` on, and reach as far as those of the new one.
fn is_continued(new: &Connection, old: &Connection, id: i64, hash: &[u8]) -> rusqlite::Result<bool> {
    let mut end = id;
    let reach = |row: &Row<'_>| {
        end = row.get(0)?;
        Ok(())
    };
    let is_all = follows(old, id, hash, reach).is_ok_and(|(_, is_all)| is_all);
    Ok(is_all && end >= head(new)?.id)
}

/// Hands over the rows after `id`, which has this hash, as far as each follows the one before it: gives how many, and
/// whether those were all.
fn follows(
    connection: &Connection,
    id: i64,
    hash: &[u8],
    mut put: impl FnMut(&Row<'_>) -> rusqlite::Result<()>,
) -> rusqlite::Result<(u64, bool)> {
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
        // A row that says that others had been cut off before it follows its own one all the same.
        if fault(row, at, &previous, &own)?.is_some_and(|broken| broken.reason != SAYS_CUT) {
            return Ok((count, false));
        }
        put(row)?;
        (at, previous) = (row.get(0)?, own);
        count += 1;
    }
}

/// What is wrong with a row that follows row `before`, whose hash is `previous`.
fn fault(row: &Row<'_>, before: i64, previous: &[u8], hash: &[u8]) -> rusqlite::Result<Option<Broken>> {
    let id: i64 = row.get(0)?;
    let broken = |reason| Ok(Some(Broken { id, reason }));
    if id != before + 1 {
        return broken("does not follow the row before it: rows are missing");
    }
    if row.get_ref(1)?.as_blob()? != previous {
        return broken("does not follow the row before it");
    }
    let at: i64 = row.get(3)?;
    let text = |column| -> rusqlite::Result<String> {
        Ok(row.get::<_, Option<String>>(column)?.unwrap_or_default())
    };
    let fields = [at.to_string(), text(4)?, text(5)?, text(6)?, text(7)?, text(8)?, text(9)?, text(10)?];
    if audit::link(previous, &fields.each_ref().map(String::as_str)) != hash {
        return broken("was changed");
    }
    if fields[2] == CUT {
        return broken(SAYS_CUT);
    }
    Ok(None)
}

impl Store {
    /// Walks along the whole audit.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says. That the chain is broken is no error.
    pub fn verify_audit(&self) -> Result<Verified, StoreError> {
        Ok(self.read("verify the audit", |connection| verify(connection, &self.head))??)
    }

    /// Forgets the rows before `time` (Unix milliseconds), but never the last. The chain still verifies.
    /// Gives how many they were.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub async fn prune_audit(&self, time: i64, entry: AuditEntry, now: i64) -> Result<u64, StoreError> {
        let what = "forget old rows of the audit";
        let ends = self.read(what, |connection| Ok((old_end(connection, time)?, base(connection)?)))?;
        let (Some((id, hash)), base) = ends else { return Ok(0) };
        let end = Head::new(id, &hash);
        let already = base.map(|(id, hash)| Head::new(id, &hash));
        // First what will be, or a crash would leave a chain that looks as if somebody had cut it.
        self.give_up(GivenUp { rows: already.into_iter().chain([end.clone()]).collect() }).await?;
        let pruned = self.write(what, move |transaction| {
            // Only a beginning that is still there: two may do this at once.
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
        self.give_up(GivenUp { rows: vec![end] }).await?;
        Ok(pruned)
    }

    async fn give_up(&self, given_up: GivenUp) -> Result<(), StoreError> {
        let head = self.head.clone();
        let written = tokio::task::spawn_blocking(move || given_up.write(&head));
        Ok(written.await.map_err(|_| StoreError::Stopped)??)
    }
}

/// The last of the rows before `time`, but never the last of all. Only a beginning of the chain can go: a row
/// that the clock put before others stays with them.
fn old_end(connection: &Connection, time: i64) -> rusqlite::Result<Option<(i64, Vec<u8>)>> {
    connection
        .query_row(
            "SELECT id, hash FROM audit
             WHERE id < coalesce((SELECT min(id) FROM audit WHERE at >= ?1), (SELECT max(id) FROM audit))
             ORDER BY id DESC LIMIT 1",
            [time],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .optional()
}

impl Reader {
    /// What is missing at the ends of the audit, without walking along it; `None` where nothing is. Where rows were found
    /// missing when the database was opened, a row says so.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub fn glance_at_audit(&self) -> Result<Option<Broken>, StoreError> {
        let (written, given_up) = (Head::read(&self.head)?, GivenUp::read(&self.head)?);
        self.read("look at the audit", |connection| {
            if written.is_none() && head(connection)?.id == 0 {
                return Ok(None);
            }
            if let Some(broken) = cut(connection, written.as_ref(), &given_up)? {
                return Ok(Some(broken));
            }
            let noted: Option<i64> = connection
                .prepare_cached(
                    "SELECT id FROM audit WHERE actor = 'system' AND action = ?1 ORDER BY id DESC LIMIT 1",
                )?
                .query_row([CUT], |row| row.get(0))
                .optional()?;
            Ok(noted.map(|id| Broken { id, reason: SAYS_CUT }))
        })
    }

    /// As [`Store::verify_audit`].
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub fn verify_audit(&self) -> Result<Verified, StoreError> {
        Ok(self.read("verify the audit", |connection| verify(connection, &self.head))??)
    }
}
