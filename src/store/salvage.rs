//! A new database from the newest whole backup and what can be read of the damaged one.
//!
//! What the damaged one holds is newer, so it counts where it can be read. A table that can be read to its end is taken
//! whole; of any other one the rows that can be read are laid over those of the backup. The audit is taken only as far as
//! each row follows the one before it.

use std::path::{Path, PathBuf};

use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags};
use serde::Serialize;

use super::chain::{self, GivenUp, Head};
use super::damage::{self, Depth};
use super::{Store, StoreError, backup, connect, create_private, doubt, require_files, schema, wal_of};
use crate::clock::unix_ms;
use crate::error::{Explain as _, Kind};
use crate::home::{Home, regular};

/// What a restore brought back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Restored {
    /// The backup that it began with.
    pub backup: Option<PathBuf>,
    /// When that was made, in Unix milliseconds.
    pub backup_at: Option<i64>,
    /// Where the database of before was put, if there was one.
    pub set_aside: Option<PathBuf>,
    /// The rows that were taken from it, table by table.
    pub tables: Vec<Taken>,
    /// Whether all of it could be read.
    pub is_complete: bool,
}

/// What was taken of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Taken {
    /// Its name.
    pub name: String,
    /// How many rows could be read.
    pub rows: u64,
    /// Whether those were all.
    pub is_complete: bool,
}

/// The rows of the audit that are kept are chosen one by one.
const AUDIT: [&str; 2] = ["audit", "audit_base"];

/// Puts a new database in place of the home's, which is set aside with all that it holds. Nothing may use it meanwhile.
/// `from` is the backup to begin with; without one it is the newest that is whole, if there is any.
///
/// # Errors
///
/// As [`StoreError`] says; the old database is then where it was.
pub fn restore(home: &Home, from: Option<&Path>) -> Result<Restored, StoreError> {
    let mut restored = Restored::default();
    match from {
        Some(path) => restored.backup = Some(path.to_owned()),
        None => {
            if let Some(found) = newest_whole(home)? {
                restored.backup_at = Some(found.at);
                restored.backup = Some(found.path);
            }
        }
    }
    let draft = home.data().join(format!(".new-{}-remake", std::process::id()));
    let made = make(home, &mut restored, &draft);
    if let Err(error) = made {
        remove_all_of(&draft);
        return Err(error);
    }
    let place = |source| StoreError::Create { path: home.database(), source };
    restored.set_aside = set_aside(home).map_err(place)?;
    fs_err::rename(&draft, home.database()).map_err(place)?;
    std::fs::File::open(home.data()).and_then(|folder| folder.sync_all()).map_err(place)?;
    Ok(restored)
}

/// The newest backup that is whole. One that the disk fails to read is not passed over: an older one would lose more.
fn newest_whole(home: &Home) -> Result<Option<backup::Backup>, StoreError> {
    for found in backup::list(home) {
        match damage::check(&found.path, Depth::Deep) {
            Ok(checked) if checked.is_whole() => return Ok(Some(found)),
            Err(error) if error.kind() == Kind::Unreadable => return Err(error),
            _ => {}
        }
    }
    Ok(None)
}

fn make(home: &Home, restored: &mut Restored, draft: &Path) -> Result<(), StoreError> {
    let failed = |source| StoreError::query("restore the database", source);
    if let Some(from) = &restored.backup {
        backup::copy(from, draft).map_err(|source| StoreError::Backup { path: from.clone(), source })?;
    } else {
        create_private(draft)?;
    }
    let mut new = connect(draft, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    schema::bring_up(&mut new, draft)?;
    let remains = draft.with_extension("remains");
    let opened = copy_remains(&home.database(), &remains)
        .map(|is_there| if is_there { open_remains(restored.backup.as_deref(), &remains) } else { None });
    let result = match opened.inspect_err(|_| remove_all_of(&remains))? {
        Some(old) => lay_over(&mut new, &old).map(|tables| {
            restored.is_complete = tables.iter().all(|table| table.is_complete);
            restored.tables = tables;
        }),
        None => Ok(()),
    };
    remove_all_of(&remains);
    result.map_err(failed)?;
    settle(&new, home).map_err(failed)?;
    // No log stays beside the file that is renamed.
    new.query_row("PRAGMA journal_mode = DELETE", (), |_| Ok(())).map_err(failed)?;
    drop(new);
    let checked = damage::check(draft, Depth::Deep)?;
    if !checked.is_whole() {
        return Err(StoreError::Damaged { path: draft.to_owned(), what: checked.summary() });
    }
    let synced = std::fs::File::open(draft).and_then(|file| file.sync_all());
    synced.map_err(|source| StoreError::Create { path: draft.to_owned(), source })
}

/// Copies the damaged file, to read from it while the file itself stays as it is. Whether there is one.
fn copy_remains(damaged: &Path, copy: &Path) -> Result<bool, StoreError> {
    let is_gone = |error: &std::io::Error| error.kind() == std::io::ErrorKind::NotFound;
    // What no disk fails to read must not be taken for that.
    require_files(damaged)?;
    match doubt::read(damaged) {
        Ok(()) => {}
        Err(error) if is_gone(&error) => return Ok(false),
        // All of it may be readable again soon.
        Err(error) => return Err(StoreError::Unreadable { path: damaged.to_owned(), source: error.into() }),
    }
    for (from, to) in [(damaged.to_owned(), copy.to_owned()), (wal_of(damaged), wal_of(copy))] {
        match regular::copy(&from, &to) {
            Ok(_) => {}
            // Without a log there is only what is in the file.
            Err(error) if is_gone(&error) => {}
            Err(source) => return Err(StoreError::Create { path: to, source }),
        }
    }
    Ok(true)
}

/// Opens the copy of the damaged file. Where its head is damaged that of the backup is put before it.
fn open_remains(backup: Option<&Path>, copy: &Path) -> Option<Connection> {
    use std::os::unix::fs::FileExt as _;
    const HEAD: usize = 100;
    let file = std::fs::OpenOptions::new().read(true).write(true).open(copy).ok()?;
    let mut head = [0; HEAD];
    file.read_exact_at(&mut head, 0).ok()?;
    let open = || {
        let old = connect(copy, OpenFlags::SQLITE_OPEN_READ_WRITE).ok()?;
        schema::check(&old, copy).ok().filter(|version| *version > 0).map(|_| old)
    };
    if let Some(old) = open() {
        return Some(old);
    }
    let mut whole = [0; HEAD];
    regular::open(backup?).ok()?.read_exact_at(&mut whole, 0).ok()?;
    // The pages it has are its own.
    let pages = u32::try_from(file.metadata().ok()?.len() / 4096).ok()?;
    whole[28..32].copy_from_slice(&pages.to_be_bytes());
    file.write_all_at(&whole, 0).ok()?;
    open()
}

/// Takes what can be read of the old database into the new one.
fn lay_over(new: &mut Connection, old: &Connection) -> rusqlite::Result<Vec<Taken>> {
    new.pragma_update(None, "foreign_keys", false)?;
    let names = damage::tables(new)?;
    let transaction = new.transaction()?;
    let mut taken = Vec::new();
    for name in names.iter().filter(|name| *name != "schema_version" && !AUDIT.contains(&name.as_str())) {
        taken.push(table(&transaction, old, name)?);
    }
    taken.push(chain::take_over(&transaction, old)?);
    transaction.execute("INSERT INTO message_text (message_text) VALUES ('rebuild')", ())?;
    transaction.commit()?;
    Ok(taken)
}

fn table(new: &Connection, old: &Connection, name: &str) -> rusqlite::Result<Taken> {
    let wanted = columns(new, name)?;
    let there = columns(old, name).unwrap_or_default();
    let shared: Vec<String> = wanted.into_iter().filter(|column| there.contains(column)).collect();
    let mut taken = Taken { name: name.to_owned(), rows: 0, is_complete: false };
    if shared.is_empty() {
        return Ok(taken);
    }
    let list = shared.iter().map(|column| format!("\"{column}\"")).collect::<Vec<_>>().join(", ");
    let places = vec!["?"; shared.len()].join(", ");
    let insert = format!("INSERT OR REPLACE INTO \"{name}\" ({list}) VALUES ({places})");
    taken.is_complete = copy_rows(old, &format!("SELECT {list} FROM \"{name}\""), |_| Ok(())).1;
    if taken.is_complete {
        // What is no longer in it was deleted after the backup.
        new.execute(&format!("DELETE FROM \"{name}\""), ())?;
    }
    let mut statement = new.prepare(&insert)?;
    let mut put = |values: Vec<Value>| statement.execute(rusqlite::params_from_iter(values)).map(drop);
    let (rows, _) = copy_rows(old, &format!("SELECT {list} FROM \"{name}\""), &mut put);
    taken.rows = rows;
    if !taken.is_complete {
        let order = key(old, name).unwrap_or_else(|_| "rowid".to_owned());
        // From the other end, up to what can't be read. A row that is met twice is the same row.
        let (more, _) = copy_rows(old, &format!("SELECT {list} FROM \"{name}\" ORDER BY {order}"), &mut put);
        taken.rows += more;
    }
    Ok(taken)
}

/// Hands over each row as far as they can be read: gives how many, and whether those were all.
fn copy_rows(
    old: &Connection,
    select: &str,
    mut put: impl FnMut(Vec<Value>) -> rusqlite::Result<()>,
) -> (u64, bool) {
    let mut count = 0;
    let mut is_complete = true;
    let mut copy = || -> rusqlite::Result<()> {
        let mut statement = old.prepare(select)?;
        let columns = statement.column_count();
        let mut rows = statement.query(())?;
        while let Some(row) = rows.next()? {
            let values: rusqlite::Result<Vec<Value>> = (0..columns).map(|column| row.get(column)).collect();
            // A value that its table does not take was damaged, too.
            match values.and_then(&mut put) {
                Ok(()) => count += 1,
                Err(_) => is_complete = false,
            }
        }
        Ok(())
    };
    let result = copy();
    (count, result.is_ok() && is_complete)
}

fn columns(connection: &Connection, table: &str) -> rusqlite::Result<Vec<String>> {
    connection
        .prepare("SELECT name FROM pragma_table_info(?1)")?
        .query_map([table], |row| row.get(0))?
        .collect()
}

/// The order that begins with a table's end.
fn key(connection: &Connection, table: &str) -> rusqlite::Result<String> {
    let key: Vec<String> = connection
        .prepare("SELECT name FROM pragma_table_info(?1) WHERE pk > 0 ORDER BY pk")?
        .query_map([table], |row| row.get::<_, String>(0))?
        .collect::<rusqlite::Result<_>>()?;
    let order = key.iter().map(|column| format!("\"{column}\" DESC")).collect::<Vec<_>>().join(", ");
    Ok(if order.is_empty() { "rowid DESC".to_owned() } else { order })
}

/// Makes what was taken from two databases fit together.
fn settle(new: &Connection, home: &Home) -> rusqlite::Result<()> {
    // Rows whose own row could not be read.
    loop {
        let orphans: Vec<(String, Option<i64>)> = new
            .prepare("SELECT DISTINCT \"table\", rowid FROM pragma_foreign_key_check")?
            .query_map((), |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<rusqlite::Result<_>>()?;
        let mut deleted = 0;
        for (table, row) in orphans {
            deleted += match row {
                Some(row) => new.execute(&format!("DELETE FROM \"{table}\" WHERE rowid = ?1"), [row])?,
                // A table without row numbers says only that there are some.
                None => delete_orphans(new, &table)?,
            };
        }
        if deleted == 0 {
            break;
        }
    }
    new.execute_batch(
        "UPDATE channel SET last_seq = max(last_seq,
             coalesce((SELECT max(seq) FROM message WHERE message.channel = channel.id), 0));
         UPDATE delivery SET delivered_seq = min(delivered_seq,
             coalesce((SELECT last_seq FROM channel WHERE channel.id = delivery.channel), 0));",
    )?;
    // What the chain begins after is what this database was given up to.
    if let Some((id, hash)) = chain::base(new)? {
        let kept = GivenUp { rows: vec![Head::new(id, &hash)] };
        if let Err(error) = kept.write(&home.audit_head()) {
            tracing::error!(error = crate::error::chain(&error), "failed to write where the audit begins");
        }
    }
    Ok(())
}

fn delete_orphans(new: &Connection, table: &str) -> rusqlite::Result<usize> {
    let keys: Vec<(String, String, Option<String>)> = new
        .prepare("SELECT \"from\", \"table\", \"to\" FROM pragma_foreign_key_list(?1)")?
        .query_map([table], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
        .collect::<rusqlite::Result<_>>()?;
    let mut deleted = 0;
    for (from, parent, to) in keys {
        let to = to.unwrap_or_else(|| "rowid".to_owned());
        deleted += new.execute(
            &format!("DELETE FROM \"{table}\" WHERE \"{from}\" NOT IN (SELECT \"{to}\" FROM \"{parent}\")"),
            (),
        )?;
    }
    Ok(deleted)
}

/// Puts the database and what lies beside it into a folder of its own; gives that.
fn set_aside(home: &Home) -> std::io::Result<Option<PathBuf>> {
    use std::os::unix::fs::DirBuilderExt as _;
    let database = home.database();
    let folder = home.data().join(format!("damaged-{}", unix_ms()));
    let mut moved = false;
    for suffix in ["", "-wal", "-shm"] {
        let mut path = database.as_os_str().to_owned();
        path.push(suffix);
        let path = PathBuf::from(path);
        let Some(name) = path.file_name().filter(|_| path.symlink_metadata().is_ok()) else { continue };
        if !moved {
            std::fs::DirBuilder::new().mode(0o700).create(&folder)?;
            moved = true;
        }
        fs_err::rename(&path, folder.join(name))?;
    }
    Ok(moved.then_some(folder))
}

fn remove_all_of(path: &Path) {
    for suffix in ["", "-wal", "-shm", "-journal"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        // Most of them are not there.
        drop(fs_err::remove_file(PathBuf::from(name)));
    }
}

/// A session that a transcript tells of and the database does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostSession {
    /// Its key.
    pub key: crate::id::SessionKey,
    /// The name of its transcript, without the ending.
    pub file: String,
    /// When it began, in Unix milliseconds.
    pub created_at: i64,
    /// When it was used last.
    pub updated_at: i64,
    /// Up to where its transcript holds which channel.
    pub delivered: Option<(crate::id::ChannelId, u64)>,
}

impl Store {
    /// Takes up sessions that only their transcripts know, and moves positions to where transcripts say that messages were
    /// shown. Gives how many sessions there were.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub async fn restore_sessions(&self, sessions: Vec<LostSession>) -> Result<usize, StoreError> {
        self.write("restore sessions", move |transaction| {
            let mut added = 0;
            for lost in sessions {
                let agent = lost.key.agent().as_str();
                added += transaction.execute(
                    "INSERT OR IGNORE INTO session (key, file, agent, kind, created_at, updated_at)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                    (
                        lost.key.as_str(),
                        &lost.file,
                        agent,
                        lost.key.kind().as_str(),
                        lost.created_at,
                        lost.updated_at,
                    ),
                )?;
                if let Some((channel, seq)) = &lost.delivered {
                    transaction.execute(
                        "UPDATE delivery SET delivered_seq = max(delivered_seq, min(?3,
                             (SELECT last_seq FROM channel WHERE channel.id = delivery.channel)))
                         WHERE agent = ?1 AND channel = ?2",
                        (agent, channel.as_str(), super::post::number(*seq)),
                    )?;
                }
            }
            Ok(added)
        })
        .await
    }
}

#[cfg(test)]
#[path = "salvage_tests.rs"]
mod tests;
