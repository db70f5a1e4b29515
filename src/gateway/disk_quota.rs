//! Watches the disk usage of agents' workspaces. An agent whose workspace exceeds its limit is frozen, and the reason
//! is visible to everybody. A person removes files or raises the limit, and then thaws the agent.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use crate::clean;
use crate::config::{Agent, SandboxMode};
use crate::error::chain;
use crate::id::AgentId;
use crate::sandbox::usage::{self, DiskUsage, Uncounted};
use crate::swarm::Swarm;

/// Shortest time between two counts of one workspace.
const MIN_INTERVAL: Duration = Duration::from_secs(60);
/// Divisor for the time spent counting: a workspace is counted for at most 1/100 of the time.
const TIME_DIVISOR: u32 = 100;
/// Longest shown path of a folder, in characters.
const MAX_PATH: usize = 300;

/// Counts the workspaces until `stop` is cancelled.
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
        // `usage::size` reads the file system, which blocks.
        let counted = tokio::task::spawn_blocking(move || usage::size(&path, u64::MAX)).await;
        let counted = counted.unwrap_or_else(|error| Err(io::Error::other(error)));
        // A large workspace takes long to count, so it is counted less often.
        let next = Instant::now() + MIN_INTERVAL.max(begun.elapsed() * TIME_DIVISOR);
        let DiskUsage { bytes: held, uncounted } = match counted {
            Ok(usage) => usage,
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
            if let Err(error) = swarm.freeze_with_reason(&agent.id, &why).await {
                tracing::error!(
                    agent = %agent.id,
                    error = chain(&error),
                    "failed to record that an agent is frozen"
                );
            }
        }
    }
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
mod tests {
    use super::*;
    use crate::swarm::Actor;
    use crate::swarm::testing::Team;

    #[tokio::test]
    async fn an_agent_whose_workspace_is_too_large_is_frozen_and_says_why() {
        let team = Team::with(|own| own["sandbox"]["disk"] = "32m".into());
        let coder: AgentId = "coder".parse().unwrap();
        let workspace = team.swarm.config().agent(&coder).unwrap().workspace.clone();
        std::fs::create_dir_all(&workspace).unwrap();
        let mut disk = DiskMonitor::default();
        let mut now = Instant::now();
        std::fs::write(workspace.join("file"), vec![1; 31 << 20]).unwrap();
        disk.look(&team.swarm, now).await;
        assert_eq!(team.swarm.frozen(), []);
        std::fs::write(workspace.join("more"), vec![1; 2 << 20]).unwrap();
        disk.look(&team.swarm, now).await;
        assert_eq!(team.swarm.frozen(), [], "it was just counted");
        now += MIN_INTERVAL * 1000;
        disk.look(&team.swarm, now).await;
        assert_eq!(team.swarm.frozen(), std::slice::from_ref(&coder));
        let frozen = team.store.freezes().state().await.unwrap();
        let why = &frozen.of(&coder).unwrap().by;
        assert!(why.starts_with("system: its workspace holds more than 32 MiB"), "{why}");
        assert_eq!(team.audited().await.last().map(String::as_str), Some("agent.freeze"));
        // The person who thaws the agent accepts its size, until the workspace grows further.
        team.swarm.thaw(&Actor::human("ann"), &coder).await.unwrap();
        now += MIN_INTERVAL * 1000;
        disk.look(&team.swarm, now).await;
        assert_eq!(team.swarm.frozen(), []);
        std::fs::write(workspace.join("yet more"), vec![1; 2 << 20]).unwrap();
        now += MIN_INTERVAL * 1000;
        disk.look(&team.swarm, now).await;
        assert_eq!(team.swarm.frozen(), [coder]);
    }

    #[tokio::test]
    async fn an_agent_whose_workspace_cannot_be_counted_is_frozen_until_it_can() {
        let team = Team::with(|own| own["sandbox"]["disk"] = "32m".into());
        let coder: AgentId = "coder".parse().unwrap();
        let workspace = team.swarm.config().agent(&coder).unwrap().workspace.clone();
        // More folders at a depth of 128 than are open at once.
        let deep = workspace.join("d/".repeat(127));
        for number in 0..200 {
            std::fs::create_dir_all(deep.join(number.to_string())).unwrap();
        }
        let mut disk = DiskMonitor::default();
        let mut now = Instant::now();
        for _ in 0..2 {
            disk.look(&team.swarm, now).await;
            assert_eq!(team.swarm.frozen(), std::slice::from_ref(&coder));
            let frozen = team.store.freezes().state().await.unwrap();
            let why = &frozen.of(&coder).unwrap().by;
            assert!(why.starts_with("system: its workspace has too many deeply nested folders"), "{why}");
            // Nobody can accept a size that nobody knows.
            team.swarm.thaw(&Actor::human("ann"), &coder).await.unwrap();
            now += MIN_INTERVAL * 1000;
        }
        std::fs::remove_dir_all(workspace.join("d")).unwrap();
        disk.look(&team.swarm, now).await;
        assert_eq!(team.swarm.frozen(), []);
        std::fs::write(workspace.join("file"), vec![1; 33 << 20]).unwrap();
        now += MIN_INTERVAL * 1000;
        disk.look(&team.swarm, now).await;
        assert_eq!(team.swarm.frozen(), [coder], "its limit is the one that is set");
    }

    #[test]
    fn a_closed_folder_is_named_on_one_line() {
        let folder = Uncounted::Closed("/srv/w/a\n\u{1b}[2Jb".into());
        let why = reason(&folder, &"coder".parse().unwrap());
        assert!(
            why.starts_with("a folder of its workspace can't be opened and counted, /srv/w/a [2Jb: "),
            "{why}"
        );
        assert!(why.ends_with("set gatewayAgents[coder].disk to none"), "{why}");
    }
}
