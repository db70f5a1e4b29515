//! The stored records of a session: one JSON object per line, in a file that is only appended to.
//!
//! A record is committed when its `write(2)` has returned. These modules do not decide what a model is shown of the
//! records; `context` does.

pub(crate) mod away;
mod entry;
mod exchanges;
mod file;
pub(crate) mod forward;
pub mod hygiene;
pub(crate) mod import_export;
pub(crate) mod import_note;
pub(crate) mod inspect;
mod interrupted;
mod lenient;
pub(crate) mod message_reader;
pub mod model;
mod recent;
pub(crate) mod repair;
mod reverse_records;
pub(crate) mod rewind;
pub(crate) mod stale_files;

pub use entry::{Entry, EntryKind, EntryMetadata};
pub(crate) use exchanges::{Exchange, ExchangeScope, exchanges};
pub use file::TranscriptError;
pub(crate) use file::{Transcript, look, set_apart};
pub(crate) use interrupted::{INTERRUPTED, unknown_result};
pub(crate) use model::{CommandRecord, Header, ResetRecord, RewindRecord, TurnPhase, TurnRecord};
pub use model::{CompactionRecord, MessageRecord, Record};
pub use recent::recent;
pub(crate) use recent::{RecentConversation, recent_before};
pub(crate) use repair::TEMP_PREFIX as UNFINISHED;
