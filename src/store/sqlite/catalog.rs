//! The tables of a database file, as SQLite describes them, and the numbers that its tables give to new rows.

use crate::store::sql::{self, Connection, Transaction};
use crate::store::transfer::catalog::{Catalog, ColumnKind};

/// The tables that hold rows of flock. The index of messages' words has tables too, which are made of the messages.
const TABLES: &str = "pragma_table_list t";
const IS_OWN: &str = "t.schema = 'main' AND t.type = 'table' AND t.name NOT LIKE 'sqlite!_%' ESCAPE '!'";

/// Reads the tables with their columns, keys and references.
pub(in crate::store) fn read(connection: &Connection<'_>) -> sql::Result<Catalog> {
    let mut catalog = Catalog::default();
    let columns = format!(
        "SELECT t.name, c.name, c.type, t.wr FROM {TABLES} JOIN pragma_table_info(t.name) c WHERE {IS_OWN}"
    );
    let mut statement = connection.prepare(&columns)?;
    let mut rows = statement.query(())?;
    while let Some(row) = rows.next()? {
        // Those that are not moved have other kinds of columns.
        let Some(table) = catalog.table(row.get(0)?) else { continue };
        let kind = ColumnKind::of(&row.get::<String>(2)?).ok_or(sql::Error::Malformed)?;
        table.columns.insert(row.get(1)?, kind);
        // A table without rowids says so.
        table.has_rowid = !row.get::<bool>(3)?;
    }
    let keys = format!(
        "SELECT t.name, c.name FROM {TABLES} JOIN pragma_table_info(t.name) c
         WHERE {IS_OWN} AND c.pk > 0 ORDER BY t.name, c.pk"
    );
    for (name, column) in pairs(connection, &keys)? {
        if let Some(table) = catalog.table(name) {
            table.key.push(column);
        }
    }
    let parents = format!(
        "SELECT t.name, f.\"table\" FROM {TABLES} JOIN pragma_foreign_key_list(t.name) f WHERE {IS_OWN}"
    );
    for (name, parent) in pairs(connection, &parents)? {
        if let Some(table) = catalog.table(name) {
            table.parents.insert(parent);
        }
    }
    Ok(catalog)
}

fn pairs(connection: &Connection<'_>, text: &str) -> sql::Result<Vec<(String, String)>> {
    connection.prepare(text)?.query_map((), |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}

/// Returns the last number that each table has given. Tables that never give a number twice remember it.
pub(in crate::store) fn last_numbers(connection: &Connection<'_>) -> sql::Result<Vec<(String, i64)>> {
    connection
        .prepare("SELECT name, seq FROM sqlite_sequence")?
        .query_map((), |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect()
}

/// Has a table that never gives a number twice go on after this one, or after its last row. Other tables go on after their
/// last row anyway.
pub(in crate::store) fn go_on_after(
    transaction: &Transaction<'_>,
    table: &str,
    number: i64,
) -> sql::Result<()> {
    let text = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ?1 AND sql LIKE '%AUTOINCREMENT%'";
    if !transaction.query_row(text, [table], |row| row.get::<bool>(0))? {
        return Ok(());
    }
    let raised = "UPDATE sqlite_sequence SET seq = max(seq, ?2) WHERE name = ?1";
    // A table that never had a row is not in the list.
    if transaction.execute(raised, (table, number))? == 0 {
        transaction.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (?1, ?2)", (table, number))?;
    }
    Ok(())
}

/// Checks that the index of messages' words has the words of every message and no others.
pub(in crate::store) fn check_words(transaction: &Transaction<'_>) -> sql::Result<()> {
    let text = "INSERT INTO message_text (message_text, rank) VALUES ('integrity-check', 1)";
    transaction.execute(text, ()).map(drop)
}
