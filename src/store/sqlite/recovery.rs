//! Restoring a damaged database, from the newest intact backup and whatever can be read of the damaged file.
//!
//! The damaged file is newer, so its rows win where they can be read. A table that can be read to its end replaces the
//! one of the backup. Of any other table, the readable rows are added to those of the backup and replace rows with the
//! same key. Audit rows are taken only as long as each one follows the one before it.

use std::path::{Path, PathBuf};

use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags};
use serde::Serialize;

use super::connection::{connect, create_private, files_of, require_files, wal_of};
use super::integrity::{self, CheckDepth};
use super::{backup, damage_recheck, schema};
use crate::clock::unix_ms;
use crate::error::{Explain as _, Kind};
use crate::home::{Home, regular};
use crate::store::audit_chain::{self, ChainHead, PruneMarker};
use crate::store::{StoreError, database_file, sql};

/// The result of a restore.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RestoreOutcome {
    /// The backup that it started from; `None` if there was no intact one.
    pub backup: Option<PathBuf>,
    /// Unix milliseconds at which that backup was made.
    pub backup_at: Option<i64>,
    /// The folder that the damaged database was moved to, if there was one.
    pub set_aside: Option<PathBuf>,
    /// The rows taken from the damaged database, by table.
    pub tables: Vec<RecoveredTable>,
    /// Set if the damaged database could be read completely.
    pub is_complete: bool,
}

/// The rows taken from one table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RecoveredTable {
    pub name: String,
    /// The number of rows that could be read.
    pub rows: u64,
    /// Set if those were all rows of the table.
    pub is_complete: bool,
}

/// Tables that are not copied as a whole: the hash chain decides which of their rows are kept.
const AUDIT_TABLES: [&str; 2] = ["audit", "audit_base"];

/// Replaces the home's database by a restored one and moves the old one aside. Nothing may use the database meanwhile.
///
/// `from` is the backup to start from. Without it, the newest intact backup is used, if there is one.
///
/// # Errors
///
/// Returns [`StoreError::OnServer`] if a server keeps the database, [`StoreError::Unreadable`] if the disk fails to read
/// the old database or a backup, [`StoreError::NoFile`] if
/// the old one is not a regular file, [`StoreError::Backup`], [`StoreError::Query`] or [`StoreError::Damaged`] if the
/// new one can't be made or is not intact, and [`StoreError::Create`] if it can't be put in place. Up to that last step
/// the old database is untouched.
pub fn restore(home: &Home, from: Option<&Path>) -> Result<RestoreOutcome, StoreError> {
    database_file(home, "restore the database")?;
    let mut restored = RestoreOutcome::default();
    match from {
        Some(path) => restored.backup = Some(path.to_owned()),
        None => {
            if let Some(found) = newest_intact(home)? {
                restored.backup_at = Some(found.at);
                restored.backup = Some(found.path);
            }
        }
    }
    // Everything happens in a draft, so that the old database stays in place until the new one is complete and checked.
    // The name has the form of the temporary files of `home::atomic`, so one that a killed process leaves is swept.
    let draft = home.data().join(format!(".new-{}-remake", std::process::id()));
    let made = build_draft(home, &mut restored, &draft);
    if let Err(error) = made {
        remove_database_files(&draft);
        return Err(error);
    }
    let place = |source| StoreError::Create { path: home.database(), source };
    restored.set_aside = set_aside(home).map_err(place)?;
    fs_err::rename(&draft, home.database()).map_err(place)?;
    std::fs::File::open(home.data()).and_then(|folder| folder.sync_all()).map_err(place)?;
    Ok(restored)
}

/// Returns the newest intact backup. A backup that the disk fails to read is an error: skipping it for an older one
/// would lose more.
fn newest_intact(home: &Home) -> Result<Option<backup::Backup>, StoreError> {
    for found in backup::list(home) {
        match integrity::check(&found.path, CheckDepth::Deep) {
            Ok(checked) if checked.is_whole() => return Ok(Some(found)),
            Err(error) if error.kind() == Kind::Unreadable => return Err(error),
            _ => {}
        }
    }
    Ok(None)
}

fn build_draft(home: &Home, restored: &mut RestoreOutcome, draft: &Path) -> Result<(), StoreError> {
    let failed = |source: sql::Error| StoreError::query("restore the database", source);
    if let Some(from) = &restored.backup {
        backup::copy(from, draft).map_err(|source| StoreError::Backup { path: from.clone(), source })?;
    } else {
        create_private(draft)?;
    }
    let mut new = connect(draft, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    schema::migrate_copy(&mut new, draft)?;
    let remains = draft.with_extension("remains");
    let opened = copy_damaged(&home.database(), &remains).map(|is_there| {
        if is_there { open_damaged_copy(restored.backup.as_deref(), &remains) } else { None }
    });
    let result = match opened.inspect_err(|_| remove_database_files(&remains))? {
        Some(old) => copy_readable_rows(&mut new, &old).map(|tables| {
            restored.is_complete = tables.iter().all(|table| table.is_complete);
            restored.tables = tables;
        }),
        None => Ok(()),
    };
    remove_database_files(&remains);
    result.map_err(failed)?;
    repair_references(&new, home).map_err(failed)?;
    // Leave WAL mode: the file is renamed without the log that would lie beside it.
    let left = new.query_row("PRAGMA journal_mode = DELETE", (), |_| Ok(()));
    left.map_err(|source| failed(source.into()))?;
    drop(new);
    let checked = integrity::check(draft, CheckDepth::Deep)?;
    if !checked.is_whole() {
        return Err(StoreError::Damaged { path: draft.to_owned(), what: checked.summary() });
    }
    let synced = std::fs::File::open(draft).and_then(|file| file.sync_all());
    synced.map_err(|source| StoreError::Create { path: draft.to_owned(), source })
}

/// Copies the damaged file and its log, so that reading them changes nothing. Returns `false` if there is no file.
fn copy_damaged(damaged: &Path, copy: &Path) -> Result<bool, StoreError> {
    let is_gone = |error: &std::io::Error| error.kind() == std::io::ErrorKind::NotFound;
    // A FIFO or a folder is not a disk fault and must not be reported as one.
    require_files(damaged)?;
    match damage_recheck::read(damaged) {
        Ok(()) => {}
        Err(error) if is_gone(&error) => return Ok(false),
        // The disk may be able to read all of it later, so do not continue with a part.
        Err(error) => return Err(StoreError::Unreadable { path: damaged.to_owned(), source: error.into() }),
    }
    for (from, to) in [(damaged.to_owned(), copy.to_owned()), (wal_of(damaged), wal_of(copy))] {
        match regular::copy(&from, &to) {
            Ok(_) => {}
            // Without a log, the file alone is all there is.
            Err(error) if is_gone(&error) => {}
            Err(source) => return Err(StoreError::Create { path: to, source }),
        }
    }
    Ok(true)
}

/// Opens the copy of the damaged file. A damaged file header is replaced by that of the backup.
fn open_damaged_copy(backup: Option<&Path>, copy: &Path) -> Option<Connection> {
    use std::os::unix::fs::FileExt as _;
    // The length of SQLite's file header.
    const HEADER_BYTES: usize = 100;
    let file = std::fs::OpenOptions::new().read(true).write(true).open(copy).ok()?;
    let mut head = [0; HEADER_BYTES];
    file.read_exact_at(&mut head, 0).ok()?;
    let open = || {
        let old = connect(copy, OpenFlags::SQLITE_OPEN_READ_WRITE).ok()?;
        schema::check(&old, copy).ok().filter(|version| *version > 0).map(|_| old)
    };
    if let Some(old) = open() {
        return Some(old);
    }
    let mut whole = [0; HEADER_BYTES];
    regular::open(backup?).ok()?.read_exact_at(&mut whole, 0).ok()?;
    // The page count is in bytes 28 to 31 of the header, and has to be the damaged file's own.
    let pages = u32::try_from(file.metadata().ok()?.len() / 4096).ok()?;
    whole[28..32].copy_from_slice(&pages.to_be_bytes());
    file.write_all_at(&whole, 0).ok()?;
    open()
}

/// Copies what can be read of the old database into the new one.
fn copy_readable_rows(new: &mut Connection, old: &Connection) -> sql::Result<Vec<RecoveredTable>> {
    // Tables are copied one by one, so references between them hold only at the end. `repair_references` checks them.
    new.pragma_update(None, "foreign_keys", false)?;
    let names = integrity::tables(new)?;
    let transaction = new.transaction()?;
    let mut taken = Vec::new();
    for name in
        names.iter().filter(|name| *name != "schema_version" && !AUDIT_TABLES.contains(&name.as_str()))
    {
        taken.push(table(&transaction, old, name)?);
    }
    taken.push(audit_chain::take_over(
        &sql::Transaction::sqlite(&transaction),
        &sql::Connection::sqlite(old),
    )?);
    // The full-text index is not copied but built again from the messages.
    transaction.execute("INSERT INTO message_text (message_text) VALUES ('rebuild')", ())?;
    transaction.commit()?;
    Ok(taken)
}

fn table(new: &Connection, old: &Connection, name: &str) -> rusqlite::Result<RecoveredTable> {
    let wanted = columns(new, name)?;
    let there = columns(old, name).unwrap_or_default();
    // The old database may have an older schema, so only columns that both have are copied.
    let shared: Vec<String> = wanted.into_iter().filter(|column| there.contains(column)).collect();
    let mut taken = RecoveredTable { name: name.to_owned(), rows: 0, is_complete: false };
    if shared.is_empty() {
        return Ok(taken);
    }
    let list = shared.iter().map(|column| format!("\"{column}\"")).collect::<Vec<_>>().join(", ");
    let places = vec!["?"; shared.len()].join(", ");
    let insert = format!("INSERT OR REPLACE INTO \"{name}\" ({list}) VALUES ({places})");
    let select = format!("SELECT {list} FROM \"{name}\"");
    let (_, is_readable) = copy_rows(old, &select, |_| Ok(()));
    if is_readable {
        // A row that is in the backup only was deleted after the backup was made.
        new.execute(&format!("DELETE FROM \"{name}\""), ())?;
    }
    let mut statement = new.prepare(&insert)?;
    let mut put = |values: Vec<Value>| statement.execute(rusqlite::params_from_iter(values)).map(drop);
    let (rows, are_all_put) = copy_rows(old, &select, &mut put);
    taken.rows = rows;
    // A row that can be read and that the new table rejects is lost as well.
    taken.is_complete = is_readable && are_all_put;
    if !is_readable {
        let order = key(old, name).unwrap_or_else(|_| "rowid".to_owned());
        // Read backwards from the end as well, up to the damage. A row that is read twice replaces itself.
        let (more, _) = copy_rows(old, &format!("{select} ORDER BY {order}"), &mut put);
        taken.rows += more;
    }
    Ok(taken)
}

/// Passes each row that can be read to `put`. Returns their number, and `true` if those were all.
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
            // A value that the new table rejects was damaged as well.
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

/// Returns an ORDER BY clause that starts at the end of a table.
fn key(connection: &Connection, table: &str) -> rusqlite::Result<String> {
    let key: Vec<String> = connection
        .prepare("SELECT name FROM pragma_table_info(?1) WHERE pk > 0 ORDER BY pk")?
        .query_map([table], |row| row.get::<_, String>(0))?
        .collect::<rusqlite::Result<_>>()?;
    let order = key.iter().map(|column| format!("\"{column}\" DESC")).collect::<Vec<_>>().join(", ");
    Ok(if order.is_empty() { "rowid DESC".to_owned() } else { order })
}

/// Removes contradictions between rows that come from two databases.
fn repair_references(new: &Connection, home: &Home) -> sql::Result<()> {
    // Delete rows whose parent row could not be read. A deleted row may be a parent itself, so repeat until nothing
    // changes.
    loop {
        let orphans: Vec<(String, Option<i64>)> = new
            .prepare("SELECT DISTINCT \"table\", rowid FROM pragma_foreign_key_check")?
            .query_map((), |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<rusqlite::Result<_>>()?;
        let mut deleted = 0;
        for (table, row) in orphans {
            deleted += match row {
                Some(row) => new.execute(&format!("DELETE FROM \"{table}\" WHERE rowid = ?1"), [row])?,
                // For a table without rowids, SQLite reports only that such rows exist.
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
    // The start of the kept chain is recorded as a deletion by flock, or the audit would look cut.
    if let Some((id, hash)) = audit_chain::base(&sql::Connection::sqlite(new))? {
        let kept = PruneMarker { rows: vec![ChainHead::new(id, &hash)] };
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

/// Moves the database and the files beside it into a new folder. Returns the folder, or `None` if there was no
/// database.
fn set_aside(home: &Home) -> std::io::Result<Option<PathBuf>> {
    use std::os::unix::fs::DirBuilderExt as _;
    let database = home.database();
    let folder = home.data().join(format!("damaged-{}", unix_ms()));
    let mut moved = false;
    for path in files_of(&database) {
        let Some(name) = path.file_name().filter(|_| path.symlink_metadata().is_ok()) else { continue };
        if !moved {
            std::fs::DirBuilder::new().mode(0o700).create(&folder)?;
            moved = true;
        }
        fs_err::rename(&path, folder.join(name))?;
    }
    Ok(moved.then_some(folder))
}

fn remove_database_files(path: &Path) {
    for path in files_of(path) {
        // Most of these files do not exist.
        drop(fs_err::remove_file(path));
    }
}

#[cfg(test)]
#[path = "salvage_tests.rs"]
mod tests;
