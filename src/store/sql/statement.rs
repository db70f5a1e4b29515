//! Prepared statements.

use super::{Binder, Error, MappedRows, Params, Result, Row, Rows, Value};
use crate::store::postgres::PreparedStatement;

/// A statement that is prepared.
pub struct Statement<'c>(Prepared<'c>);

enum Prepared<'c> {
    /// For one use.
    Once(rusqlite::Statement<'c>),
    /// From the connection's cache. It goes back there.
    Cached(rusqlite::CachedStatement<'c>),
    /// Of PostgreSQL, which keeps all of them.
    Postgres(PreparedStatement<'c>),
}

/// A statement of one of the databases.
enum Driver<'s, 'c> {
    Sqlite(&'s mut rusqlite::Statement<'c>),
    Postgres(&'s PreparedStatement<'c>),
}

impl<'c> Statement<'c> {
    pub(super) const fn once(statement: rusqlite::Statement<'c>) -> Self {
        Self(Prepared::Once(statement))
    }

    pub(super) const fn cached(statement: rusqlite::CachedStatement<'c>) -> Self {
        Self(Prepared::Cached(statement))
    }

    pub(super) const fn postgres(statement: PreparedStatement<'c>) -> Self {
        Self(Prepared::Postgres(statement))
    }

    /// Runs the statement, and returns the number of rows that it changed.
    ///
    /// # Errors
    ///
    /// Returns an error if the statement fails or the number of parameters is wrong, here and in the other functions.
    pub fn execute(&mut self, params: impl Params) -> Result<usize> {
        match self.driver() {
            Driver::Sqlite(statement) => {
                bind(statement, params)?;
                Ok(statement.raw_execute()?)
            }
            Driver::Postgres(statement) => statement.execute(&values(params)?),
        }
    }

    /// Runs the statement of a transaction whose number of changed rows nobody needs.
    ///
    /// PostgreSQL's answer is not waited for: a statement on its own is a way to the server and back. So a failure may be
    /// reported by the next statement of the transaction, or by its commit.
    pub fn send(&mut self, params: impl Params) -> Result<()> {
        match self.driver() {
            Driver::Sqlite(statement) => {
                bind(statement, params)?;
                statement.raw_execute()?;
                Ok(())
            }
            Driver::Postgres(statement) => statement.send(values(params)?),
        }
    }

    /// Runs the statement, and returns its rows.
    pub fn query(&mut self, params: impl Params) -> Result<Rows<'_>> {
        match self.driver() {
            Driver::Sqlite(statement) => {
                bind(statement, params)?;
                Ok(Rows::sqlite(statement.raw_query()))
            }
            Driver::Postgres(statement) => Ok(Rows::postgres(statement.query(&values(params)?)?)),
        }
    }

    /// Runs the statement once with each of these parameters, and passes all rows to `take`.
    ///
    /// A server gets all of them at once, so together they are one way there and back.
    pub fn query_each<P: Params>(
        &mut self,
        each: impl IntoIterator<Item = P>,
        mut take: impl FnMut(&Row<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut take_all = |mut rows: Rows<'_>| -> Result<()> {
            while let Some(row) = rows.next()? {
                take(&row)?;
            }
            Ok(())
        };
        match self.driver() {
            Driver::Sqlite(statement) => each.into_iter().try_for_each(|params| {
                bind(statement, params)?;
                take_all(Rows::sqlite(statement.raw_query()))
            }),
            Driver::Postgres(statement) => {
                let each: Vec<Vec<Value>> = each.into_iter().map(values).collect::<Result<_>>()?;
                statement.query_each(&each)?.into_iter().try_for_each(|rows| take_all(Rows::postgres(rows)))
            }
        }
    }

    /// Runs the statement, and returns its rows converted by `map`.
    pub fn query_map<T, F>(&mut self, params: impl Params, map: F) -> Result<MappedRows<'_, F>>
    where
        F: FnMut(&Row<'_>) -> Result<T>,
    {
        Ok(self.query(params)?.mapped(map))
    }

    /// Runs the statement, and returns its first row converted by `map`.
    ///
    /// # Errors
    ///
    /// Returns [`Error::NoRow`] if there is no row.
    pub fn query_row<T, F>(&mut self, params: impl Params, map: F) -> Result<T>
    where
        F: FnOnce(&Row<'_>) -> Result<T>,
    {
        let mut rows = self.query(params)?;
        let row = rows.next()?.ok_or(Error::NoRow)?;
        map(&row)
    }

    fn driver(&mut self) -> Driver<'_, 'c> {
        match &mut self.0 {
            Prepared::Once(statement) => Driver::Sqlite(statement),
            Prepared::Cached(statement) => Driver::Sqlite(statement),
            Prepared::Postgres(statement) => Driver::Postgres(statement),
        }
    }
}

fn bind(statement: &mut rusqlite::Statement<'_>, params: impl Params) -> Result<()> {
    let mut binder = Binder::sqlite(statement);
    params.bind(&mut binder)?;
    let (given, wanted) = (binder.count(), statement.parameter_count());
    // SQLite would take a parameter that was not bound for NULL.
    if given == wanted { Ok(()) } else { Err(rusqlite::Error::InvalidParameterCount(given, wanted).into()) }
}

/// Returns the parameters as values of their own.
pub(super) fn values(params: impl Params) -> Result<Vec<Value>> {
    let mut values = Vec::new();
    params.bind(&mut Binder::postgres(&mut values))?;
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::super::{Connection, OptionalExtension as _, params, params_from_iter};
    use super::*;

    #[test]
    fn every_form_of_parameters_is_bound_in_order() {
        let sqlite = rusqlite::Connection::open_in_memory().unwrap();
        let connection = Connection::sqlite(&sqlite);
        let sql = "SELECT ?1 || '-' || ?2";
        let text = |row: &Row<'_>| row.get::<String>(0);
        let mut statement = connection.prepare_cached(sql).unwrap();
        assert_eq!(statement.query_row(("a", 2), text).unwrap(), "a-2");
        assert_eq!(statement.query_row(["c", "d"], text).unwrap(), "c-d");
        assert_eq!(statement.query_row(params!["e", 6], text).unwrap(), "e-6");
        assert_eq!(statement.query_row(params_from_iter(vec![7, 8]), text).unwrap(), "7-8");
        assert_eq!(connection.query_row(sql, ("i", "j"), text).unwrap(), "i-j");
    }

    #[test]
    fn a_statement_runs_with_each_of_its_parameters() {
        let sqlite = rusqlite::Connection::open_in_memory().unwrap();
        let connection = Connection::sqlite(&sqlite);
        let mut statement =
            connection.prepare_cached("SELECT ?1 UNION ALL SELECT ?1 * 10 WHERE ?1 < 3").unwrap();
        let mut found = Vec::new();
        let mut each = |row: &Row<'_>| {
            found.push(row.get::<i64>(0)?);
            Ok(())
        };
        statement.query_each([[1], [2], [3]], &mut each).unwrap();
        statement.query_each(Vec::<[i64; 1]>::new(), &mut each).unwrap();
        assert_eq!(found, [1, 10, 2, 20, 3]);
        let fails = |_: &Row<'_>| Err(Error::Malformed);
        statement.query_each([[1], [2]], fails).unwrap_err();
    }

    #[test]
    fn a_wrong_number_of_parameters_is_refused() {
        let sqlite = rusqlite::Connection::open_in_memory().unwrap();
        let connection = Connection::sqlite(&sqlite);
        let mut statement = connection.prepare("SELECT ?1, ?2").unwrap();
        assert!(statement.query(()).is_err());
        assert!(statement.query([1]).is_err());
        assert!(statement.query([1, 2, 3]).is_err());
        assert!(statement.query([1, 2]).is_ok());
    }

    #[test]
    fn rows_come_one_after_the_other_and_a_missing_one_has_its_own_error() {
        let sqlite = rusqlite::Connection::open_in_memory().unwrap();
        let connection = Connection::sqlite(&sqlite);
        connection.execute("CREATE TABLE t (x INTEGER)", ()).unwrap();
        assert_eq!(connection.execute("INSERT INTO t VALUES (1), (2), (3)", ()).unwrap(), 3);
        let mut statement = connection.prepare("SELECT x FROM t WHERE x >= ?1 ORDER BY x").unwrap();
        let found: Result<Vec<i64>> = statement.query_map([2], |row| row.get(0)).unwrap().collect();
        assert_eq!(found.unwrap(), [2, 3]);
        let mut rows = statement.query([3]).unwrap();
        assert_eq!(rows.next().unwrap().unwrap().get::<i64>(0).unwrap(), 3);
        assert!(rows.next().unwrap().is_none());
        drop(rows);
        let none = statement.query_row([4], |row| row.get::<i64>(0));
        assert!(matches!(none, Err(Error::NoRow)));
        assert_eq!(none.optional().unwrap(), None);
    }
}
