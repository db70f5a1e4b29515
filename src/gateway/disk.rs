//! Watches the disk usage of agents' workspaces. An agent whose workspace exceeds its limit is frozen, and the reason
//! is visible to everybody. A person removes files or raises the limit, and then thaws the agent.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use crate::config::{Agent, SandboxMode};
use crate::error::chain;
use crate::id::AgentId;
use crate::sandbox::usage;
use crate::swarm::Swarm;

/// Shortest time between two counts of one workspace.
const EVERY: Duration = Duration::from_secs(60);
/// Divisor for the time spent counting: a workspace is counted for at most 1/100 of the time.
const SHARE: u32 = 100;

/// Counts the workspaces until `stop` is cancelled.
pub async fn watch(swarm: Arc<Swarm>, stop: CancellationToken) {
    let mut disk = Disk::default();
    while stop.run_until_cancelled(tokio::time::sleep(EVERY)).await.is_some() {
        disk.look(&swarm, Instant::now()).await;
    }
}

/// The results of earlier counts.
#[derive(Default)]
struct Disk {
    seen: HashMap<AgentId, Seen>,
}

struct Seen {
    /// Time of the next count.
    next: Instant,
    /// Bytes in the workspace when its agent was frozen because of them.
    too_much: Option<u64>,
}

impl Disk {
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
        let held = match counted {
            Ok(Ok(held)) => held,
            // Any error is taken for a workspace that does not exist yet, or no longer.
            _ => 0,
        };
        // A large workspace takes long to count, so it is counted less often.
        let next = Instant::now() + EVERY.max(begun.elapsed() * SHARE);
        let too_much = if held > most { Some(held) } else { before.filter(|_| held > limit) };
        self.seen.insert(agent.id.clone(), Seen { next, too_much });
        if held > most {
            let why = format!(
                "its workspace holds more than {} MiB, its limit: remove something, or raise gatewayAgents[{}].disk",
                limit >> 20,
                agent.id
            );
            tracing::warn!(agent = %agent.id, held, limit, "an agent is frozen: {why}");
            if let Err(error) = swarm.freeze_because(&agent.id, &why).await {
                tracing::error!(agent = %agent.id, error = chain(&error), "it could not be written down that it is frozen");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::swarm::By;
    use crate::swarm::testing::Team;

    #[tokio::test]
    async fn an_agent_whose_workspace_is_too_large_is_frozen_and_says_why() {
        let team = Team::with(|own| own["sandbox"]["disk"] = "32m".into());
        let coder: AgentId = "coder".parse().unwrap();
        let workspace = team.swarm.config().agent(&coder).unwrap().workspace.clone();
        std::fs::create_dir_all(&workspace).unwrap();
        let mut disk = Disk::default();
        let mut now = Instant::now();
        std::fs::write(workspace.join("file"), vec![1; 31 << 20]).unwrap();
        disk.look(&team.swarm, now).await;
        assert_eq!(team.swarm.frozen(), []);
        std::fs::write(workspace.join("more"), vec![1; 2 << 20]).unwrap();
        disk.look(&team.swarm, now).await;
        assert_eq!(team.swarm.frozen(), [], "it was just counted");
        now += EVERY * 1000;
        disk.look(&team.swarm, now).await;
        assert_eq!(team.swarm.frozen(), std::slice::from_ref(&coder));
        let frozen = team.store.frozen().unwrap();
        let why = &frozen.of(&coder).unwrap().by;
        assert!(why.starts_with("system: its workspace holds more than 32 MiB"), "{why}");
        assert_eq!(team.audited().last().map(String::as_str), Some("agent.freeze"));
        // The person who thaws the agent accepts its size, until the workspace grows further.
        team.swarm.thaw(&By::human("ann"), &coder).await.unwrap();
        now += EVERY * 1000;
        disk.look(&team.swarm, now).await;
        assert_eq!(team.swarm.frozen(), []);
        std::fs::write(workspace.join("yet more"), vec![1; 2 << 20]).unwrap();
        now += EVERY * 1000;
        disk.look(&team.swarm, now).await;
        assert_eq!(team.swarm.frozen(), [coder]);
    }
}
