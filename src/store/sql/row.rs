//! The rows that a statement returns.

use super::{FromSql, Result, ValueRef};

/// A row. Its columns are counted from 0.
pub struct Row<'r>(&'r rusqlite::Row<'r>);

impl Row<'_> {
    /// Returns the value of a column.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such column, or if its value is not of the type `T`.
    pub fn get<T: FromSql>(&self, column: usize) -> Result<T> {
        Ok(self.0.get(column)?)
    }

    /// Returns the value of a column without copying it.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such column.
    pub fn get_ref(&self, column: usize) -> Result<ValueRef<'_>> {
        Ok(self.0.get_ref(column)?)
    }
}

/// The rows of a running statement.
pub struct Rows<'s>(rusqlite::Rows<'s>);

impl<'s> Rows<'s> {
    pub(super) const fn new(rows: rusqlite::Rows<'s>) -> Self {
        Self(rows)
    }

    /// Returns the next row; `None` after the last.
    ///
    /// # Errors
    ///
    /// Returns an error if the statement fails at this row.
    pub fn next(&mut self) -> Result<Option<Row<'_>>> {
        Ok(self.0.next()?.map(Row))
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
