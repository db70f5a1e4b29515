//! The digest of a table's rows, the same in both databases. Pure.
//!
//! The digest is the sum of the digests of the rows, so it does not depend on their order: the two databases sort names
//! that are equal without regard to case in different ways. It finds faults, and is no proof against somebody who makes
//! rows for it.

use std::fmt;

use sha2::{Digest as _, Sha256};

use crate::store::sql::Value;

/// The number of rows of a table, and the sum of their digests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TableDigest {
    pub(super) rows: u64,
    /// 256 bits, the lowest first.
    sum: [u64; 4],
}

impl TableDigest {
    /// Adds a row, whose values are in the order of the columns' names.
    pub(super) fn add(&mut self, row: &[Value]) {
        let digest = Sha256::digest(encoded(row));
        let mut carry = false;
        for (limb, bytes) in self.sum.iter_mut().zip(digest.chunks_exact(8)) {
            let mut word = [0; 8];
            word.copy_from_slice(bytes);
            let (added, first) = limb.overflowing_add(u64::from_le_bytes(word));
            let (added, second) = added.overflowing_add(u64::from(carry));
            (*limb, carry) = (added, first || second);
        }
        self.rows += 1;
    }
}

impl fmt::Display for TableDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.sum.iter().rev().try_for_each(|limb| write!(f, "{limb:016x}"))
    }
}

/// Returns the bytes that stand for a row. No other row has the same ones.
fn encoded(row: &[Value]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for value in row {
        let (kind, content): (u8, &[u8]) = match value {
            Value::Null => (0, &[]),
            Value::Integer(number) => (1, &number.to_be_bytes()),
            Value::Real(number) => (2, &number.to_bits().to_be_bytes()),
            Value::Text(text) => (3, text.as_bytes()),
            Value::Blob(blob) => (4, blob),
        };
        bytes.push(kind);
        bytes.extend((content.len() as u64).to_be_bytes());
        bytes.extend(content);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    fn of(rows: &[Vec<Value>]) -> TableDigest {
        let mut digest = TableDigest::default();
        rows.iter().for_each(|row| digest.add(row));
        digest
    }

    #[test]
    fn rows_that_differ_have_other_bytes() {
        let rows = [
            vec![text("ab"), text("c")],
            vec![text("a"), text("bc")],
            vec![text("abc"), Value::Null],
            vec![text("abc")],
            vec![text("1")],
            vec![Value::Integer(1)],
            vec![Value::Real(1.0)],
            vec![Value::Blob(b"1".to_vec())],
            vec![text("")],
            vec![Value::Null],
            vec![Value::Blob(Vec::new())],
        ];
        let all: std::collections::BTreeSet<Vec<u8>> = rows.iter().map(|row| encoded(row)).collect();
        assert_eq!(all.len(), rows.len());
    }

    #[test]
    fn the_order_of_rows_does_not_count_and_their_number_does() {
        let (one, two) = (vec![text("a")], vec![Value::Integer(-1)]);
        assert_eq!(of(&[one.clone(), two.clone()]), of(&[two.clone(), one.clone()]));
        assert_ne!(of(&[one.clone(), two.clone()]), of(&[one.clone(), one.clone()]));
        assert_ne!(of(std::slice::from_ref(&one)), of(&[one.clone(), one.clone()]));
        assert_ne!(of(std::slice::from_ref(&one)), of(&[two]));
        assert_eq!(of(&[]).to_string(), "0".repeat(64));
        assert_eq!(of(&[one]).to_string().len(), 64);
    }

    #[test]
    fn the_sum_carries_over_all_of_its_bits() {
        let mut digest = TableDigest { rows: 0, sum: [u64::MAX; 4] };
        digest.add(&[]);
        // All bits set is minus one.
        let mut plain = TableDigest::default();
        plain.add(&[]);
        let (low, borrows) = plain.sum[0].overflowing_sub(1);
        assert_eq!(digest.sum[0], low);
        assert!(borrows || digest.sum[1..] == plain.sum[1..]);
    }
}
