//! Makes a lost transcript of its segments again.

use std::io::Write as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::sync::Arc;

use super::error::TranscriptCopyError;
use super::segment_key::key;
use crate::agent::transcript::{TranscriptError, UNFINISHED, away};
use crate::blob::{BlobError, BlobStore};
use crate::home::HomeError;
use crate::provider::sigv4::digest;
use crate::store::{Store, TranscriptSegment};

/// What became of a transcript.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BroughtBack {
    /// It is here.
    Here,
    /// It was made of this many segments.
    Made(usize),
    /// It has no segments.
    Nothing,
}

/// Makes a transcript of its segments if its file does not exist. Until that is done, no turn can begin another one in its
/// place; the mark that prevents it says why.
///
/// # Errors
///
/// Returns an error if a segment is missing, is not what was written, or can't be fetched. The mark stays then.
pub(crate) async fn bring_back(
    store: &Store,
    blobs: Option<&Arc<dyn BlobStore>>,
    path: &Path,
    name: &str,
) -> Result<BroughtBack, TranscriptCopyError> {
    if path.symlink_metadata().is_ok() {
        // It was made, and the mark was left by a kill.
        away::clear(path)?;
        return Ok(BroughtBack::Here);
    }
    let segments = store.segments().of(name).await?;
    let Some(last) = segments.last() else { return Ok(BroughtBack::Nothing) };
    make_folder(path)?;
    let place = &last.place;
    away::note(
        path,
        &format!("its segments are in {place}, and are not brought back yet; run `flock storage check`"),
    )?;
    let made = match blobs.filter(|blobs| blobs.place() == place) {
        Some(blobs) => make(blobs, path, name, &segments).await,
        None => Err(BlobError::Unset.into()),
    };
    if let Err(error) = &made {
        let problem = crate::error::chain(error);
        away::note(path, &format!("its segments in {place} can't be brought back: {problem}"))?;
    }
    made?;
    away::clear(path)?;
    Ok(BroughtBack::Made(segments.len()))
}

/// Marks a transcript whose file does not exist and that has segments, for a place that is known not to answer. The mark has
/// the reason.
///
/// # Errors
///
/// Returns an error if the database can't be read, or if the mark can't be written.
pub(crate) async fn mark_away(
    store: &Store,
    path: &Path,
    name: &str,
    problem: &str,
) -> Result<(), TranscriptCopyError> {
    if path.symlink_metadata().is_ok() {
        return Ok(away::clear(path)?);
    }
    let segments = store.segments().of(name).await?;
    let Some(last) = segments.last() else { return Ok(()) };
    make_folder(path)?;
    let place = &last.place;
    Ok(away::note(path, &format!("its segments in {place} can't be brought back: {problem}"))?)
}

fn make_folder(path: &Path) -> Result<(), HomeError> {
    let Some(folder) = path.parent() else { return Ok(()) };
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(HomeError::io("make the folder", folder))
}

async fn make(
    blobs: &Arc<dyn BlobStore>,
    path: &Path,
    name: &str,
    segments: &[TranscriptSegment],
) -> Result<(), TranscriptCopyError> {
    let failed = |source| TranscriptError { what: "make", path: path.to_owned(), source };
    let folder = path.parent().unwrap_or(Path::new("."));
    // Without its name until it is complete: the start removes what has this prefix. The library's mode is 0600.
    let mut file = tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(folder).map_err(failed)?;
    let mut end = 0;
    for (segment, number) in segments.iter().zip(1..) {
        if segment.number != number || segment.start != end {
            return Err(TranscriptCopyError::Gap { file: name.to_owned(), number });
        }
        let at = key(&segment.place, &segment.key)?;
        let bytes = blobs.get(&at, None).await?;
        if i64::try_from(bytes.len()) != Ok(segment.bytes) || digest(&bytes) != segment.sha256 {
            let reason = "it is not what was written".to_owned();
            return Err(BlobError::Damaged { place: segment.place.clone(), key: at, reason }.into());
        }
        file.write_all(&bytes).map_err(failed)?;
        end = segment.end();
    }
    file.as_file().sync_all().map_err(failed)?;
    match file.persist_noclobber(path) {
        Ok(_) => {}
        // Somebody has put it there meanwhile, and that one counts.
        Err(error) if error.error.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(failed(error.error).into()),
    }
    std::fs::File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)?;
    Ok(())
}
