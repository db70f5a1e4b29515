//! Tries what flock needs of a store with a blob of its own.

use bytes::Bytes;

use super::{BlobError, BlobKey, BlobStore, Condition, Put, list_all};

/// The findings about a store that works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeReport {
    /// How far the server's clock is ahead of this machine's, in milliseconds.
    pub clock_ahead: Option<i64>,
    /// `true` if a blob is not replaced by a write that must not replace it.
    pub keeps_conditions: bool,
}

/// The content of the blob.
const CONTENT: &[u8] = b"a probe of flock doctor, which may be deleted";

/// The folder of probes in a store.
const FOLDER: &str = "probe/";

/// Writes a blob, reads it in each way, and deletes it.
///
/// # Errors
///
/// Returns the error of the first operation that fails. The blob may stay then.
pub async fn probe(store: &dyn BlobStore) -> Result<ProbeReport, BlobError> {
    let refused =
        |problem: &str| BlobError::Refused { place: store.place().to_owned(), problem: problem.to_owned() };
    let name = format!("{FOLDER}{}", uuid::Uuid::new_v4().simple());
    let key: BlobKey = name.parse().map_err(|_| refused("the name of a probe is no key"))?;
    let content = Bytes::from_static(CONTENT);
    if store.put(&key, content.clone(), Condition::Absent).await? == Put::Exists {
        return Err(refused("it has a blob that was never written"));
    }
    let found = read(store, &key).await;
    // The second write is the one that must be without effect.
    let second = match found {
        Ok(()) => store.put(&key, Bytes::from_static(b"replaced"), Condition::Absent).await,
        Err(error) => Err(error),
    };
    // Deleted in any case: a probe must not leave a blob each time.
    store.delete(&key).await?;
    let second = second?;
    if store.head(&key).await?.is_some() {
        return Err(refused("it keeps a blob that was deleted"));
    }
    Ok(ProbeReport { clock_ahead: store.clock_ahead(), keeps_conditions: second == Put::Exists })
}

/// Reads the blob in each way.
async fn read(store: &dyn BlobStore, key: &BlobKey) -> Result<(), BlobError> {
    let damaged = |reason: &str| BlobError::Damaged {
        place: store.place().to_owned(),
        key: key.clone(),
        reason: reason.to_owned(),
    };
    if store.get(key, None).await? != CONTENT {
        return Err(damaged("it is not what was written"));
    }
    if store.get(key, Some(2..7)).await? != CONTENT[2..7] {
        return Err(damaged("a range of it is not what was written"));
    }
    if store.head(key).await?.is_none_or(|facts| facts.size != CONTENT.len() as u64) {
        return Err(damaged("its size is not told"));
    }
    let listed = list_all(store, FOLDER).await?;
    if !listed.iter().any(|(found, facts)| found == key && facts.size == CONTENT.len() as u64) {
        return Err(damaged("it is not in the list"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::BlobSettings;
    use crate::home::Home;

    #[tokio::test]
    async fn a_folder_that_works_is_left_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().join("home"), None);
        let root = folder.path().join("store");
        fs_err::create_dir(&root).unwrap();
        let store = super::super::open(&home, &BlobSettings::Folder(root.clone()));
        let report = probe(&*store).await.unwrap();
        assert_eq!(report, ProbeReport { clock_ahead: None, keeps_conditions: true });
        assert_eq!(list_all(&*store, "").await.unwrap(), []);
    }
}
