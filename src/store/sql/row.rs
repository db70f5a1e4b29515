//! The rows that a statement returns.

use super::{Error, FromSql, Result, ValueRef};
use crate::store::postgres;

/// A row. Its columns are counted from 0.
pub struct Row<'r>(Driver<'r>);

enum Driver<'r> {
    Sqlite(&'r rusqlite::Row<'r>),
    Postgres(&'r tokio_postgres::Row),
}

impl Row<'_> {
    /// Returns the value of a column.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such column, or if its value is not of the type `T`.
    pub fn get<T: FromSql>(&self, column: usize) -> Result<T> {
        match self.0 {
            Driver::Sqlite(row) => Ok(row.get(column)?),
            Driver::Postgres(row) => T::column_result(postgres::value_of(row, column)?)
                .map_err(|source| Error::column(column, source)),
        }
    }

    /// Returns the value of a column without copying it.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such column.
    pub fn get_ref(&self, column: usize) -> Result<ValueRef<'_>> {
        match self.0 {
            Driver::Sqlite(row) => Ok(row.get_ref(column)?),
            Driver::Postgres(row) => postgres::value_of(row, column),
        }
    }
}

/// The rows of a running statement.
pub struct Rows<'s>(RowSource<'s>);

enum RowSource<'s> {
    Sqlite(rusqlite::Rows<'s>),
    /// All rows are here. If they still came in, another statement on the same connection would wait for them forever.
    Postgres {
        rows: Vec<tokio_postgres::Row>,
        next: usize,
    },
}

impl<'s> Rows<'s> {
    pub(super) const fn sqlite(rows: rusqlite::Rows<'s>) -> Self {
        Self(RowSource::Sqlite(rows))
    }

    pub(super) const fn postgres(rows: Vec<tokio_postgres::Row>) -> Self {
        Self(RowSource::Postgres { rows, next: 0 })
    }

    /// Returns the next row; `None` after the last.
    ///
    /// # Errors
    ///
    /// Returns an error if the statement fails at this row.
    pub fn next(&mut self) -> Result<Option<Row<'_>>> {
        match &mut self.0 {
            RowSource::Sqlite(rows) => Ok(rows.next()?.map(|row| Row(Driver::Sqlite(row)))),
            RowSource::Postgres { rows, next } => {
                let row = rows.get(*next);
                *next += 1;
                Ok(row.map(|row| Row(Driver::Postgres(row))))
            }
        }
    }

    pub(super) const fn mapped<F>(self, map: F) -> MappedRows<'s, F> {
        MappedRows { rows: self, map }
    }
}

/// An iterator over the rows of a statement, each of them converted by a function.
pub struct MappedRows<'s, F> {
    rows: Rows<'s>,
    map: F,
}

impl<T, F> Iterator for MappedRows<'_, F>
where
    F: FnMut(&Row<'_>) -> Result<T>,
{
    type Item = Result<T>;

    fn next(&mut self) -> Option<Result<T>> {
        let map = &mut self.map;
        self.rows.next().and_then(|row| row.map(|row| map(&row)).transpose()).transpose()
    }
}
