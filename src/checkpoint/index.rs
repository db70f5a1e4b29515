//! What is known about the files of a workspace from the last look: a file whose inode, size and times are the same has
//! the same content, and is not read again.
//!
//! A file that was changed shortly before it was read is not trusted, as in git: a second change within the same tick
//! of the file system's clock would not show in its times.

use std::collections::HashMap;
use std::io::Read as _;
use std::path::Path;

use flate2::Crc;
use nix::sys::stat::FileStat;

use super::content::ContentId;
use super::error::CheckpointError;
use crate::home::{atomic, regular};

/// The facts that change with a file's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) inode: u64,
    pub(super) size: u64,
    /// Nanoseconds since the epoch.
    pub(super) modified: i64,
    /// Nanoseconds since the epoch. No program can set it.
    pub(super) changed: i64,
}

impl Stamp {
    pub(super) fn of(stat: &FileStat) -> Self {
        Self {
            inode: stat.st_ino,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            modified: nanoseconds(stat.st_mtime, stat.st_mtime_nsec),
            changed: nanoseconds(stat.st_ctime, stat.st_ctime_nsec),
        }
    }
}

const fn nanoseconds(seconds: i64, rest: i64) -> i64 {
    seconds.saturating_mul(1_000_000_000).saturating_add(rest)
}

/// A regular file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct IndexedFile {
    pub(super) name: Box<[u8]>,
    pub(super) stamp: Stamp,
    pub(super) content: ContentId,
    /// `false` if the file may have changed since without a sign of it.
    pub(super) is_trusted: bool,
}

/// A folder with its regular files, sorted by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct IndexedFolder {
    pub(super) tree: ContentId,
    pub(super) files: Vec<IndexedFile>,
}

/// The folders of a workspace by their path in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Index {
    pub(super) folders: HashMap<Box<[u8]>, IndexedFolder>,
}

const MAGIC: &[u8; 8] = b"flockix1";
/// The most bytes of an index. It is larger than that of the most entries that a checkpoint takes.
const MAX_BYTES: u64 = 1 << 30;

impl Index {
    /// Reads an index. A missing or damaged one counts as empty, because it only saves time.
    pub(super) fn read(path: &Path) -> Self {
        let bytes = regular::open(path).and_then(|file| {
            let mut bytes = Vec::with_capacity(usize::try_from(file.metadata()?.len()).unwrap_or(0));
            file.take(MAX_BYTES).read_to_end(&mut bytes)?;
            Ok(bytes)
        });
        bytes.ok().and_then(|bytes| Self::decode(&bytes)).unwrap_or_default()
    }

    /// Replaces an index. It is not synced: a torn one is noticed by its checksum.
    ///
    /// # Errors
    ///
    /// Returns an error if it can't be written.
    pub(super) fn write(&self, path: &Path) -> Result<(), CheckpointError> {
        Ok(atomic::write_unsynced(path, &self.encode(), 0o600)?)
    }

    /// Returns the ids of everything that it refers to.
    pub(super) fn contents(&self) -> impl Iterator<Item = ContentId> {
        self.folders.values().flat_map(|folder| folder.files.iter().map(|file| file.content))
    }

    fn encode(&self) -> Vec<u8> {
        let files: usize = self.folders.values().map(|folder| folder.files.len()).sum();
        let mut bytes = Vec::with_capacity(files * 96 + self.folders.len() * 96);
        bytes.extend(MAGIC);
        let text = |bytes: &mut Vec<u8>, text: &[u8]| {
            bytes.extend(u32::try_from(text.len()).unwrap_or(0).to_le_bytes());
            bytes.extend(text);
        };
        for (path, folder) in &self.folders {
            text(&mut bytes, path);
            bytes.extend(folder.tree.0);
            bytes.extend(u32::try_from(folder.files.len()).unwrap_or(0).to_le_bytes());
            for IndexedFile { name, stamp, content, is_trusted } in &folder.files {
                text(&mut bytes, name);
                bytes.push(u8::from(*is_trusted));
                bytes.extend(stamp.inode.to_le_bytes());
                bytes.extend(stamp.size.to_le_bytes());
                bytes.extend(stamp.modified.to_le_bytes());
                bytes.extend(stamp.changed.to_le_bytes());
                bytes.extend(content.0);
            }
        }
        let sum = checksum(&bytes);
        bytes.extend(sum.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (body, sum) = bytes.split_last_chunk::<4>()?;
        let mut rest = body.strip_prefix(MAGIC)?;
        if checksum(body) != u32::from_le_bytes(*sum) {
            return None;
        }
        let mut folders = HashMap::new();
        while !rest.is_empty() {
            let path = text(&mut rest)?.into();
            let tree = ContentId(*take(&mut rest)?);
            let count = u32::from_le_bytes(*take(&mut rest)?);
            let mut files = Vec::with_capacity(usize::try_from(count).ok()?.min(rest.len() / 69));
            for _ in 0..count {
                files.push(IndexedFile {
                    name: text(&mut rest)?.into(),
                    is_trusted: *take::<1>(&mut rest)? == [1],
                    stamp: Stamp {
                        inode: u64::from_le_bytes(*take(&mut rest)?),
                        size: u64::from_le_bytes(*take(&mut rest)?),
                        modified: i64::from_le_bytes(*take(&mut rest)?),
                        changed: i64::from_le_bytes(*take(&mut rest)?),
                    },
                    content: ContentId(*take(&mut rest)?),
                });
            }
            folders.insert(path, IndexedFolder { tree, files });
        }
        Some(Self { folders })
    }
}

fn checksum(bytes: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum()
}

fn take<'b, const N: usize>(rest: &mut &'b [u8]) -> Option<&'b [u8; N]> {
    let (taken, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(taken)
}

fn text<'b>(rest: &mut &'b [u8]) -> Option<&'b [u8]> {
    let length = usize::try_from(u32::from_le_bytes(*take(rest)?)).ok()?;
    let (taken, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_round_trips_and_a_damaged_one_is_empty() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("index");
        assert_eq!(Index::read(&path), Index::default());
        let file = IndexedFile {
            name: vec![0xff, b'a'].into(),
            stamp: Stamp { inode: 1, size: 2, modified: -3, changed: i64::MAX },
            content: ContentId::of_file(b"x"),
            is_trusted: true,
        };
        let tree = ContentId::of_tree(b"x");
        let mut index = Index::default();
        index.folders.insert(Box::default(), IndexedFolder { tree, files: vec![file.clone()] });
        index.folders.insert(b"a/b"[..].into(), IndexedFolder { tree, files: Vec::new() });
        index.write(&path).unwrap();
        assert_eq!(Index::read(&path), index);
        assert_eq!(index.contents().collect::<Vec<_>>(), [file.content]);
        let bytes = std::fs::read(&path).unwrap();
        for cut in 0..bytes.len() {
            assert_eq!(Index::decode(&bytes[..cut]), None);
        }
        for at in 0..bytes.len() {
            let mut bytes = bytes.clone();
            bytes[at] ^= 1;
            std::fs::write(&path, &bytes).unwrap();
            assert_eq!(Index::read(&path), Index::default(), "{at}");
        }
    }
}
