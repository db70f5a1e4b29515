//! The keys of a transcript's segments.

use crate::blob::{BlobError, BlobKey};

/// The beginning of the keys of all segments.
pub(super) const ALL: &str = "transcripts/";

/// Returns the beginning of the keys of a transcript's segments.
pub(super) fn prefix(file: &str) -> String {
    format!("{ALL}{file}/")
}

/// Parses the key of a segment.
pub(super) fn key(place: &str, text: &str) -> Result<BlobKey, BlobError> {
    text.parse()
        .map_err(|_| BlobError::Refused { place: place.to_owned(), problem: format!("{text:?} is no key") })
}
