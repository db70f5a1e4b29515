//! What a session's transcript holds of its conversation, for the next request.

use std::fs::File;
use std::path::Path;

use super::estimate::{self, Images};
use super::prefix_cache::{Prefix, Since};
use super::transcript::{self, MessageRecord, Recent, Transcript};
use super::turn::TurnError;

/// Reads it, and where the file is damaged has it mended first: only for who holds the session's claim. What was mended
/// is read once more, because it is what every later request is made of, and the first one must begin as they do.
pub(super) fn load(transcript: &mut Transcript, room: u64, images: Images) -> Result<Recent, TurnError> {
    let found = read(transcript.file(), transcript.path(), room, images)?;
    if found.broken == 0 {
        return Ok(found);
    }
    transcript.repair()?;
    read(transcript.file(), transcript.path(), room, images)
}

/// What was said since a beginning that was kept; `None` where that is none of this transcript any more.
pub(super) fn since(transcript: &Transcript, prefix: &Prefix) -> Result<Option<Since>, TurnError> {
    prefix.since(transcript.file()).map_err(|source| fail(transcript.path(), source))
}

/// Reads the beginning itself.
pub(super) fn before(transcript: &Transcript, prefix: &Prefix, images: Images) -> Result<Recent, TurnError> {
    let read = transcript::recent_before(transcript.file(), prefix.at.offset, u64::MAX, record_cost(images));
    read.map_err(|source| fail(transcript.path(), source))
}

/// Reads it as it is, and gives the size of the file in bytes. A turn may be writing to it: of a line that is not all
/// there nothing is taken.
pub(super) fn look(path: &Path, room: u64, images: Images) -> Result<(Recent, u64), TurnError> {
    let Some(file) = transcript::look(path)? else { return Ok((Recent::default(), 0)) };
    let length = file.metadata().map_err(|source| fail(path, source))?.len();
    Ok((read(&file, path, room, images)?, length))
}

fn read(file: &File, path: &Path, room: u64, images: Images) -> Result<Recent, TurnError> {
    transcript::recent(file, most(room), record_cost(images)).map_err(|source| fail(path, source))
}

fn fail(path: &Path, source: std::io::Error) -> TurnError {
    TurnError::Transcript { what: "read", path: path.to_owned(), source }
}

/// What people are told of an old file that is still there.
pub(super) fn kept(backup: &Path) -> String {
    format!(
        "the conversation's file was damaged and has been mended; the old one could not be removed and is {}",
        backup.display()
    )
}

/// The most tokens of a conversation that are read. A little more than fits can be there, because a turn ends
/// when it ends; what is older than that was written for a model with more room.
const fn most(room: u64) -> u64 {
    room.saturating_add(room / 2)
}

/// What a stored message costs as the model is shown it.
fn record_cost(images: Images) -> impl Fn(&MessageRecord) -> u64 {
    move |record| {
        let context = record.context.as_deref().map_or(0, estimate::context_cost);
        let guidance = if record.guidance.is_empty() { 0 } else { estimate::context_cost(&record.guidance) };
        estimate::cost(&record.message.content, images) + context + guidance
    }
}
