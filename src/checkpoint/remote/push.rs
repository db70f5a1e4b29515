//! Copies the newest checkpoint of an agent to the store.
//!
//! It reads contents beside the turns, without the lock of the agent's checkpoints: nothing waits for the network. A content
//! that is removed meanwhile belongs to a checkpoint that is gone, and the next copy is of a newer one.

use std::collections::HashSet;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use tokio::task::JoinSet;

use super::stored::Stored;
use super::{CopyRecord, FORMAT, NewestCopy, PARALLEL, PART, Scope, StoredCheckpoint, blocking, keys, lock};
use crate::blob::{BlobStore, Condition, Put, list_all, owner};
use crate::checkpoint::content::ContentId;
use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::objects::{MAX_TREE, Objects};
use crate::checkpoint::record::{CheckpointRecord, RecordLog};
use crate::checkpoint::tree::{Node, Tree};
use crate::fault_point::{self, FaultPoint};
use crate::home::Home;
use crate::id::AgentId;

/// A copy that was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PushedCheckpoint {
    /// The number of the checkpoint, or 0 for the state after a turn.
    pub(crate) number: u64,
    /// Number of contents that were written.
    pub(crate) contents: u64,
    /// Bytes that were written.
    pub(crate) bytes: u64,
}

/// The contents that the store needs for a checkpoint.
#[derive(Debug, Default)]
struct Needed {
    /// Contents of files, with their sizes.
    files: Vec<(ContentId, u64)>,
    /// Trees. They are written after the contents of files, and count as stored after all of them.
    trees: Vec<ContentId>,
}

/// Number of contents after which the home's own list of them is written.
const NOTED: usize = 64;

/// Copies the newest state of an agent whose files were kept. Returns `None` if it is in the store already or there is none.
///
/// # Errors
///
/// Returns an error if another process copies, if the store is not this home's, or if something can't be read or written.
/// The store then has no record of the checkpoint.
pub(crate) async fn push(
    home: &Home,
    agent: &AgentId,
    store: &Arc<dyn BlobStore>,
) -> Result<Option<PushedCheckpoint>, CheckpointError> {
    let folder = home.checkpoints(agent);
    if !folder.exists() {
        return Ok(None);
    }
    let _alone = lock(&folder, agent)?;
    let log = RecordLog::new(&folder);
    let records = blocking(move || log.read()).await?;
    // Also one that people can't choose: the end of the last turn is what a lost disk would cost.
    let Some(record) = records.into_iter().rfind(|record| record.files.is_some()) else { return Ok(None) };
    let copy = StoredCheckpoint { number: record.number, at: record.at };
    // First, because what is known of the place does not count any more if it was taken again since.
    let since = owner::claim(home, &**store).await?;
    let (place, owned) = (store.place().to_owned(), agent.clone());
    let made = NewestCopy { place, agent: owned, number: copy.number, at: copy.at, since };
    if NewestCopy::read(home, agent, store.place())?.as_ref() == Some(&made) {
        return Ok(None);
    }
    let pushed = write(&folder, agent, store, (&record, since)).await?;
    let checkpoint = CopyRecord { format: FORMAT, agent: agent.clone(), checkpoint: record };
    let bytes = serde_json::to_vec(&checkpoint)
        .map_err(|error| CheckpointError::io("write the record of", &folder)(error.into()))?;
    store.put(&keys::record(agent, copy)?, bytes.into(), Condition::Any).await?;
    fault_point::reach(FaultPoint::Copying);
    made.write(home)?;
    Ok(Some(pushed))
}

/// Writes everything that the store lacks of a checkpoint's contents. It is this home's `since` a time.
async fn write(
    folder: &Path,
    agent: &AgentId,
    store: &Arc<dyn BlobStore>,
    (record, since): (&CheckpointRecord, i64),
) -> Result<PushedCheckpoint, CheckpointError> {
    let objects = Arc::new(Objects::reader(folder));
    let (owned, scope) = (folder.to_owned(), Scope::read(&**store, agent, since).await?);
    let (stored, is_known) = blocking(move || Stored::open(&owned, &scope)).await?;
    let mut present = HashSet::new();
    if !is_known {
        // Another machine, or a removed home, may have written most of it already.
        let listed = list_all(&**store, &keys::objects(agent)).await?;
        let found = listed.iter().filter_map(|(key, _)| keys::parse_object(agent, key));
        // Of a content in parts, some may be missing.
        present.extend(found.filter(|(_, is_part)| !is_part).map(|(id, _)| id));
    }
    let Some(tree) = record.files else { return Ok(PushedCheckpoint::default()) };
    let reader = Arc::clone(&objects);
    let (needed, mut stored) = blocking(move || Ok((needed(&reader, tree, &stored)?, stored))).await?;
    let mut pushed = PushedCheckpoint { number: record.number, ..PushedCheckpoint::default() };
    let files = needed.files.into_iter().map(|(id, size)| Upload { id, size: Some(size) });
    let files: Vec<Upload> = files.filter(|upload| !present.contains(&upload.id)).collect();
    upload(agent, store, &objects, files, &mut pushed, |ids| stored.add(ids)).await?;
    let trees = needed.trees.iter().filter(|id| !present.contains(id));
    let trees: Vec<Upload> = trees.map(|id| Upload { id: *id, size: None }).collect();
    // A tree counts as stored with everything below it, so none does before all of them are there.
    upload(agent, store, &objects, trees, &mut pushed, |_| Ok(())).await?;
    stored.add(&needed.trees)?;
    Ok(pushed)
}

/// Returns the contents below a tree that are not known to be in the store.
fn needed(objects: &Objects, root: ContentId, stored: &Stored) -> Result<Needed, CheckpointError> {
    let mut needed = Needed::default();
    let mut seen = HashSet::new();
    let mut stack = vec![root];
    while let Some(id) = stack.pop() {
        if stored.has(id) || !seen.insert(id) {
            continue;
        }
        needed.trees.push(id);
        match objects.tree(id)? {
            Tree::Parts(parts) => stack.extend(parts),
            Tree::Entries(entries) => {
                for entry in entries {
                    match entry.node {
                        Node::File { content, size, .. } => {
                            if !stored.has(content) && seen.insert(content) {
                                needed.files.push((content, size));
                            }
                        }
                        Node::Folder { tree, .. } => stack.push(tree),
                        Node::Link { .. } => {}
                    }
                }
            }
        }
    }
    Ok(needed)
}

/// A content to be written.
#[derive(Clone, Copy, Debug)]
struct Upload {
    id: ContentId,
    /// The size of a file. `None` for a tree.
    size: Option<u64>,
}

/// Writes contents, several at the same time, and tells `note` which ones are there.
async fn upload(
    agent: &AgentId,
    store: &Arc<dyn BlobStore>,
    objects: &Arc<Objects>,
    uploads: Vec<Upload>,
    pushed: &mut PushedCheckpoint,
    mut note: impl FnMut(&[ContentId]) -> Result<(), CheckpointError>,
) -> Result<(), CheckpointError> {
    let mut waiting = uploads.into_iter();
    // Those that are left are stopped when this is dropped.
    let mut running = JoinSet::new();
    let mut done = Vec::new();
    loop {
        while running.len() < PARALLEL {
            let Some(next) = waiting.next() else { break };
            running.spawn(put(agent.clone(), Arc::clone(store), Arc::clone(objects), next));
        }
        let Some(ended) = running.join_next().await else { break };
        let (id, bytes) = ended.unwrap_or(Err(CheckpointError::Stopped))?;
        fault_point::reach(FaultPoint::Copying);
        if let Some(bytes) = bytes {
            pushed.contents += 1;
            pushed.bytes += bytes;
        }
        done.push(id);
        if done.len() == NOTED {
            note(&done)?;
            done.clear();
        }
    }
    note(&done)
}

/// Writes one content. Returns it with its bytes, or without if it was there.
async fn put(
    agent: AgentId,
    store: Arc<dyn BlobStore>,
    objects: Arc<Objects>,
    upload: Upload,
) -> Result<(ContentId, Option<u64>), CheckpointError> {
    let Upload { id, size } = upload;
    if let Some(size) = size.filter(|size| *size > PART) {
        return Ok((id, put_parts(&agent, &store, &objects, (id, size)).await?));
    }
    let read = Arc::clone(&objects);
    let bytes = blocking(move || {
        // What is damaged here must not get its name there.
        let most = size.unwrap_or(MAX_TREE);
        let bytes = read.bytes(id, most)?.unwrap_or_default();
        let found = if size.is_some() { ContentId::of_file(&bytes) } else { ContentId::of_tree(&bytes) };
        if found == id { Ok(Bytes::from(bytes)) } else { Err(read.damaged(id)) }
    });
    let bytes = bytes.await?;
    let length = bytes.len() as u64;
    let put = store.put(&keys::object(&agent, id, None)?, bytes, Condition::Absent).await?;
    Ok((id, (put == Put::Written).then_some(length)))
}

/// Writes the parts of a large content. A part of zeros is left out, as a hole on the disk is.
async fn put_parts(
    agent: &AgentId,
    store: &Arc<dyn BlobStore>,
    objects: &Arc<Objects>,
    (id, size): (ContentId, u64),
) -> Result<Option<u64>, CheckpointError> {
    let read = Arc::clone(objects);
    blocking(move || read.check(id)).await?;
    let mut written = None;
    for part in 0..size.div_ceil(PART) {
        let read = Arc::clone(objects);
        let bytes = blocking(move || {
            let length = PART.min(size - part * PART);
            let mut bytes = vec![0; usize::try_from(length).unwrap_or_default()];
            let file = read.file(id)?;
            file.read_exact_at(&mut bytes, part * PART).map_err(|error| read.missing(id, error))?;
            Ok(bytes)
        });
        let bytes = bytes.await?;
        if bytes.iter().all(|byte| *byte == 0) {
            continue;
        }
        let length = bytes.len() as u64;
        let put = store.put(&keys::object(agent, id, Some(part))?, bytes.into(), Condition::Absent).await?;
        if put == Put::Written {
            written = Some(written.unwrap_or(0) + length);
        }
    }
    Ok(written)
}
