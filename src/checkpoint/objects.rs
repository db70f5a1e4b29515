//! The store of contents: each is a file that is named by its id.
//!
//! A content is written under a temporary name and renamed, so a killed process leaves only whole ones. A power cut can
//! take back what the kernel had not written yet. A mark with the id of the boot says that there may be such contents:
//! under another boot, everything is checked before it is used.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::content::{ContentHasher, ContentId, blocks};
use super::error::CheckpointError;
use super::tree::{self, Tree, TreeEntry};
use crate::home::{atomic, regular};
use crate::sandbox::workspace_files::Draft;
use crate::sync::lock;

/// The most bytes of one tree object. A part has at most 512 entries.
pub(super) const MAX_TREE: u64 = 8 << 20;
/// The size from which on a file is cloned where the file system can.
pub(super) const CLONE_FROM: u64 = 64 << 10;

/// The contents of one agent's checkpoints. Several threads may add to them.
#[derive(Debug)]
pub(super) struct Objects {
    folder: PathBuf,
    /// Bytes that were added since this value was made.
    added: AtomicU64,
    /// `true` once a content was added that may not be on the disk.
    is_marked: Mutex<bool>,
    /// `false` once the file system has refused a clone.
    can_clone: AtomicBool,
    next: AtomicU64,
}

impl Objects {
    /// Opens the store in this folder, which is created if it is missing. The caller holds the lock of the agent's
    /// checkpoints. Returns `true` as the second value if contents were lost in a power cut.
    ///
    /// # Errors
    ///
    /// Returns an error if the folder can't be created or read.
    pub(super) fn open(folder: &Path) -> Result<(Self, bool), CheckpointError> {
        let objects = folder.join("objects");
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(objects.join(TEMPORARY));
        made.map_err(CheckpointError::io("make the folder", &objects))?;
        let found = Self {
            folder: objects,
            added: AtomicU64::new(0),
            is_marked: Mutex::new(false),
            can_clone: AtomicBool::new(true),
            next: AtomicU64::new(rand::random()),
        };
        found.sweep_temporary();
        let lost = match fs_err::read_to_string(found.mark()) {
            Ok(boot) if boot == boot_id() => {
                *lock(&found.is_marked) = true;
                false
            }
            Ok(_) => found.remove_damaged()? > 0,
            Err(_) => false,
        };
        Ok((found, lost))
    }

    /// Returns the store in this folder for reading only, beside whoever adds to it. A content can be removed meanwhile.
    pub(super) fn reader(folder: &Path) -> Self {
        Self {
            folder: folder.join("objects"),
            added: AtomicU64::new(0),
            is_marked: Mutex::new(false),
            can_clone: AtomicBool::new(true),
            next: AtomicU64::new(rand::random()),
        }
    }

    /// Returns the number of bytes that were added since this value was made.
    pub(super) fn added(&self) -> u64 {
        self.added.load(Ordering::Relaxed)
    }

    /// Returns `true` if the content is stored.
    pub(super) fn has(&self, id: ContentId) -> bool {
        self.path(id).symlink_metadata().is_ok()
    }

    /// Stores these bytes under their id, which the caller has computed.
    ///
    /// # Errors
    ///
    /// Returns an error if they can't be written.
    pub(super) fn put(&self, id: ContentId, bytes: &[u8]) -> Result<(), CheckpointError> {
        if self.has(id) {
            return Ok(());
        }
        let (temporary, file) = self.temporary()?;
        file.write_all_at(bytes, 0).map_err(CheckpointError::io("write", &temporary))?;
        self.added.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.keep(&temporary, id)
    }

    /// Stores the entries of a folder and returns the id of its tree. `known` is the id that it had before, if it is
    /// certainly stored.
    ///
    /// # Errors
    ///
    /// Returns an error if a tree can't be written.
    pub(super) fn put_folder(
        &self,
        entries: &[TreeEntry],
        known: Option<ContentId>,
    ) -> Result<ContentId, CheckpointError> {
        let parts = tree::parts(entries);
        if let [only] = parts.as_slice() {
            let bytes = tree::encode(only);
            let id = ContentId::of_tree(&bytes);
            if Some(id) != known {
                self.put(id, &bytes)?;
            }
            return Ok(id);
        }
        let encoded: Vec<(ContentId, Vec<u8>)> = parts
            .into_iter()
            .map(|part| {
                let bytes = tree::encode(part);
                (ContentId::of_tree(&bytes), bytes)
            })
            .collect();
        let ids: Vec<ContentId> = encoded.iter().map(|(id, _)| *id).collect();
        let list = tree::encode_parts(&ids);
        let id = ContentId::of_tree(&list);
        if Some(id) != known {
            for (id, bytes) in &encoded {
                self.put(*id, bytes)?;
            }
            self.put(id, &list)?;
        }
        Ok(id)
    }

    /// Stores the content of an open file of this size and returns its id. A file that changes meanwhile gives a mixed
    /// content; the caller notices that by its times.
    ///
    /// # Errors
    ///
    /// Returns an error if the file can't be read or its content can't be written.
    pub(super) fn put_file(
        &self,
        file: &File,
        size: u64,
        mut go_on: impl FnMut() -> Result<(), CheckpointError>,
    ) -> Result<ContentId, CheckpointError> {
        let failed = |error| CheckpointError::io("read a file for", &self.folder)(error);
        if size < CLONE_FROM {
            let mut bytes = vec![0; usize::try_from(size).unwrap_or_default()];
            file.read_exact_at(&mut bytes, 0).map_err(failed)?;
            let id = ContentId::of_file(&bytes);
            self.put(id, &bytes)?;
            return Ok(id);
        }
        let (temporary, copy) = self.temporary()?;
        let is_clone = self.can_clone.load(Ordering::Relaxed) && clone_file(file, &copy);
        self.can_clone.store(is_clone, Ordering::Relaxed);
        // A clone no longer changes, so what is hashed is what is kept.
        let source = if is_clone { &copy } else { file };
        let mut hasher = ContentHasher::new(size);
        let mut stopped = None;
        let mut written = 0;
        let read = blocks(source, size, |at, bytes| {
            if let Err(error) = go_on() {
                stopped = Some(error);
                return Err(io::Error::from(io::ErrorKind::Interrupted));
            }
            hasher.block(at, bytes);
            if !is_clone && bytes.iter().any(|byte| *byte != 0) {
                written += bytes.len() as u64;
                copy.write_all_at(bytes, at)?;
            }
            Ok(())
        });
        let sized = read.and_then(|()| copy.set_len(size));
        if let Err(error) = sized {
            drop(fs_err::remove_file(&temporary));
            return Err(stopped.unwrap_or_else(|| CheckpointError::io("copy a file to", &temporary)(error)));
        }
        let id = hasher.id();
        if self.has(id) {
            drop(fs_err::remove_file(&temporary));
            return Ok(id);
        }
        self.added.fetch_add(written, Ordering::Relaxed);
        self.keep(&temporary, id)?;
        Ok(id)
    }

    /// Takes a file of the same file system into the store, also in place of a damaged one. Returns `false` if it is not the
    /// content with this id.
    ///
    /// # Errors
    ///
    /// Returns an error if it can't be read or renamed.
    pub(super) fn adopt(&self, path: &Path, id: ContentId) -> Result<bool, CheckpointError> {
        let failed = CheckpointError::io("read", path);
        if !is_intact(id, path).map_err(&failed)? {
            return Ok(false);
        }
        self.note_unsynced()?;
        let size = path.symlink_metadata().map_err(failed)?.len();
        self.added.fetch_add(size, Ordering::Relaxed);
        self.keep(path, id)?;
        Ok(true)
    }

    /// Opens the content of a file. Returns it with its size.
    ///
    /// # Errors
    ///
    /// Returns [`CheckpointError::Missing`] if it is not stored.
    pub(super) fn file(&self, id: ContentId) -> Result<File, CheckpointError> {
        regular::open(&self.path(id)).map_err(|error| self.missing(id, error))
    }

    /// Returns the bytes of a file if there are at most `most`.
    ///
    /// # Errors
    ///
    /// Returns an error if the content is missing or can't be read.
    pub(super) fn bytes(&self, id: ContentId, most: u64) -> Result<Option<Vec<u8>>, CheckpointError> {
        let file = self.file(id)?;
        let failed = |error| self.missing(id, error);
        if file.metadata().map_err(failed)?.len() > most {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        file.take(most).read_to_end(&mut bytes).map_err(failed)?;
        Ok(Some(bytes))
    }

    /// Reads the object of a folder.
    ///
    /// # Errors
    ///
    /// Returns [`CheckpointError::Missing`] if it is not stored or is damaged.
    pub(super) fn tree(&self, id: ContentId) -> Result<Tree, CheckpointError> {
        let bytes = self.bytes(id, MAX_TREE)?.unwrap_or_default();
        // A damaged tree would make a rewind remove files, so it is checked at each use.
        let is_whole = ContentId::of_tree(&bytes) == id;
        tree::decode(&bytes)
            .filter(|_| is_whole)
            .ok_or_else(|| self.missing(id, io::Error::other("its content is damaged")))
    }

    /// Reads all entries of a folder.
    ///
    /// # Errors
    ///
    /// Returns [`CheckpointError::Missing`] if one of its objects is not stored or is damaged.
    pub(super) fn folder(&self, id: ContentId) -> Result<Vec<TreeEntry>, CheckpointError> {
        match self.tree(id)? {
            Tree::Entries(entries) => Ok(entries),
            Tree::Parts(parts) => {
                let mut entries = Vec::new();
                for part in parts {
                    match self.tree(part)? {
                        Tree::Entries(more) => entries.extend(more),
                        Tree::Parts(_) => {
                            return Err(self.missing(part, io::Error::other("its content is damaged")));
                        }
                    }
                }
                Ok(entries)
            }
        }
    }

    /// Reads the content of a file and checks it.
    ///
    /// # Errors
    ///
    /// Returns [`CheckpointError::Missing`] if it is not stored or is damaged.
    pub(super) fn check(&self, id: ContentId) -> Result<(), CheckpointError> {
        match is_intact(id, &self.path(id)) {
            Ok(true) => Ok(()),
            Ok(false) => Err(self.missing(id, io::Error::other("its content is damaged"))),
            Err(error) => Err(self.missing(id, error)),
        }
    }

    /// Copies a content to an empty file and checks it meanwhile.
    ///
    /// # Errors
    ///
    /// Returns [`CheckpointError::Missing`] if it is not stored or is damaged, and another error if the file can't be
    /// written.
    pub(super) fn copy_to(&self, id: ContentId, size: u64, to: &File) -> Result<(), CheckpointError> {
        let from = self.file(id)?;
        let is_clone = size >= CLONE_FROM && clone_file(&from, to);
        let failed = |error| self.missing(id, error);
        self.pass((id, size, &from), |at, bytes| {
            if is_clone { Ok(()) } else { to.write_all_at(bytes, at).map_err(failed) }
        })?;
        to.set_len(size).map_err(failed)
    }

    /// Returns the bytes that a copy of a content of this size takes of a disk.
    pub(super) fn space(&self, id: ContentId, size: u64) -> u64 {
        // Holes take none.
        let used = self.path(id).symlink_metadata().map(|found| found.blocks().saturating_mul(512));
        used.map_or(size, |used| used.min(size))
    }

    /// Returns `true` if [`Self::copy_to`] takes no space for a content of [`CLONE_FROM`] bytes or more in a folder, because the
    /// copy shares the blocks of the content.
    pub(super) fn shares_blocks(&self, id: ContentId, folder: &Path) -> bool {
        let device = |path: &Path| path.metadata().ok().map(|found| found.dev());
        if device(&self.folder).is_none_or(|own| device(folder) != Some(own)) {
            return false;
        }
        let Ok(from) = self.file(id) else { return false };
        let Ok((temporary, copy)) = self.temporary() else { return false };
        let is_clone = clone_file(&from, &copy);
        drop(fs_err::remove_file(&temporary));
        is_clone
    }

    /// Fills a file of a workspace, wherever that is, with a content, and checks the content meanwhile.
    ///
    /// # Errors
    ///
    /// Returns [`CheckpointError::Missing`] if it is not stored or is damaged, and another error if the file can't be
    /// written.
    pub(super) fn fill(
        &self,
        id: ContentId,
        size: u64,
        draft: &mut Draft<'_>,
    ) -> Result<(), CheckpointError> {
        if let Some(file) = draft.file() {
            return self.copy_to(id, size, file);
        }
        self.pass((id, size, &self.file(id)?), |at, bytes| Ok(draft.write(at, bytes)?))
    }

    /// Passes the blocks of a content that are not zeros to `each`, and checks the content meanwhile.
    fn pass(
        &self,
        (id, size, from): (ContentId, u64, &File),
        mut each: impl FnMut(u64, &[u8]) -> Result<(), CheckpointError>,
    ) -> Result<(), CheckpointError> {
        let mut hasher = ContentHasher::new(size);
        let mut refused = None;
        let read = blocks(from, size, |at, bytes| {
            hasher.block(at, bytes);
            if bytes.iter().any(|byte| *byte != 0)
                && let Err(error) = each(at, bytes)
            {
                refused = Some(error);
                return Err(io::Error::from(io::ErrorKind::Interrupted));
            }
            Ok(())
        });
        if let Some(error) = refused {
            return Err(error);
        }
        read.map_err(|error| self.missing(id, error))?;
        if hasher.id() == id { Ok(()) } else { Err(self.damaged(id)) }
    }

    /// Clones a content to an empty file, without reading it where the file system can.
    ///
    /// # Errors
    ///
    /// The same as [`Self::copy_to`].
    pub(super) fn clone_to(&self, id: ContentId, size: u64, to: &File) -> Result<(), CheckpointError> {
        if size > 0 && clone_file(&self.file(id)?, to) {
            return Ok(());
        }
        self.copy_to(id, size, to)
    }

    /// Writes everything that was added to the disk. It takes a while, and nothing waits for it.
    ///
    /// # Errors
    ///
    /// Returns an error if the disk refuses a write.
    pub(super) fn sync(&self) -> Result<(), CheckpointError> {
        let mut is_marked = lock(&self.is_marked);
        if !*is_marked {
            return Ok(());
        }
        sync_file_system(&self.folder)?;
        drop(fs_err::remove_file(self.mark()));
        *is_marked = false;
        Ok(())
    }

    /// Does the same as [`Self::sync`] if the last time was more than a minute ago.
    ///
    /// # Errors
    ///
    /// Returns an error if the disk refuses a write.
    pub(super) fn sync_if_old(&self) -> Result<(), CheckpointError> {
        let age = self.mark().metadata().and_then(|mark| mark.modified()).map(|made| made.elapsed());
        match age {
            Ok(Ok(age)) if age < SYNC_INTERVAL => Ok(()),
            _ => self.sync(),
        }
    }

    /// Removes all contents that `is_used` does not want. Returns the number of removed ones, and the bytes of the
    /// others.
    ///
    /// # Errors
    ///
    /// Returns an error if the store can't be read.
    pub(super) fn sweep(&self, is_used: impl Fn(ContentId) -> bool) -> Result<(usize, u64), CheckpointError> {
        let (mut removed, mut kept) = (0, 0);
        self.each(|id, path| {
            if !is_used(id) {
                removed += usize::from(fs_err::remove_file(path).is_ok());
            } else if let Ok(found) = path.symlink_metadata() {
                kept += found.blocks() * 512;
            }
        })?;
        Ok((removed, kept))
    }

    fn each(&self, mut each: impl FnMut(ContentId, &Path)) -> Result<(), CheckpointError> {
        let failed = CheckpointError::io("read", &self.folder);
        for above in fs_err::read_dir(&self.folder).map_err(&failed)? {
            let above = above.map_err(&failed)?;
            let prefix = above.file_name().into_string().unwrap_or_default();
            if prefix.len() != 2 {
                continue;
            }
            for entry in fs_err::read_dir(above.path()).map_err(&failed)? {
                let entry = entry.map_err(&failed)?;
                let name = entry.file_name().into_string().unwrap_or_default();
                if let Ok(id) = format!("{prefix}{name}").parse() {
                    each(id, &entry.path());
                }
            }
        }
        Ok(())
    }

    /// Removes contents that are not what their name says, after a power cut.
    fn remove_damaged(&self) -> Result<usize, CheckpointError> {
        let mut damaged = 0;
        self.each(|id, path| {
            if !is_intact(id, path).unwrap_or(false) {
                damaged += 1;
                drop(fs_err::remove_file(path));
            }
        })?;
        *lock(&self.is_marked) = true;
        self.sync()?;
        if damaged > 0 {
            tracing::warn!(folder = %self.folder.display(), damaged, "removed contents that a power cut has damaged");
        }
        Ok(damaged)
    }

    /// Removes what killed processes left. The lock says that nobody else writes.
    fn sweep_temporary(&self) {
        let left = fs_err::read_dir(self.folder.join(TEMPORARY)).into_iter().flatten().flatten();
        for entry in left {
            drop(fs_err::remove_file(entry.path()));
        }
    }

    /// Notes that there may be contents that a power cut damages.
    fn note_unsynced(&self) -> Result<(), CheckpointError> {
        let mut is_marked = lock(&self.is_marked);
        if !*is_marked {
            atomic::write_unsynced(&self.mark(), boot_id().as_bytes(), 0o600)?;
            *is_marked = true;
        }
        Ok(())
    }

    fn temporary(&self) -> Result<(PathBuf, File), CheckpointError> {
        self.note_unsynced()?;
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        let path = self.folder.join(TEMPORARY).join(format!("{next:016x}"));
        let mut options = std::fs::OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).mode(0o600).open(&path);
        Ok((path.clone(), file.map_err(CheckpointError::io("make", &path))?))
    }

    fn keep(&self, temporary: &Path, id: ContentId) -> Result<(), CheckpointError> {
        let path = self.path(id);
        let failed = CheckpointError::io("rename", &path);
        match fs_err::rename(temporary, &path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let above = path.parent().unwrap_or(&self.folder);
                let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(above);
                made.and_then(|()| fs_err::rename(temporary, &path)).map_err(failed)
            }
            renamed => renamed.map_err(failed),
        }
    }

    fn mark(&self) -> PathBuf {
        self.folder.join("unsynced")
    }

    fn path(&self, id: ContentId) -> PathBuf {
        let name = id.to_string();
        let (above, name) = name.split_at(2);
        self.folder.join(above).join(name)
    }

    /// Returns the error of a content that is not what its name says.
    pub(super) fn damaged(&self, id: ContentId) -> CheckpointError {
        self.missing(id, io::Error::other("its content is damaged"))
    }

    pub(super) fn missing(&self, id: ContentId, source: io::Error) -> CheckpointError {
        CheckpointError::Missing { path: self.path(id), source }
    }
}

const TEMPORARY: &str = "new";

/// Time for which new contents of turns may wait for the disk.
const SYNC_INTERVAL: Duration = Duration::from_secs(60);

fn is_intact(id: ContentId, path: &Path) -> io::Result<bool> {
    let file = regular::open(path)?;
    let size = file.metadata()?.len();
    let mut hasher = ContentHasher::new(size);
    blocks(&file, size, |at, bytes| {
        hasher.block(at, bytes);
        Ok(())
    })?;
    if hasher.id() == id {
        return Ok(true);
    }
    // It may be a tree.
    let mut bytes = Vec::new();
    (&file).take(MAX_TREE).read_to_end(&mut bytes)?;
    Ok(ContentId::of_tree(&bytes) == id)
}

/// Writes everything on the file system of this folder to the disk.
///
/// # Errors
///
/// Returns an error if the disk refuses a write.
pub(super) fn sync_file_system(folder: &Path) -> Result<(), CheckpointError> {
    let open = File::open(folder).map_err(CheckpointError::io("open", folder))?;
    nix::unistd::syncfs(open).map_err(|errno| CheckpointError::io("sync", folder)(errno.into()))
}

/// Returns the id of this boot of the machine.
fn boot_id() -> String {
    fs_err::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default()
}

/// Makes `to`, which is empty, share the blocks of `from`. Returns `false` if the file system can't.
pub(super) fn clone_file(from: &File, to: &File) -> bool {
    // SAFETY: both descriptors are open for as long as the call lasts, and FICLONE takes a descriptor by value.
    unsafe { nix::libc::ioctl(to.as_raw_fd(), nix::libc::FICLONE, from.as_raw_fd()) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::content::BLOCK;

    fn put(objects: &Objects, bytes: &[u8]) -> ContentId {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(bytes, 0).unwrap();
        objects.put_file(&file, bytes.len() as u64, || Ok(())).unwrap()
    }

    #[test]
    fn a_content_is_stored_once_and_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let (objects, lost) = Objects::open(folder.path()).unwrap();
        assert!(!lost);
        for size in [0, 1, BLOCK - 1, BLOCK, 3 * BLOCK + 5] {
            let bytes: Vec<u8> = (0..size).map(|at| (at % 251) as u8).collect();
            let id = put(&objects, &bytes);
            assert_eq!(id, ContentId::of_file(&bytes), "{size}");
            let added = objects.added();
            assert_eq!(put(&objects, &bytes), id);
            assert_eq!(objects.added(), added, "{size} is there already");
            let copy = tempfile::tempfile().unwrap();
            objects.copy_to(id, size as u64, &copy).unwrap();
            let mut read = vec![0; size];
            copy.read_exact_at(&mut read, 0).unwrap();
            assert_eq!((read, copy.metadata().unwrap().len()), (bytes, size as u64));
        }
        assert_eq!(std::fs::read_dir(folder.path().join("objects/new")).unwrap().count(), 0);
    }

    #[test]
    fn a_hole_stays_a_hole() {
        let folder = tempfile::tempdir().unwrap();
        let (objects, _) = Objects::open(folder.path()).unwrap();
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 34).unwrap();
        file.write_all_at(b"end", (1 << 34) - 3).unwrap();
        let id = objects.put_file(&file, 1 << 34, || Ok(())).unwrap();
        assert!(objects.path(id).symlink_metadata().unwrap().blocks() * 512 < 1 << 20);
    }

    #[test]
    fn a_copy_takes_space_for_what_is_no_hole_and_shares_no_blocks_of_another_disk() {
        let folder = tempfile::tempdir().unwrap();
        let (objects, _) = Objects::open(folder.path()).unwrap();
        let small = put(&objects, b"small");
        assert!(objects.space(small, 5) <= 5);
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&[1; BLOCK], 1 << 30).unwrap();
        let size = (1 << 30) + BLOCK as u64;
        let sparse = objects.put_file(&file, size, || Ok(())).unwrap();
        assert!(objects.space(sparse, size) < 1 << 20);
        let missing = ContentId::of_file(b"missing");
        assert_eq!(objects.space(missing, 7), 7);
        assert!(!objects.shares_blocks(missing, folder.path()));
        assert!(!objects.shares_blocks(sparse, Path::new("/proc")), "it is another disk");
        assert_eq!(std::fs::read_dir(folder.path().join("objects/new")).unwrap().count(), 0);
    }

    #[test]
    fn a_power_cut_leaves_only_whole_contents() {
        let folder = tempfile::tempdir().unwrap();
        let (objects, _) = Objects::open(folder.path()).unwrap();
        let (kept, torn) = (put(&objects, b"kept"), put(&objects, b"torn"));
        let tree = objects.put_folder(&[], None).unwrap();
        std::fs::write(objects.path(torn), "to").unwrap();
        std::fs::write(objects.folder.join("new/left"), "x").unwrap();
        // Within the same boot, a kill loses nothing.
        let (same, lost) = Objects::open(folder.path()).unwrap();
        assert!(!lost && same.has(torn) && !same.folder.join("new/left").exists());
        std::fs::write(objects.mark(), "another boot").unwrap();
        let (found, lost) = Objects::open(folder.path()).unwrap();
        assert!(lost && found.has(kept) && found.has(tree) && !found.has(torn));
        assert!(!found.mark().exists());
        assert_eq!(put(&found, b"torn"), torn);
        found.sync().unwrap();
        assert!(!found.mark().exists());
    }

    #[test]
    fn only_used_contents_stay() {
        let folder = tempfile::tempdir().unwrap();
        let (objects, _) = Objects::open(folder.path()).unwrap();
        let (used, other) = (put(&objects, b"used"), put(&objects, b"other"));
        let (removed, _) = objects.sweep(|id| id == used).unwrap();
        assert_eq!(removed, 1);
        assert!(objects.has(used) && !objects.has(other));
    }
}
