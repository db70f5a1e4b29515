//! Copies new checkpoints to the store of blobs in the background. No turn waits for it: it looks at the checkpoints that
//! turns have made.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::storage_status::CopyReport;
use crate::blob::{self, BlobStore};
use crate::checkpoint::remote::progress::{CheckpointMark, CopyKind, CopyProgress, FailedCopy};
use crate::checkpoint::remote::push_and_sweep;
use crate::clock::unix_ms;
use crate::config::{BlobSettings, Config, Live};
use crate::error::{Explain as _, chain};
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
    let last = report.begin(&home, CopyKind::Checkpoint);
    let mut copies = Copies {
        home,
        store: None,
        agents: HashMap::new(),
        waiting: BTreeSet::new(),
        last,
        report: Arc::clone(&report),
        told: None,
    };
    let mut pause = FIRST;
    while stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_some() {
        pause = INTERVAL;
        // What is on its way may be given up at any point: the next start copies it again.
        if stop.run_until_cancelled(copies.look(&live)).await.is_none() {
            break;
        }
    }
    // Another gateway may go on.
    report.set(None);
}

/// The state of the copies.
struct Copies {
    home: Home,
    /// The store, and the settings that it was opened with.
    store: Option<(Arc<BlobSettings>, Arc<dyn BlobStore>)>,
    agents: HashMap<AgentId, AgentCopies>,
    /// The agents of which a copy was due at the last look and has not been tried yet.
    waiting: BTreeSet<AgentId>,
    /// The place and the time of the last copy.
    last: Option<(String, i64)>,
    report: Arc<CopyReport>,
    /// What was written for other processes last.
    told: Option<CopyProgress>,
}

/// The state of one agent's copies.
#[derive(Default)]
struct AgentCopies {
    /// The checkpoints of which the newest one is in the store.
    copied: Option<CheckpointMark>,
    /// The failure that is to be repeated, and when.
    failure: Option<(FailedCopy, Instant)>,
    /// Number of failures in a row.
    failures: u32,
}

impl AgentCopies {
    /// Returns `true` if there is something to copy now.
    fn is_due(&self, mark: CheckpointMark, now: Instant) -> bool {
        match &self.failure {
            Some((_, due)) => *due <= now,
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
        let Some(settings) = &config.blobs else {
            if self.store.take().is_some() {
                self.agents.clear();
                self.tell(CopyProgress::default());
            }
            return;
        };
        let store = match &self.store {
            Some((opened, store)) if opened == settings => Arc::clone(store),
            _ => {
                let store = blob::open(&self.home, settings);
                self.agents.clear();
                self.store = Some((Arc::clone(settings), Arc::clone(&store)));
                store
            }
        };
        self.agents.retain(|id, _| config.agent(id).is_some());
        let due = self.due(&config);
        // They are shown before the first of them is copied, which may take long.
        let has_failed = |id: &AgentId| self.agents.get(id).is_some_and(|state| state.failure.is_some());
        self.waiting = due.iter().filter(|id| !has_failed(id)).cloned().collect();
        if !self.waiting.is_empty() {
            self.tell(self.progress(&*store));
        }
        for agent in &due {
            self.copy(agent, &store, config.checkpoints.keep).await;
            self.waiting.remove(agent);
        }
        self.tell(self.progress(&*store));
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
                    self.last = Some((store.place().to_owned(), unix_ms()));
                }
                if state.failure.is_some() {
                    tracing::info!(%agent, "checkpoints are copied to the store of blobs again");
                }
                *state = AgentCopies { copied: Some(mark), ..AgentCopies::default() };
                let copied_at = self.copied_at(store.place());
                self.report.change(|progress| {
                    progress.note_done(agent);
                    progress.copied_at = copied_at;
                });
            }
            Err(error) => {
                let (problem, hint) = (chain(&error), error.hint());
                // The same failure is logged once, and shown by doctor as long as it lasts.
                if state.failure.is_none() {
                    let hint = hint.as_deref().unwrap_or_default();
                    tracing::warn!(%agent, error = problem, hint, "failed to copy a checkpoint");
                }
                let since = state.failure.as_ref().map_or_else(unix_ms, |(failed, _)| failed.since);
                let failed = FailedCopy { agent: agent.clone(), since, problem, hint };
                self.report.change(|progress| progress.note_failure(failed.clone()));
                state.failures = state.failures.saturating_add(1);
                state.failure = Some((failed, Instant::now() + AgentCopies::pause(state.failures)));
            }
        }
    }

    /// Returns how far the copies are.
    fn progress(&self, store: &dyn BlobStore) -> CopyProgress {
        let mut failed: Vec<FailedCopy> =
            self.agents.values().filter_map(|state| Some(state.failure.as_ref()?.0.clone())).collect();
        failed.sort_unstable_by(|one, other| one.agent.cmp(&other.agent));
        CopyProgress {
            place: store.place().to_owned(),
            copied_at: self.copied_at(store.place()),
            waiting: self.waiting.clone(),
            failed,
        }
    }

    /// Returns the time of the last copy to a place.
    fn copied_at(&self, place: &str) -> Option<i64> {
        self.last.as_ref().filter(|(of, _)| of == place).map(|(_, at)| *at)
    }

    /// Shows the progress, and writes it for other processes if it has changed.
    fn tell(&mut self, progress: CopyProgress) {
        self.report.set(Some(progress.clone()));
        if self.told.as_ref() == Some(&progress) {
            return;
        }
        match progress.write(&self.home, CopyKind::Checkpoint) {
            Ok(()) => self.told = Some(progress),
            Err(error) => tracing::warn!(error = chain(&error), "failed to write how far the copies are"),
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
