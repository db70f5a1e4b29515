//! What is known of a move that is under way. It is in the database that is filled.
//!
//! A batch of rows and the place that it leads to are committed together, so a move that was killed goes on with the next
//! row. A file in the home could only be behind or ahead of them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::catalog::MovedTable;
use super::digest::TableDigest;
use crate::store::sql::{self, Connection, OptionalExtension as _, Transaction, Value};

/// The table with the one row about the move. While it is there and the row is not proven, the database is not complete.
pub(in crate::store) const STATE_TABLE: &str = "move_state";
/// The table with a row for each table that is moved.
pub(in crate::store) const TABLES_TABLE: &str = "move_table";
/// The table that says that a store was moved away from here.
pub(in crate::store) const NOTE_TABLE: &str = "store_moved";

/// The note that a store was moved away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::store) struct MovedNote {
    /// The id of the home whose database it was.
    pub(in crate::store) home: String,
    /// The place of the database now.
    pub(in crate::store) place: String,
    /// Unix milliseconds.
    pub(in crate::store) at: i64,
}

/// How far a table has been copied.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TableState {
    /// The digest of the source's rows when the copy began.
    pub(super) digest: String,
    /// The number of the source's rows then.
    pub(super) rows: u64,
    pub(super) copied: u64,
    /// The key of the last copied row.
    pub(super) last_key: Option<Vec<Value>>,
    pub(super) is_done: bool,
}

/// A value of a key, as it is written down.
#[derive(Serialize, Deserialize)]
enum KeyValue {
    Null,
    Integer(i64),
    Real(f64),
    Text(String),
    Blob(Vec<u8>),
}

impl From<&Value> for KeyValue {
    fn from(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Integer(number) => Self::Integer(*number),
            Value::Real(number) => Self::Real(*number),
            Value::Text(text) => Self::Text(text.clone()),
            Value::Blob(bytes) => Self::Blob(bytes.clone()),
        }
    }
}

impl From<KeyValue> for Value {
    fn from(value: KeyValue) -> Self {
        match value {
            KeyValue::Null => Self::Null,
            KeyValue::Integer(number) => Self::Integer(number),
            KeyValue::Real(number) => Self::Real(number),
            KeyValue::Text(text) => Self::Text(text),
            KeyValue::Blob(bytes) => Self::Blob(bytes),
        }
    }
}

/// Writes a key as JSON, in which no text has a NUL character.
fn key_text(key: &[Value]) -> String {
    let values: Vec<KeyValue> = key.iter().map(KeyValue::from).collect();
    serde_json::to_string(&values).unwrap_or_default()
}

fn key_of(text: &str) -> Option<Vec<Value>> {
    let values: Vec<KeyValue> = serde_json::from_str(text).ok()?;
    Some(values.into_iter().map(Value::from).collect())
}

/// Makes the tables in a database that has nothing yet, and writes down whose move it is.
pub(super) fn begin(transaction: &Transaction<'_>, home: &str, at: i64) -> sql::Result<()> {
    transaction.execute(
        "CREATE TABLE move_state (home TEXT NOT NULL, begun_at BIGINT NOT NULL, proven BIGINT NOT NULL)",
        (),
    )?;
    transaction.execute(
        "CREATE TABLE move_table (name TEXT PRIMARY KEY, source_rows BIGINT NOT NULL, digest TEXT NOT NULL,
             copied BIGINT NOT NULL, last_key TEXT, done BIGINT NOT NULL)",
        (),
    )?;
    let insert = "INSERT INTO move_state (home, begun_at, proven) VALUES (?1, ?2, 0)";
    transaction.execute(insert, (home, at)).map(drop)
}

/// Returns the id of the home whose move it is. The tables have to be there.
pub(super) fn home(connection: &Connection<'_>) -> sql::Result<Option<String>> {
    connection.query_row("SELECT home FROM move_state", (), |row| row.get(0)).optional()
}

/// Returns how far each table has been copied.
pub(super) fn tables(connection: &Connection<'_>) -> sql::Result<BTreeMap<String, TableState>> {
    let text = "SELECT name, source_rows, digest, copied, last_key, done FROM move_table";
    let count = |number: i64| u64::try_from(number).unwrap_or_default();
    connection
        .prepare(text)?
        .query_map((), |row| {
            let key: Option<String> = row.get(4)?;
            let state = TableState {
                rows: count(row.get(1)?),
                digest: row.get(2)?,
                copied: count(row.get(3)?),
                last_key: key.map(|key| key_of(&key).ok_or(sql::Error::Malformed)).transpose()?,
                is_done: row.get(5)?,
            };
            Ok((row.get(0)?, state))
        })?
        .collect()
}

/// Begins with all tables, in whose place nothing is yet.
pub(super) fn plan<'t>(
    transaction: &Transaction<'_>,
    tables: impl Iterator<Item = (&'t MovedTable, &'t TableDigest)>,
) -> sql::Result<()> {
    transaction.execute("DELETE FROM move_table", ())?;
    for (table, digest) in tables {
        transaction.execute(
            "INSERT INTO move_table (name, source_rows, digest, copied, last_key, done)
             VALUES (?1, ?2, ?3, 0, NULL, 0)",
            (&table.name, number(digest.rows), digest.to_string()),
        )?;
    }
    Ok(())
}

/// Writes down that rows of a table were copied, up to this key.
pub(super) fn advance(
    transaction: &Transaction<'_>,
    table: &MovedTable,
    rows: usize,
    last_key: &[Value],
) -> sql::Result<()> {
    let rows = i64::try_from(rows).unwrap_or(i64::MAX);
    transaction
        .prepare_cached("UPDATE move_table SET copied = copied + ?2, last_key = ?3 WHERE name = ?1")?
        .execute((&table.name, rows, key_text(last_key)))
        .map(drop)
}

/// Writes down that all rows of a table were copied.
pub(super) fn finish(transaction: &Transaction<'_>, table: &MovedTable) -> sql::Result<()> {
    transaction.execute("UPDATE move_table SET done = 1 WHERE name = ?1", [&table.name]).map(drop)
}

/// Has what was copied fit no source, so that the next attempt begins anew.
pub(super) fn spoil(transaction: &Transaction<'_>) -> sql::Result<()> {
    transaction.execute("UPDATE move_table SET digest = ''", ()).map(drop)
}

/// Returns `true` if the copy was complete and was compared. The tables have to be there.
pub(super) fn is_proven(connection: &Connection<'_>) -> sql::Result<bool> {
    connection.query_row("SELECT count(*) > 0 FROM move_state WHERE proven <> 0", (), |row| row.get(0))
}

/// Writes down that the copy is complete and was compared.
pub(super) fn prove(transaction: &Transaction<'_>) -> sql::Result<()> {
    transaction.execute("UPDATE move_state SET proven = 1", ()).map(drop)
}

/// Takes back that the copy is complete, before it is made anew.
pub(super) fn unprove(transaction: &Transaction<'_>) -> sql::Result<()> {
    transaction.execute("UPDATE move_state SET proven = 0", ()).map(drop)
}

/// Drops the tables of a move that is over.
pub(super) fn end(transaction: &Transaction<'_>) -> sql::Result<()> {
    transaction.execute("DROP TABLE IF EXISTS move_table", ())?;
    transaction.execute("DROP TABLE IF EXISTS move_state", ()).map(drop)
}

fn number(rows: u64) -> i64 {
    i64::try_from(rows).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_any_kind_is_found_again() {
        let key = vec![
            Value::Null,
            Value::Integer(i64::MIN),
            Value::Text("a\0\u{1f426}\"".to_owned()),
            Value::Blob(vec![0, 255]),
        ];
        let text = key_text(&key);
        assert!(!text.contains('\0'), "{text}");
        assert_eq!(key_of(&text), Some(key));
        assert_eq!(key_of("[{\"Text\":"), None);
    }

    #[test]
    fn the_state_follows_the_copy() {
        let sqlite = rusqlite::Connection::open_in_memory().unwrap();
        let connection = Connection::sqlite(&sqlite);
        let table = MovedTable {
            name: "t".to_owned(),
            columns: vec![("id".to_owned(), super::super::catalog::ColumnKind::Integer)],
            key: vec![0],
            has_primary_key: true,
        };
        let mut digest = TableDigest::default();
        digest.add(&[Value::Integer(7)]);
        connection
            .in_transaction(|transaction| {
                begin(transaction, "home", 5)?;
                plan(transaction, [(&table, &digest)].into_iter())
            })
            .unwrap();
        assert_eq!(home(&connection).unwrap().as_deref(), Some("home"));
        let of = |connection: &Connection<'_>| tables(connection).unwrap().remove("t").unwrap();
        let fresh = of(&connection);
        assert_eq!((fresh.rows, fresh.copied, fresh.is_done), (1, 0, false));
        assert_eq!((fresh.digest, fresh.last_key), (digest.to_string(), None));
        let key = [Value::Integer(7)];
        connection.in_transaction(|transaction| advance(transaction, &table, 1, &key)).unwrap();
        connection.in_transaction(|transaction| finish(transaction, &table)).unwrap();
        let copied = of(&connection);
        assert_eq!((copied.copied, copied.is_done, copied.last_key), (1, true, Some(key.to_vec())));
        connection.in_transaction(spoil).unwrap();
        assert_eq!((of(&connection).digest.as_str(), of(&connection).copied), ("", 1));
        assert!(!is_proven(&connection).unwrap());
        connection.in_transaction(prove).unwrap();
        assert!(is_proven(&connection).unwrap());
        connection.in_transaction(end).unwrap();
        assert!(home(&connection).is_err());
    }
}
