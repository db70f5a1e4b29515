//! Gives up a workspace whose engine is gone, and puts a folder of this machine with the files of the last checkpoint in its
//! place.
//!
//! The folder has its files before it gets that place, so nobody who works in it meanwhile is disturbed. If they can't be
//! written, it is empty at first, and they are put into it afterwards.
//!
//! This is written down as a rewind is, before the workspace is given up. So the agent's next turn waits until all files are
//! back, and an attempt that was interrupted is completed as an interrupted rewind is.
//!
//! Only the lock of the agent's checkpoints is held, also during a turn of the agent, here or at another gateway: no sandbox has
//! the folder as long as the agent is placed on the engine that is gone.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio::sync::OwnedMutexGuard;

use super::Checkpoints;
use super::agent_store::AgentStore;
use super::content::ContentId;
use super::diff::diff;
use super::error::CheckpointError;
use super::journal::{Journal, JournalFiles};
use super::objects::Objects;
use super::record::CheckpointRecord;
use super::remote::{self, PullRequest};
use super::tree::Node;
use super::view;
use crate::blob;
use crate::clock::unix_ms;
use crate::config::{Agent, Config};
use crate::error::chain;
use crate::fault_point::{self, FaultPoint};
use crate::home::Home;
use crate::id::{AgentId, EngineName};
use crate::sandbox::spec::IDENTITY_FILES;

/// The longest wait for a job that works on the checkpoints of the agent.
const JOBS_TIMEOUT: Duration = Duration::from_secs(180);

/// An engine that is gone.
#[derive(Clone, Debug)]
pub(crate) struct LostEngine {
    pub(crate) name: EngineName,
    /// The person who gives it up, or `system`.
    pub(crate) by: String,
    /// Set if no person has said that it is gone: a workspace is given up only for the files of its newest checkpoint.
    pub(crate) needs_newest: bool,
}

/// The state of a workspace that was given up.
#[derive(Debug)]
pub(crate) enum Replacement {
    /// It has the files of a checkpoint.
    Restored {
        /// Unix milliseconds of that checkpoint.
        at: i64,
    },
    /// It is empty, because no checkpoint has all of its files. The error is that of the second place, if it could not be
    /// asked for them.
    Empty(Option<CheckpointError>),
    /// Not all of its files are back. The rest is done before the agent's next turn.
    Waiting(CheckpointError),
    /// It is not given up, because the files of its newest checkpoint are needed and are not all there.
    Kept {
        /// The number of that checkpoint, if the home has one.
        newest: Option<u64>,
        /// The error of the second place, if it could not be asked for them.
        problem: Option<CheckpointError>,
    },
}

/// Files of an engine that is gone which are not back yet. Their agent has no turn before they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct MissingFiles {
    pub(crate) agent: AgentId,
    /// The engine that had them.
    pub(crate) engine: EngineName,
    /// A sentence for people.
    pub(crate) message: String,
    /// The command that tries again.
    pub(crate) hint: String,
}

/// A workspace that was given up, with what is written down about it.
#[derive(Debug)]
struct GivenUp {
    journal: Journal,
    /// Unix milliseconds of the checkpoint whose files it gets.
    at: i64,
    /// `true` if they were in the new folder from the beginning.
    is_filled: bool,
}

impl Checkpoints {
    /// Gives up the workspace of an agent in an engine that is gone. The folder that takes its place gets the files of the
    /// newest checkpoint, which is brought from the second place if none is here, or if [`LostEngine::needs_newest`] asks for one
    /// that is damaged here. If the workspace was given up before, only its files are put back.
    ///
    /// # Errors
    ///
    /// Returns [`CheckpointError::Busy`] if another job does not end, [`CheckpointError::NotLost`] if the workspace is on this
    /// machine, and another error if a different engine has it, if the agent's checkpoints can't be read or written, or if the
    /// folder can't be made. The workspace is not given up then.
    pub(crate) async fn replace_lost(
        &self,
        agent: &Agent,
        engine: &LostEngine,
    ) -> Result<Replacement, CheckpointError> {
        let replaced = self.give_up(agent, engine, false).await?;
        let (number, is_done) = match &replaced {
            Replacement::Empty(_) => (None, true),
            Replacement::Kept { newest, .. } => (*newest, false),
            Replacement::Restored { .. } | Replacement::Waiting(_) => return Ok(replaced),
        };
        let config = self.config();
        let Some(settings) = &config.blobs else { return Ok(replaced) };
        let store = blob::open(self.home(), settings);
        let request = PullRequest {
            home: self.home(),
            agent,
            settings: config.checkpoints,
            number,
            by: &engine.by,
            fence: self.store().syncer().fence().clone(),
        };
        let problem = match Box::pin(remote::pull(request, &store)).await {
            Ok(_) => match self.give_up(agent, engine, is_done).await {
                Ok(replaced) => return Ok(replaced),
                Err(error) => Some(error),
            },
            Err(CheckpointError::NotStored { .. }) => None,
            Err(error) => Some(error),
        };
        Ok(match replaced {
            Replacement::Kept { newest, .. } => Replacement::Kept { newest, problem },
            _ => Replacement::Empty(problem),
        })
    }

    /// Gives up a workspace, unless that is done, and puts back what a checkpoint of this machine has.
    async fn give_up(
        &self,
        agent: &Agent,
        engine: &LostEngine,
        is_done: bool,
    ) -> Result<Replacement, CheckpointError> {
        let _turn = self.jobs_within(&agent.id, JOBS_TIMEOUT).await?;
        let sessions = self.store().sessions().list(Some(&agent.id), u32::MAX).await?;
        let turn_runs = sessions.iter().any(|session| session.running);
        let engine = engine.clone();
        let work = move |mut store: AgentStore| -> Result<Replacement, CheckpointError> {
            if engine.needs_newest && store.is_in(&engine.name)? {
                let newest = newest(&store)?;
                if newest.as_ref().is_none_or(|record| !is_usable(&store.objects, record)) {
                    return Ok(Replacement::Kept {
                        newest: newest.map(|record| record.number),
                        problem: None,
                    });
                }
            }
            let Some(given_up) = write_down(&store, &engine, is_done)? else {
                return Ok(Replacement::Empty(None));
            };
            Ok(match bring_back(&mut store, &given_up, turn_runs) {
                Ok(()) => Replacement::Restored { at: given_up.at },
                Err(error) => Replacement::Waiting(error),
            })
        };
        self.begin_blocking(agent, work).await.unwrap_or(Err(CheckpointError::Stopped))
    }

    /// Takes the lock of the jobs that work on an agent's checkpoints. A look at a workspace on another machine holds it, and does
    /// not end as long as the agent is frozen.
    async fn jobs_within(
        &self,
        agent: &AgentId,
        limit: Duration,
    ) -> Result<OwnedMutexGuard<()>, CheckpointError> {
        let jobs = Arc::clone(&self.gate(agent).jobs);
        let taken = tokio::time::timeout(limit, jobs.lock_owned()).await;
        taken.map_err(|_| CheckpointError::Busy(agent.clone()))
    }

    /// Returns the files of lost engines for which agents wait.
    pub(crate) fn all_missing_files(home: &Home, config: &Config) -> Vec<MissingFiles> {
        let waiting = Self::interrupted(home, config);
        waiting.iter().filter_map(|agent| Self::missing_files(home, agent)).collect()
    }

    /// Returns the files for which an agent waits, if its workspace was lost with its engine and they are not all back.
    pub(crate) fn missing_files(home: &Home, agent: &AgentId) -> Option<MissingFiles> {
        let engine = Self::lost_with(home, agent)?;
        Some(MissingFiles {
            message: format!("the files of {agent}, which were in the engine {engine}, are not back yet"),
            hint: format!("flock checkpoint {agent}"),
            agent: agent.clone(),
            engine,
        })
    }

    /// Returns the engine with which the workspace of an agent was lost, if its files are not all back.
    fn lost_with(home: &Home, agent: &AgentId) -> Option<EngineName> {
        Journal::read(&home.checkpoints(agent)).ok().flatten()?.lost
    }
}

/// Writes down which files are put back, and gives the workspace up, unless that is done. Returns `None` if no checkpoint has
/// all of its files. Nothing is written if the engine does not have the workspace.
fn write_down(
    store: &AgentStore,
    engine: &LostEngine,
    is_done: bool,
) -> Result<Option<GivenUp>, CheckpointError> {
    let earlier = Journal::read(&store.folder)?;
    let is_there = store.is_in(&engine.name)?;
    let was_lost = earlier.as_ref().is_some_and(|journal| journal.lost.as_ref() == Some(&engine.name));
    if !(is_there || is_done || was_lost) {
        // It has come back, and somebody may work in it.
        return Err(CheckpointError::NotLost(store.agent.clone()));
    }
    let records = store.log.read()?;
    let found = newest_whole(&store.objects, earlier.as_ref(), &records);
    let to = earlier.as_ref().map(|journal| journal.to).or_else(|| found.map(|record| record.number));
    let wanted = found.and_then(|record| record.files);
    let new = if is_there { Some(store.new_folder(wanted)?) } else { None };
    store.note_lost(&engine.name)?;
    // On the other machine these are copies that flock has made.
    let own: Vec<PathBuf> = IDENTITY_FILES.into_iter().map(PathBuf::from).collect();
    let files = match wanted {
        Some(wanted) => Some(JournalFiles::new(store.objects.put_folder(&[], None)?, wanted, &own)),
        None => None,
    };
    let journal = Journal {
        id: format!("{:08x}", rand::random::<u32>()),
        at: unix_ms(),
        by: engine.by.clone(),
        to: to.unwrap_or_default(),
        files,
        // They were in the engine.
        packages: None,
        conversations: earlier.iter().flat_map(|journal| journal.conversations.clone()).collect(),
        lost: Some(engine.name.clone()),
    };
    if journal.files.is_some() || !journal.conversations.is_empty() {
        store.objects.sync()?;
        store.write_journal(&journal)?;
    } else {
        // A rewind that was interrupted can't be completed.
        store.clear_journal()?;
    }
    fault_point::reach(FaultPoint::Rewinding);
    if let Some((folder, _)) = &new
        && let Err(error) = store.abandon(&engine.name, &folder.path())
    {
        match earlier {
            Some(earlier) => store.write_journal(&earlier)?,
            None => store.clear_journal()?,
        }
        return Err(error);
    }
    fault_point::reach(FaultPoint::Rewinding);
    let is_filled = new.is_some_and(|(_, is_filled)| is_filled);
    Ok(found.map(|record| GivenUp { journal, at: record.at, is_filled }))
}

/// Puts the files back that are written down, unless the folder has them, and writes the end into the records.
fn bring_back(store: &mut AgentStore, given_up: &GivenUp, turn_runs: bool) -> Result<(), CheckpointError> {
    let GivenUp { journal, is_filled, .. } = given_up;
    // What a turn has removed since must not come back.
    let left = if *is_filled { Vec::new() } else { store.complete_files(journal)? };
    if !left.is_empty() {
        let left = view::paths(&left);
        tracing::warn!(agent = %store.agent, left, "files of a lost workspace are left as they are");
    }
    // Conversations of a rewind that was interrupted are set back before the next turn.
    if !journal.conversations.is_empty() {
        return Ok(());
    }
    // What a turn does in the new folder is its own work.
    store.note_rewound(journal, turn_runs)?;
    store.clear_journal()?;
    fault_point::reach(FaultPoint::Rewinding);
    if let Err(error) = store.tidy() {
        tracing::warn!(agent = %store.agent, error = chain(&error), "failed to tidy up checkpoints");
    }
    Ok(())
}

/// Returns the newest record of which all files are stored. The one to which a rewind was interrupted comes first.
fn newest_whole<'r>(
    objects: &Objects,
    interrupted: Option<&Journal>,
    records: &'r [CheckpointRecord],
) -> Option<&'r CheckpointRecord> {
    newest_first(interrupted, records).find(|record| is_usable(objects, record))
}

/// Returns the record whose files a workspace should have, whether or not they are stored.
fn newest(store: &AgentStore) -> Result<Option<CheckpointRecord>, CheckpointError> {
    let interrupted = Journal::read(&store.folder)?;
    let records = store.log.read()?;
    Ok(newest_first(interrupted.as_ref(), &records).next().cloned())
}

/// Returns the records with files, newest first. The one to which a rewind was interrupted comes before them.
fn newest_first<'r>(
    interrupted: Option<&Journal>,
    records: &'r [CheckpointRecord],
) -> impl Iterator<Item = &'r CheckpointRecord> + use<'r> {
    let wanted = interrupted.and_then(|journal| journal.files.as_ref()).map(|files| files.wanted);
    let first = wanted.and_then(|tree| records.iter().rev().find(|record| record.files == Some(tree)));
    first.into_iter().chain(records.iter().rev().filter(|record| record.files.is_some()))
}

/// Returns `true` if all files of a checkpoint are stored.
fn is_usable(objects: &Objects, record: &CheckpointRecord) -> bool {
    record.files.is_some_and(|tree| is_whole(objects, tree))
}

/// Returns `true` if everything in a tree is stored and undamaged.
fn is_whole(objects: &Objects, tree: ContentId) -> bool {
    let Ok(all) = diff(objects, None, Some(tree)) else { return false };
    all.iter().all(|change| match &change.after {
        Some(Node::File { content, .. }) => objects.check(*content).is_ok(),
        _ => true,
    })
}

#[cfg(test)]
#[path = "lost_tests.rs"]
mod tests;
