//! Marks transcripts whose file is lost here and that are in the second place. A file beside the place of the transcript says
//! why it is not back. Without it, the next turn would begin an empty conversation in the place of the lost one.

use std::io;
use std::path::{Path, PathBuf};

use crate::home::{HomeError, atomic};

/// The most bytes of the reason.
const MAX_BYTES: u64 = 4 << 10;

fn note_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".away");
    name.into()
}

/// Returns the reason why a transcript is not here, or `None` if there is no such mark.
///
/// # Errors
///
/// Returns an error if the mark can't be read.
pub(crate) fn reason(path: &Path) -> Result<Option<String>, HomeError> {
    let bytes = atomic::read(&note_path(path), MAX_BYTES)?;
    Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

/// Returns an error with the reason if a transcript that does not exist is elsewhere.
pub(super) fn check(path: &Path) -> io::Result<()> {
    match reason(path) {
        Ok(None) => Ok(()),
        Ok(Some(reason)) => Err(io::Error::other(reason)),
        Err(error) => Err(io::Error::other(error)),
    }
}

/// Marks a transcript.
///
/// # Errors
///
/// Returns an error if the mark can't be written.
pub(crate) fn note(path: &Path, reason: &str) -> Result<(), HomeError> {
    let end = reason.floor_char_boundary(usize::try_from(MAX_BYTES).unwrap_or(usize::MAX));
    atomic::write(&note_path(path), &reason.as_bytes()[..end], 0o600)
}

/// Removes the mark, if there is one.
///
/// # Errors
///
/// Returns an error if it can't be removed.
pub(crate) fn clear(path: &Path) -> Result<(), HomeError> {
    let note = note_path(path);
    match fs_err::remove_file(&note) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(HomeError::io("remove", &note)(error)),
        _ => Ok(()),
    }
}
