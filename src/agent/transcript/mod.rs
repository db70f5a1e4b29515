//! The stored records of a session: one JSON object per line, in a file that is only appended to.
//!
//! A record is committed when its `write(2)` has returned. These modules do not decide what a model is shown of the
//! records; `context` does.

mod entry;
mod exchanges;
pub mod history;
pub mod hygiene;
pub mod importing;
pub mod leftovers;
mod loose;
pub mod model;
mod newest;
pub mod portable;
mod recent;
pub mod repair;
mod store;
pub mod survey;
mod tail;
mod unknown;

pub use entry::{About, Entry, Kind};
pub use exchanges::{Exchange, Scope, exchanges};
pub use model::{
    CommandRecord, CompactionRecord, Header, ImportedRecord, MessageRecord, Phase, Record, ResetRecord,
    TurnRecord,
};
pub use recent::{Recent, recent, recent_before};
pub use store::{Transcript, look};
pub use tail::Tail;
pub use unknown::{INTERRUPTED, unknown_result};
