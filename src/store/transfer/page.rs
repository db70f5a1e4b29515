//! Rows of a table, page by page in the order of its key, and the statements that add them to another one.

use super::catalog::{ColumnKind, MovedTable};
use crate::store::sql::{self, Connection, Dialect, Row, Transaction, Value, ValueRef, params_from_iter};

/// The number of rows of a table's first page. The size of rows is not known yet.
const FIRST_ROWS: usize = 64;
const MAX_ROWS: usize = 512;
/// The size of a page that is aimed at. A server sends a whole page at once, so all of it is in memory.
const WANTED_BYTES: usize = 4 << 20;
/// The most parameters of one statement. SQLite takes 32,766 and PostgreSQL 65,535.
const MAX_PARAMETERS: usize = 8_192;

/// Rows that follow each other in the order of the key.
#[derive(Debug, Default)]
pub(super) struct Page {
    /// Rows that are equal in a table without a key are here several times.
    pub(super) rows: Vec<Vec<Value>>,
    /// The key of the last row; `None` after the end of the table.
    pub(super) last_key: Option<Vec<Value>>,
    bytes: usize,
}

/// Returns the number of rows of the next page, from that of the last one and its size.
const fn next_limit(limit: usize, bytes: usize) -> usize {
    // Halves and doubles, so that there are few texts of statements.
    if bytes > WANTED_BYTES && limit > 1 {
        limit / 2
    } else if bytes < WANTED_BYTES / 4 && limit < MAX_ROWS {
        limit * 2
    } else {
        limit
    }
}

/// Passes the pages of a table after the key `after` to `each`. `failed` makes an error of one that can't be read.
pub(super) fn for_each<E>(
    connection: &Connection<'_>,
    table: &MovedTable,
    mut after: Option<Vec<Value>>,
    failed: impl Fn(sql::Error) -> E,
    mut each: impl FnMut(Page) -> Result<(), E>,
) -> Result<(), E> {
    let mut limit = FIRST_ROWS;
    loop {
        let page = read(connection, table, after.as_deref(), limit).map_err(&failed)?;
        if page.last_key.is_none() {
            return Ok(());
        }
        limit = next_limit(limit, page.bytes);
        after.clone_from(&page.last_key);
        each(page)?;
    }
}

fn read(
    connection: &Connection<'_>,
    table: &MovedTable,
    after: Option<&[Value]>,
    limit: usize,
) -> sql::Result<Page> {
    let text = select(table, connection.dialect(), after.is_some(), limit);
    let mut statement = connection.prepare_cached(&text)?;
    let mut rows = statement.query(params_from_iter(after.unwrap_or_default()))?;
    let mut page = Page::default();
    while let Some(row) = rows.next()? {
        let values: Vec<Value> =
            (0..table.columns.len()).map(|column| value(&row, column)).collect::<sql::Result<_>>()?;
        page.bytes += values.iter().map(size).sum::<usize>();
        page.last_key = Some(table.key.iter().filter_map(|place| values.get(*place).cloned()).collect());
        let times: i64 = row.get(table.columns.len())?;
        page.rows.extend(std::iter::repeat_n(values, usize::try_from(times).unwrap_or_default()));
    }
    Ok(page)
}

fn value(row: &Row<'_>, column: usize) -> sql::Result<Value> {
    Ok(match row.get_ref(column)? {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::Integer(number),
        ValueRef::Real(number) => Value::Real(number),
        ValueRef::Text(bytes) => Value::Text(
            std::str::from_utf8(bytes).map_err(|source| sql::Error::column(column, source))?.to_owned(),
        ),
        ValueRef::Blob(bytes) => Value::Blob(bytes.to_vec()),
    })
}

const fn size(value: &Value) -> usize {
    match value {
        Value::Null | Value::Integer(_) | Value::Real(_) => 8,
        Value::Text(text) => text.len(),
        Value::Blob(bytes) => bytes.len(),
    }
}

/// Returns a name in quotes, so that either database takes it as it is written.
pub(in crate::store) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Returns the text that reads a page, with the number of equal rows as its last column.
fn select(table: &MovedTable, dialect: Dialect, has_begun: bool, limit: usize) -> String {
    // A table with a primary key is read in the order of the key, whatever that is, by its index. Without one, all
    // columns are the key, and texts are compared byte by byte, so that rows that differ in case are two.
    let bytewise = match dialect {
        Dialect::Sqlite => "BINARY",
        Dialect::Postgres => "\"C\"",
    };
    let columns: Vec<String> = table
        .columns
        .iter()
        .map(|(name, kind)| {
            let name = quoted(name);
            let is_compared = !table.has_primary_key && *kind == ColumnKind::Text;
            if is_compared { format!("{name} COLLATE {bytewise}") } else { name }
        })
        .collect();
    let key: Vec<&str> =
        table.key.iter().filter_map(|place| columns.get(*place)).map(String::as_str).collect();
    let (list, key) = (columns.join(", "), key.join(", "));
    let from = if has_begun {
        let places = sql::parameters(1, table.key.len());
        format!("FROM {} WHERE ({key}) > ({places})", quoted(&table.name))
    } else {
        format!("FROM {}", quoted(&table.name))
    };
    if table.has_primary_key {
        return format!("SELECT {list}, 1 {from} ORDER BY {key} LIMIT {limit}");
    }
    let places: Vec<String> = (1..=columns.len()).map(|place| place.to_string()).collect();
    let places = places.join(", ");
    format!("SELECT {list}, count(*) {from} GROUP BY {places} ORDER BY {places} LIMIT {limit}")
}

/// Adds rows to the table.
pub(super) fn insert(
    transaction: &Transaction<'_>,
    table: &MovedTable,
    rows: &[Vec<Value>],
) -> sql::Result<()> {
    for rows in rows.chunks((MAX_PARAMETERS / table.columns.len().max(1)).max(1)) {
        let mut statement = transaction.prepare_cached(&insert_text(table, rows.len()))?;
        statement.execute(params_from_iter(rows.iter().flatten()))?;
    }
    Ok(())
}

fn insert_text(table: &MovedTable, rows: usize) -> String {
    let columns: Vec<String> = table.columns.iter().map(|(name, _)| quoted(name)).collect();
    let values = sql::values_list(rows, columns.len());
    format!("INSERT INTO {} ({}) {values}", quoted(&table.name), columns.join(", "))
}

/// Counts the rows of a table.
pub(super) fn count(connection: &Connection<'_>, table: &MovedTable) -> sql::Result<u64> {
    let text = format!("SELECT count(*) FROM {}", quoted(&table.name));
    let count: i64 = connection.query_row(&text, (), |row| row.get(0))?;
    Ok(u64::try_from(count).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keyed() -> MovedTable {
        MovedTable {
            name: "t".to_owned(),
            columns: vec![("a".to_owned(), ColumnKind::Text), ("by".to_owned(), ColumnKind::Integer)],
            key: vec![1, 0],
            has_primary_key: true,
        }
    }

    fn keyless() -> MovedTable {
        MovedTable { key: vec![0, 1], has_primary_key: false, ..keyed() }
    }

    #[test]
    fn pages_follow_the_key() {
        assert_eq!(
            select(&keyed(), Dialect::Postgres, false, 64),
            "SELECT \"a\", \"by\", 1 FROM \"t\" ORDER BY \"by\", \"a\" LIMIT 64"
        );
        assert_eq!(
            select(&keyed(), Dialect::Sqlite, true, 8),
            "SELECT \"a\", \"by\", 1 FROM \"t\" WHERE (\"by\", \"a\") > (?1, ?2) ORDER BY \"by\", \"a\" LIMIT 8"
        );
        assert_eq!(
            select(&keyless(), Dialect::Postgres, true, 8),
            "SELECT \"a\" COLLATE \"C\", \"by\", count(*) FROM \"t\" WHERE (\"a\" COLLATE \"C\", \"by\") > (?1, ?2) \
             GROUP BY 1, 2 ORDER BY 1, 2 LIMIT 8"
        );
        assert_eq!(insert_text(&keyed(), 2), "INSERT INTO \"t\" (\"a\", \"by\") VALUES (?1, ?2), (?3, ?4)");
    }

    #[test]
    fn pages_of_large_rows_are_short() {
        assert_eq!(next_limit(64, 100), 128);
        assert_eq!(next_limit(MAX_ROWS, 100), MAX_ROWS);
        assert_eq!(next_limit(64, WANTED_BYTES), 64);
        assert_eq!(next_limit(64, WANTED_BYTES + 1), 32);
        assert_eq!(next_limit(1, usize::MAX), 1);
    }

    /// Reads all rows in pages of `limit`, and adds them to another table.
    fn copied(table: &MovedTable, limit: usize) -> Vec<(String, i64)> {
        let sqlite = rusqlite::Connection::open_in_memory().unwrap();
        let connection = Connection::sqlite(&sqlite);
        let key = if table.has_primary_key { ", PRIMARY KEY (\"by\", a)" } else { "" };
        let create = |name: &str| format!("CREATE TABLE {name} (a TEXT COLLATE NOCASE, \"by\" INTEGER{key})");
        connection.execute(&create("t"), ()).unwrap();
        connection.execute(&create("u"), ()).unwrap();
        let mut rows = vec![("b", 1), ("a", 2), ("C", 1), ("a", 1), ("\u{e4}", 3)];
        if !table.has_primary_key {
            // Equal ones, and one that differs in case alone.
            rows.extend([("a", 1), ("A", 1), ("a", 1)]);
        }
        for row in rows {
            connection.execute("INSERT INTO t VALUES (?1, ?2)", row).unwrap();
        }
        let other = MovedTable { name: "u".to_owned(), ..table.clone() };
        let mut after = None;
        loop {
            let page = read(&connection, table, after.as_deref(), limit).unwrap();
            if page.last_key.is_none() {
                break;
            }
            after.clone_from(&page.last_key);
            connection.in_transaction(|transaction| insert(transaction, &other, &page.rows)).unwrap();
        }
        assert_eq!(count(&connection, &other).unwrap(), count(&connection, table).unwrap());
        let text = "SELECT a, \"by\" FROM u ORDER BY \"by\", a COLLATE BINARY";
        let mut statement = connection.prepare(text).unwrap();
        statement.query_map((), |row| Ok((row.get(0)?, row.get(1)?))).unwrap().map(Result::unwrap).collect()
    }

    #[test]
    fn every_row_is_in_one_page_whatever_its_size() {
        for limit in 1..7 {
            let keyed = copied(&keyed(), limit);
            let named = |rows: &[(&str, i64)]| -> Vec<(String, i64)> {
                rows.iter().map(|(name, by)| ((*name).to_owned(), *by)).collect()
            };
            assert_eq!(keyed, named(&[("C", 1), ("a", 1), ("b", 1), ("a", 2), ("\u{e4}", 3)]), "{limit}");
            let all = [("A", 1), ("C", 1), ("a", 1), ("a", 1), ("a", 1), ("b", 1), ("a", 2), ("\u{e4}", 3)];
            assert_eq!(copied(&keyless(), limit), named(&all), "{limit}");
        }
    }

    #[test]
    fn a_text_that_is_no_text_names_its_column() {
        let sqlite = rusqlite::Connection::open_in_memory().unwrap();
        let connection = Connection::sqlite(&sqlite);
        connection.execute("CREATE TABLE t (a TEXT, \"by\" INTEGER PRIMARY KEY)", ()).unwrap();
        connection.execute("INSERT INTO t VALUES (CAST(x'ff' AS TEXT), 1)", ()).unwrap();
        let refused = read(&connection, &keyed(), None, 8).unwrap_err();
        assert!(matches!(refused, sql::Error::Column { column: 0, .. }), "{refused:?}");
    }
}
