//! Takes the content of files that other processes may change while it is read.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

use nix::errno::Errno;
use nix::sys::stat::{FileStat, fstat};
use nix::unistd::{Whence, lseek};

use super::error::BackupError;
use super::manifest::RawPath;
use super::selection;
use super::walk::{FoundFile, WalkSink};
use super::writer::{ArchiveWriter, FileFacts};
use crate::home::unlocked::open_file;

/// The size up to which a file is read as a whole, and again if it changed meanwhile.
const SMALL: u64 = 8 << 20;
/// Number of times that a small file is read which changes meanwhile.
const READS: usize = 3;
/// The age up to which a file's times do not prove that it is unchanged: two ticks of a slow kernel clock.
const RACY: Duration = Duration::from_millis(20);
/// The least hole of a file that is not stored as zeros.
const LEAST_HOLE: u64 = 64 << 10;
/// The size of a page. Programs that unpack sparse files want places that begin at a multiple of a block.
const PAGE: u64 = 4096;

/// Writes what a walk finds into an archive.
pub(super) struct ArchiveSink<'s, 'w> {
    pub(super) writer: &'s mut ArchiveWriter<'w>,
    /// The first name of each file that has several, by its device and inode.
    pub(super) linked: &'s mut HashMap<(u64, u64), RawPath>,
}

impl WalkSink for ArchiveSink<'_, '_> {
    fn folder(&mut self, path: &Path, mode: u32) -> Result<(), BackupError> {
        self.writer.folder(path, mode)
    }

    fn link(&mut self, path: &Path, target: Vec<u8>) -> Result<(), BackupError> {
        self.writer.link(path, target)
    }

    fn file(&mut self, found: &FoundFile<'_>) -> Result<Option<&'static str>, BackupError> {
        let path = found.path;
        if found.stat.st_nlink > 1 {
            let id = (found.stat.st_dev, found.stat.st_ino);
            match self.linked.get(&id) {
                // An agent may have given one large file thousands of names.
                Some(first) if selection::may_share(path, first.as_path()) => {
                    self.writer.same(path, first.clone())?;
                    return Ok(None);
                }
                Some(_) => {}
                None => drop(self.linked.insert(id, RawPath::from(path))),
            }
        }
        let file = match open_file(found.above, found.name, found.user) {
            Ok(file) => file,
            Err(errno) => {
                // What was under this name may be something else by now, so no other name refers to it.
                self.linked.retain(|_, first| first.as_path() != path);
                return match errno {
                    Errno::ENOENT => Ok(None),
                    Errno::EINVAL | Errno::ELOOP | Errno::ENXIO | Errno::ENODEV => {
                        Ok(Some("it was replaced meanwhile"))
                    }
                    Errno::EACCES | Errno::EPERM => Ok(Some("it can't be read")),
                    errno => Err(BackupError::read(path)(errno.into())),
                };
            }
        };
        let stat = look(&file).map_err(BackupError::read(path))?;
        if (stat.st_dev, stat.st_ino) != (found.stat.st_dev, found.stat.st_ino) {
            self.linked.retain(|_, first| first.as_path() != path);
        }
        // The permissions are those before this process added any.
        let facts = FileFacts { mode: found.stat.st_mode & 0o777, modified: modified(&stat) };
        take(self.writer, path, &file, (stat, facts))?;
        Ok(None)
    }
}

/// Adds up the bytes that a backup takes, without holes and further names of files.
#[derive(Default)]
pub(super) struct Measure {
    pub(super) bytes: u64,
    linked: std::collections::HashSet<(u64, u64)>,
}

impl WalkSink for Measure {
    fn folder(&mut self, path: &Path, _: u32) -> Result<(), BackupError> {
        // The header of each entry, and its line in the manifest.
        self.bytes += 512 + 2 * path.as_os_str().len() as u64;
        Ok(())
    }

    fn link(&mut self, path: &Path, _: Vec<u8>) -> Result<(), BackupError> {
        self.folder(path, 0)
    }

    fn file(&mut self, file: &FoundFile<'_>) -> Result<Option<&'static str>, BackupError> {
        let stat = &file.stat;
        if stat.st_nlink < 2 || self.linked.insert((stat.st_dev, stat.st_ino)) {
            let used = u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512);
            // A file system that compresses uses fewer blocks than the file has bytes, and a sparse file has more bytes.
            let size = size(stat);
            self.bytes += if size <= SMALL { size.max(used) } else { used };
        }
        self.folder(file.path, 0)?;
        Ok(None)
    }
}

/// Takes the content of an open file.
fn take(
    writer: &mut ArchiveWriter<'_>,
    path: &Path,
    file: &File,
    (stat, facts): (FileStat, FileFacts),
) -> Result<(), BackupError> {
    let read = BackupError::read(path);
    let whole = size(&stat);
    if selection::is_transcript(path) {
        // Records are only appended, so those that are there now do not change any more.
        let end = end_of_last_line(file, whole).map_err(&read)?;
        return writer.stream(path, facts, (file, end, None), || Ok(false));
    }
    if whole > SMALL {
        let mut before = stat;
        if is_racy(&before) {
            // After two ticks, a further change shows in the times.
            std::thread::sleep(RACY);
            before = look(file).map_err(&read)?;
        }
        let is_racy = is_racy(&before);
        let data = places(file, &before).map_err(&read)?;
        return writer.stream(path, facts, (file, size(&before), data), || {
            look(file).map(|after| is_racy || stamp(&after) != stamp(&before))
        });
    }
    let mut before = stat;
    let mut attempt = 1;
    loop {
        let bytes = read_whole(file, size(&before).min(SMALL)).map_err(&read)?;
        let after = look(file).map_err(&read)?;
        let mut is_stable = stamp(&after) == stamp(&before) && bytes.len() as u64 == size(&after);
        if is_stable && is_racy(&after) {
            // A change in the same tick leaves the same times, but not the same content twice.
            is_stable = read_whole(file, size(&after)).map_err(&read)? == bytes;
        }
        if is_stable || attempt == READS {
            let facts = FileFacts { modified: modified(&after), ..facts };
            return writer.bytes(path, facts, &bytes, !is_stable);
        }
        before = after;
        attempt += 1;
    }
}

/// Reads the first bytes of a file, or fewer if there are fewer.
fn read_whole(file: &File, size: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(size).unwrap_or_default()];
    let mut done = 0;
    while done < bytes.len() {
        match file.read_at(&mut bytes[done..], done as u64) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(done);
    Ok(bytes)
}

/// Returns the number of bytes up to the end of the last whole line of the first `size` bytes.
fn end_of_last_line(file: &File, size: u64) -> io::Result<u64> {
    let mut end = size;
    let mut buffer = vec![0; 64 << 10];
    while end > 0 {
        let begin = end.saturating_sub(buffer.len() as u64);
        let part = &mut buffer[..usize::try_from(end - begin).unwrap_or_default()];
        file.read_exact_at(part, begin)?;
        if let Some(at) = part.iter().rposition(|byte| *byte == b'\n') {
            return Ok(begin + at as u64 + 1);
        }
        end = begin;
    }
    Ok(0)
}

/// Returns the places of a file's content if it has large holes.
fn places(file: &File, stat: &FileStat) -> io::Result<Option<Vec<(u64, u64)>>> {
    let size = size(stat);
    let used = u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512);
    if used.saturating_add(LEAST_HOLE) > size {
        return Ok(None);
    }
    let mut found: Vec<(u64, u64)> = Vec::new();
    let mut at = 0;
    while at < size {
        let begin = match seek(file, at, Whence::SeekData) {
            Ok(begin) if begin < size => begin / PAGE * PAGE,
            // There is no content behind this place.
            Ok(_) | Err(Errno::ENXIO) => break,
            // The file system does not know its holes.
            Err(Errno::EINVAL | Errno::EOPNOTSUPP) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        };
        let end = match seek(file, begin.max(at), Whence::SeekHole) {
            Ok(end) => end.next_multiple_of(PAGE).min(size),
            // It was cut meanwhile.
            Err(Errno::ENXIO) => break,
            Err(errno) => return Err(errno.into()),
        };
        if end <= at {
            break;
        }
        match found.last_mut() {
            Some((offset, length)) if begin < *offset + *length + LEAST_HOLE => *length = end - *offset,
            _ => found.push((begin, end - begin)),
        }
        at = end;
    }
    Ok(Some(found))
}

fn seek(file: &File, at: u64, whence: Whence) -> Result<u64, Errno> {
    let at = i64::try_from(at).map_err(|_| Errno::ENXIO)?;
    lseek(file, at, whence).map(|found| u64::try_from(found).unwrap_or(0))
}

fn look(file: &File) -> io::Result<FileStat> {
    Ok(fstat(file)?)
}

fn size(stat: &FileStat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or(0)
}

fn modified(stat: &FileStat) -> u64 {
    // What a header of tar can hold in its usual form.
    u64::try_from(stat.st_mtime).unwrap_or(0).min((1 << 33) - 1)
}

/// Returns `true` if a file changed so shortly ago that a further change may have left the same times.
fn is_racy(stat: &FileStat) -> bool {
    let nanos = |time: Duration| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let changed = stat.st_ctime.saturating_mul(1_000_000_000).saturating_add(stat.st_ctime_nsec);
    changed > nanos(now).saturating_sub(nanos(RACY))
}

/// Returns what changes with the content of a file. A program can't set the second time.
fn stamp(stat: &FileStat) -> (i64, [i64; 2], [i64; 2]) {
    (stat.st_size, [stat.st_mtime, stat.st_mtime_nsec], [stat.st_ctime, stat.st_ctime_nsec])
}

#[cfg(test)]
mod tests {
    use std::io::{Seek as _, SeekFrom, Write as _};

    use super::*;

    #[test]
    fn lines_end_at_a_line_feed_however_long_they_are() {
        let mut file = tempfile::tempfile().unwrap();
        assert_eq!(end_of_last_line(&file, 0).unwrap(), 0);
        file.write_all(b"one\ntwo").unwrap();
        assert_eq!(end_of_last_line(&file, 7).unwrap(), 4);
        assert_eq!(end_of_last_line(&file, 4).unwrap(), 4);
        assert_eq!(end_of_last_line(&file, 3).unwrap(), 0);
        file.write_all(&vec![b'x'; 200_000]).unwrap();
        assert_eq!(end_of_last_line(&file, 200_007).unwrap(), 4);
    }

    #[test]
    fn holes_are_found_and_small_ones_are_content() {
        let mut file = tempfile::tempfile().unwrap();
        for at in [1 << 20, (1 << 20) + 9000, 40 << 20] {
            file.seek(SeekFrom::Start(at)).unwrap();
            file.write_all(b"content").unwrap();
        }
        file.set_len(1 << 40).unwrap();
        let stat = look(&file).unwrap();
        let found = places(&file, &stat).unwrap().unwrap();
        // A file system may round to larger pages, but never tells of a whole terabyte.
        let sum: u64 = found.iter().map(|(_, length)| length).sum();
        assert!(sum < 1 << 20, "{found:?}");
        for at in [1 << 20, (1 << 20) + 9000, 40 << 20] {
            assert!(
                found.iter().any(|(offset, length)| (*offset..offset + length).contains(&at)),
                "{found:?}"
            );
        }
        assert_eq!(found.len(), 2, "the first two are near each other: {found:?}");
        assert!(found.iter().all(|(offset, length)| offset % 512 == 0 && length % 512 == 0));
    }
}
