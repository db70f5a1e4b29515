//! Copies of vaults in the second place, and the way back.
//!
//! A copy is a record with the paths of all files of a vault and the hashes of their contents. Contents are written first, each
//! once under its hash, then the record; records are deleted before contents. So each record has all of its contents, whenever a
//! process is killed. A later copy is a further record: a file that was changed or deleted since is in the earlier ones, which
//! are [thinned](thin) with time.
//!
//! Names that begin with a dot are left out, as everywhere in vaults: programs execute what they find in such files.

mod error;
mod held;
mod keys;
mod pull;
mod push;
mod sweep;
mod thin;

use std::collections::BTreeMap;
use std::future::Future;

use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

pub(crate) use self::error::VaultCopyError;
pub(crate) use self::held::{HeldVault, VaultWork};
pub(crate) use self::pull::{VaultPull, newest, pull};
pub(crate) use self::push::VaultCopies;
pub(crate) use self::sweep::{check_gone, forget, sweep};

use super::vault::{MAX_DEPTH, MAX_ENTRIES};
use crate::blob::{BlobError, BlobStore, MAX_BLOB, list_all};
use crate::id::FolderName;

/// The format of the records.
const FORMAT: u32 = 1;

/// The most bytes of a file. A content is one blob.
const MAX_FILE: u64 = MAX_BLOB;

/// The most bytes of a path.
const MAX_PATH: usize = 1024;

/// Number of files that are on their way at the same time.
const PARALLEL: usize = 8;

/// The most bytes of these files together. A larger one is alone.
const MAX_HELD: u64 = 64 << 20;

/// A file of a vault in a copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct CopiedFile {
    /// Relative to the vault.
    path: String,
    size: u64,
    /// The hash of the content, in hex.
    sha256: String,
}

/// The record of a copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct VaultRecord {
    format: u32,
    vault: FolderName,
    /// The time of the copy, in Unix milliseconds. No other copy of the vault has the same.
    at: i64,
    /// The files in the order of their paths.
    files: Vec<CopiedFile>,
}

/// Returns `true` for the path of a file that a copy can have. On the way back, it can't lead out of the vault.
fn is_path(path: &str) -> bool {
    let is_name = |name: &str| !name.is_empty() && !name.starts_with('.') && name.len() <= 255;
    let mut names = path.split('/');
    path.len() <= MAX_PATH && !path.contains('\0') && names.clone().count() <= MAX_DEPTH && names.all(is_name)
}

/// Returns `true` for a hash in hex.
fn is_hash(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Returns the times of the copies of all vaults in the store, newest first.
///
/// # Errors
///
/// Returns an error if the store can't be read.
pub(crate) async fn list(store: &dyn BlobStore) -> Result<BTreeMap<FolderName, Vec<i64>>, BlobError> {
    let mut found: BTreeMap<FolderName, Vec<i64>> = BTreeMap::new();
    // In the order of keys, the newest is the last one.
    for (key, _) in list_all(store, keys::RECORDS).await?.iter().rev() {
        if let Some((vault, at)) = keys::parse_record(key) {
            found.entry(vault).or_default().push(at);
        }
    }
    Ok(found)
}

/// Returns the times of the copies of a vault in the store, newest first.
async fn records(store: &dyn BlobStore, vault: &FolderName) -> Result<Vec<i64>, BlobError> {
    let listed = list_all(store, &keys::records(vault)).await?;
    Ok(listed.iter().rev().filter_map(|(key, _)| keys::parse_record(key)).map(|(_, at)| at).collect())
}

/// Reads a record from the store.
///
/// # Errors
///
/// Returns an error if it is missing, or is not one that flock writes.
async fn read_record(store: &dyn BlobStore, vault: &FolderName, at: i64) -> Result<VaultRecord, BlobError> {
    let key = keys::record(vault, at)?;
    let bytes = store.get(&key, None).await?;
    let damaged = |reason: &str| {
        let (place, reason) = (store.place().to_owned(), reason.to_owned());
        Err(BlobError::Damaged { place, key: key.clone(), reason })
    };
    let record: VaultRecord = match serde_json::from_slice(&bytes) {
        Ok(record) => record,
        Err(error) => return damaged(&error.to_string()),
    };
    if record.format > FORMAT {
        return damaged("a newer flock has written it");
    }
    if record.vault != *vault || record.at != at {
        return damaged("it is the record of another copy");
    }
    // Somebody else may have written it.
    let is_file = |file: &CopiedFile| is_path(&file.path) && is_hash(&file.sha256) && file.size <= MAX_FILE;
    if record.files.len() > MAX_ENTRIES || !record.files.iter().all(is_file) {
        return damaged("it lists files that no copy of a vault has");
    }
    Ok(record)
}

/// Does a job for each item with its bytes, several at the same time, and passes the outcomes to `note`.
///
/// # Errors
///
/// Returns the first error of a job. The jobs that are under way then end first, and their outcomes are noted: they may have
/// written something.
async fn each<T, R, F>(
    items: Vec<(T, u64)>,
    job: impl Fn(T) -> F,
    mut note: impl FnMut(R),
) -> Result<(), VaultCopyError>
where
    R: Send + 'static,
    F: Future<Output = Result<R, VaultCopyError>> + Send + 'static,
{
    let mut waiting = items.into_iter().peekable();
    // Those that are left are stopped when this is dropped.
    let mut running = JoinSet::new();
    let mut held: u64 = 0;
    let mut failed = None;
    loop {
        while failed.is_none() && running.len() < PARALLEL {
            let fits = |(_, bytes): &(T, u64)| held == 0 || held + bytes <= MAX_HELD;
            let Some((item, bytes)) = waiting.next_if(fits) else { break };
            held += bytes;
            let work = job(item);
            running.spawn(async move { (work.await, bytes) });
        }
        let Some(ended) = running.join_next().await else { return failed.map_or(Ok(()), Err) };
        let (done, bytes) = ended.unwrap_or((Err(VaultCopyError::Stopped), 0));
        held -= bytes;
        match done {
            Ok(done) => note(done),
            Err(error) => failed = failed.or(Some(error)),
        }
    }
}

/// Runs blocking work.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, VaultCopyError> + Send + 'static,
) -> Result<T, VaultCopyError> {
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(VaultCopyError::Stopped))
}

#[cfg(test)]
mod tests;
