//! Errors of the copies of transcripts.

use crate::agent::transcript::TranscriptError;
use crate::blob::BlobError;
use crate::error::{Explain, Kind};
use crate::home::HomeError;
use crate::store::StoreError;

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
}

impl TranscriptCopyError {
    /// Returns `true` if the place did not answer, so that the next request would wait in vain as well.
    pub(crate) const fn is_unreachable(&self) -> bool {
        matches!(self, Self::Blob(BlobError::Unreachable { .. }))
    }
}

impl Explain for TranscriptCopyError {
    fn kind(&self) -> Kind {
        match self {
            Self::Blob(error) => error.kind(),
            Self::Store(error) => error.kind(),
            Self::Home(error) => error.kind(),
            Self::Transcript(_) | Self::Gap { .. } => Kind::Failed,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Blob(error) => error.hint(),
            Self::Store(error) => error.hint(),
            Self::Home(error) => error.hint(),
            Self::Transcript(_) | Self::Gap { .. } => Some("flock doctor".to_owned()),
        }
    }
}
