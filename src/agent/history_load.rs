//! Reads the conversation of a session from its transcript, for the next request.

use std::fs::File;
use std::path::Path;

use super::estimate::{self, ImageEstimate};
use super::prefix_cache::Prefix;
use super::transcript::{self, MessageRecord, RecentConversation, Transcript, TranscriptError};

/// Reads the conversation, and repairs the file first if it is damaged. Only for the holder of the session's claim.
///
/// A repaired file is read a second time: all later requests are built from the repaired file, and the first one must
/// have the same beginning.
pub(super) fn load(
    transcript: &mut Transcript,
    room: u64,
    images: ImageEstimate,
) -> Result<RecentConversation, TranscriptError> {
    let found = read(transcript.file(), transcript.path(), room, images)?;
    if found.broken == 0 {
        return Ok(found);
    }
    transcript.repair()?;
    read(transcript.file(), transcript.path(), room, images)
}

/// Reads the messages of a cached prefix.
pub(super) fn before(
    transcript: &Transcript,
    prefix: &Prefix,
    images: ImageEstimate,
) -> Result<RecentConversation, TranscriptError> {
    let read = transcript::recent_before(transcript.file(), prefix.at.offset, u64::MAX, record_cost(images));
    read.map_err(TranscriptError::reading(transcript.path()))
}

/// Reads the conversation without a repair, and returns it with the file's size in bytes. A turn may be writing
/// meanwhile: an incomplete last line is skipped.
pub(super) fn look(
    path: &Path,
    room: u64,
    images: ImageEstimate,
) -> Result<(RecentConversation, u64), TranscriptError> {
    let Some(file) = transcript::look(path)? else { return Ok((RecentConversation::default(), 0)) };
    // The size is read before the content, so that a report does not count bytes that it did not read.
    let length = file.metadata().map_err(TranscriptError::reading(path))?.len();
    Ok((read(&file, path, room, images)?, length))
}

/// Reads the conversation before a place of the file, which must be the end of a line.
pub(super) fn look_before(
    file: &File,
    place: u64,
    room: u64,
    images: ImageEstimate,
) -> std::io::Result<RecentConversation> {
    transcript::recent_before(file, place, read_limit(room), record_cost(images))
}

fn read(
    file: &File,
    path: &Path,
    room: u64,
    images: ImageEstimate,
) -> Result<RecentConversation, TranscriptError> {
    transcript::recent(file, read_limit(room), record_cost(images)).map_err(TranscriptError::reading(path))
}

/// The notice that the copy of a damaged file is still there.
pub(super) fn kept(backup: &Path) -> String {
    format!(
        "the conversation's file was damaged and has been mended; the old one could not be removed and is {}",
        backup.display()
    )
}

/// The most tokens of a conversation that are read. A turn may leave a little more than fits; anything older was
/// written for a model with more room.
const fn read_limit(room: u64) -> u64 {
    room.saturating_add(room / 2)
}

/// Returns a function that estimates a stored message's cost in the form that the model reads.
fn record_cost(images: ImageEstimate) -> impl Fn(&MessageRecord) -> u64 {
    move |record| {
        let context = record.context.as_deref().map_or(0, estimate::context_tokens);
        let guidance =
            if record.guidance.is_empty() { 0 } else { estimate::context_tokens(&record.guidance) };
        estimate::cost(&record.message.content, images) + context + guidance
    }
}
