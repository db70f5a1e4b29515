//! Deletes copies that are too many, and contents that no copy needs any more.
//!
//! The oldest records go first, then what only they needed. A content that is younger than a day stays: it may belong to a
//! copy that another machine was making when this home took the store.

use std::collections::HashSet;
use std::os::unix::fs::DirBuilderExt as _;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::stored::Stored;
use super::{Scope, blocking, keys, list, lock, read_record};
use crate::blob::{BlobError, BlobKey, BlobStore, list_all, owner};
use crate::checkpoint::content::ContentId;
use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::objects::Objects;
use crate::checkpoint::tree::{self, Node, Tree};
use crate::clock::unix_ms;
use crate::fault_point::{self, FaultPoint};
use crate::home::lock::Lock;
use crate::home::{Home, HomeError};
use crate::id::AgentId;

/// The age up to which a content without a record stays.
const GRACE: Duration = Duration::from_secs(24 * 3600);

/// The outcome of a sweep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SweptCopies {
    /// Number of checkpoints that were deleted.
    pub(crate) checkpoints: usize,
    /// Number of contents that were deleted.
    pub(crate) contents: usize,
    /// Number of checkpoints that are left.
    pub(crate) kept: usize,
    /// Bytes of all contents that are left.
    pub(crate) bytes: u64,
}

/// Deletes all but the newest `keep` copies of an agent's checkpoints, and the contents that only the others needed.
///
/// # Errors
///
/// Returns an error if another process copies, if the store is not this home's, or if something can't be read or deleted.
/// Nothing that a remaining copy needs is deleted then either.
pub(crate) async fn sweep(
    home: &Home,
    agent: &AgentId,
    store: &Arc<dyn BlobStore>,
    keep: usize,
) -> Result<SweptCopies, CheckpointError> {
    let folder = home.checkpoints(agent);
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder);
    made.map_err(CheckpointError::io("make the folder", &folder))?;
    let _alone = lock(&folder, agent)?;
    let since = owner::claim(home, &**store).await?;
    let mut copies = list(&**store, agent).await?;
    let surplus = copies.split_off(keep.max(1).min(copies.len()));
    // An incomplete mark must delete nothing, so every record and tree is read before the first change.
    let marking = Marking { agent, store: &**store, objects: Arc::new(Objects::reader(&folder)) };
    let mut used = HashSet::new();
    for copy in &copies {
        let record = read_record(&**store, agent, *copy).await?;
        if let Some(tree) = record.files {
            marking.mark(tree, &mut used).await?;
        }
    }
    for copy in &surplus {
        store.delete(&keys::record(agent, *copy)?).await?;
        fault_point::reach(FaultPoint::Copying);
    }
    let youngest = unix_ms() - i64::try_from(GRACE.as_millis()).unwrap_or(i64::MAX);
    let (mut doomed, mut bytes): (Vec<BlobKey>, u64) = (Vec::new(), 0);
    for (key, facts) in list_all(&**store, &keys::objects(agent)).await? {
        match keys::parse_object(agent, &key) {
            Some((id, _)) if !used.contains(&id) && facts.at <= youngest => doomed.push(key),
            _ => bytes += facts.size,
        }
    }
    if !doomed.is_empty() {
        // A kill leaves contents that are written once more, and never a name of one that is gone.
        let before = Scope::read(&**store, agent, since).await?;
        let after = Scope::renew(&**store, agent, since).await?;
        fault_point::reach(FaultPoint::Copying);
        let forget = move || {
            let (mut stored, _) = Stored::open(&folder, &before)?;
            // A young tree that no copy needs stays, and what is below it may be older and go. The next copy that needs the
            // tree has to look below it again.
            stored.retain(&after, |id| used.contains(&id))
        };
        blocking(forget).await?;
        fault_point::reach(FaultPoint::Copying);
        for key in &doomed {
            store.delete(key).await?;
            fault_point::reach(FaultPoint::Copying);
        }
    }
    let swept = SweptCopies { checkpoints: surplus.len(), contents: doomed.len(), kept: copies.len(), bytes };
    tracing::debug!(%agent, ?swept, "deleted copies of old checkpoints");
    Ok(swept)
}

/// Deletes everything of an agent that this home does not have any more. Returns the number of its checkpoints.
///
/// # Errors
///
/// Returns an error if the store is not this home's, or if something can't be read or deleted.
pub(crate) async fn forget(
    home: &Home,
    agent: &AgentId,
    store: &dyn BlobStore,
) -> Result<usize, CheckpointError> {
    // Not in the agent's folder, which would look like one that was left behind.
    let _alone = match Lock::try_acquire(&home.blob_lock()) {
        Err(HomeError::Held { .. }) => return Err(CheckpointError::Copying(agent.clone())),
        lock => lock?,
    };
    let since = owner::claim(home, store).await?;
    let copies = list(store, agent).await?;
    for copy in &copies {
        store.delete(&keys::record(agent, *copy)?).await?;
    }
    // A later agent of this name must not take contents for written that go now.
    Scope::renew(store, agent, since).await?;
    for (key, _) in list_all(store, &keys::objects(agent)).await? {
        store.delete(&key).await?;
    }
    store.delete(&keys::epoch(agent)?).await?;
    Ok(copies.len())
}

/// Finds what the copies of an agent need.
struct Marking<'a> {
    agent: &'a AgentId,
    store: &'a dyn BlobStore,
    /// The contents on the disk, which spare most requests.
    objects: Arc<Objects>,
}

impl Marking<'_> {
    /// Adds a tree and everything below it.
    async fn mark(&self, root: ContentId, used: &mut HashSet<ContentId>) -> Result<(), CheckpointError> {
        let mut stack = vec![root];
        while let Some(id) = stack.pop() {
            if !used.insert(id) {
                continue;
            }
            match self.tree(id).await? {
                Tree::Parts(parts) => stack.extend(parts),
                Tree::Entries(entries) => {
                    for entry in entries {
                        match entry.node {
                            Node::File { content, .. } => {
                                used.insert(content);
                            }
                            Node::Folder { tree, .. } => stack.push(tree),
                            Node::Link { .. } => {}
                        }
                    }
                }
            }
        }
        Ok(())
    }

    async fn tree(&self, id: ContentId) -> Result<Tree, CheckpointError> {
        let objects = Arc::clone(&self.objects);
        let own = blocking(move || objects.tree(id)).await;
        match own {
            Ok(tree) => Ok(tree),
            Err(_) => Ok(fetch_tree(self.store, self.agent, id).await?.0),
        }
    }
}

/// Reads a tree from the store. Returns it with its bytes.
///
/// # Errors
///
/// Returns an error if it is missing or damaged.
pub(super) async fn fetch_tree(
    store: &dyn BlobStore,
    agent: &AgentId,
    id: ContentId,
) -> Result<(Tree, bytes::Bytes), CheckpointError> {
    let key = keys::object(agent, id, None)?;
    let bytes = store.get(&key, None).await?;
    let is_whole = ContentId::of_tree(&bytes) == id;
    match tree::decode(&bytes).filter(|_| is_whole) {
        Some(tree) => Ok((tree, bytes)),
        None => {
            let reason = "it is not what its name says".to_owned();
            Err(BlobError::Damaged { place: store.place().to_owned(), key, reason }.into())
        }
    }
}
