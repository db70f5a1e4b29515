//! Reads an archive: first its manifest, then each entry, which has to be what the manifest says.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read, Seek as _, SeekFrom};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use flate2::bufread::GzDecoder;
use sha2::{Digest as _, Sha256};

use super::error::BackupError;
use super::footer::{self, Footer};
use super::manifest::{Digest, Entry, FORMAT, Manifest, Node, Preamble};
use super::tar_form::{BLOCK, head, manifest_head, padding};
use super::writer::CHUNK;
use crate::error::is_of_disk;
use crate::home::{self, regular};

/// Largest manifest in bytes, that of some millions of files.
const MAX_MANIFEST: u64 = 1 << 30;

/// An archive whose manifest was read.
pub(super) struct ArchiveReader {
    path: PathBuf,
    file: File,
    /// The end of the part with the files.
    end: u64,
    /// SHA-256 of that part.
    sha256: Digest,
    pub(super) manifest: Manifest,
}

/// The destination of what is read.
pub(super) trait EntrySink {
    /// Begins with an entry.
    fn begin(&mut self, entry: &Entry) -> Result<(), BackupError>;

    /// Takes a part of a file's content, which belongs to this offset.
    fn data(&mut self, offset: u64, bytes: &[u8]) -> Result<(), BackupError>;

    /// Ends an entry, whose content was what the manifest says.
    fn end(&mut self, entry: &Entry) -> Result<(), BackupError>;
}

impl ArchiveReader {
    /// Opens an archive and reads its manifest.
    ///
    /// # Errors
    ///
    /// Returns [`BackupError::NoArchive`] if the file is none or is cut off, [`BackupError::Newer`] if a newer flock made
    /// it, [`BackupError::Damaged`] if its manifest is not whole or has what no flock writes, and [`BackupError::Read`]
    /// if it can't be read.
    pub(super) fn open(path: &Path) -> Result<Self, BackupError> {
        let unread = BackupError::read(path);
        let none = |what| BackupError::NoArchive { file: path.to_owned(), what };
        let mut file = regular::open(path).map_err(&unread)?;
        let size = file.metadata().map_err(&unread)?.len();
        let mut last = [0; footer::SIZE];
        let Some(footer_at) = size.checked_sub(last.len() as u64) else {
            return Err(none("it is too short"));
        };
        file.read_exact_at(&mut last, footer_at).map_err(&unread)?;
        let Some(footer) = Footer::decode(&last).filter(|footer| footer.offset < footer_at) else {
            let mut first = [0; 2];
            file.read_exact_at(&mut first, 0).map_err(&unread)?;
            // Every archive begins as a file of gzip does.
            let is_gzip = first == [0x1f, 0x8b];
            return Err(none(if is_gzip { "its end is missing" } else { "it has another form" }));
        };
        let damaged = |what: &str| BackupError::Damaged { file: path.to_owned(), what: what.to_owned() };
        if footer.size > MAX_MANIFEST {
            return Err(damaged("its manifest is too large"));
        }
        file.seek(SeekFrom::Start(footer.offset)).map_err(&unread)?;
        let packed = Hashing { from: (&file).take(footer_at - footer.offset), hasher: Sha256::new() };
        let (text, sha256) = read_manifest(BufReader::new(packed), footer.size).map_err(|error| {
            if is_of_disk(&error) { unread(error) } else { damaged("its manifest can't be unpacked") }
        })?;
        if sha256 != footer.manifest {
            return Err(damaged("its manifest was changed"));
        }
        let preamble: Preamble =
            serde_json::from_slice(&text).map_err(|_| damaged("its manifest is not one of flock"))?;
        let newer = |what: String| BackupError::Newer {
            file: path.to_owned(),
            flock: crate::clean::summary(&preamble.flock, 60),
            what,
        };
        if preamble.format > FORMAT {
            return Err(newer(format!(
                "the archive has form {}, and this flock knows {FORMAT}",
                preamble.format
            )));
        }
        let manifest: Manifest = serde_json::from_slice(&text)
            .map_err(|error| damaged(&format!("its manifest is not one of flock: {error}")))?;
        if manifest.home.format > home::FORMAT {
            let (found, known) = (manifest.home.format, home::FORMAT);
            return Err(newer(format!("the home has format {found}, and this flock knows {known}")));
        }
        let schema = manifest.database.as_ref().map_or(0, |database| database.schema);
        let known = crate::store::snapshot::newest_schema();
        if schema > known {
            return Err(newer(format!("the database has version {schema}, and this flock knows {known}")));
        }
        if let Some(fault) = manifest.fault() {
            return Err(damaged(&fault));
        }
        let reader = Self { path: path.to_owned(), file, end: footer.offset, sha256: footer.files, manifest };
        // The header of the manifest has the time of the backup, which is known only now.
        let is_whole = reader.has_manifest_head(footer.size, footer_at).map_err(&unread)?;
        if is_whole { Ok(reader) } else { Err(damaged("its manifest has another header")) }
    }

    fn has_manifest_head(&self, size: u64, footer_at: u64) -> io::Result<bool> {
        let mut file = &self.file;
        file.seek(SeekFrom::Start(self.end))?;
        let wanted = manifest_head(size, self.at());
        let mut found = vec![0; wanted.len()];
        GzDecoder::new(BufReader::new(file.take(footer_at - self.end))).read_exact(&mut found)?;
        Ok(found == wanted)
    }

    /// Returns the time of the backup in Unix seconds.
    fn at(&self) -> u64 {
        seconds(self.manifest.at)
    }

    /// Reads every entry, compares it with the manifest and passes it on. `on_progress` gets the number of bytes so far.
    ///
    /// # Errors
    ///
    /// Returns [`BackupError::Damaged`] for the first entry that is not what the manifest says, [`BackupError::Read`] if
    /// the archive can't be read, and the errors of the sink.
    pub(super) fn read_all(
        &mut self,
        sink: &mut dyn EntrySink,
        on_progress: &mut dyn FnMut(u64),
    ) -> Result<(), BackupError> {
        let failed = |what: String, error: io::Error| {
            if is_of_disk(&error) {
                BackupError::Read { path: self.path.clone(), source: error }
            } else {
                BackupError::Damaged { file: self.path.clone(), what: format!("{what}: {error}") }
            }
        };
        let damaged = |what: String| BackupError::Damaged { file: self.path.clone(), what };
        let mut file = &self.file;
        file.seek(SeekFrom::Start(0)).map_err(BackupError::read(&self.path))?;
        let packed = Hashing { from: file.take(self.end), hasher: Sha256::new() };
        let mut content = GzDecoder::new(BufReader::with_capacity(CHUNK, packed));
        let mut buffer = vec![0; CHUNK];
        let mut done = 0;
        for entry in &self.manifest.entries {
            let path = &entry.path;
            // The expected bytes are compared with the found ones, so nothing that the manifest does not announce is
            // unpacked, however far it would unpack.
            let wanted = head(entry, self.at());
            let mut found = vec![0; wanted.len()];
            content
                .read_exact(&mut found)
                .map_err(|error| failed(format!("{path:?} can't be read"), error))?;
            if found != wanted {
                return Err(damaged(format!("the header of {path:?} is not what its manifest says")));
            }
            sink.begin(entry)?;
            if let Node::File { size, sha256, data, .. } = &entry.node {
                let whole = [(0, *size)];
                let mut hasher = Sha256::new();
                for (offset, length) in data.as_deref().unwrap_or(&whole) {
                    let mut at = 0;
                    while at < *length {
                        let some = usize::try_from(length - at).unwrap_or(CHUNK).min(CHUNK);
                        let part = &mut buffer[..some];
                        content
                            .read_exact(part)
                            .map_err(|error| failed(format!("{path:?} can't be read"), error))?;
                        hasher.update(&*part);
                        sink.data(offset + at, part)?;
                        at += some as u64;
                        done += some as u64;
                        on_progress(done);
                    }
                }
                if Digest(hasher.finalize().into()) != *sha256 {
                    return Err(damaged(format!("the content of {path:?} is not what its manifest says")));
                }
                let rest = &mut [1; BLOCK as usize][..padding(entry.node.stored_bytes())];
                content.read_exact(rest).map_err(|error| failed(format!("{path:?} can't be read"), error))?;
                if rest.iter().any(|byte| *byte != 0) {
                    return Err(damaged(format!("something is behind the content of {path:?}")));
                }
            }
            sink.end(entry)?;
        }
        // The checksum of gzip is compared when the end is read.
        let mut more = [0];
        let rest =
            content.read(&mut more).map_err(|error| failed("its end can't be read".to_owned(), error))?;
        let mut packed = content.into_inner();
        let is_end = rest == 0 && packed.fill_buf().map_err(BackupError::read(&self.path))?.is_empty();
        if !is_end {
            return Err(damaged("it has more than its manifest says".to_owned()));
        }
        if packed.into_inner().digest() == self.sha256 {
            Ok(())
        } else {
            Err(damaged("a byte was changed".to_owned()))
        }
    }
}

/// Hashes what is read.
struct Hashing<R> {
    from: R,
    hasher: Sha256,
}

impl<R> Hashing<R> {
    fn digest(self) -> Digest {
        Digest(self.hasher.finalize().into())
    }
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(buffer)?;
        self.hasher.update(&buffer[..read]);
        Ok(read)
    }
}

/// Returns a time in Unix milliseconds as seconds.
pub(super) fn seconds(at: i64) -> u64 {
    u64::try_from(at / 1000).unwrap_or(0)
}

/// Unpacks the member with the manifest, whose header is not known yet. Returns the text and the digest of the packed one.
fn read_manifest<R: Read>(packed: BufReader<Hashing<R>>, size: u64) -> io::Result<(Vec<u8>, Digest)> {
    let wrong = |what| io::Error::new(io::ErrorKind::InvalidData, what);
    let mut content = GzDecoder::new(packed);
    // The name is short, so the header is one block.
    let mut header = [0; BLOCK as usize];
    content.read_exact(&mut header)?;
    let mut text = Vec::new();
    (&mut content).take(size).read_to_end(&mut text)?;
    let mut rest = vec![1; padding(size) + 2 * BLOCK as usize];
    content.read_exact(&mut rest)?;
    if text.len() as u64 != size || rest.iter().any(|byte| *byte != 0) {
        return Err(wrong("it is cut off"));
    }
    let rest = content.read(&mut [0])?;
    let mut packed = content.into_inner();
    if rest != 0 || !packed.fill_buf()?.is_empty() {
        return Err(wrong("something is behind it"));
    }
    Ok((text, packed.into_inner().digest()))
}
