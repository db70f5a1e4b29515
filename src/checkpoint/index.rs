//! What is known about the files of a workspace from the last look: a file whose inode, size and times are the same has
//! the same content, and is not read again.
//!
//! A file that was changed shortly before it was read is not trusted, as in git: a second change within the same tick
//! of the file system's clock would not show in its times.
//!
//! An index stays in the form in which it is stored, because each look needs all of it once and changes little.

use std::io::Read as _;
use std::iter::Peekable;
use std::ops::Range;
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IndexedFile<'a> {
    pub(super) name: &'a [u8],
    pub(super) stamp: Stamp,
    pub(super) content: ContentId,
    /// `false` if the file may have changed since without a sign of it.
    pub(super) is_trusted: bool,
}

/// A folder with its regular files, sorted by name.
#[derive(Clone, Copy, Debug)]
pub(super) struct IndexedFolder<'a> {
    /// The path in the workspace.
    pub(super) path: &'a [u8],
    pub(super) tree: ContentId,
    files: &'a [u8],
}

impl<'a> IndexedFolder<'a> {
    /// Returns the regular files, sorted by name.
    pub(super) const fn files(&self) -> IndexedFiles<'a> {
        IndexedFiles(self.files)
    }
}

/// The regular files of a folder, sorted by name.
#[derive(Clone, Debug)]
pub(super) struct IndexedFiles<'a>(&'a [u8]);

/// Returns the file of this name. Names are asked for in their order, and those before it are passed.
pub(super) fn find<'a>(known: &mut Peekable<IndexedFiles<'a>>, name: &[u8]) -> Option<IndexedFile<'a>> {
    while known.next_if(|file| *file.name < *name).is_some() {}
    known.next_if(|file| *file.name == *name)
}

impl<'a> Iterator for IndexedFiles<'a> {
    type Item = IndexedFile<'a>;

    fn next(&mut self) -> Option<IndexedFile<'a>> {
        let rest = &mut self.0;
        Some(IndexedFile {
            name: text(rest)?,
            is_trusted: *take::<1>(rest)? == [1],
            stamp: Stamp {
                inode: u64::from_le_bytes(*take(rest)?),
                size: u64::from_le_bytes(*take(rest)?),
                modified: i64::from_le_bytes(*take(rest)?),
                changed: i64::from_le_bytes(*take(rest)?),
            },
            content: ContentId(*take(rest)?),
        })
    }
}

/// A folder that a look has found, for a new index.
#[derive(Debug)]
pub(super) struct NewFolder {
    /// The path in the workspace.
    pub(super) path: Vec<u8>,
    pub(super) tree: ContentId,
    files: Vec<u8>,
}

impl NewFolder {
    /// Creates a folder for about this many files.
    pub(super) fn new(path: Vec<u8>, tree: ContentId, files: usize) -> Self {
        Self { path, tree, files: Vec::with_capacity(files * 96) }
    }

    /// Adds a file. Files are added in the order of their names.
    pub(super) fn add(&mut self, file: &IndexedFile<'_>) {
        let IndexedFile { name, stamp, content, is_trusted } = file;
        put_text(&mut self.files, name);
        self.files.push(u8::from(*is_trusted));
        self.files.extend(stamp.inode.to_le_bytes());
        self.files.extend(stamp.size.to_le_bytes());
        self.files.extend(stamp.modified.to_le_bytes());
        self.files.extend(stamp.changed.to_le_bytes());
        self.files.extend(content.0);
    }
}

/// The folders of a workspace by their path in it.
#[derive(Clone, Debug, Default)]
pub(super) struct Index {
    /// The stored form. Empty if nothing is known.
    bytes: Vec<u8>,
    /// The places of the folders, sorted by path.
    folders: Vec<Place>,
    /// `true` if this is what the file has.
    is_stored: bool,
}

/// The places of a folder's parts in the bytes of an index.
#[derive(Clone, Debug)]
struct Place {
    path: Range<usize>,
    tree: usize,
    files: Range<usize>,
}

const MAGIC: &[u8; 8] = b"flockix2";
/// The most bytes of an index. It is larger than that of the most entries that a checkpoint takes.
const MAX_BYTES: u64 = 1 << 30;

impl Index {
    /// Creates an index of these folders, and of those of `other` that are not among them.
    pub(super) fn of(mut folders: Vec<NewFolder>, other: Option<&Self>) -> Self {
        folders.sort_unstable_by(|one, two| one.path.cmp(&two.path));
        let is_new = |folder: &IndexedFolder<'_>| {
            folders.binary_search_by(|new| new.path.as_slice().cmp(folder.path)).is_err()
        };
        let old: Vec<IndexedFolder<'_>> =
            other.into_iter().flat_map(Self::folders).filter(|folder| is_new(folder)).collect();
        let new =
            folders.iter().map(|NewFolder { path, tree, files }| IndexedFolder { path, tree: *tree, files });
        let mut all: Vec<IndexedFolder<'_>> = new.chain(old).collect();
        all.sort_unstable_by(|one, two| one.path.cmp(two.path));
        let size: usize = all.iter().map(|folder| folder.path.len() + folder.files.len() + 40).sum();
        let mut bytes = Vec::with_capacity(MAGIC.len() + size + 4);
        bytes.extend(MAGIC);
        let mut places = Vec::with_capacity(all.len());
        for IndexedFolder { path, tree, files } in all {
            put_text(&mut bytes, path);
            let path = bytes.len() - path.len()..bytes.len();
            bytes.extend(tree.0);
            put_text(&mut bytes, files);
            places.push(Place { tree: path.end, path, files: bytes.len() - files.len()..bytes.len() });
        }
        let sum = checksum(&bytes);
        bytes.extend(sum.to_le_bytes());
        Self { bytes, folders: places, is_stored: false }
    }

    /// Reads an index. A missing or damaged one counts as empty, because it only saves time.
    pub(super) fn read(path: &Path) -> Self {
        let bytes = regular::open(path).and_then(|file| {
            let mut bytes = Vec::with_capacity(usize::try_from(file.metadata()?.len()).unwrap_or(0) + 1);
            file.take(MAX_BYTES).read_to_end(&mut bytes)?;
            Ok(bytes)
        });
        bytes.ok().and_then(Self::decode).unwrap_or_default()
    }

    /// Replaces an index. It is not synced: a torn one is noticed by its checksum.
    ///
    /// # Errors
    ///
    /// Returns an error if it can't be written.
    pub(super) fn write(&mut self, path: &Path) -> Result<(), CheckpointError> {
        if !self.is_stored {
            atomic::write_unsynced(path, &self.bytes, 0o600)?;
            self.is_stored = true;
        }
        Ok(())
    }

    /// Marks an index that has the same bytes as the stored one before it, so that it is not written again.
    pub(super) fn keep_stored(&mut self, before: &Self) {
        self.is_stored = before.is_stored && self.bytes == before.bytes;
    }

    /// Returns `true` if nothing is known.
    pub(super) const fn is_empty(&self) -> bool {
        self.folders.is_empty()
    }

    /// Returns a folder by its path in the workspace.
    pub(super) fn folder(&self, path: &[u8]) -> Option<IndexedFolder<'_>> {
        let found = self.folders.binary_search_by(|place| self.bytes[place.path.clone()].cmp(path));
        Some(self.at(self.folders.get(found.ok()?)?))
    }

    /// Returns the folders, sorted by path.
    pub(super) fn folders(&self) -> impl Iterator<Item = IndexedFolder<'_>> {
        self.folders.iter().map(|place| self.at(place))
    }

    fn at(&self, Place { path, tree, files }: &Place) -> IndexedFolder<'_> {
        let tree = self.bytes.get(*tree..).and_then(|rest| rest.first_chunk());
        IndexedFolder {
            path: &self.bytes[path.clone()],
            tree: ContentId(tree.copied().unwrap_or_default()),
            files: &self.bytes[files.clone()],
        }
    }

    /// Returns the ids of everything that it refers to.
    pub(super) fn contents(&self) -> impl Iterator<Item = ContentId> {
        self.folders()
            .flat_map(|folder| std::iter::once(folder.tree).chain(folder.files().map(|file| file.content)))
    }

    fn decode(bytes: Vec<u8>) -> Option<Self> {
        let (body, sum) = bytes.split_last_chunk::<4>()?;
        let mut rest = body.strip_prefix(MAGIC)?;
        if checksum(body) != u32::from_le_bytes(*sum) {
            return None;
        }
        let mut folders = Vec::new();
        let place = |rest: &[u8], length: usize| body.len() - rest.len() - length..body.len() - rest.len();
        while !rest.is_empty() {
            let path = text(&mut rest)?.len();
            let path = place(rest, path);
            take::<32>(&mut rest)?;
            let files = text(&mut rest)?.len();
            folders.push(Place { tree: path.end, path, files: place(rest, files) });
        }
        let is_sorted = folders.is_sorted_by(|one, two| body[one.path.clone()] < body[two.path.clone()]);
        is_sorted.then_some(Self { bytes, folders, is_stored: true })
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

fn put_text(bytes: &mut Vec<u8>, text: &[u8]) {
    bytes.extend(u32::try_from(text.len()).unwrap_or(0).to_le_bytes());
    bytes.extend(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_round_trips_and_a_damaged_one_is_empty() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("index");
        assert!(Index::read(&path).is_empty());
        let file = IndexedFile {
            name: &[0xff, b'a'],
            stamp: Stamp { inode: 1, size: 2, modified: -3, changed: i64::MAX },
            content: ContentId::of_file(b"x"),
            is_trusted: true,
        };
        let tree = ContentId::of_tree(b"x");
        let mut with_file = NewFolder::new(Vec::new(), tree, 1);
        with_file.add(&file);
        let mut index = Index::of(vec![NewFolder::new(b"a/b".to_vec(), tree, 0), with_file], None);
        index.write(&path).unwrap();
        let read = Index::read(&path);
        assert_eq!(read.bytes, index.bytes);
        assert_eq!(read.folders().map(|folder| folder.path).collect::<Vec<_>>(), [&b""[..], b"a/b"]);
        let root = read.folder(b"").unwrap();
        assert_eq!((root.tree, root.files().collect::<Vec<_>>()), (tree, vec![file]));
        assert_eq!(read.folder(b"a/b").unwrap().files().count(), 0);
        assert!(read.folder(b"a").is_none());
        assert_eq!(index.contents().collect::<Vec<_>>(), [tree, file.content, tree]);
        let bytes = std::fs::read(&path).unwrap();
        for cut in 0..bytes.len() {
            assert!(Index::decode(bytes[..cut].to_vec()).is_none());
        }
        for at in 0..bytes.len() {
            let mut bytes = bytes.clone();
            bytes[at] ^= 1;
            std::fs::write(&path, &bytes).unwrap();
            assert!(Index::read(&path).is_empty(), "{at}");
        }
    }

    #[test]
    fn what_was_not_reached_stays_known() {
        let (old, new) = (ContentId::of_tree(b"old"), ContentId::of_tree(b"new"));
        let folder = |path: &str, tree| NewFolder::new(path.into(), tree, 0);
        let before = Index::of(vec![folder("a", old), folder("b", old)], None);
        let after = Index::of(vec![folder("b", new), folder("c", new)], Some(&before));
        let found: Vec<_> = after.folders().map(|folder| (folder.path, folder.tree)).collect();
        assert_eq!(found, [(&b"a"[..], old), (b"b", new), (b"c", new)]);
    }

    #[test]
    fn the_same_index_is_not_written_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("index");
        let one = || Index::of(vec![NewFolder::new(Vec::new(), ContentId::of_tree(b"x"), 0)], None);
        let mut first = one();
        first.write(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let mut second = one();
        second.keep_stored(&first);
        second.write(&path).unwrap();
        assert!(!path.exists());
        one().write(&path).unwrap();
        assert!(path.exists());
    }
}
