//! Deletes the contents that no copy of a vault needs any more, and everything of a vault that a person gives up.
//!
//! A content that is younger than a day stays: it may belong to a copy that another process is making.

use std::collections::HashSet;
use std::time::Duration;

use super::{HeldVault, VaultCopyError, VaultWork, keys, read_record, records};
use crate::blob::{BlobKey, BlobStore, list_all, owner};
use crate::clock::unix_ms;
use crate::fault_point::{self, FaultPoint};
use crate::home::Home;
use crate::home::write_fence::WriteFence;
use crate::id::FolderName;
use crate::swarm::vault::Vaults;

/// The age up to which a content without a copy stays.
const GRACE: Duration = Duration::from_secs(24 * 3600);

/// Deletes the contents of a vault that no copy needs. Returns their number. The caller has claimed the store.
///
/// # Errors
///
/// Returns an error if something can't be read or deleted, or if another gateway may have taken over. Nothing that a copy needs
/// is deleted then either.
pub(crate) async fn sweep(
    store: &dyn BlobStore,
    vault: &FolderName,
    fence: &WriteFence,
) -> Result<usize, VaultCopyError> {
    // An incomplete mark must delete nothing, so every record is read before the first change.
    let mut used = HashSet::new();
    for at in records(store, vault).await? {
        let record = read_record(store, vault, at).await?;
        used.extend(record.files.into_iter().map(|file| file.sha256));
    }
    let youngest = unix_ms() - i64::try_from(GRACE.as_millis()).unwrap_or(i64::MAX);
    let listed = list_all(store, &keys::objects(vault)).await?;
    let is_doomed = |key: &BlobKey, at: i64| {
        at <= youngest && keys::parse_object(vault, key).is_some_and(|hash| !used.contains(&hash))
    };
    let doomed: Vec<BlobKey> =
        listed.into_iter().filter(|(key, facts)| is_doomed(key, facts.at)).map(|(key, _)| key).collect();
    for key in &doomed {
        // Another gateway may count on it by now.
        fence.check()?;
        store.delete(key).await?;
        fault_point::reach(FaultPoint::Copying);
    }
    Ok(doomed.len())
}

/// Checks that a vault was removed.
///
/// # Errors
///
/// Returns [`VaultCopyError::Present`] if it is here.
pub(crate) fn check_gone(vaults: &Vaults, vault: &FolderName) -> Result<(), VaultCopyError> {
    if vaults.names().contains(vault) { Err(VaultCopyError::Present(vault.clone())) } else { Ok(()) }
}

/// Deletes everything of a vault that this home does not have any more. Returns the number of its copies.
///
/// # Errors
///
/// Returns an error if the vault is here or another process has it, if the store is not this home's, or if something can't be
/// read or deleted.
pub(crate) async fn forget(
    home: &Home,
    vault: &FolderName,
    store: &dyn BlobStore,
) -> Result<usize, VaultCopyError> {
    let held = HeldVault::take(home, vault, VaultWork::Forget)?;
    // It may have been brought back while a person was asked.
    check_gone(&held.vaults, vault)?;
    owner::claim(home, store).await?;
    let all = records(store, vault).await?;
    for at in &all {
        store.delete(&keys::record(vault, *at)?).await?;
    }
    for (key, _) in list_all(store, &keys::objects(vault)).await? {
        store.delete(&key).await?;
    }
    Ok(all.len())
}
