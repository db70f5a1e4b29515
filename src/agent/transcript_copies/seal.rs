//! Copies what was appended to a transcript since the last copy.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;

use super::error::TranscriptCopyError;
use super::segment_key::{ALL, key, prefix};
use crate::agent::transcript::{TranscriptError, look};
use crate::blob::{BlobStore, Condition, MAX_BLOB, list_all};
use crate::clock::unix_ms;
use crate::provider::sigv4::digest;
use crate::store::{Store, TranscriptSegment};

/// Bytes of a segment, if that many were appended. A segment ends with a line, so it may be larger.
const SEGMENT: u64 = 4 << 20;

/// A segment with fewer bytes is replaced by one with the lines after it. So only the last one is small.
const SMALL: i64 = 1 << 20;

/// The segments that were written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct SealedSegments {
    pub(crate) segments: u64,
    pub(crate) bytes: u64,
}

/// The next step of a copy.
enum Step {
    /// Everything is there.
    Done,
    /// The segments from this number on are not what the file has.
    Cut(i64),
    /// This segment is to be written, without its key and place.
    Put(TranscriptSegment, Bytes),
}

/// Returns the keys of all segments that the store has.
///
/// # Errors
///
/// Returns an error if the store can't be listed.
pub(crate) async fn present(blobs: &Arc<dyn BlobStore>) -> Result<HashSet<String>, TranscriptCopyError> {
    let all = list_all(&**blobs, ALL).await?;
    Ok(all.into_iter().map(|(key, _)| key.as_str().to_owned()).collect())
}

/// Copies all whole lines of a transcript that are not in the store. The caller has claimed the store.
///
/// If the file no longer has what was copied, the copy goes on from where it differs. The segments that it had from there on
/// stay in the store until the session is deleted, because the disk may have damaged the file. A file without a whole line
/// keeps its list of segments, too.
///
/// With `present`, a listed segment that is not among these keys is copied again, and so is all after it. A restored
/// database can name segments that were replaced and deleted since.
///
/// # Errors
///
/// Returns an error if the transcript or the database can't be read, or the store can't be written. The segments before it
/// stay.
pub(crate) async fn seal(
    store: &Store,
    blobs: &Arc<dyn BlobStore>,
    path: &Path,
    name: &str,
    present: Option<&HashSet<String>>,
) -> Result<SealedSegments, TranscriptCopyError> {
    let mut sealed = SealedSegments::default();
    let Some(file) = look(path)? else { return Ok(sealed) };
    let file = Arc::new(file);
    let mut listed = store.segments().of(name).await?;
    // What is in another place says nothing about this one.
    if listed.iter().any(|segment| segment.place != blobs.place()) {
        listed.clear();
    }
    // The first number that is listed in the database and does not count any more.
    let mut cut = None;
    let missing = listed.iter().find(|segment| present.is_some_and(|keys| !keys.contains(&segment.key)));
    if let Some(number) = missing.map(|segment| segment.number) {
        tracing::warn!(file = name, number, "copies the segments of a transcript again that its place lacks");
        split_from(&mut listed, number);
        cut = Some(number);
    }
    let mut is_checked = false;
    loop {
        let (reader, known, owned) = (Arc::clone(&file), listed.clone(), path.to_owned());
        let step = tokio::task::spawn_blocking(move || {
            next_step(&reader, &known, is_checked).map_err(TranscriptError::reading(&owned))
        });
        let step = step
            .await
            .unwrap_or_else(|error| Err(TranscriptError::reading(path)(io::Error::other(error))))?;
        is_checked = true;
        match step {
            Step::Done => {
                // Of a file without a whole line, the segments are all that is left.
                if let Some(number) = cut.filter(|number| *number > 1) {
                    store.segments().cut(name.to_owned(), number).await?;
                }
                return Ok(sealed);
            }
            Step::Cut(number) => {
                // The file was mended since, or the disk has damaged it. Which of the two can't be told, so nothing is
                // deleted. The rows stay until others take their place, or a deleted session would leave its segments.
                tracing::warn!(
                    file = name,
                    number,
                    "a transcript differs from its segments; those are kept until its session is deleted"
                );
                split_from(&mut listed, number);
                cut = Some(number);
            }
            Step::Put(segment, bytes) => {
                let place = blobs.place().to_owned();
                let text = format!("{}{:06}-{}.jsonl", prefix(name), segment.number, segment.sha256);
                let at = key(&place, &text)?;
                sealed.segments += 1;
                sealed.bytes += bytes.len() as u64;
                blobs.put(&at, bytes, Condition::Absent).await?;
                let segment = TranscriptSegment { key: text, place, ..segment };
                store.segments().put(name.to_owned(), segment.clone(), unix_ms()).await?;
                cut = None;
                // Nothing names them any more. A kill before this leaves them until the session is deleted.
                let gone = split_from(&mut listed, segment.number);
                let gone: Vec<_> = gone.into_iter().filter(|old| old.key != segment.key).collect();
                delete(blobs, &gone).await?;
                listed.push(segment);
            }
        }
    }
}

/// Deletes everything in the store of a transcript whose session was deleted.
///
/// # Errors
///
/// Returns an error if the store can't be read or written. Then it is tried again.
pub(crate) async fn forget(
    store: &Store,
    blobs: &Arc<dyn BlobStore>,
    name: &str,
) -> Result<(), TranscriptCopyError> {
    for (key, _) in list_all(&**blobs, &prefix(name)).await? {
        blobs.delete(&key).await?;
    }
    Ok(store.segments().cut(name.to_owned(), 0).await?)
}

/// Removes the segments from a number on and returns them.
fn split_from(listed: &mut Vec<TranscriptSegment>, number: i64) -> Vec<TranscriptSegment> {
    let at = listed.iter().position(|segment| segment.number >= number).unwrap_or(listed.len());
    listed.split_off(at)
}

async fn delete(
    blobs: &Arc<dyn BlobStore>,
    segments: &[TranscriptSegment],
) -> Result<(), TranscriptCopyError> {
    for segment in segments {
        blobs.delete(&key(&segment.place, &segment.key)?).await?;
    }
    Ok(())
}

/// Decides what to do next. The segments are compared with the file unless that was done.
fn next_step(file: &File, listed: &[TranscriptSegment], is_checked: bool) -> io::Result<Step> {
    // A repair that cut out a line has moved everything after it, so the last segment shows if there was one.
    if let Some(last) = listed.last().filter(|_| !is_checked)
        && !is_same(file, last)?
    {
        for segment in listed {
            if !is_same(file, segment)? {
                return Ok(Step::Cut(segment.number));
            }
        }
    }
    let small = listed.last().filter(|last| last.bytes < SMALL);
    let before = if small.is_some() {
        listed.len().checked_sub(2).and_then(|at| listed.get(at))
    } else {
        listed.last()
    };
    let start = before.map_or(0, TranscriptSegment::end);
    let Some(bytes) = lines(file, number(start))? else { return Ok(Step::Done) };
    let length = i64::try_from(bytes.len()).map_err(io::Error::other)?;
    if small.is_some_and(|small| small.end() >= start + length) {
        return Ok(Step::Done);
    }
    let count = i64::try_from(memchr::memchr_iter(b'\n', &bytes).count()).map_err(io::Error::other)?;
    let first_record = before.map_or(0, |before| before.last_record) + 1;
    let segment = TranscriptSegment {
        number: before.map_or(0, |before| before.number) + 1,
        start,
        bytes: length,
        first_record,
        last_record: first_record + count - 1,
        sha256: digest(&bytes),
        key: String::new(),
        place: String::new(),
    };
    Ok(Step::Put(segment, bytes.into()))
}

/// Returns the whole lines from a byte of the file on: about a segment's worth of them, or one longer line. `None` if there is
/// none.
fn lines(file: &File, start: u64) -> io::Result<Option<Vec<u8>>> {
    let left = file.metadata()?.len().saturating_sub(start);
    let mut most = SEGMENT;
    loop {
        let length = most.min(left);
        let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
        file.read_exact_at(&mut bytes, start)?;
        if let Some(end) = memchr::memrchr(b'\n', &bytes) {
            bytes.truncate(end + 1);
            return Ok(Some(bytes));
        }
        // A torn line at the end is copied once it is whole. flock writes no line that is longer than a blob.
        if length == left || most >= MAX_BLOB {
            return Ok(None);
        }
        most *= 2;
    }
}

/// Returns `true` if the file has the bytes of a segment in its place.
fn is_same(file: &File, segment: &TranscriptSegment) -> io::Result<bool> {
    let mut bytes = vec![0; usize::try_from(segment.bytes).map_err(io::Error::other)?];
    match file.read_exact_at(&mut bytes, number(segment.start)) {
        Ok(()) => Ok(digest(&bytes) == segment.sha256),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

fn number(at: i64) -> u64 {
    u64::try_from(at).unwrap_or_default()
}
