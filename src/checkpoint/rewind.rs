//! Sets an agent back to a checkpoint: its files, its conversations, or both.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::Checkpoints;
use super::agent_store::{AgentStore, NewCheckpoint};
use super::diff::Change;
use super::error::CheckpointError;
use super::journal::{Journal, JournalCut, JournalFiles, JournalPackages};
use super::packages::{self, PackagePlan, PackagesThen};
use super::plan::{self, FilePlan};
use super::record::{CheckpointRecord, Reason};
use super::tree::Node;
use super::view::{self, ConversationView, PackagesView, RewindView};
use crate::agent::transcript::RewindRecord;
use crate::agent::transcript::rewind::{Moment, cut};
use crate::agent::transcript::{self, TranscriptError};
use crate::clock::{MAX_DIFFERENCE, unix_ms};
use crate::config::Agent;
use crate::error::chain;
use crate::fault_point::{self, FaultPoint};
use crate::generation::Origin;
use crate::id::{AgentId, SessionKey, hex};
use crate::store::{AuditEntry, Level, Session};

/// The parts that a rewind sets back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum RewindParts {
    Files,
    Conversation,
    #[default]
    Both,
}

impl RewindParts {
    pub(super) const fn has_files(self) -> bool {
        matches!(self, Self::Files | Self::Both)
    }

    const fn has_conversation(self) -> bool {
        matches!(self, Self::Conversation | Self::Both)
    }
}

/// A wish for a rewind.
#[derive(Clone, Debug)]
pub(crate) struct RewindRequest {
    /// The checkpoint to go back to. `None` is the beginning of the last turn.
    pub(crate) checkpoint: Option<u64>,
    /// `true` to undo the last rewind instead.
    pub(crate) undo: bool,
    /// The parts to set back. `None` is everything, and with `undo` what the rewind had set back.
    pub(crate) parts: Option<RewindParts>,
    /// `true` to leave what somebody else has changed as it is, instead of stopping.
    pub(crate) keep_others: bool,
    /// `true` to leave the packages as they are.
    pub(crate) without_packages: bool,
    /// The plan that the person was shown. If it is another one by now, nothing is done.
    pub(crate) plan: Option<String>,
    /// The person who asks.
    pub(crate) by: String,
}

/// A rewind that was decided and is not made.
struct Prepared {
    target: CheckpointRecord,
    parts: RewindParts,
    files: FilePlan,
    /// The changes of `files` that overwrite nothing of somebody else.
    made: Vec<Change>,
    cuts: Vec<JournalCut>,
    view: RewindView,
}

impl Checkpoints {
    /// Returns what a rewind would do.
    ///
    /// # Errors
    ///
    /// Returns [`CheckpointError::Elsewhere`] if another gateway has the agent, and another error if there is no such
    /// checkpoint, or if the workspace or the store can't be read.
    pub(crate) async fn preview(
        &self,
        agent: &Agent,
        request: RewindRequest,
    ) -> Result<RewindView, CheckpointError> {
        let _lease = self.keep(&agent.id).await?;
        let _inside = self.gate(&agent.id).look().await;
        let packages = self.package_plan(agent, &request).await?;
        let sessions = self.sessions(agent).await?;
        let (home, is_open) = (self.home().clone(), self.gate(&agent.id).is_open());
        let owned = agent.clone();
        self.blocking(agent, move |mut store| {
            // Only what people choose is kept for long. This look is dropped with the next collection.
            let scan = store.scan(&AtomicBool::new(false))?;
            let mut records = store.log.read()?;
            let target = target(&store, &records, &request)?;
            records.push(CheckpointRecord {
                files: Some(scan.tree),
                is_open,
                number: 0,
                ..records[target].clone()
            });
            let moments = Moments { home: &home, agent: &owned, sessions: &sessions };
            Ok(prepare(&store, &records, (target, packages.as_ref()), &request, &moments)?.view)
        })
        .await
    }

    /// Sets an agent back. Its turns wait meanwhile, and its sandbox is stopped if files change.
    ///
    /// # Errors
    ///
    /// Returns [`CheckpointError::Busy`] during a turn, [`CheckpointError::Elsewhere`] if another gateway has the agent,
    /// [`CheckpointError::Foreign`] if somebody else has changed files that it would change, [`CheckpointError::Changed`] if
    /// another plan was shown, and another error if a step fails. If a step failed after the first change, the rewind is
    /// completed later.
    pub(crate) async fn rewind(
        &self,
        agent: &Agent,
        request: RewindRequest,
    ) -> Result<RewindView, CheckpointError> {
        // Until the end: a turn at another gateway would see files of two moments.
        let _lease = self.keep(&agent.id).await?;
        let gate = self.gate(&agent.id);
        let _alone = gate.alone().await.ok_or_else(|| CheckpointError::Busy(agent.id.clone()))?;
        self.complete(agent).await?;
        // Nothing of the agent may write any more when the present state is looked at.
        if !matches!(request.parts, Some(RewindParts::Conversation)) {
            self.stop_sandbox(agent).await?;
        }
        let packages = self.package_plan(agent, &request).await?;
        let sessions = self.sessions(agent).await?;
        let home = self.home().clone();
        let owned = agent.clone();
        let by = request.by.clone();
        let (journal, view) = self
            .blocking(agent, move |mut store| {
                let moments = Moments { home: &home, agent: &owned, sessions: &sessions };
                begin(&mut store, &moments, &request, packages.as_ref())
            })
            .await?;
        let mut view = view;
        let finished = self.finish(agent, &journal).await;
        view.warnings.extend(finished.map_err(|error| error.interrupting(&agent.id))?);
        let packages = journal
            .packages
            .as_ref()
            .map_or_else(String::new, |packages| format!(", packages of profile {}", packages.to));
        let detail = format!(
            "to checkpoint {}: {} files, {} conversations{packages}; undone by checkpoint {}",
            journal.to,
            view.file_count,
            view.conversations.len(),
            view.undo.unwrap_or_default()
        );
        let entry = AuditEntry::new(&by, "agent.rewind", agent.id.as_str(), Level::Yellow, detail);
        if let Err(error) = self.store().audit().append(entry, unix_ms()).await {
            tracing::error!(error = chain(&error), "failed to write a rewind into the audit");
        }
        Ok(view)
    }

    /// Completes the rewind that an earlier process has begun, if there is one. The caller has the agent to itself.
    ///
    /// # Errors
    ///
    /// Returns an error if its sandbox can't be stopped or a step fails. It stays written down.
    pub(super) async fn complete(&self, agent: &Agent) -> Result<(), CheckpointError> {
        let folder = self.home().checkpoints(&agent.id);
        // The common case takes no lock.
        let Some(journal) = Journal::read(&folder)? else { return Ok(()) };
        let completed = async {
            if journal.files.is_some() {
                self.stop_sandbox(agent).await?;
            }
            self.finish(agent, &journal).await
        };
        let warnings = completed.await.map_err(|error| error.interrupting(&agent.id))?;
        tracing::warn!(agent = %agent.id, checkpoint = journal.to, ?warnings, "completed an interrupted rewind");
        Ok(())
    }

    /// Makes all steps of a rewind that is written down. Each of them can be repeated. Returns warnings for people.
    async fn finish(&self, agent: &Agent, journal: &Journal) -> Result<Vec<String>, CheckpointError> {
        let owned = journal.clone();
        let left = self.blocking(agent, move |mut store| store.complete_files(&owned)).await?;
        let gone = self.finish_packages(agent, journal).await?;
        for cut in &journal.conversations {
            let record = RewindRecord {
                id: cut.id.clone(),
                at: unix_ms(),
                after: cut.after.clone(),
                checkpoint: journal.to,
                by: journal.by.clone(),
            };
            self.services()?.set_back(&cut.session, record).await?;
            fault_point::reach(FaultPoint::Rewinding);
        }
        let owned = journal.clone();
        self.blocking(agent, move |mut store| {
            store.note_rewound(&owned, false)?;
            fault_point::reach(FaultPoint::Rewinding);
            store.clear_journal()?;
            fault_point::reach(FaultPoint::Rewinding);
            store.tidy()
        })
        .await?;
        let text = |left: &[PathBuf]| {
            format!("left as they are, because something else is there now: {}", view::paths(left))
        };
        Ok((!left.is_empty()).then(|| text(&left)).into_iter().chain(gone).collect())
    }

    /// Sets the packages back. Returns a warning if they were removed from the store since the rewind was written down, or if
    /// that was done in another home.
    async fn finish_packages(
        &self,
        agent: &Agent,
        journal: &Journal,
    ) -> Result<Option<String>, CheckpointError> {
        let Some(JournalPackages { to, of, .. }) = &journal.packages else { return Ok(None) };
        if of.is_some() && *of != packages::stores_of(self.home()) {
            let text = "the packages stay as they are, because the rewind was begun in another home";
            return Ok(Some(text.to_owned()));
        }
        let services = self.services()?;
        // It is a generation of the home, whoever completes it.
        let origin = Origin::new(&journal.by, format!("flock rewind {}", agent.id));
        let done = origin.scope(services.set_packages_back(&agent.id, *to)).await;
        fault_point::reach(FaultPoint::Rewinding);
        let is_there =
            done.map_err(|reason| CheckpointError::Packages { agent: agent.id.clone(), reason })?;
        Ok((!is_there).then(|| {
            format!("the packages stay as they are, because generation {to} of the profile is gone by now")
        }))
    }

    async fn stop_sandbox(&self, agent: &Agent) -> Result<(), CheckpointError> {
        let stopped = self.services()?.stop_sandbox(&agent.id).await;
        stopped.map_err(|reason| CheckpointError::Sandbox { agent: agent.id.clone(), reason })
    }

    async fn sessions(&self, agent: &Agent) -> Result<Vec<Session>, CheckpointError> {
        Ok(self.store().sessions().list(Some(&agent.id), u32::MAX).await?)
    }
}

/// Makes the checkpoint of the present state, decides, and writes the rewind down.
fn begin(
    store: &mut AgentStore,
    moments: &Moments<'_>,
    request: &RewindRequest,
    packages: Option<&PackagePlan>,
) -> Result<(Journal, RewindView), CheckpointError> {
    let agent = moments.agent;
    let before = store.log.read()?;
    let chosen = target(store, &before, request)?;
    let to = before[chosen].number;
    let parts = parts(&before[chosen], request);
    if parts.has_files() {
        // Turns wait for the end of a rewind that is written down, so what can't be reached now is no reason for one.
        drop(store.files()?);
    }
    let present = store.make(NewCheckpoint {
        reason: Reason::Rewind { by: request.by.clone(), to, parts },
        is_listed: true,
        // What changes until the next record is the rewind's own work.
        is_open: &|| true,
        transcripts: moments.lengths(),
        stop: &AtomicBool::new(false),
    })?;
    fault_point::reach(FaultPoint::Rewinding);
    let records = store.log.read()?;
    let prepared = prepare(store, &records, (chosen, packages), request, moments);
    // A rewind that does not begin is no checkpoint.
    let forget = |store: &AgentStore| store.log.replace(&before);
    let prepared = match prepared {
        Ok(prepared) => prepared,
        Err(error) => {
            forget(store)?;
            return Err(error);
        }
    };
    let Prepared { target, parts, files, made, cuts, mut view } = prepared;
    let problem = if request.plan.as_ref().is_some_and(|plan| *plan != view.plan) {
        Some(CheckpointError::Changed(agent.id.clone()))
    } else if !files.foreign.is_empty() && !request.keep_others {
        Some(CheckpointError::Foreign { agent: agent.id.clone(), count: files.foreign.len() })
    } else {
        match (parts.has_files(), present.files, target.files) {
            (true, None, _) => {
                let reason = present.problem.clone().unwrap_or_default();
                Some(CheckpointError::WithoutFiles {
                    agent: agent.id.clone(),
                    number: present.number,
                    reason,
                })
            }
            _ => None,
        }
    };
    if let Some(problem) = problem {
        forget(store)?;
        return Err(problem);
    }
    // A damaged content is found now, and not in the middle.
    for change in &files.changes {
        if let Some(Node::File { content, .. }) = &change.after
            && let Err(error) = store.objects.check(*content)
        {
            forget(store)?;
            return Err(error);
        }
    }
    // Once it is written down, the agent's turns wait until there is room.
    if let Err(error) = store.require_room(&made) {
        forget(store)?;
        return Err(error);
    }
    let own = store.own_paths();
    let kept = files.foreign.iter().map(|change| &change.path).chain(&own);
    let journal_files = match (parts.has_files(), present.files, target.files) {
        (true, Some(before), Some(wanted)) => Some(JournalFiles::new(before, wanted, kept)),
        _ => None,
    };
    let journal = Journal {
        id: format!("{:08x}", rand::random::<u32>()),
        at: unix_ms(),
        by: request.by.clone(),
        to,
        files: journal_files,
        packages: packages.map(|PackagePlan { from, to, .. }| JournalPackages {
            from: *from,
            to: *to,
            of: packages::stores_of(moments.home),
        }),
        conversations: cuts,
        lost: None,
    };
    // The contents that the rewind needs, and those with which it is undone, are on the disk before it is written down.
    store.objects.sync()?;
    fault_point::reach(FaultPoint::Rewinding);
    store.write_journal(&journal)?;
    fault_point::reach(FaultPoint::Rewinding);
    view.undo = Some(present.number);
    Ok((journal, view))
}

/// Returns the place of the record that a request means.
///
/// # Errors
///
/// Returns an error if there is no such record.
pub(super) fn target(
    store: &AgentStore,
    records: &[CheckpointRecord],
    request: &RewindRequest,
) -> Result<usize, CheckpointError> {
    if request.undo {
        let is_rewind = |record: &CheckpointRecord| matches!(record.reason, Reason::Rewind { .. });
        return store
            .find(records, None, is_rewind)
            .map_err(|_| CheckpointError::NothingToUndo(store.agent.clone()));
    }
    store.find(records, request.checkpoint, |record| matches!(record.reason, Reason::Turn { .. }))
}

/// Returns what a rewind to a record sets back.
pub(super) fn parts(target: &CheckpointRecord, request: &RewindRequest) -> RewindParts {
    match (&target.reason, request.parts) {
        (_, Some(parts)) => parts,
        (Reason::Rewind { parts, .. }, None) if request.undo => *parts,
        (_, None) => RewindParts::Both,
    }
}

/// Decides what a rewind to a record does. The last record is the present state.
fn prepare(
    store: &AgentStore,
    records: &[CheckpointRecord],
    (chosen, packages): (usize, Option<&PackagePlan>),
    request: &RewindRequest,
    moments: &Moments<'_>,
) -> Result<Prepared, CheckpointError> {
    let target = records[chosen].clone();
    // Another turn has begun in between.
    if packages.is_some_and(|packages| packages.checkpoint != target.number) {
        return Err(CheckpointError::Changed(store.agent.clone()));
    }
    let parts = parts(&target, request);
    if parts.has_files() && target.files.is_none() {
        let reason = target.problem.clone().unwrap_or_default();
        return Err(CheckpointError::WithoutFiles {
            agent: store.agent.clone(),
            number: target.number,
            reason,
        });
    }
    let packages_elsewhere = parts.has_files()
        && !request.without_packages
        && packages::at(moments.home, &store.agent, &target) == PackagesThen::Elsewhere;
    let packages_warning = packages_elsewhere
        .then(|| format!("the packages stay as they are: {}", packages::elsewhere_text(target.number)));
    let own = store.own_paths();
    let files = if parts.has_files() {
        plan::plan(&store.objects, records, chosen, &own)?
    } else {
        FilePlan::default()
    };
    let cuts = if parts.has_conversation() { moments.cuts(&target)? } else { Vec::new() };
    let kept: HashSet<PathBuf> = files.foreign.iter().map(|change| change.path.clone()).collect();
    let made = plan::without(files.changes.clone(), &kept);
    let conversations =
        cuts.iter().map(|cut| ConversationView { session: cut.session.clone(), messages: cut.messages });
    let view = RewindView {
        checkpoint: target.number,
        at: target.at,
        undo: None,
        files: view::changes(&store.objects, &made),
        file_count: made.len(),
        foreign: view::changes(&store.objects, &files.foreign),
        foreign_count: files.foreign.len(),
        conversations: conversations.collect(),
        packages: packages.map(PackagesView::of),
        packages_elsewhere,
        left_out: target.left_out.paths.clone(),
        warnings: packages_warning.into_iter().collect(),
        plan: plan_id(&target, &files.changes, packages, &cuts),
    };
    Ok(Prepared { target, parts, files, made, cuts, view })
}

/// Returns a text that is the same for the same plan only.
fn plan_id(
    target: &CheckpointRecord,
    changes: &[Change],
    packages: Option<&PackagePlan>,
    cuts: &[JournalCut],
) -> String {
    let mut hash = Sha256::new();
    hash.update(target.number.to_le_bytes());
    for change in changes {
        hash.update(format!("{change:?}\n"));
    }
    if let Some(PackagePlan { from, to, .. }) = packages {
        hash.update(format!("packages {from} {to}\n"));
    }
    for cut in cuts {
        hash.update(format!("{} {:?} {}\n", cut.session, cut.after, cut.messages));
    }
    hex(&hash.finalize()[..16])
}

/// The conversations of an agent.
struct Moments<'a> {
    home: &'a crate::home::Home,
    agent: &'a Agent,
    sessions: &'a [Session],
}

impl Moments<'_> {
    /// Returns the lengths of the transcripts that were used last.
    fn lengths(&self) -> BTreeMap<String, u64> {
        let files = self.sessions.iter().map(|session| session.file.clone());
        transcript_lengths(self.home, &self.agent.id, files)
    }

    /// Returns the conversations that have gone on since a checkpoint.
    fn cuts(&self, target: &CheckpointRecord) -> Result<Vec<JournalCut>, CheckpointError> {
        let mut cuts = Vec::new();
        // The checkpoint may be of another gateway, whose clock is ahead.
        let before = target.at.saturating_sub(MAX_DIFFERENCE);
        for session in self.sessions {
            // A session is updated with each turn, and a rewind of it is younger than its last turn.
            if session.updated_at < before && session.began_at < before {
                continue;
            }
            let path = self.home.sessions(&self.agent.id).join(format!("{}.jsonl", session.file));
            let Some(file) = transcript::look(&path)? else { continue };
            let moment = Moment {
                length: target.transcripts.get(&session.file).copied(),
                at: target.at,
                turn: turn_in(&target.reason, &session.key),
            };
            let found = cut(&file, moment).map_err(TranscriptError::reading(&path))?;
            if found.is_needed {
                cuts.push(JournalCut {
                    session: session.key.clone(),
                    id: uuid::Uuid::now_v7().to_string(),
                    after: found.after,
                    messages: found.messages,
                });
            }
        }
        Ok(cuts)
    }
}

/// The most sessions of which a checkpoint has the transcript's length. Others are found by the times of their records.
const MAX_LENGTHS: usize = 20;

/// Returns the lengths of the first [`MAX_LENGTHS`] of an agent's transcripts, by the names of their files without the
/// extension.
pub(super) fn transcript_lengths(
    home: &crate::home::Home,
    agent: &AgentId,
    files: impl IntoIterator<Item = String>,
) -> BTreeMap<String, u64> {
    let folder = home.sessions(agent);
    let length = |file: String| {
        let found = fs_err::symlink_metadata(folder.join(format!("{file}.jsonl"))).ok()?;
        Some((file, found.len()))
    };
    files.into_iter().take(MAX_LENGTHS).filter_map(length).collect()
}

fn turn_in(reason: &Reason, session: &SessionKey) -> Option<crate::id::TurnId> {
    match reason {
        Reason::Turn { session: of, turn } if of == session => Some(*turn),
        _ => None,
    }
}

#[cfg(test)]
#[path = "rewind_clock_tests.rs"]
mod clock_tests;
#[cfg(test)]
#[path = "rewind_room_tests.rs"]
mod room_tests;
#[cfg(test)]
#[path = "rewind_there_tests.rs"]
mod tests;
