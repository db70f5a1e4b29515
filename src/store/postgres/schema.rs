//! The schema versions of a PostgreSQL database.
//!
//! They are counted for themselves: a version here has no counterpart among those of SQLite. A migration is never
//! changed after its release, and each runs in its own transaction under the lock of all changes. No copy is saved
//! before it, because a server has backups of its own.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::server::{Purpose, Server};
use super::session::Session;
use super::text::quoted;
use super::transaction::LockedTransaction;
use crate::store::StoreError;
use crate::store::sql::{self, Cause, Connection, OptionalExtension as _, Row};
use crate::store::transfer::state::{MovedNote, NOTE_TABLE, STATE_TABLE};

/// A change of the schema.
#[derive(Clone, Copy)]
pub(super) struct Migration {
    pub(super) text: &'static str,
    /// The version that a flock has to know at least to use the schema after it. While the gateways of a group are updated one
    /// after the other, those of the version before still use the schema: a migration that only adds something has the number
    /// that they know here. What they still use is dropped in a later version, whose migration has a higher number.
    pub(super) oldest: u32,
}

/// The migrations; number `n`, counted from 0, leads to version `n + 1`.
pub(super) const MIGRATIONS: &[Migration] =
    &[Migration { text: include_str!("migrations/001.sql"), oldest: 1 }];

/// The time for which a migration waits for another home's, which has to finish first, and for tables that others use. It ends
/// before the minute in which a supervisor waits for a gateway: the start then says what it waited for, and is tried again.
const LOCK_LIMIT: Duration = Duration::from_secs(45);

/// The time for which a statement of a migration waits for a table. All gateways wait for the migration meanwhile, and have to
/// say that they live. It is also less than the time after which a server looks for transactions that wait for each other (a
/// second by default), so that the migration gives way and no reader is ended.
const TABLE_LIMIT: Duration = Duration::from_millis(500);

/// The pause after that, in which the others make their changes.
const TABLE_PAUSE: Duration = Duration::from_millis(500);

/// Returns the newest version that this flock knows.
pub(super) fn newest() -> u32 {
    newest_of(MIGRATIONS)
}

/// Returns the version to which these migrations lead.
fn newest_of(migrations: &[Migration]) -> u32 {
    u32::try_from(migrations.len()).unwrap_or(u32::MAX)
}

/// Returns the version of the schema; 0 if there are no tables yet.
///
/// # Errors
///
/// Returns [`StoreError::NewerSchema`] if a newer flock created it and this one may not use it, [`StoreError::MovedAway`] if its store was moved into
/// a file, and [`StoreError::HalfMoved`] if a move into it is not finished.
pub(super) fn check(session: &Session) -> Result<u32, StoreError> {
    check_for(session, newest())
}

/// Returns the version of the schema as [`check`] does, for a flock that knows versions up to this one.
pub(super) fn check_for(session: &Session, known: u32) -> Result<u32, StoreError> {
    let failed = |source| StoreError::query("read if a store was moved", source);
    let place = || session.server.settings.to_string();
    if let Some(note) = moved_note(session).map_err(failed)? {
        return Err(StoreError::MovedAway { place: place(), to: note.place, at: note.at });
    }
    if is_half_moved(session).map_err(failed)? {
        return Err(StoreError::HalfMoved { place: place() });
    }
    usable_version(session, known)
}

/// Returns the version of the schema as [`check`] does, whatever is known of a move.
pub(super) fn known_version(session: &Session) -> Result<u32, StoreError> {
    usable_version(session, newest())
}

/// Returns the version of the schema, unless a flock that knows versions up to `known` may not use it.
fn usable_version(session: &Session, known: u32) -> Result<u32, StoreError> {
    let failed = |source| StoreError::query("read the version of its schema", source);
    let found = version(session).map_err(failed)?;
    if found > known && oldest(session).map_err(failed)? > known {
        let place = session.server.settings.to_string();
        return Err(StoreError::NewerSchema { place, found, known });
    }
    Ok(found)
}

/// Returns the note that the store was moved away from here, if it was.
pub(super) fn moved_note(session: &Session) -> sql::Result<Option<MovedNote>> {
    if !has_table(session, NOTE_TABLE)? {
        return Ok(None);
    }
    let note = |row: &Row<'_>| Ok(MovedNote { home: row.get(0)?, place: row.get(1)?, at: row.get(2)? });
    Connection::postgres(session)
        .query_row("SELECT home, place, moved_at FROM store_moved", (), note)
        .optional()
}

/// Returns `true` if rows of another database are being copied here, or were and the copy is not proven.
fn is_half_moved(session: &Session) -> sql::Result<bool> {
    if !has_table(session, STATE_TABLE)? {
        return Ok(false);
    }
    let text = "SELECT count(*) = 0 FROM move_state WHERE proven <> 0";
    Connection::postgres(session).query_row(text, (), |row| row.get(0))
}

/// Returns `true` if the schema has a table of this name. A query of one that is not there would be an error, and within
/// a transaction the end of it.
pub(super) fn has_table(session: &Session, table: &str) -> sql::Result<bool> {
    let table = format!("{}.{table}", quoted(&session.server.settings.schema));
    Connection::postgres(session).query_row("SELECT to_regclass(?1) IS NOT NULL", [table], |row| row.get(0))
}

fn version(session: &Session) -> sql::Result<u32> {
    if !has_table(session, "schema_version")? {
        return Ok(0);
    }
    let text = "SELECT coalesce(max(version), 0) FROM schema_version";
    Connection::postgres(session).query_row(text, (), |row| row.get(0))
}

/// Returns the version that a flock has to know at least to use the schema.
fn oldest(session: &Session) -> sql::Result<u32> {
    let text = "SELECT max(coalesce(oldest, version)) FROM schema_version";
    Connection::postgres(session).query_row(text, (), |row| row.get(0))
}

/// Creates the schema if it is missing, and migrates it to the newest version.
pub(super) fn migrate(server: &Arc<Server>) -> Result<(), StoreError> {
    migrate_by(server, MIGRATIONS)
}

/// Does the same as a flock with these migrations.
pub(super) fn migrate_by(server: &Arc<Server>, migrations: &[Migration]) -> Result<(), StoreError> {
    // A connection for migrations waits for an hour. A server that hangs must not hold up each start for so long.
    let first = check_for(&server.connect(Purpose::Read)?, newest_of(migrations))?;
    if first >= newest_of(migrations) {
        return Ok(());
    }
    apply_all(&server.connect(Purpose::Migrate)?, migrations, first)
}

/// Migrates the schema from the version `first` to the one to which the migrations lead.
pub(super) fn apply_all(session: &Session, migrations: &[Migration], first: u32) -> Result<(), StoreError> {
    for (migration, version) in migrations.iter().zip(1..).skip(first as usize) {
        apply(session, migration, version).map_err(|source| StoreError::Migration { version, source })?;
    }
    Ok(())
}

/// Creates the schema if it is missing.
pub(super) fn create(session: &Session) -> sql::Result<()> {
    let schema = quoted(&session.server.settings.schema);
    let is_there: bool = Connection::postgres(session).query_row(
        "SELECT to_regnamespace(?1) IS NOT NULL",
        [&schema],
        |row| row.get(0),
    )?;
    // With IF NOT EXISTS alone, a user who may not create schemas could not use one that was made for flock.
    if is_there { Ok(()) } else { session.batch(&format!("CREATE SCHEMA IF NOT EXISTS {schema}")) }
}

/// Applies a migration. If others use a table that it changes, such as a backup that reads everything in one transaction, it
/// is undone and tried again, so that the changes of all gateways do not wait as long as the backup takes.
fn apply(session: &Session, migration: &Migration, to: u32) -> sql::Result<()> {
    let deadline = Instant::now() + LOCK_LIMIT;
    loop {
        match try_to_apply(session, migration, to, deadline) {
            Err(error) if error.cause() == Cause::Locked && Instant::now() < deadline => {
                tracing::debug!(version = to, "a table is in use, so the migration is tried again");
                thread::sleep(TABLE_PAUSE);
            }
            done => return done,
        }
    }
}

fn try_to_apply(session: &Session, migration: &Migration, to: u32, deadline: Instant) -> sql::Result<()> {
    let transaction = LockedTransaction::begin(session, deadline)?;
    session.batch(&format!("SET LOCAL lock_timeout = {}", TABLE_LIMIT.as_millis()))?;
    create(session)?;
    // Another process may have migrated while this one waited for the lock.
    if version(session)? >= to {
        return Ok(());
    }
    // The first schemas lack the column. To alter a table needs it alone, also if there is nothing to add, and everybody who
    // uses the schema has read this one.
    session.batch(
        "CREATE TABLE IF NOT EXISTS schema_version (version bigint PRIMARY KEY, applied_at bigint NOT NULL, oldest bigint);
         DO $$ BEGIN
             IF NOT EXISTS (SELECT FROM pg_attribute
                            WHERE attrelid = 'schema_version'::regclass AND attname = 'oldest') THEN
                 ALTER TABLE schema_version ADD COLUMN oldest bigint;
             END IF;
         END $$",
    )?;
    session.batch(migration.text)?;
    let row = (to, crate::clock::unix_ms(), migration.oldest);
    let insert = "INSERT INTO schema_version (version, applied_at, oldest) VALUES (?1, ?2, ?3)";
    Connection::postgres(session).execute(insert, row)?;
    transaction.commit()
}

/// Returns a number that another database does not have, such as one that was restored from a backup.
pub(super) fn identity(session: &Session) -> sql::Result<i64> {
    // The number of a schema or a database is not given again on one server, and servers differ in the first.
    Connection::postgres(session).query_row(
        "SELECT hashtextextended(concat_ws(' ', control.system_identifier, own.oid,
                (SELECT oid FROM pg_namespace WHERE nspname = current_schema())), 0)
         FROM pg_control_system() control, pg_database own WHERE own.datname = current_database()",
        (),
        |row| row.get(0),
    )
}
