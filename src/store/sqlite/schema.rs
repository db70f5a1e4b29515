//! The schema versions of the database.
//!
//! A migration is an SQL file that is never changed after its release. Each runs in its own transaction, after the
//! database was saved to a backup.

use std::path::Path;

use rusqlite::{Connection, OpenFlags, OptionalExtension as _, TransactionBehavior};

use super::connection::{connect, is_there};
use crate::home::Home;
use crate::store::{StoreError, database_file};

/// The migrations; number `n`, counted from 0, leads to version `n + 1`.
const MIGRATIONS: &[&str] = &[
    include_str!("migrations/001.sql"),
    include_str!("migrations/002.sql"),
    include_str!("migrations/003.sql"),
    include_str!("migrations/004.sql"),
    include_str!("migrations/005.sql"),
    include_str!("migrations/006.sql"),
    include_str!("migrations/007.sql"),
    include_str!("migrations/008.sql"),
    include_str!("migrations/009.sql"),
    include_str!("migrations/010.sql"),
    include_str!("migrations/011.sql"),
    include_str!("migrations/012.sql"),
    include_str!("migrations/013.sql"),
    include_str!("migrations/014.sql"),
    include_str!("migrations/015.sql"),
    include_str!("migrations/016.sql"),
    include_str!("migrations/017.sql"),
    include_str!("migrations/018.sql"),
    include_str!("migrations/019.sql"),
    include_str!("migrations/020.sql"),
    include_str!("migrations/021.sql"),
    include_str!("migrations/022.sql"),
    include_str!("migrations/023.sql"),
    include_str!("migrations/024.sql"),
    include_str!("migrations/025.sql"),
    include_str!("migrations/026.sql"),
    include_str!("migrations/027.sql"),
    include_str!("migrations/028.sql"),
    include_str!("migrations/029.sql"),
    include_str!("migrations/030.sql"),
    include_str!("migrations/031.sql"),
    include_str!("migrations/032.sql"),
    include_str!("migrations/033.sql"),
    include_str!("migrations/034.sql"),
    include_str!("migrations/035.sql"),
    include_str!("migrations/036.sql"),
    include_str!("migrations/037.sql"),
    include_str!("migrations/038.sql"),
    include_str!("migrations/039.sql"),
    include_str!("migrations/040.sql"),
    include_str!("migrations/041.sql"),
    include_str!("migrations/042.sql"),
    include_str!("migrations/043.sql"),
    include_str!("migrations/044.sql"),
    include_str!("migrations/045.sql"),
    include_str!("migrations/046.sql"),
    include_str!("migrations/047.sql"),
];

/// Returns the newest version that this flock knows.
pub(in crate::store) fn newest() -> u32 {
    u32::try_from(MIGRATIONS.len()).unwrap_or(u32::MAX)
}

/// Returns the version of a database; 0 for an empty one.
///
/// # Errors
///
/// Returns [`StoreError::Newer`] if a newer flock created the database, [`StoreError::Unreadable`] if the disk fails to
/// read it, and [`StoreError::Open`] for any other failure, such as a file that is not a database.
pub(super) fn check(connection: &Connection, path: &Path) -> Result<u32, StoreError> {
    let found = version(connection).map_err(|source| StoreError::open(path, source))?;
    let known = newest();
    if found > known { Err(StoreError::Newer { path: path.to_owned(), found, known }) } else { Ok(found) }
}

/// Returns the schema version of the home's database; `None` if there is no database, or if a server keeps it, where
/// versions are counted for themselves.
///
/// # Errors
///
/// Returns [`StoreError::Newer`] if a newer flock created the database, and another error if it can't be read.
pub(crate) fn schema_version(home: &Home) -> Result<Option<u32>, StoreError> {
    let path = match database_file(home, "read the version of its file") {
        Err(StoreError::OnServer { .. }) => return Ok(None),
        found => found?,
    };
    if !is_there(&path)? {
        return Ok(None);
    }
    let connection = connect(&path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    check(&connection, &path).map(Some)
}

/// Returns `true` if a newer flock created the home's database.
#[must_use]
pub(crate) fn is_newer(home: &Home) -> bool {
    matches!(schema_version(home), Err(StoreError::Newer { .. }))
}

/// Migrates the database to the newest version. An existing database is saved to `backups` first.
pub(super) fn migrate(connection: &mut Connection, path: &Path, backups: &Path) -> Result<(), StoreError> {
    let first = check(connection, path)?;
    // An empty database has nothing to save.
    if first > 0 && first < newest() {
        save_backup(connection, first, backups)?;
    }
    apply_migrations(connection, first)
}

/// Migrates a copy of a database, which needs no backup.
pub(super) fn migrate_copy(connection: &mut Connection, path: &Path) -> Result<(), StoreError> {
    let first = check(connection, path)?;
    apply_migrations(connection, first)
}

fn apply_migrations(connection: &mut Connection, first: u32) -> Result<(), StoreError> {
    for (sql, version) in MIGRATIONS.iter().zip(1..).skip(first as usize) {
        apply_migration(connection, sql, version)
            .map_err(|source| StoreError::Migration { version, source: source.into() })?;
    }
    Ok(())
}

fn version(connection: &Connection) -> rusqlite::Result<u32> {
    let table = connection
        .query_row("SELECT 1 FROM sqlite_schema WHERE name = 'schema_version'", (), |_| Ok(()))
        .optional()?;
    match table {
        Some(()) => {
            connection.query_row("SELECT coalesce(max(version), 0) FROM schema_version", (), |row| row.get(0))
        }
        None => Ok(0),
    }
}

fn apply_migration(connection: &mut Connection, sql: &str, to: u32) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process may have migrated while this one waited for the lock.
    if version(&transaction)? >= to {
        return Ok(());
    }
    // An empty database does not have this table yet.
    transaction.execute_batch(
        "CREATE TABLE IF NOT EXISTS schema_version (version INTEGER PRIMARY KEY, applied_at INTEGER NOT NULL) STRICT;",
    )?;
    transaction.execute_batch(sql)?;
    transaction.execute("INSERT INTO schema_version VALUES (?1, ?2)", (to, crate::clock::unix_ms()))?;
    transaction.commit()
}

/// Saves the database as it is, through SQLite.
///
/// Copying the file itself would miss the write-ahead log, and closing the handle used for it would drop all of this
/// process's locks on the database.
fn save_backup(connection: &Connection, version: u32, backups: &Path) -> Result<(), StoreError> {
    let path = backups.join(format!("flock-v{version}-{}.db", crate::clock::unix_ms()));
    let result = || -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        super::backup::copy_of(connection, &path)?;
        super::backup::prune(backups);
        Ok(())
    };
    result().map_err(|source| StoreError::Backup { path: path.clone(), source })
}

#[cfg(test)]
pub(in crate::store) fn step_for_test(connection: &mut Connection, sql: &str, to: u32, backups: &Path) {
    save_backup(connection, to - 1, backups).unwrap();
    apply_migration(connection, sql, to).unwrap();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn migration_keeps_earlier_revocations_and_marks_older_grants_unlisted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("flock.db");
        let mut connection = Connection::open(&path).unwrap();
        for (sql, version) in MIGRATIONS.iter().zip(1..).take(9) {
            apply_migration(&mut connection, sql, version).unwrap();
        }
        let insert = |id: &str, state: &str, decided: &str, revoked: &str| {
            let sql = format!(
                "INSERT INTO request (id, kind, agent, session, body, sha256, reason, floor, level, why, state, scope,
                    created_at, expires_at, decided_by, revoked_at)
                 VALUES ('{id}', 'egress', 'coder', 's', '{{}}', 'x', 'x', 'YELLOW', 'YELLOW', '[]', '{state}', 'agent',
                    1, 2, {decided}, {revoked})"
            );
            connection.execute(&sql, ()).unwrap();
        };
        insert("r-held", "done", "NULL", "NULL");
        insert("r-person", "done", "'human:ann'", "NULL");
        insert("r-open", "triage", "NULL", "NULL");
        insert("r-revoked", "done", "NULL", "5");
        insert("r-gone", "done", "NULL", "5");
        for (actor, subject) in [("human:ann", "r-revoked"), ("system", "coder")] {
            connection
                .execute(
                    "INSERT INTO audit (at, actor, action, subject, level, detail, previous, hash)
                     VALUES (1, ?1, 'request.revoke', ?2, 'YELLOW', '', x'', x'')",
                    (actor, subject),
                )
                .unwrap();
        }
        migrate(&mut connection, &path, folder.path()).unwrap();
        let list = |condition: &str| -> Vec<String> {
            let sql = format!("SELECT id FROM request WHERE {condition} ORDER BY id");
            let mut statement = connection.prepare(&sql).unwrap();
            statement.query_map((), |row| row.get(0)).unwrap().map(Result::unwrap).collect()
        };
        assert_eq!(list("to_list = 1"), ["r-held"]);
        assert_eq!(list("revoked_by = 'human:ann'"), ["r-revoked"]);
        assert_eq!(list("revoked_by IS NULL").len(), 4);
    }
}
