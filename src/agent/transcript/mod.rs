//! A session's stored records: one JSON object a line, only ever appended to.
//!
//! A record is committed when its `write(2)` has returned. Nothing here knows what a model is shown of
//! them; that is `context`'s.

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
