//! Writes the entries of an archive, and its manifest behind them.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest as _, Sha256};

use super::error::BackupError;
use super::footer::Footer;
use super::manifest::{Digest, Entry, Manifest, Node, RawPath};
use super::tar_form::{BLOCK, head, manifest_head, padding};

/// The number of bytes that are read at once.
pub(super) const CHUNK: usize = 256 << 10;
/// Of the levels of gzip one that is fast. The higher ones save a few percent of a home.
const LEVEL: u32 = 3;

/// An archive that is being written.
pub(super) struct ArchiveWriter<'a> {
    /// The final name of the archive, for errors.
    path: PathBuf,
    gzip: GzEncoder<Counting<BufWriter<&'a File>>>,
    /// The time of the backup in Unix seconds.
    at: u64,
    entries: Vec<Entry>,
    /// Bytes of files that were taken.
    taken: u64,
    on_progress: &'a mut dyn FnMut(u64),
}

/// The facts about a file that its entry has.
#[derive(Clone, Copy, Debug)]
pub(super) struct FileFacts {
    pub(super) mode: u32,
    /// Unix seconds.
    pub(super) modified: u64,
}

impl<'a> ArchiveWriter<'a> {
    /// Begins an archive in an empty file.
    pub(super) fn new(file: &'a File, path: &Path, at: u64, on_progress: &'a mut dyn FnMut(u64)) -> Self {
        let to = Counting { to: BufWriter::with_capacity(CHUNK, file), count: 0, hasher: Sha256::new() };
        let gzip = GzEncoder::new(to, Compression::new(LEVEL));
        Self { path: path.to_owned(), gzip, at, entries: Vec::new(), taken: 0, on_progress }
    }

    /// Returns the entries so far.
    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    pub(super) fn folder(&mut self, path: &Path, mode: u32) -> Result<(), BackupError> {
        self.begin(path, Node::Folder { mode })
    }

    pub(super) fn link(&mut self, path: &Path, target: Vec<u8>) -> Result<(), BackupError> {
        self.begin(path, Node::Link { target: RawPath(target) })
    }

    /// Adds a further name of a file that was added before.
    pub(super) fn same(&mut self, path: &Path, of: RawPath) -> Result<(), BackupError> {
        self.begin(path, Node::Same { of })
    }

    /// Adds a file whose content was read.
    pub(super) fn bytes(
        &mut self,
        path: &Path,
        facts: FileFacts,
        bytes: &[u8],
        changed: bool,
    ) -> Result<(), BackupError> {
        let sha256 = Digest(Sha256::digest(bytes).into());
        let size = bytes.len() as u64;
        self.begin(
            path,
            Node::File { mode: facts.mode, modified: facts.modified, size, sha256, data: None, changed },
        )?;
        self.put(bytes)?;
        self.pad(size)?;
        self.progress(size);
        Ok(())
    }

    /// Adds the first `size` bytes of a file, or only those at the places in `data` of a sparse one. `is_changed` is asked
    /// when they were read. What a file lacks that became shorter meanwhile is filled with zeros.
    pub(super) fn stream(
        &mut self,
        path: &Path,
        facts: FileFacts,
        (file, size, data): (&File, u64, Option<Vec<(u64, u64)>>),
        is_changed: impl FnOnce() -> io::Result<bool>,
    ) -> Result<(), BackupError> {
        let places = data.clone().unwrap_or_else(|| vec![(0, size)]);
        let FileFacts { mode, modified } = facts;
        // The digest is not in the header, so it is set when it is known.
        let node = Node::File { mode, modified, size, sha256: Digest([0; 32]), data, changed: false };
        let stored = node.stored_bytes();
        self.begin(path, node)?;
        let mut hasher = Sha256::new();
        let mut buffer = vec![0; CHUNK];
        let mut is_short = false;
        for (offset, length) in places {
            let mut done = 0;
            while done < length {
                // A chunk is far below the limits of either type.
                let wanted = usize::try_from(length - done).unwrap_or(CHUNK).min(CHUNK);
                let mut read =
                    if is_short { 0 } else { read_at(file, &mut buffer[..wanted], offset + done, path)? };
                if read == 0 {
                    is_short = true;
                    buffer[..wanted].fill(0);
                    read = wanted;
                }
                hasher.update(&buffer[..read]);
                self.put(&buffer[..read])?;
                done += read as u64;
                self.progress(read as u64);
            }
        }
        self.pad(stored)?;
        let has_changed = is_short || is_changed().map_err(BackupError::read(path))?;
        if let Some(Entry { node: Node::File { sha256, changed, .. }, .. }) = self.entries.last_mut() {
            *sha256 = Digest(hasher.finalize().into());
            *changed = has_changed;
        }
        Ok(())
    }

    /// Writes the manifest, whose entries are those that were added, and the footer. Returns the manifest and the size of
    /// the archive.
    pub(super) fn finish(mut self, mut manifest: Manifest) -> Result<(Manifest, u64), BackupError> {
        let failed = BackupError::write(&self.path);
        manifest.entries = std::mem::take(&mut self.entries);
        let mut to = self.gzip.finish().map_err(&failed)?;
        let (offset, files) = (to.count, to.take_digest());
        let text = serde_json::to_vec(&manifest).map_err(|error| failed(error.into()))?;
        let size = text.len() as u64;
        let mut gzip = GzEncoder::new(to, Compression::new(LEVEL));
        // A tar file ends with two empty blocks.
        let end = vec![0; padding(size) + 2 * BLOCK as usize];
        for bytes in [&manifest_head(size, self.at), &text, &end] {
            gzip.write_all(bytes).map_err(&failed)?;
        }
        let mut to = gzip.finish().map_err(&failed)?;
        let footer = Footer { offset, size, files, manifest: to.take_digest() };
        to.write_all(&footer.encode()).map_err(&failed)?;
        to.flush().map_err(&failed)?;
        Ok((manifest, to.count))
    }

    fn begin(&mut self, path: &Path, node: Node) -> Result<(), BackupError> {
        let entry = Entry { path: RawPath::from(path), node };
        self.put(&head(&entry, self.at))?;
        self.entries.push(entry);
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), BackupError> {
        self.gzip.write_all(bytes).map_err(BackupError::write(&self.path))
    }

    fn pad(&mut self, size: u64) -> Result<(), BackupError> {
        self.put(&[0; BLOCK as usize][..padding(size)])
    }

    fn progress(&mut self, bytes: u64) {
        self.taken += bytes;
        (self.on_progress)(self.taken);
    }
}

/// Reads some bytes. Returns 0 at the end of the file.
fn read_at(file: &File, buffer: &mut [u8], offset: u64, path: &Path) -> Result<usize, BackupError> {
    loop {
        match file.read_at(buffer, offset) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => return read.map_err(BackupError::read(path)),
        }
    }
}

/// Counts and hashes what is written.
struct Counting<W> {
    to: W,
    count: u64,
    hasher: Sha256,
}

impl<W> Counting<W> {
    /// Returns the digest of what was written since the last call.
    fn take_digest(&mut self) -> Digest {
        Digest(self.hasher.finalize_reset().into())
    }
}

impl<W: Write> Write for Counting<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.to.write(bytes)?;
        self.count += written as u64;
        self.hasher.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}
