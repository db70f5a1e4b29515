//! Row counts of the database's tables, without any of their content.

use std::path::Path;

use rusqlite::OpenFlags;
use serde::Serialize;

use super::connection::connect;
use super::integrity;
use crate::store::StoreError;

/// The size of a database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RowCounts {
    /// The schema version; `None` if it can't be read.
    pub schema: Option<i64>,
    /// In the order in which they were created.
    pub tables: Vec<TableCount>,
}

/// A table and its number of rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TableCount {
    pub name: String,
    /// `None` if the rows can't be counted, as in a damaged table.
    pub rows: Option<u64>,
}

/// Counts the rows of the database at `path`, which may be in use or damaged.
///
/// # Errors
///
/// Returns an error if the file can't be opened or is not an SQLite database.
pub fn census(path: &Path) -> Result<RowCounts, StoreError> {
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let failed = |source| StoreError::query("count what the database holds", source);
    let schema = "SELECT max(version) FROM schema_version";
    // A damaged database may have lost this table too, and its other tables still count.
    let schema = connection.query_row(schema, (), |row| row.get(0)).ok();
    let names = integrity::tables(&connection).map_err(failed)?;
    let count = |name: &str| -> rusqlite::Result<i64> {
        connection.query_row(&format!("SELECT count(*) FROM \"{name}\""), (), |row| row.get(0))
    };
    // One damaged table must not keep the others from being counted.
    let table = |name: String| {
        let rows = count(&name).ok().and_then(|rows| u64::try_from(rows).ok());
        TableCount { name, rows }
    };
    Ok(RowCounts { schema, tables: names.into_iter().map(table).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::home::Home;
    use crate::store::integrity::tests::{filled, flip};

    #[test]
    fn rows_of_intact_tables_are_counted_beside_a_damaged_one() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().to_owned(), None);
        filled(&home);
        let whole = census(&home.database()).unwrap();
        assert_eq!(whole.schema, crate::store::schema_version(&home).unwrap().map(i64::from));
        assert!(whole.tables.contains(&TableCount { name: "audit".into(), rows: Some(200) }), "{whole:?}");
        flip(&home.database());
        let names =
            |census: &RowCounts| census.tables.iter().map(|table| table.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&census(&home.database()).unwrap()), names(&whole));
        std::fs::write(home.database(), "nonsense ".repeat(1_000)).unwrap();
        assert!(census(&home.database()).is_err());
    }
}
