//! The mark of the one home that writes to a store. Two homes with the same prefix would delete each other's blobs.
//!
//! The home remembers the store that it has marked. So a folder whose disk is not mounted, or a bucket that was emptied, is
//! not taken for a new store.
//!
//! A mark names the home's instance id, which a copy of the home does not have, and a secret that is in no backup. A home that
//! is restored at its old path keeps the id, and the original may still run on another machine.
//!
//! Gateways that share the agents' files copy the same things, whichever of them does it. They have one mark: that of the home
//! with these files, whose id and record all of them read. It stays when a group begins or ends. Earlier versions gave each of
//! these gateways a mark of its own, which only its own home knows and replaces.

use std::sync::LazyLock;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{BlobError, BlobKey, BlobStore, Condition, Put};
use crate::clock::unix_ms;
use crate::home::lock::Lock;
use crate::home::{Home, HomeError, atomic, instance};
use crate::id::hex;

/// The key of the mark.
pub const NAME: &str = "flock.json";

/// The format of everything in a store.
const FORMAT: u32 = 1;

/// The most bytes of the home's own record.
const MAX_RECORD: u64 = 16 << 10;

/// The longest time to wait for another process that draws the secret.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// The mark in a store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    format: u32,
    /// A digest of the home's instance id and secret, which themselves stay in the home.
    home: String,
    /// The time since which the store is this home's, in Unix milliseconds.
    pub since: i64,
}

/// The home's memory of the store that it has marked. No backup has it, and none brings it back.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Record {
    /// The place that was marked last.
    place: Option<String>,
    /// A random text of this home alone.
    secret: Option<String>,
    /// `true` if an earlier version has written the record. Its marks name only the instance id.
    has_old_marks: bool,
}

impl Record {
    fn read(home: &Home) -> Result<Self, HomeError> {
        let bytes = atomic::read(&home.blob_record(), MAX_RECORD)?.unwrap_or_default();
        // A damaged record is none: then the store is marked again, or found to be another home's.
        let mut record: Self = serde_json::from_slice(&bytes).unwrap_or_default();
        record.has_old_marks |= record.place.is_some() && record.secret.is_none();
        Ok(record)
    }

    fn write(&self, home: &Home) -> Result<(), HomeError> {
        let path = home.blob_record();
        let bytes = serde_json::to_vec(self).map_err(|error| HomeError::io("write", &path)(error.into()))?;
        atomic::write(&path, &bytes, 0o600)
    }
}

/// A home with what its marks say.
struct Marker {
    home: Home,
    id: String,
    record: Record,
}

impl Marker {
    fn read(home: Home, id: String) -> Result<Self, HomeError> {
        let record = Record::read(&home)?;
        Ok(Self { home, id, record })
    }

    /// Returns the home whose marks are those of `home`: the one that has the agents' files.
    fn of(home: &Home) -> Result<Self, HomeError> {
        Self::read(home.of_files(), instance::of_files(home)?)
    }

    /// Returns `home` by itself if it shares the files of another home. Earlier versions wrote marks of such homes.
    fn alone(home: &Home) -> Result<Option<Self>, HomeError> {
        let shares = home.of_files() != *home;
        shares.then(|| Self::read(home.clone(), instance::read(home)?)).transpose()
    }

    /// Draws the secret if there is none.
    fn draw_secret(&mut self) -> Result<(), HomeError> {
        // Two processes that draw one at the same moment would not know each other's marks. The folder of the lock may have
        // been removed with what another home has of its own.
        let _alone = Lock::acquire_with_folder(&self.home.blob_owner_lock(), LOCK_TIMEOUT)?;
        self.record = Record::read(&self.home)?;
        if self.record.secret.is_none() {
            self.record.secret = Some(uuid::Uuid::new_v4().simple().to_string());
            // Before the first mark that names it. A kill between the two must not leave a mark that nobody knows.
            self.record.write(&self.home)?;
        }
        Ok(())
    }

    /// Returns `true` if the home has marked this store last.
    fn remembers(&self, store: &dyn BlobStore) -> bool {
        self.record.place.as_deref() == Some(store.place())
    }

    fn remember(&mut self, store: &dyn BlobStore) -> Result<(), HomeError> {
        if self.remembers(store) {
            return Ok(());
        }
        self.record.place = Some(store.place().to_owned());
        self.record.write(&self.home)
    }

    /// Returns the mark that the home writes.
    fn mark(&self, since: i64) -> Owner {
        Owner { format: FORMAT, home: digest(&self.id, self.record.secret.as_deref()), since }
    }

    /// Returns `true` if a mark has this home's secret.
    fn knows(&self, owner: &Owner) -> bool {
        self.record.secret.is_some() && owner.home == self.mark(owner.since).home
    }

    /// Returns `true` if a mark is this home's and of a version without secrets.
    fn knows_as_old(&self, owner: &Owner) -> bool {
        self.record.has_old_marks && owner.home == digest(&self.id, None)
    }

    fn knows_any(&self, owner: &Owner) -> bool {
        self.knows(owner) || self.knows_as_old(owner)
    }
}

/// Returns what the marks of a home say. Without a secret, it is what an earlier version has written.
fn digest(id: &str, secret: Option<&str>) -> String {
    let mut hash = Sha256::new().chain_update(b"owner of blobs\0").chain_update(id.as_bytes());
    if let Some(secret) = secret {
        // A separator, so that no other id and secret give the same input.
        hash.update([0]);
        hash.update(secret.as_bytes());
    }
    hex(&hash.finalize()[..16])
}

impl Owner {
    /// Returns `true` if the mark is that of this home, or of the gateways that share its files.
    ///
    /// # Errors
    ///
    /// Returns an error if the home has no instance id, or if its record can't be read.
    pub fn is(&self, home: &Home) -> Result<bool, HomeError> {
        let is_own = Marker::of(home)?.knows_any(self);
        Ok(is_own || Marker::alone(home)?.is_some_and(|alone| alone.knows_any(self)))
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

/// Makes sure that the store is this home's before something is written to it or deleted in it. Returns the time since which it
/// is. That is another one after somebody has [taken](take) it, and then nothing is known of its contents.
///
/// # Errors
///
/// Returns [`BlobError::Foreign`] if it is another home's, and [`BlobError::Lost`] if it was this home's and has no mark
/// any more.
pub async fn claim(home: &Home, store: &dyn BlobStore) -> Result<i64, BlobError> {
    let (mut marker, alone) = (Marker::of(home)?, Marker::alone(home)?);
    let mut found = read(store).await?;
    if found.is_none() {
        if marker.remembers(store) || alone.as_ref().is_some_and(|alone| alone.remembers(store)) {
            return Err(BlobError::Lost { place: store.place().to_owned() });
        }
        marker.draw_secret()?;
        let mark = marker.mark(unix_ms());
        found = match write(store, &mark, Condition::Absent).await? {
            Put::Written => Some(mark),
            Put::Exists => read(store).await?,
        };
    }
    let since = found.as_ref().map_or(0, |found| found.since);
    if let Some(found) = found.filter(|found| !marker.knows(found)) {
        if !marker.knows_as_old(&found) && !alone.is_some_and(|alone| alone.knows_any(&found)) {
            return Err(BlobError::Foreign { place: store.place().to_owned() });
        }
        marker.draw_secret()?;
        write(store, &marker.mark(found.since), Condition::Any).await?;
    }
    marker.remember(store)?;
    Ok(since)
}

/// Replaces a mark that this home has written for itself alone, although it shares the files of other gateways, by theirs. They
/// can't know it, and would take the store for another home's. Any other mark stays.
///
/// # Errors
///
/// Returns an error if the store or a record can't be read or written.
pub async fn share(home: &Home, store: &dyn BlobStore) -> Result<(), BlobError> {
    let Some(alone) = Marker::alone(home)?.filter(|alone| alone.remembers(store)) else { return Ok(()) };
    match read(store).await? {
        Some(found) if alone.knows_any(&found) => claim(home, store).await.map(drop),
        _ => Ok(()),
    }
}

/// Makes the store this home's, whoever has written to it.
///
/// # Errors
///
/// Returns an error if the store can't be written, or was written by a newer flock.
pub async fn take(home: &Home, store: &dyn BlobStore) -> Result<(), BlobError> {
    // A newer flock's store is not taken.
    read(store).await?;
    let mut marker = Marker::of(home)?;
    marker.draw_secret()?;
    write(store, &marker.mark(unix_ms()), Condition::Any).await?;
    Ok(marker.remember(store)?)
}

async fn write(store: &dyn BlobStore, owner: &Owner, condition: Condition) -> Result<Put, BlobError> {
    let Some(key) = key() else { return Ok(Put::Written) };
    let bytes = serde_json::to_vec(owner).map_err(|error| refused(store, error.to_string()))?;
    store.put(&key, bytes.into(), condition).await
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
    async fn a_home_that_was_restored_or_copied_owns_nothing_until_it_takes_it() {
        let folder = tempfile::tempdir().unwrap();
        let first = home(&folder.path().join("first"));
        let root = folder.path().join("store");
        fs_err::create_dir(&root).unwrap();
        let store = super::super::open(&first, &BlobSettings::Folder(root));
        claim(&first, &*store).await.unwrap();
        // A copy has the secret, and not the id.
        let copy = Home::new(folder.path().join("copy"), None);
        let copied =
            std::process::Command::new("cp").arg("-a").args([first.root(), copy.root()]).status().unwrap();
        assert!(copied.success());
        assert!(matches!(claim(&copy, &*store).await.unwrap_err(), BlobError::Foreign { .. }));
        // A home that was restored at the same path has the id, and not the secret.
        let own = fs_err::read(first.blob_record()).unwrap();
        fs_err::remove_file(first.blob_record()).unwrap();
        assert!(!read(&*store).await.unwrap().unwrap().is(&first).unwrap());
        for _ in 0..2 {
            assert!(matches!(claim(&first, &*store).await.unwrap_err(), BlobError::Foreign { .. }));
        }
        take(&first, &*store).await.unwrap();
        claim(&first, &*store).await.unwrap();
        // The original on the other machine.
        fs_err::write(first.blob_record(), own).unwrap();
        assert!(matches!(claim(&first, &*store).await.unwrap_err(), BlobError::Foreign { .. }));
    }

    #[tokio::test]
    async fn a_mark_of_an_earlier_version_is_renewed_by_a_home_that_has_its_record() {
        let folder = tempfile::tempdir().unwrap();
        let home = home(&folder.path().join("home"));
        let root = folder.path().join("store");
        fs_err::create_dir(&root).unwrap();
        let store = super::super::open(&home, &BlobSettings::Folder(root.clone()));
        let id = instance::read(&home).unwrap();
        let old = serde_json::json!({"format": 1, "home": digest(&id, None), "since": 7}).to_string();
        fs_err::write(root.join(NAME), &old).unwrap();
        assert!(matches!(claim(&home, &*store).await.unwrap_err(), BlobError::Foreign { .. }));
        let record = serde_json::json!({"place": store.place()}).to_string();
        fs_err::write(home.blob_record(), &record).unwrap();
        assert!(read(&*store).await.unwrap().unwrap().is(&home).unwrap());
        // Also after a kill that left the secret without the mark.
        for _ in 0..2 {
            fs_err::write(root.join(NAME), &old).unwrap();
            claim(&home, &*store).await.unwrap();
            claim(&home, &*store).await.unwrap();
            let mark = read(&*store).await.unwrap().unwrap();
            assert!(mark.since == 7 && mark.home != digest(&id, None) && mark.is(&home).unwrap(), "{mark:?}");
        }
        // Another home with the id and the old record is too late.
        fs_err::write(home.blob_record(), &record).unwrap();
        assert!(matches!(claim(&home, &*store).await.unwrap_err(), BlobError::Foreign { .. }));
    }

    /// Two homes whose gateways share the files of the first one, and a store.
    fn group(folder: &std::path::Path) -> (Home, Home, std::sync::Arc<dyn BlobStore>) {
        let (first, second) = (home(&folder.join("first")), home(&folder.join("second")));
        let root = folder.join("store");
        fs_err::create_dir(&root).unwrap();
        let store = super::super::open(&first, &BlobSettings::Folder(root));
        let second = second.seen_with_files(first.root());
        (first, second, store)
    }

    #[tokio::test]
    async fn gateways_that_share_files_have_one_mark_from_before_their_group_until_after_it() {
        let folder = tempfile::tempdir().unwrap();
        let (first, second, store) = group(folder.path());
        claim(&first, &*store).await.unwrap();
        let mark = read(&*store).await.unwrap();
        for home in [&second, &first] {
            claim(home, &*store).await.unwrap();
            assert!(mark.as_ref().unwrap().is(home).unwrap());
        }
        assert_eq!(read(&*store).await.unwrap(), mark);
        assert!(!second.blob_record().exists(), "it has no mark of its own");
        // One that shares other files, or none, is another home.
        let (alone, other) = (Home::new(second.root().to_owned(), None), home(&folder.path().join("other")));
        for home in [&alone, &other, &second.seen_with_files(other.root())] {
            assert!(matches!(claim(home, &*store).await.unwrap_err(), BlobError::Foreign { .. }));
        }
        // What one of them takes or misses, the other one does, too.
        take(&other, &*store).await.unwrap();
        assert!(matches!(claim(&first, &*store).await.unwrap_err(), BlobError::Foreign { .. }));
        take(&second, &*store).await.unwrap();
        claim(&first, &*store).await.unwrap();
        fs_err::remove_file(folder.path().join("store").join(NAME)).unwrap();
        for home in [&first, &second] {
            assert!(matches!(claim(home, &*store).await.unwrap_err(), BlobError::Lost { .. }));
        }
        // The machine has not mounted the files.
        let lost = second.seen_with_files(&folder.path().join("gone"));
        assert!(matches!(claim(&lost, &*store).await.unwrap_err(), BlobError::Home(_)));
    }

    #[tokio::test]
    async fn a_mark_of_one_gateway_that_an_earlier_version_wrote_becomes_that_of_all() {
        let folder = tempfile::tempdir().unwrap();
        let (first, second, store) = group(folder.path());
        let alone = Home::new(second.root().to_owned(), None);
        claim(&alone, &*store).await.unwrap();
        let since = read(&*store).await.unwrap().unwrap().since;
        // Only the second one knows it.
        assert!(matches!(claim(&first, &*store).await.unwrap_err(), BlobError::Foreign { .. }));
        share(&first, &*store).await.unwrap();
        let found = read(&*store).await.unwrap().unwrap();
        assert!(found.is(&alone).unwrap() && found.is(&second).unwrap() && !found.is(&first).unwrap());
        for _ in 0..2 {
            share(&second, &*store).await.unwrap();
            let found = read(&*store).await.unwrap().unwrap();
            assert!(found.is(&first).unwrap() && found.since == since, "{found:?}");
        }
        claim(&first, &*store).await.unwrap();
        // One of a version without secrets, also if the second one has the work and not only starts.
        let id = instance::read(&alone).unwrap();
        let old = Owner { format: FORMAT, home: digest(&id, None), since: 7 };
        let record = serde_json::json!({"place": store.place()}).to_string();
        fs_err::write(alone.blob_record(), record).unwrap();
        write(&*store, &old, Condition::Any).await.unwrap();
        claim(&second, &*store).await.unwrap();
        assert_eq!(read(&*store).await.unwrap().unwrap().since, 7);
        claim(&first, &*store).await.unwrap();
        // A store of another home is not touched, and one that has lost its mark is not marked anew.
        let other = home(&folder.path().join("other"));
        take(&other, &*store).await.unwrap();
        share(&second, &*store).await.unwrap();
        assert!(read(&*store).await.unwrap().unwrap().is(&other).unwrap());
        fs_err::remove_file(first.blob_record()).unwrap();
        fs_err::remove_file(folder.path().join("store").join(NAME)).unwrap();
        assert!(matches!(claim(&second, &*store).await.unwrap_err(), BlobError::Lost { .. }));
    }

    #[test]
    fn processes_that_mark_at_the_same_moment_have_one_secret() {
        let folder = tempfile::tempdir().unwrap();
        let home = home(folder.path());
        let secret = || {
            let mut marker = Marker::of(&home).unwrap();
            marker.draw_secret().unwrap();
            marker.record.secret.unwrap()
        };
        std::thread::scope(|scope| {
            let all: Vec<_> = (0..8).map(|_| scope.spawn(secret)).collect();
            let all: Vec<String> = all.into_iter().map(|one| one.join().unwrap()).collect();
            assert!(all.iter().all(|one| *one == secret()), "{all:?}");
        });
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
