//! Copies new checkpoints to the store of blobs in the background. No turn waits for it: it looks at the checkpoints that
//! turns have made.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::storage_status::{CopyReport, CopyReporter};
use crate::blob::{BlobStore, owner};
use crate::checkpoint::remote::progress::{CheckpointMark, CopyKind};
use crate::checkpoint::remote::push_and_sweep;
use crate::config::{Config, Live};
use crate::home::Home;
use crate::id::AgentId;

/// Time after the start before the first look, because then much else has to be done.
const FIRST: Duration = Duration::from_secs(5);
/// Time between two looks.
const INTERVAL: Duration = Duration::from_secs(2);
/// The pause after a failure. It doubles with each one in a row.
const PAUSE: Duration = Duration::from_secs(5);
/// The longest pause after a failure.
const MAX_PAUSE: Duration = Duration::from_secs(300);

/// Copies checkpoints until `stop` is cancelled, and shows in `report` how far it is. Without a store it only looks at the
/// settings.
pub(crate) async fn watch(live: Arc<Live>, report: Arc<CopyReport>, stop: CancellationToken) {
    let home = live.home().clone();
    let reporter = CopyReporter::begin(&home, CopyKind::Checkpoint, report);
    let mut copies = Copies { home, agents: HashMap::new(), reporter };
    let mut pause = FIRST;
    while stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_some() {
        pause = INTERVAL;
        // What is on its way may be given up at any point: the next start copies it again.
        if stop.run_until_cancelled(copies.look(&live)).await.is_none() {
            break;
        }
    }
}

/// The state of the copies.
struct Copies {
    home: Home,
    agents: HashMap<AgentId, AgentCopies>,
    reporter: CopyReporter,
}

/// The state of one agent's copies.
#[derive(Default)]
struct AgentCopies {
    /// The checkpoints of which the newest one is in the store.
    copied: Option<CheckpointMark>,
    /// The time at which a failure is repeated.
    retry: Option<Instant>,
    /// Number of failures in a row.
    failures: u32,
}

impl AgentCopies {
    /// Returns `true` if there is something to copy now.
    fn is_due(&self, mark: CheckpointMark, now: Instant) -> bool {
        match self.retry {
            Some(due) => due <= now,
            None => self.copied != Some(mark),
        }
    }

    /// Returns the pause after this number of failures in a row.
    fn pause(failures: u32) -> Duration {
        PAUSE.saturating_mul(2_u32.saturating_pow(failures.saturating_sub(1))).min(MAX_PAUSE)
    }
}

impl Copies {
    /// Copies what is new.
    async fn look(&mut self, live: &Live) {
        let config = live.current();
        let Some(store) = self.reporter.store(config.blobs.as_ref(), &mut self.agents) else { return };
        self.agents.retain(|id, _| config.agent(id).is_some());
        self.reporter.retain_agents(&config);
        let mut due = self.due(&config);
        // A place that can't be claimed fails below, for each agent.
        if !due.is_empty()
            && let Ok(since) = owner::claim(&self.home, &*store).await
            && self.reporter.is_taken_again(since)
        {
            self.agents.clear();
            due = self.due(&config);
        }
        // They are shown before the first of them is copied, which may take long.
        due.iter().for_each(|id| self.reporter.note_waiting(id.as_str()));
        if self.reporter.is_waiting() {
            self.reporter.tell();
        }
        for agent in &due {
            self.copy(agent, &store, config.checkpoints.keep).await;
            self.reporter.note_tried(agent.as_str());
        }
        self.reporter.tell();
    }

    /// Returns the agents of which a copy is due now.
    fn due(&mut self, config: &Config) -> Vec<AgentId> {
        let (now, mut due) = (Instant::now(), Vec::new());
        for agent in &config.agents {
            let Some(mark) = CheckpointMark::of(&self.home, &agent.id) else { continue };
            if self.agents.entry(agent.id.clone()).or_default().is_due(mark, now) {
                due.push(agent.id.clone());
            }
        }
        due
    }

    /// Copies the newest checkpoint of an agent.
    async fn copy(&mut self, agent: &AgentId, store: &Arc<dyn BlobStore>, keep: usize) {
        let Some(mark) = CheckpointMark::of(&self.home, agent) else { return };
        let state = self.agents.entry(agent.clone()).or_default();
        match push_and_sweep(&self.home, agent, store, keep).await {
            Ok(pushed) => {
                if let Some(pushed) = pushed {
                    tracing::debug!(%agent, ?pushed, "copied a checkpoint to the store of blobs");
                    self.reporter.note_copy();
                }
                if state.failures > 0 {
                    tracing::info!(%agent, "checkpoints are copied to the store of blobs again");
                }
                *state = AgentCopies { copied: Some(mark), ..AgentCopies::default() };
                self.reporter.note_done(agent.as_str());
            }
            Err(error) => {
                self.reporter.note_failure(agent.as_str(), &error);
                state.failures = state.failures.saturating_add(1);
                state.retry = Some(Instant::now() + AgentCopies::pause(state.failures));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_repeated_after_longer_and_longer_pauses() {
        let seconds = |failures| AgentCopies::pause(failures).as_secs();
        assert_eq!((1..=8).map(seconds).collect::<Vec<_>>(), [5, 10, 20, 40, 80, 160, 300, 300]);
        assert_eq!(seconds(u32::MAX), 300);
    }
}
