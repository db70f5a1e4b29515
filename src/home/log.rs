//! Log files that can't fill the disk.
//!
//! A file that has reached its size limit is rotated, and only the newest few are kept: `gateway.log`, `gateway.log.1`,
//! `gateway.log.2`, …

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// The limits of a log.
#[derive(Clone, Copy, Debug)]
pub struct RotationLimits {
    /// The size in bytes at which a file is rotated.
    pub bytes: u64,
    /// The number of rotated files that are kept.
    pub files: u32,
}

impl Default for RotationLimits {
    fn default() -> Self {
        Self { bytes: 8 << 20, files: 4 }
    }
}

/// A log that lines are appended to. Callers ignore or count its errors: logging must never end the process that logs.
#[derive(Debug)]
pub struct Log {
    path: PathBuf,
    cap: RotationLimits,
    file: Option<(File, u64)>,
}

impl Log {
    /// Creates the log at a path. The file is opened at the first write.
    #[must_use]
    pub const fn new(path: PathBuf, cap: RotationLimits) -> Self {
        Self { path, cap, file: None }
    }

    /// Appends whole lines.
    ///
    /// # Errors
    ///
    /// Returns an error if the file can't be opened or written. The next call tries again.
    pub fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        let length = lines.len() as u64;
        // Taken out of `self`, so that after an error the next call opens the file again.
        let (mut file, mut size) = match self.file.take() {
            Some(open) => open,
            None => open(&self.path)?,
        };
        // A batch that is larger than the limit goes into an empty file, instead of rotating forever.
        if size > 0 && size + length > self.cap.bytes {
            self.set_aside();
            (file, size) = open(&self.path)?;
        }
        file.write_all(lines)?;
        self.file = Some((file, size + length));
        Ok(())
    }

    /// Rotates the files. Errors are ignored: a file that can't be renamed is overwritten by the next rotation.
    fn set_aside(&self) {
        for number in (1..self.cap.files).rev() {
            let _ = fs_err::rename(rotated_path(&self.path, number), rotated_path(&self.path, number + 1));
        }
        let _ = fs_err::rename(&self.path, rotated_path(&self.path, 1));
    }
}

/// Returns the existing files of a log, oldest first.
#[must_use]
pub fn files(path: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> =
        (1..=MAX_FILES).map(|number| rotated_path(path, number)).take_while(|path| path.exists()).collect();
    found.reverse();
    if path.exists() {
        found.push(path.to_owned());
    }
    found
}

/// Returns the name of a log after `number` rotations.
fn rotated_path(path: &Path, number: u32) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    name.into()
}

fn open(path: &Path) -> io::Result<(File, u64)> {
    let file = std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        // O_NONBLOCK, because opening a FIFO in place of the log would block the process.
        .custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK)
        .open(path)?;
    let size = file.metadata()?.size();
    Ok((file, size))
}

/// The most rotated files that any cap allows.
const MAX_FILES: u32 = 99;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_newest_lines_are_kept_and_none_of_them_is_lost() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.log");
        let mut log = Log::new(path.clone(), RotationLimits { bytes: 40, files: 3 });
        for number in 0..100 {
            log.append(format!("line {number:03}\n").as_bytes()).unwrap();
        }
        // A second writer, as after a restart, continues the same file.
        Log::new(path.clone(), RotationLimits { bytes: 40, files: 3 }).append(b"line 100\n").unwrap();
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
        let mut log = Log::new(path.clone(), RotationLimits::default());
        assert!(log.append(b"lost\n").is_err());
        std::fs::create_dir(path.parent().unwrap()).unwrap();
        log.append(b"kept\n").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"kept\n");
    }
}
