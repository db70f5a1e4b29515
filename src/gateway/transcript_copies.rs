//! Copies what was appended to transcripts to the second place in the background, and makes lost transcripts again at the
//! start.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio_util::sync::CancellationToken;

use super::state::Gateway;
use crate::agent::transcript::away;
use crate::agent::transcript_copies::{
    BroughtBack, TranscriptCopyError, bring_back, forget, mark_away, present, seal,
};
use crate::blob::{self, BlobStore, owner};
use crate::checkpoint::remote::progress::{CopyProgress, FailedCopy};
use crate::clock::unix_ms;
use crate::config::{BlobSettings, Live};
use crate::error::{Explain as _, chain};
use crate::home::Home;
use crate::id::AgentId;
use crate::store::{Session, Store};

/// Time between two looks, and so about the most that a lost disk costs.
const INTERVAL: Duration = Duration::from_secs(10);
/// The most sessions of an agent that are looked at, last used first, after the first look.
const RECENT: u32 = 200;
/// The most deleted sessions whose segments are deleted in one look.
const MAX_ORPHANS: u32 = 50;

/// Makes the transcripts whose files are lost of their segments, before a turn can begin others in their place.
pub(crate) async fn bring_back_lost(gateway: &Gateway) {
    let (home, store) = (gateway.home(), gateway.swarm.store());
    let sessions = match store.segments().sessions().await {
        Ok(sessions) => sessions,
        Err(error) => {
            tracing::error!(error = chain(&error), "failed to look for lost transcripts");
            return;
        }
    };
    let config = gateway.config();
    let mut blobs = None;
    // Each attempt waits for a while. The start waits for one transcript, and the looks try them all again.
    let mut unreachable: Option<String> = None;
    for (key, file) in sessions {
        let path = home.sessions(key.agent()).join(format!("{file}.jsonl"));
        if let Some(problem) = &unreachable {
            if let Err(error) = mark_away(store, &path, &file, problem).await {
                tracing::error!(session = %key, error = chain(&error), "failed to mark a lost transcript");
            }
            continue;
        }
        let blobs =
            blobs.get_or_insert_with(|| config.blobs.as_ref().map(|settings| blob::open(home, settings)));
        match bring_back(store, blobs.as_ref(), &path, &file).await {
            Ok(BroughtBack::Made(segments)) => {
                tracing::warn!(session = %key, segments, "made a lost transcript of its segments");
            }
            Ok(BroughtBack::Here | BroughtBack::Nothing) => {}
            // Its turns fail with the reason until it is back, and the others go on.
            Err(error) => {
                let problem = chain(&error);
                tracing::error!(session = %key, error = problem, "failed to bring a lost transcript back");
                unreachable = error.is_unreachable().then_some(problem);
            }
        }
    }
}

/// Copies transcripts until `stop` is cancelled. Without a store it only looks at the settings.
pub(crate) async fn watch(live: Arc<Live>, store: Arc<Store>, stop: CancellationToken) {
    let mut copies = Copies {
        home: live.home().clone(),
        store,
        blobs: None,
        seen: HashMap::new(),
        present: None,
        has_looked: false,
        failed: HashMap::new(),
        told: None,
    };
    // What is on its way may be given up at any point: the next start copies it again.
    while stop.run_until_cancelled(tokio::time::sleep(INTERVAL)).await.is_some() {
        if stop.run_until_cancelled(copies.look(&live)).await.is_none() {
            return;
        }
    }
}

/// The state of a transcript's file.
type FileMark = (u64, Option<SystemTime>);

/// The state of the copies.
struct Copies {
    home: Home,
    store: Arc<Store>,
    blobs: Option<(Arc<BlobSettings>, Arc<dyn BlobStore>)>,
    /// The transcripts that are copied, by their names.
    seen: HashMap<String, FileMark>,
    /// The segments that the place has, as of the first look: what the database lists may be of a restored backup.
    present: Option<HashSet<String>>,
    /// `true` once all sessions were looked at.
    has_looked: bool,
    failed: HashMap<AgentId, FailedCopy>,
    /// What was written for other processes last.
    told: Option<CopyProgress>,
}

impl Copies {
    async fn look(&mut self, live: &Live) {
        let config = live.current();
        let Some(settings) = &config.blobs else {
            if self.blobs.take().is_some() {
                self.forget_place();
                self.tell(CopyProgress::default());
            }
            return;
        };
        let blobs = match &self.blobs {
            Some((opened, blobs)) if opened == settings => Arc::clone(blobs),
            _ => {
                let blobs = blob::open(&self.home, settings);
                self.forget_place();
                self.blobs = Some((Arc::clone(settings), Arc::clone(&blobs)));
                blobs
            }
        };
        let mut is_claimed = false;
        for agent in &config.agents {
            match self.agent(&agent.id, &blobs, &mut is_claimed).await {
                Ok(()) => drop(self.failed.remove(&agent.id)),
                Err(error) => self.note_failure(&agent.id, &error),
            }
        }
        self.failed.retain(|id, _| config.agent(id).is_some());
        self.has_looked = self.failed.is_empty();
        if self.has_looked {
            self.present = None;
        }
        if let Err(error) = self.delete_orphans(&blobs, &mut is_claimed).await {
            tracing::warn!(error = chain(&error), "failed to delete the segments of deleted sessions");
        }
        let mut failed: Vec<FailedCopy> = self.failed.values().cloned().collect();
        failed.sort_unstable_by(|one, other| one.agent.cmp(&other.agent));
        self.tell(CopyProgress { place: blobs.place().to_owned(), failed });
    }

    /// Forgets what is known about a place that is not the home's any more.
    fn forget_place(&mut self) {
        (self.seen, self.failed) = (HashMap::new(), HashMap::new());
        (self.present, self.has_looked) = (None, false);
    }

    /// Copies the transcripts of an agent that have changed.
    async fn agent(
        &mut self,
        agent: &AgentId,
        blobs: &Arc<dyn BlobStore>,
        is_claimed: &mut bool,
    ) -> Result<(), TranscriptCopyError> {
        let limit = if self.has_looked { RECENT } else { u32::MAX };
        let sessions = self.store.sessions().list(Some(agent), limit).await?;
        let mut failed = None;
        for Session { file, .. } in sessions {
            match self.transcript(agent, &file, blobs, is_claimed).await {
                Ok(()) => {}
                // One that can't be read here does not keep the others from being copied.
                Err(error @ TranscriptCopyError::Transcript(_)) => {
                    failed.get_or_insert(error);
                }
                Err(error) => return Err(error),
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Copies a transcript if it has changed, or brings it back if it is lost.
    async fn transcript(
        &mut self,
        agent: &AgentId,
        file: &str,
        blobs: &Arc<dyn BlobStore>,
        is_claimed: &mut bool,
    ) -> Result<(), TranscriptCopyError> {
        let path = self.home.sessions(agent).join(format!("{file}.jsonl"));
        let Ok(found) = path.symlink_metadata() else {
            // A session that has had no turn yet has no transcript. One that could not be brought back is marked.
            if away::reason(&path)?.is_some() {
                bring_back(&self.store, Some(blobs), &path, file).await?;
                tracing::warn!(%agent, file, "made a lost transcript of its segments");
            }
            return Ok(());
        };
        let mark = (found.len(), found.modified().ok());
        if self.seen.get(file) == Some(&mark) {
            return Ok(());
        }
        self.claim(blobs, is_claimed).await?;
        if !self.has_looked && self.present.is_none() {
            self.present = Some(present(blobs).await?);
        }
        // A transcript that was copied since has segments which that list lacks.
        let present = self.present.as_ref().filter(|_| !self.seen.contains_key(file));
        let sealed = seal(&self.store, blobs, &path, file, present).await?;
        if sealed.segments > 0 {
            tracing::debug!(%agent, file, ?sealed, "copied a transcript to the second place");
        }
        self.seen.insert(file.to_owned(), mark);
        Ok(())
    }

    /// Deletes what deleted sessions have in the place.
    async fn delete_orphans(
        &mut self,
        blobs: &Arc<dyn BlobStore>,
        is_claimed: &mut bool,
    ) -> Result<(), TranscriptCopyError> {
        for file in self.store.segments().orphans(MAX_ORPHANS).await? {
            self.claim(blobs, is_claimed).await?;
            forget(&self.store, blobs, &file).await?;
            self.seen.remove(&file);
        }
        Ok(())
    }

    /// Makes sure once in a look that the place is this home's.
    async fn claim(
        &self,
        blobs: &Arc<dyn BlobStore>,
        is_claimed: &mut bool,
    ) -> Result<(), TranscriptCopyError> {
        if !*is_claimed {
            owner::claim(&self.home, &**blobs).await?;
            *is_claimed = true;
        }
        Ok(())
    }

    fn note_failure(&mut self, agent: &AgentId, error: &TranscriptCopyError) {
        let (problem, hint) = (chain(error), error.hint());
        // The same failure is logged once, and shown by doctor as long as it lasts.
        if !self.failed.contains_key(agent) {
            tracing::warn!(%agent, error = problem, "failed to copy the transcripts of an agent");
        }
        let since = self.failed.get(agent).map_or_else(unix_ms, |failed| failed.since);
        self.failed.insert(agent.clone(), FailedCopy { agent: agent.clone(), since, problem, hint });
    }

    /// Writes the failures for other processes, if they have changed.
    fn tell(&mut self, progress: CopyProgress) {
        if self.told.as_ref() == Some(&progress) {
            return;
        }
        match progress.write(&self.home.transcript_progress()) {
            Ok(()) => self.told = Some(progress),
            Err(error) => tracing::warn!(error = chain(&error), "failed to write how far the copies are"),
        }
    }
}
