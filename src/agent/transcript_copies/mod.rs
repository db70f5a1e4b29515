//! Copies of transcripts in the second place, and the way back.
//!
//! A transcript stays the file that it is, with all of its promises. What was appended is copied afterwards, in segments of
//! whole lines. The database lists the segments of each transcript, so a segment that is missing is missed. If the file is
//! lost, it is made of its segments again, before a turn can begin an empty one in its place.

mod bring_back;
mod seal;

pub(crate) use self::bring_back::{BroughtBack, bring_back};
pub(crate) use self::seal::{SealedSegments, forget, seal};

use super::transcript::TranscriptError;
use crate::blob::{BlobError, BlobKey};
use crate::error::{Explain, Kind};
use crate::home::HomeError;
use crate::store::StoreError;

/// Bytes of a segment, if that many were appended. A segment ends with a line, so it may be larger.
const SEGMENT: u64 = 4 << 20;

/// A segment with fewer bytes is replaced by one with the lines after it. So only the last one is small.
const SMALL: i64 = 1 << 20;

/// A failed operation on the copies of a transcript.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TranscriptCopyError {
    #[error(transparent)]
    Blob(#[from] BlobError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Transcript(#[from] TranscriptError),
    #[error(transparent)]
    Home(#[from] HomeError),
    /// The database lacks a segment.
    #[error("segment {number} of the transcript {file} is not listed")]
    Gap { file: String, number: i64 },
    /// The operation was stopped.
    #[error("stopped")]
    Stopped,
}

impl Explain for TranscriptCopyError {
    fn kind(&self) -> Kind {
        match self {
            Self::Blob(error) => error.kind(),
            Self::Store(error) => error.kind(),
            Self::Home(error) => error.kind(),
            Self::Transcript(_) | Self::Gap { .. } | Self::Stopped => Kind::Failed,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Blob(error) => error.hint(),
            Self::Store(error) => error.hint(),
            Self::Home(error) => error.hint(),
            Self::Transcript(_) | Self::Gap { .. } | Self::Stopped => Some("flock doctor".to_owned()),
        }
    }
}

/// Returns the beginning of the keys of a transcript's segments.
fn prefix(file: &str) -> String {
    format!("transcripts/{file}/")
}

/// Parses the key of a segment.
fn key(place: &str, text: &str) -> Result<BlobKey, BlobError> {
    text.parse()
        .map_err(|_| BlobError::Refused { place: place.to_owned(), problem: format!("{text:?} is no key") })
}

#[cfg(test)]
mod tests;
