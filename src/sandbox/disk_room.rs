//! The room on a disk of this machine for a workspace that comes back from another one.

use std::io;
use std::path::{Path, PathBuf};

use crate::home::free_space;

/// Bytes of a disk that everything takes at least: a part of a file, a folder, a link.
pub(crate) const BLOCK: u64 = 4096;
/// The number of times that the files may be as long as the room for them. Holes take no room, but a file of zeros that is
/// longer than any disk would be transferred and compared for days.
const LENGTHS: u64 = 4;
/// Bytes after which the disk is measured again.
const STEP: u64 = 16 << 20;

/// The bytes that may be written to a disk, and those that were.
#[derive(Debug)]
pub(crate) struct DiskRoom {
    folder: PathBuf,
    /// Bytes that may be written in all.
    limit: u64,
    /// Bytes that were written.
    taken: u64,
    /// Value of `taken` from which the disk is measured again.
    next_look: u64,
    /// The lengths of all files, added up.
    length: u64,
    /// Limit on `length`.
    longest: u64,
}

impl DiskRoom {
    /// Returns the room on the disk of a folder.
    ///
    /// # Errors
    ///
    /// Returns an error if the disk can't be measured.
    pub fn of(folder: &Path) -> io::Result<Self> {
        Ok(Self::limited(folder, available(folder)?))
    }

    /// Returns the room for this many bytes on the disk of a folder.
    pub(super) fn limited(folder: &Path, limit: u64) -> Self {
        Self {
            folder: folder.to_owned(),
            limit,
            taken: 0,
            next_look: STEP,
            length: 0,
            longest: limit.saturating_mul(LENGTHS),
        }
    }

    /// Counts a name of a file of this length, of which nothing was read yet.
    ///
    /// # Errors
    ///
    /// Returns a [`NoRoom`] in an [`io::Error`] if the files are too long, whatever they take of the disk.
    pub fn announce(&mut self, length: u64) -> io::Result<()> {
        self.length = self.length.saturating_add(length);
        match self.length > self.longest {
            true => Err(self.missing(Some(self.length))),
            false => Ok(()),
        }
    }

    /// Counts bytes that are written next.
    ///
    /// # Errors
    ///
    /// Returns a [`NoRoom`] in an [`io::Error`] if there is no room for them, and another error if the disk can't be measured.
    pub fn take(&mut self, bytes: u64) -> io::Result<()> {
        if self.taken >= self.next_look {
            // Others write to the disk at the same time.
            self.limit = self.limit.min(self.taken.saturating_add(available(&self.folder)?));
            self.next_look = self.taken.saturating_add(STEP);
        }
        self.taken = self.taken.saturating_add(bytes);
        match self.taken > self.limit {
            true => Err(self.missing(None)),
            false => Ok(()),
        }
    }

    fn missing(&self, length: Option<u64>) -> io::Error {
        let need = NoRoom { folder: self.folder.clone(), limit: self.limit, length };
        io::Error::new(io::ErrorKind::StorageFull, need)
    }
}

fn available(folder: &Path) -> io::Result<u64> {
    Ok(free_space::measure(folder)?.saturating_sub(free_space::RESERVE))
}

/// Too little room on a disk for a workspace.
#[derive(Debug)]
pub struct NoRoom {
    /// A folder on the disk.
    pub folder: PathBuf,
    /// Bytes that may be written.
    limit: u64,
    /// The lengths of the files so far, if these are the problem.
    length: Option<u64>,
}

impl std::fmt::Display for NoRoom {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (folder, limit) = (self.folder.display(), self.limit >> 20);
        match self.length {
            None => write!(f, "it needs more than the {limit} MiB that it may take of the disk of {folder}"),
            Some(length) => write!(
                f,
                "its files are at least {} MiB long with their holes, more than {LENGTHS} times the {limit} MiB that it may \
                 take of the disk of {folder}",
                length >> 20
            ),
        }
    }
}

impl std::error::Error for NoRoom {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_written_than_there_is_room_for() {
        let folder = tempfile::tempdir().unwrap();
        let mut room = DiskRoom::limited(folder.path(), 2 * BLOCK);
        room.take(BLOCK).unwrap();
        room.take(BLOCK).unwrap();
        let error = room.take(1).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        let need = error.downcast::<NoRoom>().unwrap();
        assert_eq!(need.folder, folder.path());
        assert!(need.to_string().contains("needs more than the 0 MiB"), "{need}");
        // The disk is smaller than what was thought.
        let mut room = DiskRoom::limited(folder.path(), u64::MAX);
        room.take(STEP).unwrap();
        assert_eq!(room.take(u64::MAX / 2).unwrap_err().kind(), io::ErrorKind::StorageFull);
    }

    #[test]
    fn files_are_at_most_four_times_as_long_as_the_room_for_them() {
        let mut room = DiskRoom::limited(Path::new("/x"), 1 << 20);
        room.announce(3 << 20).unwrap();
        room.announce(1 << 20).unwrap();
        let error = room.announce(8 << 40).unwrap_err();
        let need = error.downcast::<NoRoom>().unwrap().to_string();
        assert!(need.contains("8388612 MiB long") && need.contains("4 times the 1 MiB"), "{need}");
        assert!(room.announce(u64::MAX).is_err(), "it does not begin anew");
    }
}
