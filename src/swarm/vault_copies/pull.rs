//! Brings a vault from the store to this home.
//!
//! Each file is fetched as a whole, compared with its hash, and put into its place in one step, under the lock that all gateways
//! take for a write. What the vault has otherwise stays as it is.

use std::path::Path;
use std::sync::Arc;

use serde::Serialize;

use super::{CopiedFile, HeldVault, VaultCopyError, blocking, each, keys, list, read_record};
use crate::blob::{BlobError, BlobStore};
use crate::error::chain;
use crate::fault_point::{self, FaultPoint};
use crate::home::beneath::BeneathError;
use crate::id::FolderName;
use crate::provider::sigv4::digest;
use crate::swarm::vault::{PutBack, VaultError, Vaults};

/// A wish for a vault of the store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VaultPull<'a> {
    pub(crate) held: &'a HeldVault,
    /// The time of the copy, in Unix milliseconds.
    pub(crate) at: i64,
    /// `true` if files that differ here are replaced.
    pub(crate) replaces: bool,
}

/// A file that could not be brought here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct MissingFile {
    pub(crate) path: String,
    pub(crate) problem: String,
}

/// The part of a vault that was brought here. It is the whole vault, unless the pull failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct PulledVault {
    pub(crate) vault: FolderName,
    /// The time of the copy, in Unix milliseconds.
    pub(crate) at: i64,
    /// Number of files that were written.
    pub(crate) written: usize,
    /// Number of files that were here already.
    pub(crate) same: usize,
    /// The paths of the files that differ here and stay.
    pub(crate) kept: Vec<String>,
    pub(crate) missing: Vec<MissingFile>,
}

/// Returns the time of the newest copy of a vault. With `until`, in Unix milliseconds, it is the newest of this time or before.
///
/// # Errors
///
/// Returns [`VaultCopyError::NotStored`] if the store has no such copy, and another error if it can't be read.
pub(crate) async fn newest(
    store: &dyn BlobStore,
    vault: &FolderName,
    until: Option<i64>,
) -> Result<i64, VaultCopyError> {
    let copies = list(store).await?;
    let mut of_vault = copies.get(vault).into_iter().flatten().copied();
    of_vault.find(|at| until.is_none_or(|until| *at <= until)).ok_or_else(|| VaultCopyError::NotStored {
        place: store.place().to_owned(),
        vault: vault.clone(),
        is_timed: until.is_some(),
        known: copies.keys().cloned().collect(),
    })
}

/// Brings the files of a vault here, and makes the vault if there is none. Returns what was brought, and how it ended. A running
/// gateway copies what is here meanwhile, so after an interruption the newest copy may have only a part of the files.
///
/// The result is an error if the store can't be read, or if the vault can't be written. The files that were brought before stay.
pub(crate) async fn pull(
    wish: VaultPull<'_>,
    store: &Arc<dyn BlobStore>,
) -> (PulledVault, Result<(), VaultCopyError>) {
    let VaultPull { held: HeldVault { vault, vaults, .. }, at, replaces } = wish;
    let mut pulled =
        PulledVault { vault: vault.clone(), at, written: 0, same: 0, kept: Vec::new(), missing: Vec::new() };
    let (vaults, store) = (Arc::clone(vaults), Arc::clone(store));
    let target = Target { vaults, vault: vault.clone(), store, replaces };
    let ended = bring_all(&target, at, &mut pulled).await;
    pulled.kept.sort_unstable();
    pulled.missing.sort_unstable_by(|one, other| one.path.cmp(&other.path));
    (pulled, ended)
}

/// Brings all files of a copy here, and notes in `pulled` what became of each.
async fn bring_all(target: &Target, at: i64, pulled: &mut PulledVault) -> Result<(), VaultCopyError> {
    let record = read_record(&*target.store, &target.vault, at).await?;
    let (maker, name) = (Arc::clone(&target.vaults), target.vault.clone());
    blocking(move || Ok(maker.create(&name)?)).await?;
    let files = record.files.into_iter().map(|file| {
        let bytes = file.size;
        (file, bytes)
    });
    let note = |(path, outcome): (String, Result<PutBack, String>)| {
        fault_point::reach(FaultPoint::Copying);
        match outcome {
            Ok(PutBack::Written) => pulled.written += 1,
            Ok(PutBack::Same) => pulled.same += 1,
            Ok(PutBack::Kept) => pulled.kept.push(path),
            Err(problem) => pulled.missing.push(MissingFile { path, problem }),
        }
    };
    each(files.collect(), |file| bring_back(target.clone(), file), note).await
}

/// The places between which files are brought back.
#[derive(Clone)]
struct Target {
    vaults: Arc<Vaults>,
    vault: FolderName,
    store: Arc<dyn BlobStore>,
    replaces: bool,
}

/// Brings a file here. The inner error is one of this file alone.
async fn bring_back(
    target: Target,
    file: CopiedFile,
) -> Result<(String, Result<PutBack, String>), VaultCopyError> {
    let Target { vaults, vault, store, replaces } = target;
    let CopiedFile { path, size, sha256 } = file;
    let (reader, name, at, hash) = (Arc::clone(&vaults), vault.clone(), path.clone(), sha256.clone());
    // Most files are here, and are not fetched for nothing.
    let here = blocking(move || {
        Ok(match reader.bytes(&name, Path::new(&at), size) {
            Ok(bytes) if digest(&bytes) == hash => Some(PutBack::Same),
            Ok(_) | Err(VaultError::File { source: BeneathError::TooLarge { .. }, .. }) if !replaces => {
                Some(PutBack::Kept)
            }
            // What is wrong otherwise is said when it is written.
            _ => None,
        })
    });
    if let Some(here) = here.await? {
        return Ok((path, Ok(here)));
    }
    let key = keys::object(&vault, &sha256)?;
    let bytes = match store.get(&key, None).await {
        Ok(bytes) if digest(&bytes) == sha256 => bytes,
        Ok(_) => {
            let reason = "it is not what its name says".to_owned();
            let error = BlobError::Damaged { place: store.place().to_owned(), key, reason };
            return Ok((path, Err(chain(&error))));
        }
        Err(error @ (BlobError::Missing { .. } | BlobError::Damaged { .. })) => {
            return Ok((path, Err(chain(&error))));
        }
        Err(error) => return Err(error.into()),
    };
    let (name, at) = (vault, path.clone());
    let put = blocking(move || Ok(vaults.put_back(&name, Path::new(&at), &bytes, replaces)?)).await;
    match put {
        Ok(put) => Ok((path, Ok(put))),
        Err(error @ VaultCopyError::Vault(VaultError::File { .. })) => Ok((path, Err(chain(&error)))),
        Err(error) => Err(error),
    }
}
