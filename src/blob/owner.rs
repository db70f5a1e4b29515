//! The mark of the one home that writes to a store. Two homes with the same prefix would delete each other's blobs.
//!
//! The home remembers the store that it has marked. So a folder whose disk is not mounted, or a bucket that was emptied, is
//! not taken for a new store.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{BlobError, BlobKey, BlobStore, Condition, Put};
use crate::clock::unix_ms;
use crate::home::{Home, HomeError, atomic, instance};
use crate::id::hex;

/// The key of the mark.
pub const NAME: &str = "flock.json";

/// The format of everything in a store.
const FORMAT: u32 = 1;

/// The most bytes of the home's own record.
const MAX_RECORD: u64 = 16 << 10;

/// The mark in a store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    format: u32,
    /// A digest of the home's instance id, which itself stays in the home.
    home: String,
    /// The time since which the store is this home's, in Unix milliseconds.
    pub since: i64,
}

/// What the home remembers.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    place: String,
}

impl Owner {
    fn of(home: &Home) -> Result<Self, HomeError> {
        let id = instance::read(home)?;
        let digest = Sha256::new().chain_update(b"owner of blobs\0").chain_update(id.as_bytes()).finalize();
        Ok(Self { format: FORMAT, home: hex(&digest[..16]), since: unix_ms() })
    }

    /// Returns `true` if the mark is this home's.
    ///
    /// # Errors
    ///
    /// Returns an error if the home has no instance id.
    pub fn is(&self, home: &Home) -> Result<bool, HomeError> {
        Ok(self.home == Self::of(home)?.home)
    }
}

fn key() -> Option<BlobKey> {
    static KEY: LazyLock<Option<BlobKey>> = LazyLock::new(|| NAME.parse().ok());
    KEY.clone()
}

fn refused(store: &dyn BlobStore, problem: String) -> BlobError {
    BlobError::Refused { place: store.place().to_owned(), problem }
}

/// Reads the mark of a store. Returns `None` if it has none.
///
/// # Errors
///
/// Returns an error if the store can't be read, or was written by a newer flock.
pub async fn read(store: &dyn BlobStore) -> Result<Option<Owner>, BlobError> {
    let Some(key) = key() else { return Ok(None) };
    let bytes = match store.get(&key, None).await {
        Err(error) if error.is_missing() => return Ok(None),
        found => found?,
    };
    match serde_json::from_slice::<Owner>(&bytes) {
        Ok(owner) if owner.format <= FORMAT => Ok(Some(owner)),
        Ok(owner) => {
            Err(refused(store, format!("its blobs have format {}, which a newer flock writes", owner.format)))
        }
        Err(error) => {
            let place = store.place().to_owned();
            Err(BlobError::Damaged { place, key, reason: error.to_string() })
        }
    }
}

/// Makes sure that the store is this home's before something is written to it or deleted in it.
///
/// # Errors
///
/// Returns [`BlobError::Foreign`] if it is another home's, and [`BlobError::Lost`] if it was this home's and has no mark
/// any more.
pub async fn claim(home: &Home, store: &dyn BlobStore) -> Result<(), BlobError> {
    let own = Owner::of(home)?;
    let mut found = read(store).await?;
    if found.is_none() {
        if remembered(home)?.is_some_and(|place| place == store.place()) {
            return Err(BlobError::Lost { place: store.place().to_owned() });
        }
        if write(store, &own, Condition::Absent).await? == Put::Exists {
            found = read(store).await?;
        }
    }
    if found.is_some_and(|found| found.home != own.home) {
        return Err(BlobError::Foreign { place: store.place().to_owned() });
    }
    remember(home, store)
}

/// Makes the store this home's, whoever has written to it.
///
/// # Errors
///
/// Returns an error if the store can't be written, or was written by a newer flock.
pub async fn take(home: &Home, store: &dyn BlobStore) -> Result<(), BlobError> {
    // A newer flock's store is not taken.
    read(store).await?;
    write(store, &Owner::of(home)?, Condition::Any).await?;
    remember(home, store)
}

async fn write(store: &dyn BlobStore, owner: &Owner, condition: Condition) -> Result<Put, BlobError> {
    let Some(key) = key() else { return Ok(Put::Written) };
    let bytes = serde_json::to_vec(owner).map_err(|error| refused(store, error.to_string()))?;
    store.put(&key, bytes.into(), condition).await
}

fn remembered(home: &Home) -> Result<Option<String>, BlobError> {
    let bytes = atomic::read(&home.blob_record(), MAX_RECORD)?;
    // A damaged record is none: then the store is marked again, or found to be another home's.
    Ok(bytes.and_then(|bytes| serde_json::from_slice::<Record>(&bytes).ok()).map(|record| record.place))
}

fn remember(home: &Home, store: &dyn BlobStore) -> Result<(), BlobError> {
    let place = store.place().to_owned();
    if remembered(home)?.as_ref() == Some(&place) {
        return Ok(());
    }
    let bytes = serde_json::to_vec(&Record { place }).map_err(|error| refused(store, error.to_string()))?;
    Ok(atomic::write(&home.blob_record(), &bytes, 0o600)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::BlobSettings;
    use crate::error::Explain as _;

    fn home(folder: &std::path::Path) -> Home {
        let home = Home::new(folder.to_owned(), None);
        home.make_folders().unwrap();
        instance::settle(&home).unwrap();
        home
    }

    #[tokio::test]
    async fn one_home_writes_to_a_store_until_another_one_takes_it() {
        let folder = tempfile::tempdir().unwrap();
        let (first, second) = (home(&folder.path().join("first")), home(&folder.path().join("second")));
        let root = folder.path().join("store");
        fs_err::create_dir(&root).unwrap();
        let store = super::super::open(&first, &BlobSettings::Folder(root.clone()));
        assert_eq!(read(&*store).await.unwrap(), None);
        claim(&first, &*store).await.unwrap();
        claim(&first, &*store).await.unwrap();
        assert!(read(&*store).await.unwrap().unwrap().is(&first).unwrap());
        let error = claim(&second, &*store).await.unwrap_err();
        assert!(matches!(error, BlobError::Foreign { .. }), "{error}");
        assert_eq!(error.hint().as_deref(), Some("flock storage take"));
        take(&second, &*store).await.unwrap();
        claim(&second, &*store).await.unwrap();
        assert!(matches!(claim(&first, &*store).await.unwrap_err(), BlobError::Foreign { .. }));
        let mark = fs_err::read_to_string(root.join(NAME)).unwrap();
        assert!(!mark.contains(&instance::read(&second).unwrap()), "the id itself is not told: {mark}");
    }

    #[tokio::test]
    async fn a_store_that_is_empty_again_is_not_taken_for_a_new_one() {
        let folder = tempfile::tempdir().unwrap();
        let home = home(&folder.path().join("home"));
        let (one, other) = (folder.path().join("one"), folder.path().join("other"));
        fs_err::create_dir(&one).unwrap();
        fs_err::create_dir(&other).unwrap();
        let store = super::super::open(&home, &BlobSettings::Folder(one.clone()));
        claim(&home, &*store).await.unwrap();
        fs_err::remove_file(one.join(NAME)).unwrap();
        assert!(matches!(claim(&home, &*store).await.unwrap_err(), BlobError::Lost { .. }));
        assert!(!one.join(NAME).exists());
        // Another place is a new store.
        claim(&home, &*super::super::open(&home, &BlobSettings::Folder(other))).await.unwrap();
        take(&home, &*store).await.unwrap();
        claim(&home, &*store).await.unwrap();
        let newer = r#"{"format":2,"home":"x","since":1}"#;
        fs_err::write(one.join(NAME), newer).unwrap();
        for error in [claim(&home, &*store).await.unwrap_err(), take(&home, &*store).await.unwrap_err()] {
            assert!(error.to_string().contains("newer flock"), "{error}");
        }
    }
}
