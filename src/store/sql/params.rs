//! The parameters of a statement.

use super::value::owned;
use super::{Result, ToSql, Value};

/// A statement whose parameters are being bound, in their order.
pub struct Binder<'b, 'c> {
    target: Target<'b, 'c>,
    count: usize,
}

enum Target<'b, 'c> {
    Sqlite(&'b mut rusqlite::Statement<'c>),
    /// The values are sent together, once their types are known.
    Postgres(&'b mut Vec<Value>),
}

impl<'b, 'c> Binder<'b, 'c> {
    pub(super) const fn sqlite(statement: &'b mut rusqlite::Statement<'c>) -> Self {
        Self { target: Target::Sqlite(statement), count: 0 }
    }

    pub(super) const fn postgres(values: &'b mut Vec<Value>) -> Self {
        Self { target: Target::Postgres(values), count: 0 }
    }

    /// Binds the next parameter.
    ///
    /// # Errors
    ///
    /// Returns an error if the statement has no further parameter, or if the value can't be converted.
    pub fn bind(&mut self, value: &(impl ToSql + ?Sized)) -> Result<()> {
        self.count += 1;
        match &mut self.target {
            Target::Sqlite(statement) => Ok(statement.raw_bind_parameter(self.count, value)?),
            Target::Postgres(values) => {
                values.push(owned(value)?);
                Ok(())
            }
        }
    }

    /// Returns the number of parameters that were bound.
    pub(super) const fn count(&self) -> usize {
        self.count
    }
}

/// The parameters of a statement: a tuple, an array, [`params!`] for mixed types beyond sixteen, or [`params_from_iter`].
pub trait Params {
    /// Binds each parameter, in order.
    ///
    /// # Errors
    ///
    /// Returns the error of the first parameter that can't be bound.
    fn bind(self, statement: &mut Binder<'_, '_>) -> Result<()>;
}

impl Params for () {
    fn bind(self, _: &mut Binder<'_, '_>) -> Result<()> {
        Ok(())
    }
}

impl<T: ToSql, const N: usize> Params for [T; N] {
    fn bind(self, statement: &mut Binder<'_, '_>) -> Result<()> {
        self.iter().try_for_each(|value| statement.bind(value))
    }
}

impl Params for &[&dyn ToSql] {
    fn bind(self, statement: &mut Binder<'_, '_>) -> Result<()> {
        self.iter().try_for_each(|value| statement.bind(value))
    }
}

macro_rules! tuples {
    ($($Type:ident)+) => {
        impl<$($Type: ToSql),+> Params for ($($Type,)+) {
            fn bind(self, statement: &mut Binder<'_, '_>) -> Result<()> {
                #[expect(non_snake_case, reason = "each value has the name of its type parameter")]
                let ($($Type,)+) = self;
                $(statement.bind(&$Type)?;)+
                Ok(())
            }
        }
    };
}

tuples!(A);
tuples!(A B);
tuples!(A B C);
tuples!(A B C D);
tuples!(A B C D E);
tuples!(A B C D E F);
tuples!(A B C D E F G);
tuples!(A B C D E F G H);
tuples!(A B C D E F G H I);
tuples!(A B C D E F G H I J);
tuples!(A B C D E F G H I J K);
tuples!(A B C D E F G H I J K L);
tuples!(A B C D E F G H I J K L M);
tuples!(A B C D E F G H I J K L M N);
tuples!(A B C D E F G H I J K L M N O);
tuples!(A B C D E F G H I J K L M N O P);

/// Parameters whose number is known only when the statement is built.
pub struct ParamsFromIter<I>(I);

/// Makes the parameters of a statement from an iterator.
pub fn params_from_iter<I>(values: I) -> ParamsFromIter<I>
where
    I: IntoIterator,
    I::Item: ToSql,
{
    ParamsFromIter(values)
}

impl<I> Params for ParamsFromIter<I>
where
    I: IntoIterator,
    I::Item: ToSql,
{
    fn bind(self, statement: &mut Binder<'_, '_>) -> Result<()> {
        self.0.into_iter().try_for_each(|value| statement.bind(&value))
    }
}

/// Returns a list of so many parameters for the text of a statement, such as `?4, ?5`.
pub(in crate::store) fn parameters(first: usize, count: usize) -> String {
    (first..first + count).map(|number| format!("?{number}")).collect::<Vec<_>>().join(", ")
}

/// Returns `VALUES` with the parameters of so many rows.
pub(in crate::store) fn values_list(rows: usize, columns: usize) -> String {
    let rows = (0..rows).map(|row| format!("({})", parameters(row * columns + 1, columns)));
    format!("VALUES {}", rows.collect::<Vec<_>>().join(", "))
}

/// Makes the parameters of a statement from values of different types, whatever their number.
macro_rules! params {
    ($($value:expr),+ $(,)?) => {
        &[$(&$value as &dyn $crate::store::sql::ToSql),+] as &[&dyn $crate::store::sql::ToSql]
    };
}

pub(in crate::store) use params;
