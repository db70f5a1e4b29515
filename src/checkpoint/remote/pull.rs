//! Brings a checkpoint from the store to this machine, where `flock rewind` can go back to it.
//!
//! Everything is fetched and checked beside the agent's checkpoints first. Then it is added under their lock, which is held
//! only for that.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bytes::Bytes;
use serde::Serialize;
use tokio::task::JoinSet;

use super::sweep::fetch_tree;
use super::{PARALLEL, PART, blocking, keys, list, lock, read_record};
use crate::blob::{BlobError, BlobStore};
use crate::checkpoint::agent_store::AgentStore;
use crate::checkpoint::content::ContentId;
use crate::checkpoint::diff::diff;
use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::objects::Objects;
use crate::checkpoint::record::{CheckpointRecord, Reason};
use crate::checkpoint::tree::{Node, Tree};
use crate::config::{Agent, CheckpointSettings};
use crate::fault_point::{self, FaultPoint};
use crate::home::scratch::ScratchDir;
use crate::home::write_fence::WriteFence;
use crate::home::{Home, elsewhere};
use crate::id::AgentId;

/// A checkpoint that was brought here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PulledCheckpoint {
    pub(crate) agent: AgentId,
    /// Its number in the store.
    pub(crate) from: u64,
    /// Its number here.
    pub(crate) number: u64,
    /// Unix milliseconds.
    pub(crate) at: i64,
    /// Number of files, folders and links.
    pub(crate) entries: usize,
    /// Number of contents that were fetched.
    pub(crate) contents: usize,
    /// `true` if the workspace has files that it would replace or remove.
    pub(crate) is_in_use: bool,
}

/// A wish for a checkpoint of the store.
pub(crate) struct PullRequest<'a> {
    pub(crate) home: &'a Home,
    pub(crate) agent: &'a Agent,
    pub(crate) settings: CheckpointSettings,
    /// Its number in the store. `None` is the newest one.
    pub(crate) number: Option<u64>,
    /// The person who asks.
    pub(crate) by: &'a str,
    /// Checked before the checkpoint is listed here.
    pub(crate) fence: WriteFence,
}

/// The prefix of the folder of what is being fetched.
const FETCHING: &str = "fetching-";

/// Brings a checkpoint here. One that is here already has its missing and damaged contents replaced.
///
/// # Errors
///
/// Returns [`CheckpointError::NotStored`] if the store has no such checkpoint, and another error if one of its contents is
/// missing or damaged or can't be written. The agent's checkpoints are unchanged then.
pub(crate) async fn pull(
    request: PullRequest<'_>,
    store: &Arc<dyn BlobStore>,
) -> Result<PulledCheckpoint, CheckpointError> {
    let PullRequest { home, agent, settings, number, by, fence } = request;
    let copies = list(&**store, &agent.id).await?;
    // The newest one of that number: after a loss, numbers begin again.
    let copy = copies.into_iter().find(|copy| number.is_none_or(|number| copy.number == number));
    let not_stored =
        CheckpointError::NotStored { place: store.place().to_owned(), agent: agent.id.clone(), number };
    let copy = copy.ok_or(not_stored)?;
    let record = read_record(&**store, &agent.id, copy).await?;
    let folder = home.checkpoints(&agent.id);
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder);
    made.map_err(CheckpointError::io("make the folder", &folder))?;
    let _alone = lock(&folder, &agent.id)?;
    sweep_fetching(&folder);
    let fetching = ScratchDir::make(&folder, &format!("{FETCHING}{:08x}", rand::random::<u32>()))?;
    let fetch = Fetch {
        agent: agent.id.clone(),
        store: Arc::clone(store),
        objects: Arc::new(Objects::reader(&folder)),
        folder: fetching.path(),
    };
    let fetched = match record.files {
        Some(tree) => fetch.all(tree).await?,
        None => Vec::new(),
    };
    let adding = Adding {
        home: home.clone(),
        agent: agent.clone(),
        settings,
        record,
        by: by.to_owned(),
        place: store.place().to_owned(),
        folder: fetching.path(),
        fence,
    };
    let added = blocking(move || adding.add(&fetched)).await;
    drop(fetching);
    added
}

/// Removes what killed processes have fetched. The lock of the copies says that nobody fetches.
fn sweep_fetching(folder: &Path) {
    let names = crate::home::scratch::names(folder);
    let left: Vec<String> = names.into_iter().filter(|name| name.starts_with(FETCHING)).collect();
    crate::home::scratch::sweep(folder, &left);
}

/// Fetches contents that are not on the disk.
#[derive(Clone)]
struct Fetch {
    agent: AgentId,
    store: Arc<dyn BlobStore>,
    objects: Arc<Objects>,
    folder: PathBuf,
}

impl Fetch {
    /// Fetches everything below a tree that is missing or damaged here.
    async fn all(&self, root: ContentId) -> Result<Vec<ContentId>, CheckpointError> {
        let mut fetched = Vec::new();
        let mut files = Vec::new();
        let (mut seen, mut stack) = (HashSet::new(), vec![root]);
        while let Some(id) = stack.pop() {
            if !seen.insert(id) {
                continue;
            }
            let objects = Arc::clone(&self.objects);
            let tree = match blocking(move || objects.tree(id)).await {
                Ok(tree) => tree,
                Err(_) => {
                    let (tree, bytes) = fetch_tree(&*self.store, &self.agent, id).await?;
                    self.write(id, bytes).await?;
                    fetched.push(id);
                    tree
                }
            };
            match tree {
                Tree::Parts(parts) => stack.extend(parts),
                Tree::Entries(entries) => {
                    for entry in entries {
                        match entry.node {
                            Node::File { content, size, .. } if seen.insert(content) => {
                                files.push((content, size));
                            }
                            Node::Folder { tree, .. } => stack.push(tree),
                            Node::File { .. } | Node::Link { .. } => {}
                        }
                    }
                }
            }
        }
        let mut waiting = files.into_iter();
        // Those that are left are stopped when this is dropped.
        let mut running = JoinSet::new();
        loop {
            while running.len() < PARALLEL {
                let Some((id, size)) = waiting.next() else { break };
                let fetch = self.clone();
                running.spawn(async move { fetch.file(id, size).await });
            }
            let Some(ended) = running.join_next().await else { break };
            fetched.extend(ended.unwrap_or(Err(CheckpointError::Stopped))?);
        }
        Ok(fetched)
    }

    /// Fetches a file, unless it is here and whole.
    async fn file(&self, id: ContentId, size: u64) -> Result<Option<ContentId>, CheckpointError> {
        let objects = Arc::clone(&self.objects);
        if blocking(move || objects.check(id)).await.is_ok() {
            return Ok(None);
        }
        if size <= PART {
            let key = keys::object(&self.agent, id, None)?;
            let bytes = self.store.get(&key, None).await?;
            if ContentId::of_file(&bytes) != id {
                let reason = "it is not what its name says".to_owned();
                return Err(BlobError::Damaged { place: self.store.place().to_owned(), key, reason }.into());
            }
            self.write(id, bytes).await?;
            return Ok(Some(id));
        }
        let path = self.folder.join(id.to_string());
        let made = create(&path).and_then(|file| file.set_len(size).map(|()| file));
        let file = Arc::new(made.map_err(CheckpointError::io("write", &path))?);
        for part in 0..size.div_ceil(PART) {
            match self.store.get(&keys::object(&self.agent, id, Some(part))?, None).await {
                Ok(bytes) => {
                    let (file, path) = (Arc::clone(&file), path.clone());
                    let write = move || {
                        file.write_all_at(&bytes, part * PART).map_err(CheckpointError::io("write", &path))
                    };
                    blocking(write).await?;
                }
                // A part of zeros is not stored. Any other one that is missing is found by the id of the whole.
                Err(error) if error.is_missing() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Some(id))
    }

    async fn write(&self, id: ContentId, bytes: Bytes) -> Result<(), CheckpointError> {
        let path = self.folder.join(id.to_string());
        blocking(move || {
            let written = create(&path).and_then(|file| file.write_all_at(&bytes, 0));
            written.map_err(CheckpointError::io("write", &path))
        })
        .await
    }
}

fn create(path: &Path) -> io::Result<File> {
    std::fs::OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)
}

/// Adds what was fetched to the checkpoints of an agent.
struct Adding {
    home: Home,
    agent: Agent,
    settings: CheckpointSettings,
    record: CheckpointRecord,
    by: String,
    place: String,
    folder: PathBuf,
    fence: WriteFence,
}

impl Adding {
    /// Adds contents and then the record.
    fn add(self, fetched: &[ContentId]) -> Result<PulledCheckpoint, CheckpointError> {
        let store = AgentStore::open(&self.home, &self.agent, self.settings)?;
        let mut store = store.fenced(self.fence.clone());
        for one in fetched {
            self.add_content(&store.objects, *one)?;
            fault_point::reach(FaultPoint::Copying);
        }
        let records = store.log.read()?;
        let is_same = |record: &&CheckpointRecord| {
            record.is_listed() && record.at == self.record.at && record.files == self.record.files
        };
        let mut pulled = PulledCheckpoint {
            agent: self.agent.id.clone(),
            from: self.record.number,
            number: 0,
            at: self.record.at,
            entries: self.record.entries,
            contents: fetched.len(),
            is_in_use: false,
        };
        if let Some(here) = records.iter().find(is_same) {
            store.objects.sync()?;
            pulled.number = here.number;
            return Ok(pulled);
        }
        // What a workspace on another machine has is not known here, and may be beyond reach.
        pulled.is_in_use = elsewhere::engine_of(&self.agent.workspace).is_some() || {
            let present = store.scan(&AtomicBool::new(false))?.tree;
            let changes = diff(&store.objects, Some(present), self.record.files)?;
            changes.iter().any(|change| change.before.is_some())
        };
        pulled.number = records
            .iter()
            .map(|record| record.number)
            .max()
            .unwrap_or(0)
            .max(self.record.number.saturating_sub(1))
            + 1;
        let note = match self.record.number {
            0 => format!("the state after a turn, from {}", self.place),
            number => format!("checkpoint {number} of {}", self.place),
        };
        let record = CheckpointRecord {
            number: pulled.number,
            reason: Reason::Asked { by: self.by, note: Some(note) },
            // Where no checkpoint is and nothing would be replaced, what differs is what is missing here. Anything else
            // was made by somebody on this machine, and no rewind overwrites it unasked.
            is_open: !records.is_empty() || !pulled.is_in_use,
            // A flock that did not write it may have been that of any home.
            packages_of: Some(self.record.packages_of.unwrap_or_default()),
            ..self.record
        };
        // Its contents are on the disk before it is. It is older than what was done here, so it comes first.
        store.objects.sync()?;
        store.log.replace(&std::iter::once(record).chain(records).collect::<Vec<_>>())?;
        fault_point::reach(FaultPoint::Copying);
        Ok(pulled)
    }

    fn add_content(&self, objects: &Objects, id: ContentId) -> Result<(), CheckpointError> {
        if objects.adopt(&self.folder.join(id.to_string()), id)? {
            return Ok(());
        }
        let (place, key) = (self.place.clone(), keys::object(&self.agent.id, id, None)?);
        let reason = "a part of it is missing or is not what its name says".to_owned();
        Err(BlobError::Damaged { place, key, reason }.into())
    }
}
