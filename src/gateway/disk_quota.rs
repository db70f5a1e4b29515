//! Watches the disk usage of agents' workspaces. An agent whose workspace exceeds its limit is frozen, and the reason
//! is visible to everybody. A person removes files or raises the limit, and then thaws the agent.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use crate::clean;
use crate::config::{Agent, SandboxMode};
use crate::error::chain;
use crate::home::beneath::BeneathError;
use crate::home::elsewhere;
use crate::id::AgentId;
use crate::sandbox::usage::{self, DiskUsage, Uncounted};
use crate::sandbox::workspace_files::{EntryKind, Workspaces};
use crate::swarm::freeze;
use crate::swarm::{Actor, Swarm};

/// Shortest time between two counts of one workspace.
const MIN_INTERVAL: Duration = Duration::from_secs(60);
/// Divisor for the time spent counting: a workspace is counted for at most 1/100 of the time.
const TIME_DIVISOR: u32 = 100;
/// Number of files and folders of a workspace on another machine that are counted.
const MAX_ENTRIES: usize = 500_000;
/// Longest shown path of a folder, in characters.
const MAX_PATH: usize = 300;

/// Counts the workspaces of this gateway's agents until `stop` is cancelled.
pub(crate) async fn watch(swarm: Arc<Swarm>, stop: CancellationToken) {
    let mut disk = DiskMonitor::default();
    while stop.run_until_cancelled(tokio::time::sleep(MIN_INTERVAL)).await.is_some() {
        disk.look(&swarm, Instant::now()).await;
    }
}

/// The results of earlier counts.
#[derive(Default)]
struct DiskMonitor {
    seen: HashMap<AgentId, WorkspaceUsage>,
}

struct WorkspaceUsage {
    /// Time of the next count.
    next: Instant,
    /// Bytes in the workspace when its agent was frozen because of them.
    too_much: Option<u64>,
}

impl DiskMonitor {
    async fn look(&mut self, swarm: &Swarm, now: Instant) {
        let config = swarm.config();
        // An agent that was removed from the configuration must not keep its state for a later agent with the same id.
        self.seen.retain(|id, _| config.agent(id).is_some());
        for agent in config.agents.iter().filter(|agent| agent.sandbox == SandboxMode::All) {
            // Another gateway counts those of its agents.
            if !swarm.ownership().holds_agent(&agent.id) {
                continue;
            }
            let Some(limit) = agent.docker.disk else { continue };
            let is_due = self.seen.get(&agent.id).is_none_or(|seen| seen.next <= now);
            // A frozen agent is not counted again: it is frozen already, and only a person thaws it.
            if is_due && !swarm.is_frozen(&agent.id) {
                self.count(swarm, agent, limit).await;
            }
        }
    }

    async fn count(&mut self, swarm: &Swarm, agent: &Agent, limit: u64) {
        let begun = Instant::now();
        let before = self.seen.get(&agent.id).and_then(|seen| seen.too_much);
        // A person who thawed the agent since then accepted that size. Only a larger one freezes it again.
        let most = before.unwrap_or(limit).max(limit);
        let path = agent.workspace.clone();
        let (id, ways) = (agent.id.clone(), swarm.workspaces().without_starting());
        // This reads the file system, or waits for another machine, which blocks.
        let counted = tokio::task::spawn_blocking(move || match elsewhere::engine_of(&path) {
            None => usage::size(&path, u64::MAX).map(Some),
            Some(_) => size_there(&ways, &id, &path, most),
        });
        let counted = counted.await;
        let counted = counted.unwrap_or_else(|error| Err(io::Error::other(error)));
        // A large workspace takes long to count, so it is counted less often.
        let next = Instant::now() + MIN_INTERVAL.max(begun.elapsed() * TIME_DIVISOR);
        let DiskUsage { bytes: held, uncounted } = match counted {
            Ok(Some(usage)) => usage,
            // Nothing runs there, so nothing grows.
            Ok(None) => return,
            // The workspace does not exist yet, or no longer.
            Err(error) if error.kind() == io::ErrorKind::NotFound => DiskUsage::default(),
            Err(error) => {
                tracing::warn!(agent = %agent.id, error = chain(&error), "a workspace could not be counted");
                self.seen.insert(agent.id.clone(), WorkspaceUsage { next, too_much: before });
                return;
            }
        };
        let too_much = if held > most { Some(held) } else { before.filter(|_| held > limit) };
        self.seen.insert(agent.id.clone(), WorkspaceUsage { next, too_much });
        let why = if held > most {
            Some(format!(
                "its workspace holds more than {} MiB, its limit: remove something, or raise gatewayAgents[{}].disk",
                limit >> 20,
                agent.id
            ))
        } else {
            // Nobody knows the size of what is not counted. So a thaw does not accept it, unlike a known size.
            uncounted.map(|uncounted| reason(&uncounted, &agent.id))
        };
        if let Some(why) = why {
            tracing::warn!(agent = %agent.id, held, limit, "an agent is frozen: {why}");
            if let Err(error) = swarm.freeze(&Actor::system(), &agent.id, freeze::reason(&why)).await {
                tracing::error!(
                    agent = %agent.id,
                    error = chain(&error),
                    "failed to record that an agent is frozen"
                );
            }
        }
    }
}

/// Returns the size of a workspace on another machine. `None` if its sandbox does not run. Files count with their length,
/// because only their own file system knows what they use.
fn size_there(ways: &Workspaces, id: &AgentId, folder: &Path, most: u64) -> io::Result<Option<DiskUsage>> {
    let workspace = match ways.open(id, folder).map_err(BeneathError::from) {
        Ok(workspace) => workspace,
        Err(BeneathError::Elsewhere { .. }) => return Ok(None),
        Err(error) => return Err(io::Error::other(error)),
    };
    let Some(files) = workspace.remote() else { return Ok(None) };
    let mut usage = DiskUsage::default();
    let mut seen = HashSet::new();
    let mut folders = vec![PathBuf::new()];
    let mut left = MAX_ENTRIES;
    while let Some(folder) = folders.pop() {
        let entries = match files.list_entries(&folder, left) {
            Ok((entries, false)) => entries,
            Ok((_, true)) => {
                usage.uncounted = Some(Uncounted::Deep);
                return Ok(Some(usage));
            }
            // It is gone, or became something else.
            Err(
                BeneathError::NotFound { .. } | BeneathError::WrongKind { .. } | BeneathError::Outside { .. },
            ) => continue,
            Err(BeneathError::Io { source, .. }) if source.kind() == io::ErrorKind::PermissionDenied => {
                usage.uncounted = Some(Uncounted::Closed(folder));
                continue;
            }
            Err(error) => return Err(io::Error::other(error)),
        };
        left = left.saturating_sub(entries.len());
        for entry in entries {
            match entry.kind {
                // A file with several names counts once.
                EntryKind::File if seen.insert(entry.version.inode) => {
                    usage.bytes = usage.bytes.saturating_add(entry.version.size);
                }
                EntryKind::Folder => folders.push(folder.join(OsStr::from_bytes(&entry.name))),
                _ => {}
            }
        }
        if usage.bytes > most {
            break;
        }
    }
    Ok(Some(usage))
}

/// Returns the reason for freezing an agent with a workspace that cannot be counted.
fn reason(uncounted: &Uncounted, agent: &AgentId) -> String {
    match uncounted {
        Uncounted::Deep => format!(
            "its workspace has too many deeply nested folders to be counted: remove them, or set \
             gatewayAgents[{agent}].disk to none"
        ),
        Uncounted::Closed(folder) => format!(
            "a folder of its workspace can't be opened and counted, {}: give its owner the rights to read and search \
             it, remove it, or set gatewayAgents[{agent}].disk to none",
            // The agent has chosen the name.
            clean::summary(&folder.to_string_lossy(), MAX_PATH)
        ),
    }
}

#[cfg(test)]
#[path = "disk_quota_tests.rs"]
mod tests;
