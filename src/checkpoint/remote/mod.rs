//! Copies of checkpoints in the store of blobs, so that an agent's last checkpoint outlives this machine's disk.
//!
//! A copy has the same contents under the same ids as the checkpoint on the disk. Its contents are written first and its
//! record last, and the record is deleted first. So each record in the store has all of its contents, whenever a process is
//! killed. One process at a time changes the copies of an agent, under a lock, and one home writes to a store.

mod keys;
pub(crate) mod progress;
mod pull;
mod push;
mod stored;
mod sweep;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub(crate) use self::pull::{PullRequest, pull};
use self::push::{PushedCheckpoint, push};
pub(crate) use self::sweep::{forget, sweep};

use super::error::CheckpointError;
use super::record::CheckpointRecord;
use crate::blob::{BlobError, BlobStore, Condition, list_all};
use crate::home::lock::Lock;
use crate::home::{Home, HomeError, atomic};
use crate::id::AgentId;

/// The format of the records.
const FORMAT: u32 = 1;

/// The most bytes of one blob of a content. A larger content has several.
const PART: u64 = 4 << 20;

/// Number of contents that are on their way at the same time.
const PARALLEL: usize = 8;

/// The record of a copy, as it is in the store.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct CopyRecord {
    format: u32,
    agent: AgentId,
    checkpoint: CheckpointRecord,
}

/// A checkpoint in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct StoredCheckpoint {
    /// The number that people use, or 0 for the state after a turn.
    pub(crate) number: u64,
    /// The time of the checkpoint, in Unix milliseconds.
    pub(crate) at: i64,
}

/// The newest copy, as this machine remembers it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NewestCopy {
    place: String,
    /// A renamed agent has other keys.
    agent: AgentId,
    pub(crate) number: u64,
    /// The time of the checkpoint, in Unix milliseconds.
    pub(crate) at: i64,
    /// The time since which the place is this home's. It is another one after the place was emptied and taken again.
    since: i64,
}

/// The most bytes of a small file of the home.
const MAX_FILE: u64 = 16 << 10;

impl NewestCopy {
    fn path(home: &Home, agent: &AgentId) -> PathBuf {
        home.checkpoints(agent).join("copied.json")
    }

    /// Returns the newest copy in the store at `place`, if this machine has made one.
    ///
    /// # Errors
    ///
    /// Returns an error if the file can't be read.
    pub(crate) fn read(home: &Home, agent: &AgentId, place: &str) -> Result<Option<Self>, HomeError> {
        let bytes = atomic::read(&Self::path(home, agent), MAX_FILE)?.unwrap_or_default();
        // A damaged file costs a copy that is there already.
        let copy = serde_json::from_slice::<Self>(&bytes).ok();
        Ok(copy.filter(|copy| copy.place == place && copy.agent == *agent))
    }

    fn write(&self, home: &Home) -> Result<(), CheckpointError> {
        let path = Self::path(home, &self.agent);
        let bytes =
            serde_json::to_vec(self).map_err(|error| CheckpointError::io("write", &path)(error.into()))?;
        Ok(atomic::write_unsynced(&path, &bytes, 0o600)?)
    }
}

/// Returns the checkpoints of an agent in the store, newest first.
///
/// # Errors
///
/// Returns an error if the store can't be read.
pub(crate) async fn list(store: &dyn BlobStore, agent: &AgentId) -> Result<Vec<StoredCheckpoint>, BlobError> {
    let listed = list_all(store, &keys::records(agent)).await?;
    let mut found: Vec<_> = listed.iter().filter_map(|(key, _)| keys::parse_record(agent, key)).collect();
    found.sort_unstable_by_key(|copy| std::cmp::Reverse((copy.at, copy.number)));
    Ok(found)
}

/// Copies the newest checkpoint of an agent, and deletes the oldest copies if there are too many. Returns `None` if nothing
/// had to be copied.
///
/// # Errors
///
/// Returns an error if the store can't be read or written. What was copied before stays.
pub(crate) async fn push_and_sweep(
    home: &Home,
    agent: &AgentId,
    store: &Arc<dyn BlobStore>,
    keep: usize,
) -> Result<Option<PushedCheckpoint>, CheckpointError> {
    let pushed = push(home, agent, store).await?;
    // A quarter more may wait, because a sweep reads the records of all copies.
    if pushed.is_some() && list(&**store, agent).await?.len() > keep.saturating_add(keep / 4) {
        sweep(home, agent, store, keep).await?;
    }
    Ok(pushed)
}

/// Takes the lock under which the copies of an agent change.
fn lock(folder: &Path, agent: &AgentId) -> Result<Lock, CheckpointError> {
    match Lock::try_acquire(&folder.join("copies.lock")) {
        Err(HomeError::Held { .. }) => Err(CheckpointError::Copying(agent.clone())),
        lock => Ok(lock?),
    }
}

/// The contents of which this machine knows that they are in the store belong to these keys, and to the time since contents
/// were deleted last: by this home, by one that had taken the store, or before this home was restored from a backup. A person
/// who has emptied the store takes it again.
struct Scope {
    place: String,
    agent: AgentId,
    /// The time since which the store is this home's, in Unix milliseconds.
    since: i64,
    epoch: String,
}

/// The most bytes of an epoch that are compared.
const MAX_EPOCH: usize = 64;

impl Scope {
    /// Reads the epoch from a store that is this home's `since` a time.
    async fn read(store: &dyn BlobStore, agent: &AgentId, since: i64) -> Result<Self, BlobError> {
        let epoch = match store.get(&keys::epoch(agent)?, None).await {
            // Nothing was deleted yet.
            Err(error) if error.is_missing() => bytes::Bytes::new(),
            found => found?,
        };
        let epoch = String::from_utf8_lossy(&epoch[..epoch.len().min(MAX_EPOCH)]).into_owned();
        Ok(Self { place: store.place().to_owned(), agent: agent.clone(), since, epoch })
    }

    /// Begins another epoch, before contents are deleted.
    async fn renew(store: &dyn BlobStore, agent: &AgentId, since: i64) -> Result<Self, BlobError> {
        let epoch = uuid::Uuid::new_v4().simple().to_string();
        store.put(&keys::epoch(agent)?, epoch.clone().into(), Condition::Any).await?;
        Ok(Self { place: store.place().to_owned(), agent: agent.clone(), since, epoch })
    }
}

/// Reads a record from the store.
async fn read_record(
    store: &dyn BlobStore,
    agent: &AgentId,
    copy: StoredCheckpoint,
) -> Result<CheckpointRecord, CheckpointError> {
    let key = keys::record(agent, copy)?;
    let bytes = store.get(&key, None).await?;
    let damaged =
        |reason: String| BlobError::Damaged { place: store.place().to_owned(), key: key.clone(), reason };
    let record: CopyRecord = serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
    if record.format > FORMAT {
        return Err(damaged(format!("it has format {}, which a newer flock writes", record.format)).into());
    }
    if record.agent != *agent || record.checkpoint.number != copy.number || record.checkpoint.at != copy.at {
        return Err(damaged("it is the record of another checkpoint".to_owned()).into());
    }
    Ok(record.checkpoint)
}

/// Runs blocking work.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, CheckpointError> + Send + 'static,
) -> Result<T, CheckpointError> {
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(CheckpointError::Stopped))
}

#[cfg(test)]
mod tests;
