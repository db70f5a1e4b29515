//! The stored records of a session: one JSON object per line, in a file that is only appended to.
//!
//! A record is committed when its `write(2)` has returned. These modules do not decide what a model is shown of the
//! records; `context` does.

mod entry;
mod exchanges;
mod file;
pub mod hygiene;
pub mod import_export;
pub mod import_note;
pub mod inspect;
mod interrupted;
mod lenient;
pub mod message_reader;
pub mod model;
mod recent;
pub mod repair;
mod reverse_lines;
mod reverse_records;
pub mod stale_files;

pub use entry::{Entry, EntryMetadata, Kind};
pub use exchanges::{Exchange, Scope, exchanges};
pub use file::{Transcript, TranscriptError, look};
pub use interrupted::{INTERRUPTED, unknown_result};
pub use model::{
    CommandRecord, CompactionRecord, Header, ImportedRecord, MessageRecord, Record, ResetRecord, TurnPhase,
    TurnRecord,
};
pub use recent::{RecentConversation, recent, recent_before};
pub use reverse_lines::ReverseLines;
