//! Copies what has changed in a vault to the store.
//!
//! It reads beside those who write. Files of agents are replaced as a whole, so they are read whole, too. A file that a person
//! writes in place may be read in the middle of that: it has changed again by the next look, and is copied again.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use super::{
    CopiedFile, FORMAT, MAX_FILE, VaultCopyError, VaultRecord, blocking, each, is_path, keys, read_record,
    records, thin,
};
use crate::blob::{BlobError, BlobStore, Condition, Put, list_all};
use crate::clock::unix_ms;
use crate::error::chain;
use crate::fault_point::{self, FaultPoint};
use crate::home::beneath::{BeneathError, DirEntry, FileKind};
use crate::home::write_fence::WriteFence;
use crate::id::FolderName;
use crate::provider::sigv4::digest;
use crate::swarm::vault::{MAX_ENTRIES, VaultError, Vaults};

/// The age from which on a change of a file shows in its stamp. Two changes at the same moment may have the same times.
const SETTLED_MS: i64 = 2_000;

/// The most records that may be there already under the times of a new one.
const MAX_TAKEN: usize = 100;

/// The facts that change whenever a file changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    size: u64,
    modified_ms: i64,
    changed_ns: i64,
}

impl Stamp {
    fn of(entry: &DirEntry) -> Self {
        let DirEntry { inode, size, modified_ms, changed_ns, .. } = *entry;
        Self { inode, size, modified_ms, changed_ns }
    }

    /// Returns `true` if a change after `now` would give the file another stamp.
    fn is_settled(&self, now: i64) -> bool {
        self.changed_ns / 1_000_000 < now - SETTLED_MS
    }
}

/// The files of a vault at one moment, and a reason why some of them can't be copied.
#[derive(Debug)]
pub(crate) struct VaultLook {
    /// Unix milliseconds before the first file was looked at.
    pub(super) at: i64,
    files: BTreeMap<String, Stamp>,
    problem: Option<VaultCopyError>,
}

/// The knowledge of a process about the copies of one vault in one store.
#[derive(Debug, Default)]
pub(crate) struct VaultCopies {
    /// The files whose contents are known, by their paths.
    known: HashMap<String, (Stamp, CopiedFile)>,
    /// The files of the last look, if all of them are in the store as they are.
    copied: Option<BTreeMap<String, Stamp>>,
    there: Option<There>,
}

/// The copies of a vault in the store.
#[derive(Debug)]
struct There {
    /// The hashes of the contents.
    contents: HashSet<String>,
    /// The newest copy, if it can be read.
    newest: Option<VaultRecord>,
    /// The time of the newest copy, or 0.
    newest_at: i64,
}

impl There {
    /// Reads what the store has. `newest_at` is the time of the newest copy, or 0.
    async fn read(store: &dyn BlobStore, vault: &FolderName, newest_at: i64) -> Result<Self, BlobError> {
        let listed = list_all(store, &keys::objects(vault)).await?;
        let contents = listed.iter().filter_map(|(key, _)| keys::parse_object(vault, key)).collect();
        let newest = match newest_at {
            0 => None,
            at => match read_record(store, vault, at).await {
                Ok(record) => Some(record),
                // The next one is written in any case.
                Err(error @ (BlobError::Damaged { .. } | BlobError::Missing { .. })) => {
                    tracing::warn!(%vault, error = chain(&error), "the newest copy of a vault can't be read");
                    None
                }
                Err(error) => return Err(error),
            },
        };
        Ok(Self { contents, newest, newest_at })
    }
}

/// A copy that was made.
#[derive(Debug, Default)]
pub(crate) struct CopiedVault {
    /// Number of contents that were written.
    pub(crate) contents: u64,
    /// Bytes of these contents.
    pub(crate) bytes: u64,
    /// `true` if the store has a new copy.
    pub(crate) is_new: bool,
    /// The first reason why a file is not in it as it is here.
    pub(crate) problem: Option<VaultCopyError>,
}

/// The outcome for a file.
enum FileOutcome {
    /// Its content is in the store. The bytes are those that were written.
    Copied { file: CopiedFile, stamp: Stamp, written: Option<u64> },
    /// It is not there any more, or is no file.
    Gone,
    /// It can't be copied now.
    Failed { path: String, problem: VaultCopyError },
}

impl VaultCopies {
    /// Looks at a vault. Returns `None` if everything in it was copied. A vault without files keeps its last copy: its disk may
    /// not be mounted.
    ///
    /// # Errors
    ///
    /// Returns an error if not all of its files can be listed.
    pub(crate) async fn look(
        &mut self,
        vaults: &Arc<Vaults>,
        vault: &FolderName,
    ) -> Result<Option<VaultLook>, VaultCopyError> {
        let at = unix_ms();
        let (reader, name) = (Arc::clone(vaults), vault.clone());
        let (entries, more) = blocking(move || Ok(reader.entries(&name, usize::MAX, MAX_ENTRIES)?)).await?;
        if more {
            // What is not listed must not be taken for deleted.
            return Err(VaultCopyError::Unlisted(vault.clone()));
        }
        let mut look = VaultLook { at, files: BTreeMap::new(), problem: None };
        for entry in entries.iter().filter(|entry| entry.kind == FileKind::File) {
            match entry.path.to_str().filter(|path| is_path(path)) {
                Some(path) => {
                    look.files.insert(path.to_owned(), Stamp::of(entry));
                }
                None => {
                    let path = entry.path.to_string_lossy().into_owned();
                    let problem = VaultCopyError::Unnamed { vault: vault.clone(), path };
                    look.problem.get_or_insert(problem);
                }
            }
        }
        if look.files.is_empty() && self.has_files() {
            tracing::warn!(%vault, "a vault has no files any more; its last copy stays");
            (self.known, self.copied) = (HashMap::new(), None);
        }
        let has_changed = !look.files.is_empty() && self.copied.as_ref() != Some(&look.files);
        Ok(Some(look).filter(|look| has_changed || look.problem.is_some()))
    }

    /// Returns `true` if the vault had files that were copied.
    pub(crate) fn has_files(&self) -> bool {
        !self.known.is_empty()
    }

    /// Copies what a look has found. The caller has claimed the store. A file that can't be read now stays in the copy as it was
    /// in the one before.
    ///
    /// # Errors
    ///
    /// Returns an error if the store can't be read or written, or if another gateway may have taken over. The store then has no
    /// new copy.
    pub(crate) async fn copy(
        &mut self,
        look: VaultLook,
        vaults: &Arc<Vaults>,
        vault: &FolderName,
        store: &Arc<dyn BlobStore>,
        fence: &WriteFence,
    ) -> Result<CopiedVault, VaultCopyError> {
        self.copied = None;
        let VaultLook { at: now, files: stamps, problem } = look;
        let mut all = records(&**store, vault).await?;
        let mut newest_at = all.first().copied().unwrap_or_default();
        let There { contents, mut newest, .. } = match self.there.take() {
            Some(there) if there.newest_at == newest_at => there,
            // After a failure, and if somebody else has written or deleted copies, nothing is known of the contents.
            _ => There::read(&**store, vault, newest_at).await?,
        };
        let (mut files, mut changed) = (Vec::new(), Vec::new());
        for (path, stamp) in &stamps {
            match self.known.get(path) {
                Some((known, file)) if known == stamp && contents.contains(&file.sha256) => {
                    files.push(file.clone());
                }
                _ => changed.push(((path.clone(), *stamp), stamp.size.min(MAX_FILE))),
            }
        }
        self.known.retain(|path, _| stamps.contains_key(path));
        let (mut copied, mut added) = (CopiedVault { problem, ..CopiedVault::default() }, Vec::new());
        let source = Source {
            vaults: Arc::clone(vaults),
            vault: vault.clone(),
            store: Arc::clone(store),
            contents: Arc::new(contents),
        };
        let note = |outcome| match outcome {
            FileOutcome::Copied { file, stamp, written } => {
                fault_point::reach(FaultPoint::Copying);
                copied.contents += u64::from(written.is_some());
                copied.bytes += written.unwrap_or_default();
                added.push(file.sha256.clone());
                if stamp.is_settled(now) {
                    self.known.insert(file.path.clone(), (stamp, file.clone()));
                }
                files.push(file);
            }
            FileOutcome::Gone => {}
            FileOutcome::Failed { path, problem } => {
                copied.problem.get_or_insert(problem);
                let before = newest.iter().flat_map(|record| &record.files);
                files.extend(before.filter(|file| file.path == path).cloned());
            }
        };
        each(changed, |(path, stamp)| copy_file(source.clone(), path, stamp), note).await?;
        files.sort_unstable_by(|one, other| one.path.cmp(&other.path));
        let mut contents = Arc::unwrap_or_clone(source.contents);
        contents.extend(added);
        let before = newest.as_ref().map(|record| record.files.as_slice()).unwrap_or_default();
        if !files.is_empty() && files != before {
            // Another gateway that has taken over may have deleted contents of this copy, and has newer ones.
            fence.check()?;
            let record = write_record(files, now.max(newest_at + 1), vault, &**store).await?;
            copied.is_new = true;
            all.insert(0, record.at);
            tidy(&**store, vault, &all, now).await;
            (newest_at, newest) = (record.at, Some(record));
        }
        let is_whole = copied.problem.is_none() && stamps.keys().all(|path| self.known.contains_key(path));
        self.there = Some(There { contents, newest, newest_at });
        self.copied = is_whole.then_some(stamps);
        Ok(copied)
    }

    /// Forgets what the store has, before something is deleted there.
    pub(crate) fn forget_store(&mut self) {
        self.there = None;
    }
}

/// The places between which files are copied.
#[derive(Clone)]
struct Source {
    vaults: Arc<Vaults>,
    vault: FolderName,
    store: Arc<dyn BlobStore>,
    /// The hashes of the contents that the store had at the beginning.
    contents: Arc<HashSet<String>>,
}

/// Writes the content of a file, unless it is in the store.
async fn copy_file(source: Source, path: String, stamp: Stamp) -> Result<FileOutcome, VaultCopyError> {
    let Source { vaults, vault, store, contents } = source;
    if stamp.size > MAX_FILE {
        let problem = VaultCopyError::TooLarge { vault, path: path.clone(), size: stamp.size };
        return Ok(FileOutcome::Failed { path, problem });
    }
    let (name, at) = (vault.clone(), path.clone());
    let read = blocking(move || {
        let bytes = vaults.bytes(&name, Path::new(&at), MAX_FILE)?;
        // Here, because the hash of a large file takes long, too.
        let sha256 = digest(&bytes);
        Ok((bytes, sha256))
    });
    let (bytes, sha256) = match read.await {
        Ok(read) => read,
        Err(VaultCopyError::Vault(VaultError::File {
            source:
                BeneathError::NotFound { .. } | BeneathError::WrongKind { .. } | BeneathError::Outside { .. },
            ..
        })) => return Ok(FileOutcome::Gone),
        Err(problem @ VaultCopyError::Vault(VaultError::File { .. })) => {
            return Ok(FileOutcome::Failed { path, problem });
        }
        // The whole vault is gone, and not only this file.
        Err(error) => return Err(error),
    };
    let file = CopiedFile { path, size: bytes.len() as u64, sha256 };
    let mut written = None;
    if !contents.contains(&file.sha256) {
        let key = keys::object(&vault, &file.sha256)?;
        let put = store.put(&key, bytes.into(), Condition::Absent).await?;
        written = (put == Put::Written).then_some(file.size);
    }
    Ok(FileOutcome::Copied { file, stamp, written })
}

/// Writes the record of a copy, at this time or just after it.
async fn write_record(
    files: Vec<CopiedFile>,
    at: i64,
    vault: &FolderName,
    store: &dyn BlobStore,
) -> Result<VaultRecord, BlobError> {
    let mut record = VaultRecord { format: FORMAT, vault: vault.clone(), at, files };
    for _ in 0..MAX_TAKEN {
        let bytes = serde_json::to_vec(&record).map_err(|error| BlobError::Refused {
            place: store.place().to_owned(),
            problem: error.to_string(),
        })?;
        let put = store.put(&keys::record(vault, record.at)?, bytes.into(), Condition::Absent).await?;
        fault_point::reach(FaultPoint::Copying);
        if put == Put::Written {
            return Ok(record);
        }
        // Another process has written one at the same moment.
        record.at += 1;
    }
    let problem = "it says of each new blob that it is there already".to_owned();
    Err(BlobError::Refused { place: store.place().to_owned(), problem })
}

/// Deletes the records that the newest one makes superfluous. `all` are the times of all of them, newest first.
async fn tidy(store: &dyn BlobStore, vault: &FolderName, all: &[i64], now: i64) {
    let tidied = async {
        for old in thin::surplus(all, now) {
            store.delete(&keys::record(vault, old)?).await?;
            fault_point::reach(FaultPoint::Copying);
        }
        Ok::<_, BlobError>(())
    };
    // The copy itself stands, and the next one does this again.
    if let Err(error) = tidied.await {
        tracing::warn!(%vault, error = chain(&error), "failed to delete old copies of a vault");
    }
}
