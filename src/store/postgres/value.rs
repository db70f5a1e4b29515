//! The store's values in PostgreSQL's binary form, and back.
//!
//! A parameter takes the form of the type that PostgreSQL has found for it. SQLite converts by the type of the column
//! as well, so a text can be an integer there, and a number with a fraction of 0 too.

use std::error::Error;

use bytes::{BufMut as _, BytesMut};
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

use crate::store::postgres::PostgresError;
use crate::store::sql::{self, Value, ValueRef};

/// A value that can't be sent or read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// A text of bytes that are no UTF-8.
    #[error("a text that is not UTF-8 can't be stored in PostgreSQL")]
    NotUtf8,
    /// The value does not fit the type of the parameter.
    #[error("{kind} can't be given as {wanted}")]
    Unfit {
        /// The kind of the value, as in `a text`.
        kind: &'static str,
        /// PostgreSQL's name of the type.
        wanted: String,
    },
    /// A column has a type for which the store has no value.
    #[error("a value of the type {0} can't be read")]
    Foreign(String),
    /// The server sent bytes that are no value of the type.
    #[error("a value of the type {0} can't be understood")]
    Malformed(String),
    /// There is no such column.
    #[error("the row has no column {0}")]
    NoColumn(usize),
}

/// Returns the value of a column without copying it.
pub(in crate::store) fn value_of(row: &tokio_postgres::Row, column: usize) -> sql::Result<ValueRef<'_>> {
    if column >= row.len() {
        return Err(PostgresError::Value(ValueError::NoColumn(column)).into());
    }
    let cell: Cell<'_> = row.try_get(column).map_err(PostgresError::from)?;
    Ok(cell.0)
}

/// A parameter of a statement.
#[derive(Debug)]
pub(super) struct Parameter<'v>(pub(super) &'v Value);

impl ToSql for Parameter<'_> {
    fn to_sql(&self, wanted: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        let sent = match self.0 {
            Value::Null => return Ok(IsNull::Yes),
            Value::Integer(number) => put_integer(*number, wanted, out),
            Value::Real(number) => put_real(*number, wanted, out),
            Value::Text(text) => put_text(text, wanted, out),
            Value::Blob(bytes) if *wanted == Type::BYTEA => {
                out.put_slice(bytes);
                Ok(())
            }
            Value::Blob(_) => Err(unfit("a blob", wanted)),
        };
        sent.map(|()| IsNull::No).map_err(Into::into)
    }

    fn accepts(_: &Type) -> bool {
        // `to_sql` says which do not fit, and it knows the value.
        true
    }

    to_sql_checked!();
}

fn unfit(kind: &'static str, wanted: &Type) -> ValueError {
    ValueError::Unfit { kind, wanted: wanted.name().to_owned() }
}

fn put_integer(number: i64, wanted: &Type, out: &mut BytesMut) -> Result<(), ValueError> {
    let too_large = |_| unfit("an integer of this size", wanted);
    match *wanted {
        Type::INT8 => out.put_i64(number),
        Type::INT4 => out.put_i32(i32::try_from(number).map_err(too_large)?),
        Type::INT2 => out.put_i16(i16::try_from(number).map_err(too_large)?),
        Type::BOOL if matches!(number, 0 | 1) => out.put_u8(u8::from(number == 1)),
        #[expect(clippy::cast_precision_loss, reason = "SQLite converts in the same way")]
        Type::FLOAT8 => out.put_f64(number as f64),
        Type::NUMERIC => put_numeric(number, out),
        ref wanted if is_text(wanted) => out.put_slice(number.to_string().as_bytes()),
        ref wanted => return Err(unfit("an integer", wanted)),
    }
    Ok(())
}

fn put_real(number: f64, wanted: &Type, out: &mut BytesMut) -> Result<(), ValueError> {
    match *wanted {
        Type::FLOAT8 => out.put_f64(number),
        Type::INT8 => match whole(number) {
            Some(number) => out.put_i64(number),
            None => return Err(unfit("a number with a fraction", wanted)),
        },
        ref wanted => return Err(unfit("a number with a fraction", wanted)),
    }
    Ok(())
}

/// Returns the integer that a number is, if it is one.
fn whole(number: f64) -> Option<i64> {
    // Beyond 2^53 not every integer can be told from its neighbour.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    #[expect(clippy::cast_possible_truncation, reason = "it is in the range, and has no fraction")]
    (number.fract() == 0.0 && number.abs() <= EXACT).then_some(number as i64)
}

fn put_text(text: &str, wanted: &Type, out: &mut BytesMut) -> Result<(), ValueError> {
    if !is_text(wanted) {
        return Err(unfit("a text", wanted));
    }
    if *wanted == Type::JSONB {
        // The version of the binary form.
        out.put_u8(1);
    }
    // What anybody may say must be storable, and PostgreSQL's texts can hold every character but this one.
    let mut parts = text.split('\0');
    out.put_slice(parts.next().unwrap_or_default().as_bytes());
    for part in parts {
        out.put_slice(sql::NUL_REPLACEMENT.as_bytes());
        out.put_slice(part.as_bytes());
    }
    Ok(())
}

fn is_text(wanted: &Type) -> bool {
    matches!(
        *wanted,
        Type::TEXT
            | Type::VARCHAR
            | Type::BPCHAR
            | Type::NAME
            | Type::UNKNOWN
            | Type::JSON
            | Type::JSONB
            | Type::XML
    )
}

/// The base of the digits of PostgreSQL's `numeric`.
const NUMERIC_BASE: u64 = 10_000;
const NUMERIC_NEGATIVE: u16 = 0x4000;

fn put_numeric(number: i64, out: &mut BytesMut) {
    let mut digits = Vec::new();
    let mut rest = number.unsigned_abs();
    while rest > 0 {
        digits.push((rest % NUMERIC_BASE) as i16);
        rest /= NUMERIC_BASE;
    }
    // An i64 has at most five of these digits.
    let count = i16::try_from(digits.len()).unwrap_or_default();
    out.put_i16(count);
    out.put_i16((count - 1).max(0));
    out.put_u16(if number < 0 { NUMERIC_NEGATIVE } else { 0 });
    out.put_i16(0);
    digits.iter().rev().for_each(|digit| out.put_i16(*digit));
}

/// A value in a row.
struct Cell<'r>(ValueRef<'r>);

impl<'r> FromSql<'r> for Cell<'r> {
    fn from_sql(found: &Type, raw: &'r [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(read(found, raw)?))
    }

    fn from_sql_null(_: &Type) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(ValueRef::Null))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

fn read<'r>(found: &Type, raw: &'r [u8]) -> Result<ValueRef<'r>, ValueError> {
    let malformed = || ValueError::Malformed(found.name().to_owned());
    Ok(match *found {
        Type::INT8 => ValueRef::Integer(i64::from_be_bytes(raw.try_into().map_err(|_| malformed())?)),
        Type::INT4 => ValueRef::Integer(i32::from_be_bytes(raw.try_into().map_err(|_| malformed())?).into()),
        Type::INT2 => ValueRef::Integer(i16::from_be_bytes(raw.try_into().map_err(|_| malformed())?).into()),
        Type::OID => ValueRef::Integer(u32::from_be_bytes(raw.try_into().map_err(|_| malformed())?).into()),
        Type::BOOL => match raw {
            [value] => ValueRef::Integer(i64::from(*value != 0)),
            _ => return Err(malformed()),
        },
        Type::FLOAT8 => ValueRef::Real(f64::from_be_bytes(raw.try_into().map_err(|_| malformed())?)),
        Type::FLOAT4 => ValueRef::Real(f32::from_be_bytes(raw.try_into().map_err(|_| malformed())?).into()),
        Type::NUMERIC => read_numeric(raw).ok_or_else(malformed)?,
        Type::BYTEA => ValueRef::Blob(raw),
        // A function without a value, such as one that takes a lock.
        Type::VOID => ValueRef::Null,
        Type::JSONB => match raw {
            [1, text @ ..] => ValueRef::Text(text),
            _ => return Err(malformed()),
        },
        ref found if is_text(found) => ValueRef::Text(raw),
        ref found => return Err(ValueError::Foreign(found.name().to_owned())),
    })
}

/// Reads a `numeric`: an integer if it is one that fits, else a number with a fraction.
fn read_numeric(raw: &[u8]) -> Option<ValueRef<'static>> {
    let mut words = raw.chunks_exact(2).map(|word| u16::from_be_bytes([word[0], word[1]]));
    let mut next = || words.next();
    let (count, weight, sign, _scale) = (next()?, next()?.cast_signed(), next()?, next()?);
    if sign & !NUMERIC_NEGATIVE != 0 {
        // Not a number, or an infinity.
        return None;
    }
    let is_negative = sign == NUMERIC_NEGATIVE;
    // Each digit stands for its value times 10,000 to the power of its place.
    let digits: Vec<(i32, u16)> = (0..count)
        .map(|at| next().map(|digit| (i32::from(weight) - i32::from(at), digit)))
        .collect::<Option<_>>()?;
    let integer = digits.iter().try_fold(0_i64, |sum, (place, digit)| {
        let value = i64::from(*digit);
        if value == 0 {
            return Some(sum);
        }
        let power = 10_000_i64.checked_pow(u32::try_from(*place).ok()?)?;
        let part = value.checked_mul(power)?;
        // The smallest integer has no positive counterpart.
        if is_negative { sum.checked_sub(part) } else { sum.checked_add(part) }
    });
    Some(match integer {
        Some(integer) => ValueRef::Integer(integer),
        None => {
            let size: f64 =
                digits.iter().map(|(place, digit)| f64::from(*digit) * 10_000_f64.powi(*place)).sum();
            ValueRef::Real(if is_negative { -size } else { size })
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(value: impl Into<Value>, wanted: &Type) -> Result<Vec<u8>, String> {
        let (value, mut out) = (value.into(), BytesMut::new());
        match Parameter(&value).to_sql(wanted, &mut out) {
            Ok(IsNull::No) => Ok(out.to_vec()),
            Ok(IsNull::Yes) => Err("null".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn an_integer_takes_the_form_of_the_type() {
        assert_eq!(sent(-2, &Type::INT8).unwrap(), (-2_i64).to_be_bytes());
        assert_eq!(sent(-2, &Type::INT4).unwrap(), (-2_i32).to_be_bytes());
        assert_eq!(sent(-2, &Type::INT2).unwrap(), (-2_i16).to_be_bytes());
        assert_eq!(sent(1, &Type::BOOL).unwrap(), [1]);
        assert_eq!(sent(3, &Type::FLOAT8).unwrap(), 3_f64.to_be_bytes());
        assert_eq!(sent(-12, &Type::TEXT).unwrap(), b"-12");
        for (number, wanted) in
            [(2, Type::BOOL), (i64::MAX, Type::INT4), (i64::MIN, Type::INT2), (1, Type::BYTEA)]
        {
            assert!(sent(number, &wanted).unwrap_err().starts_with("an integer"), "{number} as {wanted}");
        }
    }

    #[test]
    fn a_number_with_a_fraction_is_an_integer_only_if_it_is_one() {
        assert_eq!(sent(0.5, &Type::FLOAT8).unwrap(), 0.5_f64.to_be_bytes());
        assert_eq!(sent(-4.0, &Type::INT8).unwrap(), (-4_i64).to_be_bytes());
        for number in [0.5, 1e300, f64::NAN, f64::INFINITY] {
            assert!(sent(number, &Type::INT8).is_err(), "{number}");
        }
    }

    #[test]
    fn texts_and_blobs_fit_their_own_types_alone() {
        let text = |text: &str| Value::Text(text.to_owned());
        assert_eq!(sent(text("é"), &Type::TEXT).unwrap(), "é".as_bytes());
        assert_eq!(sent(text("{}"), &Type::JSONB).unwrap(), b"\x01{}");
        assert_eq!(sent(text("5"), &Type::INT8).unwrap_err(), "a text can't be given as int8");
        assert_eq!(sent(text("a\0b\0"), &Type::TEXT).unwrap(), "a\u{fffd}b\u{fffd}".as_bytes());
        assert_eq!(sent(vec![0, 255], &Type::BYTEA).unwrap(), [0, 255]);
        assert_eq!(sent(vec![1], &Type::TEXT).unwrap_err(), "a blob can't be given as text");
        assert_eq!(sent(Value::Null, &Type::INT8).unwrap_err(), "null");
    }

    #[test]
    fn values_are_read_by_their_type() {
        assert_eq!(read(&Type::INT4, &7_i32.to_be_bytes()), Ok(ValueRef::Integer(7)));
        assert_eq!(read(&Type::BOOL, &[1]), Ok(ValueRef::Integer(1)));
        assert_eq!(read(&Type::FLOAT4, &0.5_f32.to_be_bytes()), Ok(ValueRef::Real(0.5)));
        assert_eq!(read(&Type::JSONB, b"\x01[]"), Ok(ValueRef::Text(b"[]")));
        assert_eq!(read(&Type::VOID, b""), Ok(ValueRef::Null));
        assert_eq!(read(&Type::INT8, &[1]), Err(ValueError::Malformed("int8".to_owned())));
        assert_eq!(read(&Type::TIMESTAMPTZ, &[0; 8]), Err(ValueError::Foreign("timestamptz".to_owned())));
    }

    #[test]
    fn integers_survive_the_form_of_sums() {
        for number in [0, 1, -1, 9_999, 10_000, 10_001, 100_000_000, -123_456_789_012, i64::MAX, i64::MIN] {
            let bytes = sent(number, &Type::NUMERIC).unwrap();
            assert_eq!(read(&Type::NUMERIC, &bytes), Ok(ValueRef::Integer(number)), "{number}");
        }
        // 1.5: the digits 1 and 5000, the first of them at the place 0.
        let half: Vec<u8> = [2_u16, 0, 0, 1, 1, 5_000].iter().flat_map(|word| word.to_be_bytes()).collect();
        assert_eq!(read(&Type::NUMERIC, &half), Ok(ValueRef::Real(1.5)));
        let not_a_number: Vec<u8> =
            [0_u16, 0, 0xc000, 0].iter().flat_map(|word| word.to_be_bytes()).collect();
        assert!(read(&Type::NUMERIC, &not_a_number).is_err());
    }
}
