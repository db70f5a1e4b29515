//! Copies what was appended to transcripts to the second place in the background, and makes lost transcripts again at the
//! start.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use tokio_util::sync::CancellationToken;

use super::state::Gateway;
use super::storage_status::{CopyReport, CopyReporter};
use crate::agent::transcript::away;
use crate::agent::transcript_copies::{
    BroughtBack, TranscriptCopyError, bring_back, forget, mark_away, present, seal,
};
use crate::blob::{self, BlobStore, owner};
use crate::checkpoint::remote::progress::CopyKind;
use crate::config::Live;
use crate::error::chain;
use crate::home::Home;
use crate::id::AgentId;
use crate::store::{Session, Store};

/// Time between two looks, and so about the most that a lost disk costs.
const INTERVAL: Duration = Duration::from_secs(10);
/// The most sessions of an agent that are looked at, last used first, once all were looked at.
const RECENT: u32 = 200;
/// The longest time until all sessions of an agent are looked at again after a failure.
const MAX_WAIT: Duration = Duration::from_secs(600);
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

/// Copies transcripts until `stop` is cancelled, and shows in `report` how far it is. Without a store of blobs it only looks at
/// the settings.
pub(crate) async fn watch(
    live: Arc<Live>,
    store: Arc<Store>,
    report: Arc<CopyReport>,
    stop: CancellationToken,
) {
    let home = live.home().clone();
    let reporter = CopyReporter::begin(&home, CopyKind::Conversation, report);
    let mut copies = Copies { home, store, known: Known::default(), reporter };
    // What is on its way may be given up at any point: the next start copies it again.
    while stop.run_until_cancelled(tokio::time::sleep(INTERVAL)).await.is_some() {
        if stop.run_until_cancelled(copies.look(&live)).await.is_none() {
            break;
        }
    }
}

/// The state of a transcript's file.
type FileMark = (u64, Option<SystemTime>);

/// The looks at all sessions of an agent. One is enough, and after a failure, which may have hidden some, another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FullLooks {
    /// `true` if nothing has failed since all sessions were looked at.
    is_done: bool,
    /// The time from which on the next one is due.
    due: Instant,
    /// The time from the next failure to the one after it.
    wait: Duration,
}

impl FullLooks {
    const fn new(now: Instant) -> Self {
        Self { is_done: false, due: now, wait: INTERVAL }
    }

    fn is_due(&self, now: Instant) -> bool {
        !self.is_done && self.due <= now
    }

    /// Notes the outcome of a look at all sessions, or at the recent ones.
    fn note(&mut self, was_full: bool, has_failed: bool, now: Instant) {
        match (was_full, has_failed) {
            (true, false) => *self = Self { is_done: true, ..Self::new(now) },
            // The same transcript may fail for good, and all sessions are many.
            (true, true) => {
                self.due = now + self.wait;
                self.wait = (self.wait * 2).min(MAX_WAIT);
            }
            (false, true) if self.is_done => *self = Self { due: now + INTERVAL, ..Self::new(now) },
            (false, _) => {}
        }
    }
}

/// The knowledge of the copies in a place.
#[derive(Default)]
struct Known {
    /// The transcripts that are copied, by their names.
    seen: HashMap<String, FileMark>,
    /// The segments that the place had at the first look, until all sessions were looked at: the database may be of a
    /// restored backup.
    present: Option<HashSet<String>>,
    looks: HashMap<AgentId, FullLooks>,
}

/// The state of the copies.
struct Copies {
    home: Home,
    store: Arc<Store>,
    /// It counts no more if the place is taken again.
    known: Known,
    reporter: CopyReporter,
}

impl Copies {
    async fn look(&mut self, live: &Live) {
        let config = live.current();
        let Some(blobs) = self.reporter.store(config.blobs.as_ref(), &mut self.known) else { return };
        let mut is_claimed = false;
        for agent in &config.agents {
            let now = Instant::now();
            let looks = *self.known.looks.entry(agent.id.clone()).or_insert_with(|| FullLooks::new(now));
            let is_full = looks.is_due(now);
            let looked = self.agent(&agent.id, &blobs, is_full, &mut is_claimed).await;
            if let Some(looks) = self.known.looks.get_mut(&agent.id) {
                looks.note(is_full, looked.is_err(), Instant::now());
            }
            match looked {
                // A look at the recent sessions does not show that the others have been copied.
                Ok(()) if is_full || looks.is_done => self.reporter.note_done(agent.id.as_str()),
                Ok(()) => self.reporter.note_tried(agent.id.as_str()),
                Err(error) => self.reporter.note_failure(agent.id.as_str(), &error),
            }
        }
        self.reporter.retain_agents(&config);
        self.known.looks.retain(|id, _| config.agent(id).is_some());
        if self.known.looks.values().all(|looks| looks.is_done) {
            self.known.present = None;
        }
        if let Err(error) = self.delete_orphans(&blobs, &mut is_claimed).await {
            tracing::warn!(error = chain(&error), "failed to delete the segments of deleted sessions");
        }
        self.reporter.tell();
    }

    /// Copies the transcripts of an agent that have changed.
    async fn agent(
        &mut self,
        agent: &AgentId,
        blobs: &Arc<dyn BlobStore>,
        is_full: bool,
        is_claimed: &mut bool,
    ) -> Result<(), TranscriptCopyError> {
        let limit = if is_full { u32::MAX } else { RECENT };
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
        if self.known.seen.get(file) == Some(&mark) {
            return Ok(());
        }
        self.reporter.note_waiting(agent.as_str());
        self.claim(blobs, is_claimed).await?;
        // What this process has copied is there. Of a segment that was copied after the list, that is found out once more.
        let is_first = !self.known.seen.contains_key(file);
        if is_first && self.known.present.is_none() && !self.store.segments().of(file).await?.is_empty() {
            self.known.present = Some(present(blobs).await?);
        }
        let present = self.known.present.as_ref().filter(|_| is_first);
        let sealed = seal(&self.store, blobs, &path, file, present).await?;
        if sealed.segments > 0 {
            tracing::debug!(%agent, file, ?sealed, "copied a transcript to the second place");
            self.reporter.note_copy();
        }
        self.known.seen.insert(file.to_owned(), mark);
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
            self.known.seen.remove(&file);
        }
        Ok(())
    }

    /// Makes sure once in a look that the place is this home's.
    async fn claim(
        &mut self,
        blobs: &Arc<dyn BlobStore>,
        is_claimed: &mut bool,
    ) -> Result<(), TranscriptCopyError> {
        if !*is_claimed {
            let since = owner::claim(&self.home, &**blobs).await?;
            *is_claimed = true;
            if self.reporter.is_taken_again(since) {
                self.known = Known::default();
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_that_lasts_has_all_sessions_looked_at_less_and_less_often() {
        let start = Instant::now();
        let mut looks = FullLooks::new(start);
        assert!(looks.is_due(start));
        let (mut now, mut full) = (start, 0);
        while now < start + Duration::from_secs(24 * 3600) {
            let is_full = looks.is_due(now);
            full += u32::from(is_full);
            looks.note(is_full, is_full, now);
            now += INTERVAL;
        }
        assert!((140..160).contains(&full), "{full}");
        // It works again.
        now += MAX_WAIT;
        assert!(looks.is_due(now));
        looks.note(true, false, now);
        assert!(!looks.is_due(now + MAX_WAIT));
        // The next failure has another full look soon, and at no other time.
        looks.note(false, true, now);
        assert!(!looks.is_due(now) && looks.is_due(now + INTERVAL));
        looks.note(false, false, now);
        assert!(looks.is_due(now + INTERVAL), "the recent sessions are not all");
    }
}
