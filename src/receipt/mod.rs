//! Receipts: proof that the checks of a task succeeded on exactly the tree that an agent delivered.
//!
//! [`prove()`] runs the checks and writes the receipt, [`rule::acceptance`] decides with it. The receipt is signed with a
//! key of the home and named by a row of the audit chain. It owns `secrets/receipt-key` and the rows of
//! `store/receipt.rs`. How branches come about, and what happens with an accepted one, does not belong here.

pub mod bundle;
pub mod canary;
pub(crate) mod canonical;
pub mod check_files;
mod checks;
pub mod document;
mod error;
pub mod key;
pub mod objects;
mod packages;
mod prove;
pub mod rebuild;
pub mod rule;
pub mod sshsig;
pub mod test_count;
#[cfg(test)]
pub(crate) mod testing;
pub mod tree;
pub mod verify;

pub use checks::{Checks, Setup};
pub use document::Receipt;
pub use error::ReceiptError;
pub use packages::{CheckPackages, NoPackages, PackageSource};
pub use prove::{Delivery, Proof, Prover, prove, read_stored};
pub use rule::{Acceptance, acceptance, decision};
