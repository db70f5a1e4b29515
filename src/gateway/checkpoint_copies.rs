//! Copies new checkpoints to the store of blobs in the background. No turn waits for it: it looks at the checkpoints that
//! turns have made.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use crate::blob::{self, BlobStore};
use crate::checkpoint::remote::progress::{CheckpointMark, CopyProgress, FailedCopy};
use crate::checkpoint::remote::push_and_sweep;
use crate::clock::unix_ms;
use crate::config::{BlobSettings, Live};
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

/// Copies checkpoints until `stop` is cancelled. Without a store it only looks at the settings.
pub(crate) async fn watch(live: Arc<Live>, stop: CancellationToken) {
    let mut copies = Copies { home: live.home().clone(), store: None, agents: HashMap::new(), told: None };
    let mut pause = FIRST;
    while stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_some() {
        pause = INTERVAL;
        // What is on its way may be given up at any point: the next start copies it again.
        if stop.run_until_cancelled(copies.look(&live)).await.is_none() {
            return;
        }
    }
}

/// The state of the copies.
struct Copies {
    home: Home,
    /// The store, and the settings that it was opened with.
    store: Option<(Arc<BlobSettings>, Arc<dyn BlobStore>)>,
    agents: HashMap<AgentId, AgentCopies>,
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
        for agent in &config.agents {
            let Some(mark) = CheckpointMark::of(&self.home, &agent.id) else { continue };
            let state = self.agents.entry(agent.id.clone()).or_default();
            if !state.is_due(mark, Instant::now()) {
                continue;
            }
            match push_and_sweep(&self.home, &agent.id, &store, config.checkpoints.keep).await {
                Ok(pushed) => {
                    if let Some(pushed) = pushed {
                        tracing::debug!(agent = %agent.id, ?pushed, "copied a checkpoint to the store of blobs");
                    }
                    if state.failure.is_some() {
                        tracing::info!(agent = %agent.id, "checkpoints are copied to the store of blobs again");
                    }
                    *state = AgentCopies { copied: Some(mark), ..AgentCopies::default() };
                }
                Err(error) => {
                    let (problem, hint) = (chain(&error), error.hint());
                    // The same failure is logged once, and shown by doctor as long as it lasts.
                    if state.failure.is_none() {
                        let hint = hint.as_deref().unwrap_or_default();
                        tracing::warn!(agent = %agent.id, error = problem, hint, "failed to copy a checkpoint");
                    }
                    let since = state.failure.as_ref().map_or_else(unix_ms, |(failed, _)| failed.since);
                    let failed = FailedCopy { agent: agent.id.clone(), since, problem, hint };
                    state.failures = state.failures.saturating_add(1);
                    state.failure = Some((failed, Instant::now() + AgentCopies::pause(state.failures)));
                }
            }
        }
        let mut failed: Vec<FailedCopy> =
            self.agents.values().filter_map(|state| Some(state.failure.as_ref()?.0.clone())).collect();
        failed.sort_unstable_by(|one, other| one.agent.cmp(&other.agent));
        self.tell(CopyProgress { place: store.place().to_owned(), failed });
    }

    /// Writes the failures for other processes, if they have changed.
    fn tell(&mut self, progress: CopyProgress) {
        if self.told.as_ref() == Some(&progress) {
            return;
        }
        match progress.write(&self.home.blob_progress()) {
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
