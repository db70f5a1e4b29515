//! A bundle: one file with a receipt and everything that is needed to check it elsewhere. It is a tar archive whose bytes
//! follow from its contents, so that two exports of a receipt differ only in how far the audit chain has grown.
//!
//! A bundle is hostile input. Every part is bounded and compared with a hash in the signed receipt, no name in it becomes
//! a path, and a part that nothing names is refused.

mod archive;
mod read;
mod write;

use serde::{Deserialize, Serialize};

use super::ReceiptError;
use crate::store::ChainRow;

pub use read::{Bundle, read};
pub use write::{Export, export};

/// The parts of a bundle in their order, with the longest size of each.
const RECEIPT: &str = "receipt.json";
const SIGNATURE: &str = "receipt.sig";
const KEY: &str = "key.pub";
const CHAIN: &str = "chain.json";
const CHAIN_SIGNATURE: &str = "chain.sig";
const OUTPUTS: &str = "outputs/";
const OBJECTS: &str = "objects/";

/// Largest size of a whole bundle in bytes.
const MAX_BUNDLE: u64 = 512 << 20;
/// Rows of the audit after the receipt's own that a bundle shows.
const ROWS_AFTER: i64 = 1000;
/// Rows of the audit that a reader follows.
const MAX_ROWS: usize = 100_000;

/// A part of the audit chain: from the row that the receipt names to a row after the receipt's own. The contents of all
/// other rows are left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChainDocument {
    /// Unix milliseconds at which the end was read.
    pub at: i64,
    pub end: super::document::ChainPosition,
    pub format: u64,
    /// The id of the receipt.
    pub receipt: String,
    pub rows: Vec<ChainRow>,
    pub start: super::document::ChainPosition,
}

fn refused(reason: impl Into<String>) -> ReceiptError {
    ReceiptError::Malformed { what: "the bundle", reason: reason.into() }
}

#[cfg(test)]
#[path = "bundle_tests.rs"]
mod tests;
