//! Integrity checks of the database: SQLite's own, and a count of the rows that can be read.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags};
use serde::Serialize;

use super::connection::connect;
use super::{damage_recheck, schema};
use crate::error::chain;
use crate::store::StoreError;
use crate::store::sql::Cause;

/// The thoroughness of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckDepth {
    /// Checks the structure of all pages, for at most this long.
    Quick(Duration),
    /// Checks every row and every index entry.
    Deep,
}

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct IntegrityReport {
    /// SQLite's descriptions of the faults; empty for an intact database.
    pub problems: Vec<String>,
    /// The tables that can't be read to their end.
    pub tables: Vec<DamagedTable>,
    /// Set if the time ran out before everything was checked.
    pub is_partial: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DamagedTable {
    pub name: String,
    /// The number of rows that can be read from the start.
    pub readable: u64,
}

impl IntegrityReport {
    /// Returns `true` if no fault was found.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.problems.is_empty() && self.tables.is_empty()
    }

    /// Describes the faults in one line.
    #[must_use]
    pub fn summary(&self) -> String {
        let lost = self
            .tables
            .iter()
            .map(|table| format!("table {} can be read up to row {} only", table.name, table.readable));
        // A description may begin with the line `*** in database main ***`.
        let is_heading = |line: &&str| line.starts_with("***");
        let first = self
            .problems
            .first()
            .map(|problem| problem.lines().find(|line| !is_heading(line)).unwrap_or_default().to_owned());
        first.into_iter().chain(lost).collect::<Vec<_>>().join("; ")
    }
}

/// The most problems that are listed.
const MAX_PROBLEMS: u32 = 20;
/// SQLite virtual-machine instructions between two looks at the clock.
const PROGRESS_STEPS: i32 = 10;

/// Checks the database at `path`. Other processes may use it, but this process must not have it open.
///
/// Damage is a result, not an error. A disk that fails to read the file is an error, although SQLite reports both with
/// the same code.
///
/// # Errors
///
/// Returns [`StoreError::Unreadable`] if the disk fails to read the file, and another error if the file can't be opened
/// or checked.
pub fn check(path: &Path, depth: CheckDepth) -> Result<IntegrityReport, StoreError> {
    let unreadable =
        |error: std::io::Error| StoreError::Unreadable { path: path.to_owned(), source: error.into() };
    let mut found = look(path, depth)?;
    // Reading the raw file tells a failing disk from damage: SQLite uses one code for both. A fault that does not come
    // back on a later look was the disk's.
    for _ in 1..damage_recheck::LOOKS {
        if found.is_whole() {
            return Ok(found);
        }
        damage_recheck::read(path).map_err(unreadable)?;
        found = look(path, depth)?;
    }
    // The disk may have failed during the last look as well.
    if !found.is_whole() {
        damage_recheck::read(path).map_err(unreadable)?;
    }
    Ok(found)
}

/// Turns a doubtful error into [`StoreError::Damaged`] or a disk fault, by checking the file.
///
/// No connection of this process may be open to the database.
#[must_use]
pub fn judge(path: &Path, error: StoreError) -> StoreError {
    if !error.is_doubtful() {
        return error;
    }
    match check(path, CheckDepth::Quick(CLASSIFY_TIMEOUT)) {
        Ok(checked) if !checked.is_whole() => {
            StoreError::Damaged { path: path.to_owned(), what: checked.summary() }
        }
        // Out of time: trust the error that led here.
        Ok(checked) if checked.is_partial => {
            StoreError::Damaged { path: path.to_owned(), what: chain(&error) }
        }
        Ok(_) => error,
        Err(unread) => unread,
    }
}

/// The time limit for a check of a database that an error calls damaged.
pub const CLASSIFY_TIMEOUT: Duration = Duration::from_secs(60);

/// Checks the database once. A read failure of the disk may appear as damage.
pub(super) fn look(path: &Path, depth: CheckDepth) -> Result<IntegrityReport, StoreError> {
    match depth {
        CheckDepth::Quick(limit) => {
            let end = Instant::now() + limit;
            examine(path, Some(move || Instant::now() >= end))
        }
        CheckDepth::Deep => examine(path, None::<fn() -> bool>),
    }
}

/// Checks the structure of all pages once, until `is_over` returns `true`.
pub(super) fn look_until(
    path: &Path,
    is_over: impl Fn() -> bool + Send + 'static,
) -> Result<IntegrityReport, StoreError> {
    examine(path, Some(is_over))
}

/// Checks the structure of all pages until the time is over, or everything if there is no limit.
fn examine(
    path: &Path,
    is_over: Option<impl Fn() -> bool + Send + 'static>,
) -> Result<IntegrityReport, StoreError> {
    let is_deep = is_over.is_none();
    let open = || -> Result<Connection, StoreError> {
        let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        schema::check(&connection, path)?;
        Ok(connection)
    };
    let mut connection = match open() {
        Ok(connection) => connection,
        Err(StoreError::Open { source, .. }) if source.cause().is_damage() => {
            return Ok(IntegrityReport { problems: vec![chain(&source)], ..IntegrityReport::default() });
        }
        Err(error) => return Err(error),
    };
    connection
        .progress_handler(PROGRESS_STEPS, is_over)
        .map_err(|source| StoreError::query("check the database", source))?;
    let check = if is_deep { "integrity_check" } else { "quick_check" };
    let pragma = format!("PRAGMA {check}({MAX_PROBLEMS})");
    let mut checked = IntegrityReport::default();
    match problems(&connection, &pragma) {
        Ok(problems) => checked.problems = problems,
        Err(error) if error.sqlite_error_code() == Some(rusqlite::ErrorCode::OperationInterrupted) => {
            checked.is_partial = true;
        }
        Err(error) if Cause::of(&error).is_damage() => checked.problems.push(chain(&error)),
        Err(source) => return Err(StoreError::query("check the database", source)),
    }
    if is_deep || !checked.problems.is_empty() {
        // Naming the lost tables matters more than the time limit, so it is switched off here.
        let off = connection.progress_handler(0, None::<fn() -> bool>);
        off.map_err(|source| StoreError::query("check the database", source))?;
        checked.tables = damaged_tables(&connection);
    }
    Ok(checked)
}

fn problems(connection: &Connection, pragma: &str) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare(pragma)?;
    let rows = statement.query_map((), |row| row.get::<_, String>(0))?;
    let mut problems = Vec::new();
    for row in rows {
        match row {
            Ok(text) if text == "ok" => {}
            Ok(text) => problems.push(text),
            // The problems found before this error are enough.
            Err(_) if !problems.is_empty() => break,
            Err(error) => return Err(error),
        }
    }
    Ok(problems)
}

/// Lists flock's tables, without those that SQLite itself keeps for a full-text index.
pub(super) fn tables(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    connection
        .prepare(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite!_%' ESCAPE '!'
             AND name NOT LIKE 'message!_text%' ESCAPE '!' ORDER BY rowid",
        )?
        .query_map((), |row| row.get(0))?
        .collect()
}

fn damaged_tables(connection: &Connection) -> Vec<DamagedTable> {
    let Ok(names) = tables(connection) else { return Vec::new() };
    let lost = names.into_iter().filter_map(|name| {
        let (readable, is_whole) = readable(connection, &name);
        (!is_whole).then_some(DamagedTable { name, readable })
    });
    lost.collect()
}

/// Counts the rows that can be read from the start. Returns `true` with it if those are all.
fn readable(connection: &Connection, table: &str) -> (u64, bool) {
    let mut count = 0;
    let mut read = || -> rusqlite::Result<()> {
        let mut statement = connection.prepare(&format!("SELECT * FROM \"{table}\""))?;
        let columns = statement.column_count();
        let mut rows = statement.query(())?;
        while let Some(row) = rows.next()? {
            // Long values are stored on overflow pages, which are read only when the column is.
            for column in 0..columns {
                row.get_ref(column)?;
            }
            count += 1;
        }
        Ok(())
    };
    let is_whole = read().is_ok();
    (count, is_whole)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::home::Home;
    use crate::store::{AuditEntry, Level, Store};

    /// Makes a database of some hundred pages and closes it.
    pub(in crate::store) fn filled(home: &Home) {
        let store = Store::open(home).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            for number in 0..200 {
                let entry = AuditEntry {
                    actor: "human:ann".to_owned(),
                    action: "test",
                    subject: number.to_string(),
                    level: Level::Green,
                    detail: "x".repeat(2_000),
                    session: None,
                    turn: None,
                };
                store.audit().append(entry, number).await.unwrap();
            }
            store.settle().await.unwrap();
        });
    }

    /// Overwrites two of the last pages, which hold audit rows.
    pub(in crate::store) fn flip(path: &Path) {
        use std::os::unix::fs::FileExt as _;
        let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
        let page = file.metadata().unwrap().len() / 4096 - 6;
        file.write_all_at(&[0xA5; 2 * 4096], page * 4096).unwrap();
    }

    #[test]
    fn an_intact_database_passes_and_a_corrupt_page_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().to_owned(), None);
        filled(&home);
        let quick = CheckDepth::Quick(Duration::from_secs(600));
        for depth in [quick, CheckDepth::Deep] {
            let checked = check(&home.database(), depth).unwrap();
            assert!(checked.is_whole() && !checked.is_partial, "{checked:?}");
        }
        flip(&home.database());
        for depth in [quick, CheckDepth::Deep] {
            let checked = check(&home.database(), depth).unwrap();
            assert!(!checked.is_whole(), "{depth:?}");
            assert!(!checked.summary().is_empty());
        }
        let lost = check(&home.database(), CheckDepth::Deep).unwrap().tables;
        assert!(lost.iter().any(|table| table.name == "audit" && table.readable < 200), "{lost:?}");
    }

    #[test]
    fn a_file_that_is_no_database_is_damaged_and_a_check_without_time_is_partial() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().to_owned(), None);
        filled(&home);
        let checked = check(&home.database(), CheckDepth::Quick(Duration::ZERO)).unwrap();
        assert!(checked.is_partial && checked.is_whole(), "{checked:?}");
        std::fs::write(home.database(), "nonsense ".repeat(1_000)).unwrap();
        assert!(!check(&home.database(), CheckDepth::Deep).unwrap().is_whole());
        assert!(check(&folder.path().join("none"), CheckDepth::Deep).is_err());
    }
}
