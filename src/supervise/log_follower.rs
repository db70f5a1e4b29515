//! Following a log file across rotations.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::home::log::files;

/// A position in a log from which reading continues.
#[derive(Debug)]
pub(crate) struct LogFollower {
    path: PathBuf,
    /// The file that was read last, and the offset reached.
    at: Option<LogPosition>,
    partial: Vec<u8>,
}

impl LogFollower {
    /// Starts at the end of a log and returns its last `count` lines.
    ///
    /// # Errors
    ///
    /// Returns an error if a file can't be read. A log that does not exist yet is empty.
    pub(crate) fn at_end(path: &Path, count: usize) -> io::Result<(Self, Vec<String>)> {
        let mut follower = Self { path: path.to_owned(), at: None, partial: Vec::new() };
        let mut lines = Vec::new();
        let all = files(path);
        for file in all.iter().rev() {
            let (text, at) = read_from(file, 0)?;
            // Reading continues in the newest file, which is also the only one that can end with half a line.
            if follower.at.is_none() {
                follower.at = Some(at);
            }
            let mut found = Self { path: PathBuf::new(), at: None, partial: Vec::new() }.split(&text);
            let missing = count - lines.len();
            found.drain(..found.len().saturating_sub(missing));
            found.append(&mut lines);
            lines = found;
            if lines.len() >= count {
                break;
            }
        }
        Ok((follower, lines))
    }

    /// Returns the complete lines that were appended since the last call.
    ///
    /// # Errors
    ///
    /// Returns an error if a file can't be read.
    pub(crate) fn more(&mut self) -> io::Result<Vec<String>> {
        let all = files(&self.path);
        let place = |file: &PathBuf| identity(file).ok();
        let known = self.at.and_then(|(id, _)| all.iter().position(|file| place(file) == Some(id)));
        let mut lines = Vec::new();
        // If the known file was rotated away and deleted, continue with the newest file.
        let first = known.unwrap_or(all.len().saturating_sub(1));
        for file in all.iter().skip(first) {
            let from = match self.at {
                Some((id, offset)) if identity(file).ok() == Some(id) => offset,
                _ => 0,
            };
            let (text, at) = match read_from(file, from) {
                Ok(read) => read,
                // The file was rotated between the listing and the read. The next call finds it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => break,
                Err(error) => return Err(error),
            };
            self.at = Some(at);
            lines.append(&mut self.split(&text));
        }
        Ok(lines)
    }

    fn split(&mut self, text: &[u8]) -> Vec<String> {
        self.partial.extend_from_slice(text);
        let Some(end) = self.partial.iter().rposition(|byte| *byte == b'\n') else { return Vec::new() };
        let rest = self.partial.split_off(end + 1);
        let whole = std::mem::replace(&mut self.partial, rest);
        String::from_utf8_lossy(&whole).lines().map(str::to_owned).collect()
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let meta = fs_err::metadata(path)?;
    Ok((meta.dev(), meta.ino()))
}

/// A file, given by device and inode, and the offset read so far.
type LogPosition = ((u64, u64), u64);

/// Reads a file from an offset to its end, and returns the text and the new position.
fn read_from(path: &Path, offset: u64) -> io::Result<(Vec<u8>, LogPosition)> {
    let mut file: File = std::fs::OpenOptions::new()
        .read(true)
        // O_NOFOLLOW and O_NONBLOCK, because a symlink or a FIFO in place of the log must not redirect or block the
        // reader.
        .custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK)
        .open(path)?;
    let meta = file.metadata()?;
    // The file is shorter than before, so it was truncated.
    let from = if meta.size() < offset { 0 } else { offset };
    file.seek(SeekFrom::Start(from))?;
    let mut text = Vec::new();
    file.take(MAX_READ).read_to_end(&mut text)?;
    let at = from + text.len() as u64;
    Ok((text, ((meta.dev(), meta.ino()), at)))
}

/// The most bytes read at once. No log file grows beyond this.
const MAX_READ: u64 = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::home::log::{Log, RotationLimits};

    #[test]
    fn every_line_is_read_once_over_rotations() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.log");
        let (mut follower, before) = LogFollower::at_end(&path, 10).unwrap();
        assert!(before.is_empty());
        let mut log = Log::new(path, RotationLimits { bytes: 50, files: 9 });
        let mut seen = Vec::new();
        for number in 0..60 {
            log.append(format!("line {number}\n").as_bytes()).unwrap();
            // Read rarely enough that several rotations happen in between.
            if number % 13 == 0 {
                seen.extend(follower.more().unwrap());
            }
        }
        seen.extend(follower.more().unwrap());
        assert_eq!(seen, (0..60).map(|number| format!("line {number}")).collect::<Vec<_>>());
        assert!(follower.more().unwrap().is_empty());
    }

    #[test]
    fn the_last_lines_come_from_more_than_one_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.log");
        let mut log = Log::new(path.clone(), RotationLimits { bytes: 50, files: 9 });
        for number in 0..30 {
            log.append(format!("line {number}\n").as_bytes()).unwrap();
        }
        let (mut follower, lines) = LogFollower::at_end(&path, 12).unwrap();
        assert_eq!(lines, (18..30).map(|number| format!("line {number}")).collect::<Vec<_>>());
        log.append(b"half").unwrap();
        assert!(follower.more().unwrap().is_empty(), "no half lines");
        log.append(b" and half\n").unwrap();
        assert_eq!(follower.more().unwrap(), ["half and half"]);
        assert_eq!(LogFollower::at_end(&path, 0).unwrap().1.len(), 0);
    }
}
