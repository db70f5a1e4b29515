//! Copies of transcripts in the second place, and the way back.
//!
//! A transcript stays the file that it is, with all of its promises. What was appended is copied afterwards, in segments of
//! whole lines. The database lists the segments of each transcript, so a segment that is missing is missed. If the file is
//! lost, it is made of its segments again, before a turn can begin an empty one in its place.

mod bring_back;
mod error;
mod seal;
mod segment_key;

pub(crate) use self::bring_back::{BroughtBack, bring_back, mark_away};
pub(crate) use self::error::TranscriptCopyError;
pub(crate) use self::seal::{forget, present, seal};

#[cfg(test)]
mod tests;
