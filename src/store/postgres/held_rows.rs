//! Rows of a change that are inserted together.
//!
//! PostgreSQL prepares its constraints, partial indexes and expressions anew for each statement, which takes longer than a
//! row of a message or of the audit itself.

use std::mem;

use crate::store::sql::{Value, values_list};

/// The most rows of one statement. There is a statement for each power of two up to it, because each number of rows has a
/// text of its own that the server has to prepare.
pub(in crate::store) const MAX_ROWS: usize = 64;

/// The rows that wait for the next statement whose answer is waited for, by the statement that would insert one of them.
#[derive(Default)]
pub(super) struct HeldRows(Vec<(String, Vec<Vec<Value>>)>);

/// A statement that inserts some of the rows, with its parameters.
#[derive(Debug, PartialEq)]
pub(super) struct Insertion {
    pub(super) sql: String,
    pub(super) values: Vec<Value>,
}

impl HeldRows {
    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a row. `sql` inserts it alone, and ends with `VALUES (?1, …)`.
    pub(super) fn add(&mut self, sql: &str, row: Vec<Value>) {
        debug_assert!(sql.ends_with(&values_list(1, row.len())), "{sql}");
        match self.0.iter_mut().find(|(known, _)| known == sql) {
            Some((_, rows)) => rows.push(row),
            None => self.0.push((sql.to_owned(), vec![row])),
        }
    }

    /// Takes the statements that insert all rows. Those of one table stay in their order.
    pub(super) fn take(&mut self) -> Vec<Insertion> {
        let mut insertions = Vec::new();
        for (sql, rows) in mem::take(&mut self.0) {
            let mut rows = rows.into_iter().peekable();
            while let Some(columns) = rows.peek().map(Vec::len) {
                let count = 1 << rows.len().min(MAX_ROWS).ilog2();
                let start = &sql[..sql.len() - values_list(1, columns).len()];
                insertions.push(Insertion {
                    sql: format!("{start}{}", values_list(count, columns)),
                    values: rows.by_ref().take(count).flatten().collect(),
                });
            }
        }
        insertions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAIR: &str = "INSERT INTO pair (a, b) VALUES (?1, ?2)";
    const SINGLE: &str = "INSERT INTO single (a) VALUES (?1)";

    fn numbers(insertion: &Insertion) -> Vec<i64> {
        let number =
            |value: &Value| if let Value::Integer(number) = value { *number } else { panic!("{value:?}") };
        insertion.values.iter().map(number).collect()
    }

    #[test]
    fn rows_of_a_table_are_one_statement() {
        let mut held = HeldRows::default();
        for number in 0..2 {
            held.add(PAIR, vec![Value::Integer(number), Value::Integer(-number)]);
            held.add(SINGLE, vec![Value::Integer(number)]);
        }
        assert!(!held.is_empty());
        let taken = held.take();
        assert!(held.is_empty());
        let texts: Vec<&str> = taken.iter().map(|insertion| &*insertion.sql).collect();
        assert_eq!(
            texts,
            ["INSERT INTO pair (a, b) VALUES (?1, ?2), (?3, ?4)", "INSERT INTO single (a) VALUES (?1), (?2)"]
        );
        assert_eq!(taken.iter().map(numbers).collect::<Vec<_>>(), [vec![0, 0, 1, -1], vec![0, 1]]);
        assert_eq!(held.take(), []);
    }

    #[test]
    fn a_row_alone_has_its_own_statement() {
        let mut held = HeldRows::default();
        held.add(PAIR, vec![Value::Integer(1), Value::Integer(2)]);
        assert_eq!(held.take()[0].sql, PAIR);
    }

    #[test]
    fn there_are_few_texts_whatever_the_number_of_rows() {
        let mut texts = std::collections::BTreeSet::new();
        for count in 1..100 {
            let mut held = HeldRows::default();
            (0..count).for_each(|number| held.add(SINGLE, vec![Value::Integer(number)]));
            let taken = held.take();
            assert_eq!(taken.iter().flat_map(numbers).collect::<Vec<_>>(), (0..count).collect::<Vec<_>>());
            texts.extend(taken.into_iter().map(|insertion| insertion.sql));
        }
        assert_eq!(texts.len(), 7);
    }
}
