//! A copy of the database at one moment, for a backup of the whole home, and what such a copy holds.
//!
//! The copy is made by SQLite, or of one state of a server's database, while the gateway writes. The file that names the last
//! row of the audit is read before: its row is in the database before the file is written, so the copy has that row.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use rusqlite::OpenFlags;
use serde::{Deserialize, Serialize};

use super::connection::{connect, files_of, is_there, wal_of};
use super::integrity::{self, CheckDepth};
use super::row_counts::{self, TableCount};
use super::{backup, schema};
use crate::home::{Home, HomeError, atomic};
use crate::store::StoreError;
use crate::store::audit_chain::{self, AuditVerification, ChainHead, PruneMarker};
use crate::store::location::Location;
use crate::store::postgres::{SchemaEnd, Settings};
use crate::store::sql::{self, Connection};
use crate::store::transfer::{MoveError, moment};

/// Number of copies that are made if rows of the audit are deleted at the same moment.
const ATTEMPTS: usize = 3;
/// Largest file beside the database, in bytes.
const MAX_BESIDE: u64 = 4096;

/// The content of a database, without any of its texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DatabaseFacts {
    /// The place of the server's database that was copied; `None` if it was a file.
    pub(crate) server: Option<String>,
    /// The version of its schema.
    pub(crate) schema: u32,
    /// The tables in the order in which they were created.
    pub(crate) tables: Vec<TableCount>,
    /// The result of a walk along the whole audit.
    pub(crate) audit: AuditVerification,
    /// The last row of the audit.
    pub(crate) head: AuditHead,
    /// The agent and the name of the transcript of each session.
    pub(crate) transcripts: Vec<(String, String)>,
}

/// The last row of an audit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AuditHead {
    /// The row's number; 0 for an audit without rows.
    pub(crate) id: i64,
    /// In hex.
    pub(crate) hash: String,
}

/// Copies the home's database, and the files that name the ends of its audit, into the empty folders of `to`. Other
/// processes may write to the database meanwhile. Returns what the copy holds, or `None` if the home has no database yet.
///
/// # Errors
///
/// Returns [`StoreError::Gone`] if the home had a database and it is missing, [`StoreError::Copy`] if its file is damaged or
/// the copy can't be written, and another error if the server can't be reached or the copy can't be read.
pub(crate) fn take(home: &Home, to: &Home) -> Result<Option<DatabaseFacts>, MoveError> {
    match Location::of(home)? {
        Location::File(path) => {
            if is_missing(home, is_there(&path)?, &path)? {
                return Ok(None);
            }
            Ok(Some(of_file(home, to, &path)?))
        }
        Location::Postgres { settings, secret } => of_server(home, to, (*settings, secret)),
    }
}

/// Returns `true` if the home has no database yet.
fn is_missing(home: &Home, is_there_now: bool, path: &Path) -> Result<bool, StoreError> {
    if is_there_now {
        return Ok(false);
    }
    if is_there(&home.audit_head())? { Err(StoreError::Gone { path: path.to_owned() }) } else { Ok(true) }
}

/// Copies the database on a server.
fn of_server(
    home: &Home,
    to: &Home,
    (settings, secret): (Settings, String),
) -> Result<Option<DatabaseFacts>, MoveError> {
    let place = settings.to_string();
    let ends = AuditEnds::read(home)?;
    let is_copied = moment::copy(home, (settings, secret), &to.database(), &moment::Silent)?;
    if is_missing(home, is_copied, Path::new(&place))? {
        return Ok(None);
    }
    ends.write_for_server(to)?;
    Ok(Some(DatabaseFacts { server: Some(place), ..facts(to)? }))
}

/// Copies the database in a file.
fn of_file(home: &Home, to: &Home, path: &Path) -> Result<DatabaseFacts, StoreError> {
    let mut attempt = 1;
    loop {
        let ends = AuditEnds::read(home)?;
        backup::copy(path, &to.database())
            .map_err(|source| StoreError::Copy { path: path.to_owned(), source })?;
        ends.write(home, to)?;
        let facts = facts(to)?;
        // Rows may have been deleted twice at the beginning of the audit during the copy. Only a fault that is still
        // there in the last copy is one of the audit itself.
        if facts.audit.broken.is_none() || attempt == ATTEMPTS {
            return Ok(facts);
        }
        attempt += 1;
        for path in files_of(&to.database()) {
            // Most of these files do not exist.
            drop(fs_err::remove_file(path));
        }
    }
}

/// The files that name the ends of the audit, as they were before a copy was made.
struct AuditEnds {
    head: Option<Vec<u8>>,
    given_up: PruneMarker,
}

impl AuditEnds {
    fn read(home: &Home) -> Result<Self, HomeError> {
        let head = atomic::read(&home.audit_head(), MAX_BESIDE)?;
        Ok(Self { head, given_up: PruneMarker::read(&home.audit_head())? })
    }

    /// Writes the files that belong to the copy of a server's database in `to`.
    ///
    /// A home that has just joined the database has no file yet, and rows at the beginning may have been deleted from
    /// another home. The copy is of one state, so what it says of its ends is taken as it is.
    fn write_for_server(self, to: &Home) -> Result<(), StoreError> {
        let failed = |source: sql::Error| StoreError::query("read where the audit begins and ends", source);
        let connection = connect(&to.database(), OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        let connection = Connection::sqlite(&connection);
        match &self.head {
            Some(head) => atomic::write(&to.audit_head(), head, 0o600)?,
            None => audit_chain::head(&connection).map_err(failed)?.write(&to.audit_head())?,
        }
        let Some((id, hash)) = audit_chain::base(&connection).map_err(failed)? else { return Ok(()) };
        let given_up = PruneMarker { rows: vec![ChainHead::new(id, &hash)] };
        Ok(given_up.write(&to.audit_head())?)
    }

    /// Writes the files that belong to the copy in `to`.
    fn write(mut self, home: &Home, to: &Home) -> Result<(), StoreError> {
        if let Some(head) = &self.head {
            atomic::write(&to.audit_head(), head, 0o600)?;
        }
        // The rows at the beginning may have been deleted before the copy or during it.
        self.given_up.rows.extend(PruneMarker::read(&home.audit_head())?.rows);
        let connection = connect(&to.database(), OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        let base = audit_chain::base(&Connection::sqlite(&connection))
            .map_err(|source| StoreError::query("read where the audit begins", source))?;
        let base = base.map(|(id, hash)| ChainHead::new(id, &hash));
        // A beginning that flock did not write down stays a fault in the copy.
        self.given_up.rows.retain(|row| Some(row) == base.as_ref());
        self.given_up.rows.truncate(1);
        if base.is_some() { Ok(self.given_up.write(&to.audit_head())?) } else { Ok(()) }
    }
}

/// Checks the database of a home that nobody uses, and returns what it holds. Changes nothing.
///
/// # Errors
///
/// Returns [`StoreError::Newer`] if a newer flock made it, [`StoreError::Damaged`] if it is damaged, and another error if
/// it can't be read.
pub(crate) fn examine(home: &Home) -> Result<DatabaseFacts, StoreError> {
    let path = home.database();
    let checked = integrity::check(&path, CheckDepth::Deep)?;
    if !checked.is_whole() {
        return Err(StoreError::Damaged { path, what: checked.summary() });
    }
    facts(home)
}

/// Returns what the database of a home holds.
fn facts(home: &Home) -> Result<DatabaseFacts, StoreError> {
    let path = home.database();
    let failed = |source: sql::Error| StoreError::query("look at a copy of the database", source);
    let connection = connect(&path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let schema = schema::check(&connection, &path)?;
    let ChainHead { id, hash } = audit_chain::head(&Connection::sqlite(&connection)).map_err(failed)?;
    let transcripts: rusqlite::Result<Vec<(String, String)>> = connection
        .prepare("SELECT agent, file FROM session ORDER BY agent, file")
        .and_then(|mut found| found.query_map((), |row| Ok((row.get(0)?, row.get(1)?)))?.collect());
    let transcripts = transcripts.map_err(|error| failed(error.into()))?;
    let audit = audit_chain::verify_at(&Connection::sqlite(&connection), &home.audit_head())?;
    Ok(DatabaseFacts {
        server: None,
        schema,
        tables: row_counts::census(&path)?.tables,
        audit,
        head: AuditHead { id, hash },
        transcripts,
    })
}

/// Returns the newest version of the schema that this flock knows.
#[must_use]
pub(crate) fn newest_schema() -> u32 {
    schema::newest()
}

/// Returns the agent and the name of the transcript of each session that the home's database has now.
///
/// # Errors
///
/// Returns an error if the database can't be read.
pub(crate) fn transcripts(home: &Home) -> Result<HashSet<(String, String)>, StoreError> {
    let read = |connection: &Connection<'_>| -> sql::Result<HashSet<(String, String)>> {
        let text = "SELECT agent, file FROM session";
        connection.prepare(text)?.query_map((), |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
    };
    let found = match Location::of(home)? {
        Location::File(path) if !is_there(&path)? => return Ok(HashSet::new()),
        Location::File(path) => {
            let connection = connect(&path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
            read(&Connection::sqlite(&connection))
        }
        Location::Postgres { settings, secret } => {
            let server = SchemaEnd::look(home, *settings, secret)?;
            read(&server.connection())
        }
    };
    found.map_err(|source| StoreError::query("look for the sessions", source))
}

/// Returns the size of the home's database in bytes, with what is still in its log. A server's is the room of its tables and
/// indexes there, which a copy in a file does not exceed by much.
///
/// # Errors
///
/// Returns an error if the place of the database can't be read, or the server can't be reached.
pub(crate) fn size(home: &Home) -> Result<u64, StoreError> {
    let of = |path: PathBuf| fs_err::metadata(path).map_or(0, |found| found.len());
    match Location::of(home)? {
        Location::File(path) => Ok(of(wal_of(&path)) + of(path)),
        Location::Postgres { settings, secret } => {
            let server = SchemaEnd::look(home, *settings, secret)?;
            server.bytes().map_err(|source| StoreError::query("measure the database", source))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::super::integrity::tests::{filled, flip};
    use super::*;
    use crate::store::{AuditEntry, Level, Store};

    fn home(folder: &std::path::Path, name: &str) -> Home {
        let home = Home::new(folder.join(name), None);
        home.make_folders().unwrap();
        home
    }

    fn entry(detail: &str) -> AuditEntry {
        AuditEntry {
            actor: "human:ann".to_owned(),
            action: "test",
            subject: "x".to_owned(),
            level: Level::Green,
            detail: detail.to_owned(),
            session: None,
            turn: None,
        }
    }

    #[test]
    fn a_copy_has_a_whole_audit_while_rows_are_added_and_deleted() {
        let folder = tempfile::tempdir().unwrap();
        let from = home(folder.path(), "from");
        filled(&from);
        let store = Store::open(&from).unwrap();
        let (stop, prune) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(async {
                    let mut at = 1_000;
                    while !stop.load(Ordering::Relaxed) {
                        at += 1;
                        store.audit().append(entry("more"), at).await.unwrap();
                        if prune.swap(false, Ordering::Relaxed) {
                            store.audit().prune(at - 10, entry("gone"), at).await.unwrap();
                        }
                    }
                });
            });
            for copy in 0..8 {
                let to = home(folder.path(), &format!("copy-{copy}"));
                // Some time from now, which is before the copy, during it or after it.
                prune.store(true, Ordering::Relaxed);
                let facts = take(&from, &to).unwrap().unwrap();
                assert_eq!(facts.audit.broken, None, "{copy}");
                assert_eq!(examine(&to).unwrap(), facts);
                assert_eq!(facts.head.id, facts.audit.last);
                assert_eq!(facts.schema, newest_schema());
            }
            stop.store(true, Ordering::Relaxed);
        });
    }

    #[test]
    fn a_missing_or_damaged_database_is_not_copied() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (home(folder.path(), "from"), home(folder.path(), "to"));
        assert_eq!(take(&from, &to).unwrap(), None, "there was never one");
        filled(&from);
        std::fs::rename(from.database(), folder.path().join("aside")).unwrap();
        assert!(matches!(take(&from, &to), Err(MoveError::Store(StoreError::Gone { .. }))));
        std::fs::rename(folder.path().join("aside"), from.database()).unwrap();
        flip(&from.database());
        assert!(matches!(take(&from, &to), Err(MoveError::Store(StoreError::Copy { .. }))));
        assert!(!to.database().exists());
    }

    #[test]
    fn a_cut_audit_stays_a_cut_one_in_the_copy() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (home(folder.path(), "from"), home(folder.path(), "to"));
        filled(&from);
        let connection = rusqlite::Connection::open(from.database()).unwrap();
        connection.execute("DELETE FROM audit WHERE id > 150", ()).unwrap();
        drop(connection);
        let facts = take(&from, &to).unwrap().unwrap();
        assert!(facts.audit.broken.is_some());
    }
}
