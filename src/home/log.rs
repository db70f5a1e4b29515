//! Log files that can't fill the disk: a file is set aside when it has reached its size, and only the newest
//! few are kept, as `gateway.log`, `gateway.log.1`, `gateway.log.2`, …

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// How much is kept.
#[derive(Clone, Copy, Debug)]
pub struct Cap {
    /// A file is set aside before it grows beyond this, in bytes.
    pub bytes: u64,
    /// So many files that were set aside are kept.
    pub files: u32,
}

impl Default for Cap {
    fn default() -> Self {
        Self { bytes: 8 << 20, files: 4 }
    }
}

/// A log that is written to its end. Errors are for the caller to ignore or count: logging must never end
/// what it logs.
#[derive(Debug)]
pub struct Log {
    path: PathBuf,
    cap: Cap,
    file: Option<(File, u64)>,
}

impl Log {
    /// The log at this path; nothing is opened before the first write.
    #[must_use]
    pub const fn new(path: PathBuf, cap: Cap) -> Self {
        Self { path, cap, file: None }
    }

    /// Appends whole lines.
    ///
    /// # Errors
    ///
    /// If the file can't be opened or written; the next call tries again.
    pub fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        let length = lines.len() as u64;
        let (mut file, mut size) = match self.file.take() {
            Some(open) => open,
            None => open(&self.path)?,
        };
        if size > 0 && size + length > self.cap.bytes {
            self.set_aside();
            (file, size) = open(&self.path)?;
        }
        file.write_all(lines)?;
        self.file = Some((file, size + length));
        Ok(())
    }

    /// Renames are best effort: what can't be moved is written over by the next one.
    fn set_aside(&self) {
        for number in (1..self.cap.files).rev() {
            let _ = fs_err::rename(aside(&self.path, number), aside(&self.path, number + 1));
        }
        let _ = fs_err::rename(&self.path, aside(&self.path, 1));
    }
}

/// The files of a log that are there, oldest first.
#[must_use]
pub fn files(path: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> =
        (1..=MOST_FILES).map(|number| aside(path, number)).take_while(|path| path.exists()).collect();
    found.reverse();
    if path.exists() {
        found.push(path.to_owned());
    }
    found
}

/// Where a log goes that has been set aside `number` times.
fn aside(path: &Path, number: u32) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    name.into()
}

fn open(path: &Path) -> io::Result<(File, u64)> {
    let file = std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK)
        .open(path)?;
    let size = file.metadata()?.size();
    Ok((file, size))
}

/// No cap asks for more files than this.
const MOST_FILES: u32 = 99;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_newest_lines_are_kept_and_none_of_them_is_lost() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.log");
        let mut log = Log::new(path.clone(), Cap { bytes: 40, files: 3 });
        for number in 0..100 {
            log.append(format!("line {number:03}\n").as_bytes()).unwrap();
        }
        // A second writer, as after a restart, goes on where the first one was.
        Log::new(path.clone(), Cap { bytes: 40, files: 3 }).append(b"line 100\n").unwrap();
        let kept: String = files(&path).iter().map(|path| std::fs::read_to_string(path).unwrap()).collect();
        let lines: Vec<&str> = kept.lines().collect();
        assert!((13..=16).contains(&lines.len()), "{lines:?}");
        assert_eq!(*lines.last().unwrap(), "line 100");
        for pair in lines.windows(2) {
            assert!(pair[0] < pair[1], "{lines:?}");
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 4);
        assert!(files(&path).iter().all(|path| std::fs::metadata(path).unwrap().len() <= 40));
    }

    #[test]
    fn a_log_that_can_not_be_written_works_again_when_it_can() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("logs").join("a.log");
        let mut log = Log::new(path.clone(), Cap::default());
        assert!(log.append(b"lost\n").is_err());
        std::fs::create_dir(path.parent().unwrap()).unwrap();
        log.append(b"kept\n").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"kept\n");
    }
}
