//! The tables of a schema, as PostgreSQL describes them, and the numbers that its tables give to new rows.

use crate::store::sql::{self, Connection, Transaction};
use crate::store::transfer::catalog::{Catalog, ColumnKind};

/// Reads the tables with their columns, keys and references.
pub(in crate::store) fn read(connection: &Connection<'_>) -> sql::Result<Catalog> {
    let mut catalog = Catalog::default();
    // The names have types of their own there, which the driver does not read.
    let mut statement = connection.prepare(
        "SELECT CAST(c.table_name AS TEXT), CAST(c.column_name AS TEXT), CAST(c.data_type AS TEXT)
         FROM information_schema.columns c JOIN information_schema.tables t
             ON t.table_schema = c.table_schema AND t.table_name = c.table_name
         WHERE c.table_schema = current_schema() AND t.table_type = 'BASE TABLE'",
    )?;
    let mut rows = statement.query(())?;
    while let Some(row) = rows.next()? {
        let kind = ColumnKind::of(&row.get::<String>(2)?);
        if let Some(table) = catalog.table(row.get(0)?) {
            table.columns.insert(row.get(1)?, kind.ok_or(sql::Error::Malformed)?);
        }
    }
    let keys = "SELECT CAST(k.table_name AS TEXT), CAST(k.column_name AS TEXT)
         FROM information_schema.table_constraints t JOIN information_schema.key_column_usage k
             ON k.constraint_schema = t.constraint_schema AND k.constraint_name = t.constraint_name
                 AND k.table_name = t.table_name
         WHERE t.constraint_type = 'PRIMARY KEY' AND t.table_schema = current_schema()
         ORDER BY k.table_name, k.ordinal_position";
    for (name, column) in pairs(connection, keys)? {
        if let Some(table) = catalog.table(name) {
            table.key.push(column);
        }
    }
    let parents = "SELECT CAST(child.relname AS TEXT), CAST(parent.relname AS TEXT)
         FROM pg_constraint reference
             JOIN pg_class child ON child.oid = reference.conrelid
             JOIN pg_class parent ON parent.oid = reference.confrelid
             JOIN pg_namespace own ON own.oid = child.relnamespace
         WHERE reference.contype = 'f' AND own.nspname = current_schema()";
    for (name, parent) in pairs(connection, parents)? {
        if let Some(table) = catalog.table(name) {
            table.parents.insert(parent);
        }
    }
    Ok(catalog)
}

fn pairs(connection: &Connection<'_>, text: &str) -> sql::Result<Vec<(String, String)>> {
    connection.prepare(text)?.query_map((), |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}

/// Returns the last number that each table has given to a new row, with the name of the column.
pub(in crate::store) fn last_numbers(connection: &Connection<'_>) -> sql::Result<Vec<(String, String, i64)>> {
    connection
        .prepare(
            "SELECT CAST(table_name AS TEXT), CAST(column_name AS TEXT), coalesce(pg_sequence_last_value(CAST(
                 pg_get_serial_sequence(format('%I.%I', table_schema, table_name), column_name) AS REGCLASS)), 0)
             FROM information_schema.columns
             WHERE table_schema = current_schema() AND is_identity = 'YES'",
        )?
        .query_map((), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
        .collect()
}

/// Has every table go on after this number, if it gives numbers at all, and after that of its last row.
pub(in crate::store) fn go_on_after(
    transaction: &Transaction<'_>,
    numbers: impl Fn(&str) -> i64,
) -> sql::Result<()> {
    for (table, column, last) in last_numbers(transaction)? {
        let (name, place) = (super::text::quoted(&table), super::text::quoted(&column));
        let highest: i64 =
            transaction
                .query_row(&format!("SELECT coalesce(max({place}), 0) FROM {name}"), (), |row| row.get(0))?;
        let last = last.max(highest).max(numbers(&table));
        // A sequence begins with 1, and a table without rows has given no number.
        if last > 0 {
            transaction.execute(
                "SELECT setval(CAST(pg_get_serial_sequence(format('%I.%I', current_schema(), CAST(?1 AS TEXT)), ?2)
                     AS REGCLASS), ?3)",
                (&table, &column, last),
            )?;
        }
    }
    Ok(())
}
