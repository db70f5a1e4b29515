//! Checkpoints of agents: what an agent's files and conversations were at one moment, and the way back there.
//!
//! A checkpoint is made at the start of each turn and on demand. Files are stored by their content, so a checkpoint costs
//! what has changed since the one before. A rewind is written down before its first change, so it is completed after a
//! kill. What changed while no turn of the agent ran is somebody else's, and no rewind touches it. A workspace that is lost
//! with its engine gets the files of the last checkpoint in the same way.

mod agent_store;
mod apply;
mod content;
mod diff;
mod error;
pub(crate) mod fork;
mod gate;
mod helper_walk;
mod index;
mod journal;
mod lease;
#[cfg(test)]
mod lease_tests;
pub(crate) mod lost;
mod objects;
mod packages;
#[cfg(test)]
mod packages_tests;
mod plan;
mod record;
pub(crate) mod remote;
pub(crate) mod rewind;
mod room;
mod scan;
pub(crate) mod team_fork;
#[cfg(test)]
pub(crate) mod testing;
mod tree;
pub(crate) mod view;
mod walk;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use self::error::CheckpointError;

use self::agent_store::{AgentStore, NewCheckpoint};
use self::gate::{Gate, TurnPass};
use self::record::{CheckpointRecord, Reason};
use self::rewind::transcript_lengths;
use crate::agent::transcript::RewindRecord;
use crate::agent::{TurnWatch, WatchedTurn};
use crate::config::{Agent, Config, Live};
use crate::error::chain;
use crate::home::Home;
use crate::id::{AgentId, SessionKey, TurnId};
use crate::nix_store::ProfileDifference;
use crate::provider::BoxFuture;
use crate::sandbox::workspace_files::Workspaces;
use crate::store::Store;
use crate::swarm::lease::{LeaseUse, Ownership};
use crate::sync::lock;

/// The longest time that a turn waits for its checkpoint before its first tool. The turn goes on without one then.
const TURN_TIMEOUT: Duration = Duration::from_secs(60);

/// The longest time that an agent which goes on here waits for whoever still works on its checkpoints.
const HELD_LIMIT: Duration = Duration::from_secs(5);
/// The pause between two looks at that.
const HELD_PAUSE: Duration = Duration::from_millis(50);

/// Pause between two attempts to complete an interrupted rewind for which a turn waits.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// The process that runs the agents, as a rewind needs it.
pub(crate) trait AgentServices: Send + Sync {
    /// Stops the agent's sandbox with everything in it. Returns the reason if that fails. Without an engine there is
    /// nothing to stop.
    fn stop_sandbox<'a>(&'a self, agent: &'a AgentId) -> BoxFuture<'a, Result<(), String>>;

    /// Returns how an agent's packages would change if its profile went back to the generation with this number, where 0
    /// stands for no profile. Returns `None` if there is no such generation any more, and the reason if that fails.
    fn packages_difference<'a>(
        &'a self,
        agent: &'a AgentId,
        number: u32,
    ) -> BoxFuture<'a, Result<Option<ProfileDifference>, String>>;

    /// Sets an agent's profile back to a generation, and makes a generation of the home of that. Returns `false` if there
    /// is no such generation any more, and the reason if that fails. It can be repeated.
    fn set_packages_back<'a>(
        &'a self,
        agent: &'a AgentId,
        number: u32,
    ) -> BoxFuture<'a, Result<bool, String>>;

    /// Gives an agent the packages of another one, as they are or as they were in a generation of its profile. Returns
    /// the reason if that fails. Without a package store there is nothing to do.
    fn copy_packages<'a>(
        &'a self,
        from: &'a AgentId,
        to: &'a AgentId,
        number: Option<u32>,
    ) -> BoxFuture<'a, Result<(), String>>;

    /// Removes the packages of an agent that was not made after all. Returns the reason if that fails.
    fn forget_packages<'a>(&'a self, agent: &'a AgentId) -> BoxFuture<'a, Result<(), String>>;

    /// Sets a session's conversation back. A record with an id that is there already has no effect.
    fn set_back<'a>(
        &'a self,
        session: &'a SessionKey,
        record: RewindRecord,
    ) -> BoxFuture<'a, Result<(), CheckpointError>>;
}

/// The checkpoints of all agents of a home.
pub(crate) struct Checkpoints {
    live: Arc<Live>,
    store: Arc<Store>,
    ownership: Arc<Ownership>,
    gates: Mutex<HashMap<AgentId, Arc<Gate>>>,
    services: OnceLock<Arc<dyn AgentServices>>,
    /// The ways to workspaces on other machines, if there can be some.
    workspaces: OnceLock<Workspaces>,
    /// Held by a fork: each removes the drafts that an earlier one has left.
    forks: tokio::sync::Mutex<()>,
}

impl Checkpoints {
    /// Creates the checkpoints of a home. Nothing is opened.
    #[must_use]
    pub(crate) fn new(live: Arc<Live>, store: Arc<Store>, ownership: Arc<Ownership>) -> Self {
        Self {
            live,
            store,
            ownership,
            gates: Mutex::default(),
            services: OnceLock::new(),
            workspaces: OnceLock::new(),
            forks: tokio::sync::Mutex::default(),
        }
    }

    /// Sets the ways to workspaces. Until then, and without it, they are folders of this machine.
    pub(crate) fn reach_workspaces(&self, workspaces: Workspaces) {
        drop(self.workspaces.set(workspaces));
    }

    /// Sets what rewinds need of this process. Only the first call has an effect.
    pub(crate) fn serve(&self, services: Arc<dyn AgentServices>) {
        // A second one would be the same, because a process has one gateway.
        drop(self.services.set(services));
    }

    fn services(&self) -> Result<&Arc<dyn AgentServices>, CheckpointError> {
        self.services.get().ok_or(CheckpointError::Stopped)
    }

    fn home(&self) -> &Home {
        self.live.home()
    }

    const fn store(&self) -> &Arc<Store> {
        &self.store
    }

    fn config(&self) -> Arc<Config> {
        self.live.current()
    }

    fn gate(&self, agent: &AgentId) -> Arc<Gate> {
        lock(&self.gates).entry(agent.clone()).or_default().clone()
    }

    /// Runs blocking work with the agent's checkpoints open.
    async fn blocking<T: Send + 'static>(
        &self,
        agent: &Agent,
        work: impl FnOnce(AgentStore) -> Result<T, CheckpointError> + Send + 'static,
    ) -> Result<T, CheckpointError> {
        let _turn = self.gate(&agent.id).jobs.clone().lock_owned().await;
        self.begin_blocking(agent, work).await.unwrap_or(Err(CheckpointError::Stopped))
    }

    /// Begins such work. The caller holds the lock of the agent's jobs until its end.
    fn begin_blocking<T: Send + 'static>(
        &self,
        agent: &Agent,
        work: impl FnOnce(AgentStore) -> Result<T, CheckpointError> + Send + 'static,
    ) -> JoinHandle<Result<T, CheckpointError>> {
        let (home, agent, settings) = (self.home().clone(), agent.clone(), self.config().checkpoints);
        let ways = self.workspaces.get_or_init(Workspaces::of_this_machine).clone();
        let fence = self.store.syncer().fence().clone();
        tokio::task::spawn_blocking(move || {
            work(AgentStore::open(&home, &agent, settings)?.reached_by(ways).fenced(fence))
        })
    }

    /// Makes a checkpoint for a person.
    ///
    /// # Errors
    ///
    /// Returns [`CheckpointError::Elsewhere`] if another gateway has the agent, and another error if the checkpoint can't be
    /// written or its files can't be kept.
    pub(crate) async fn make(
        &self,
        agent: &Agent,
        by: String,
        note: Option<String>,
    ) -> Result<Value, CheckpointError> {
        let _lease = self.keep(&agent.id).await?;
        let gate = self.gate(&agent.id);
        // A checkpoint between two states would be of no use.
        if let Some(_alone) = gate.alone().await {
            self.complete(agent).await?;
        }
        let _inside = gate.look().await;
        let files = self.store.sessions().recent_files(&agent.id, RECENT).await?;
        let (home, id) = (self.home().clone(), agent.id.clone());
        self.blocking(agent, move |mut store| {
            let transcripts = transcript_lengths(&home, &id, files);
            let made = store.make(NewCheckpoint {
                reason: Reason::Asked { by, note },
                is_listed: true,
                is_open: &|| gate.is_open(),
                transcripts,
                stop: &AtomicBool::new(false),
            })?;
            store.tidy()?;
            Ok(view::record(&made, None, packages::stores_of(&home).as_deref()))
        })
        .await
    }

    /// Returns the checkpoints that people can go back to, newest first.
    ///
    /// # Errors
    ///
    /// Returns an error if they can't be read.
    pub(crate) async fn list(&self, agent: &Agent) -> Result<Vec<Value>, CheckpointError> {
        if !self.home().checkpoints(&agent.id).exists() {
            return Ok(Vec::new());
        }
        let home = self.home().clone();
        self.blocking(agent, move |store| {
            let records = store.log.read()?;
            let stores = packages::stores_of(&home);
            let mut shown = Vec::new();
            let mut before: Option<&CheckpointRecord> = None;
            for record in records.iter().filter(|record| record.is_listed()) {
                let changed = before.and_then(|before| store.count_changes(before.files, record.files));
                shown.push(view::record(record, changed, stores.as_deref()));
                before = Some(record);
            }
            shown.reverse();
            Ok(shown)
        })
        .await
    }

    /// Completes what an earlier process has left: interrupted rewinds, and turns that it did not end, of the agents for which
    /// `is_wanted` returns `true`. The caller makes sure that no turn of them begins meanwhile.
    pub(crate) async fn recover(&self, is_wanted: impl Fn(&AgentId) -> bool) {
        self.finish_forks().await;
        for agent in &self.config().agents {
            if is_wanted(&agent.id) {
                self.recover_agent(&agent.id).await;
            }
        }
    }

    /// Finishes or undoes a fork of a team that an earlier process has left. A failure is only logged.
    pub(crate) async fn finish_forks(&self) {
        if let Err(error) = self.finish_team_fork().await {
            tracing::error!(
                error = chain(&error),
                "failed to finish or to undo an interrupted fork of a team"
            );
        }
    }

    /// Completes what an earlier process has left of an agent's checkpoints, as [`Self::recover`] does.
    pub(crate) async fn recover_agent(&self, agent: &AgentId) {
        let config = self.config();
        let folder = self.home().checkpoints(agent);
        let Some(agent) = config.agent(agent).filter(|_| folder.exists()) else { return };
        // A gateway that stands still, and from which this one has taken over, may hold them for long. Only an interrupted rewind
        // has to wait for that: without one, the next checkpoint has also what has changed since the last.
        let free = async {
            while agent_store::is_in_use(&folder) {
                tokio::time::sleep(HELD_PAUSE).await;
            }
        };
        if !journal::path(&folder).exists() && tokio::time::timeout(HELD_LIMIT, free).await.is_err() {
            tracing::warn!(agent = %agent.id, "another gateway works on the checkpoints of an agent that goes on here");
            return;
        }
        // A rewind that somebody has asked for meanwhile has completed the one before it.
        let Some(_alone) = self.gate(&agent.id).alone().await else { return };
        if let Err(error) = self.complete(agent).await {
            tracing::error!(agent = %agent.id, error = chain(&error), "failed to complete an interrupted rewind");
        }
        let closed = self.blocking(agent, |mut store| {
            // What changes from now on is not the work of the turn that ended with the process.
            if store.log.read()?.last().is_some_and(|last| last.is_open) {
                store.make(NewCheckpoint {
                    reason: Reason::Recovered,
                    is_listed: false,
                    is_open: &|| false,
                    transcripts: std::collections::BTreeMap::new(),
                    stop: &AtomicBool::new(false),
                })?;
            }
            Ok(())
        });
        if let Err(error) = closed.await {
            tracing::error!(agent = %agent.id, error = chain(&error), "failed to look at a workspace");
        }
    }

    /// Lets a turn in, once no rewind of the agent is under way or interrupted.
    async fn enter(&self, agent: &AgentId, gate: &Arc<Gate>) -> TurnPass {
        loop {
            let pass = gate.enter().await;
            let path = journal::path(&self.home().checkpoints(agent));
            let config = self.config();
            let Some(agent) = config.agent(agent).filter(|_| path.exists()) else { return pass };
            // The agent must not see files of two moments. Its turns wait until that is mended.
            drop(pass);
            if let Some(_alone) = gate.alone().await
                && let Err(error) = self.complete(agent).await
            {
                tracing::error!(agent = %agent.id, error = chain(&error), "failed to complete an interrupted rewind");
            }
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
    }

    /// Returns the agents with a rewind that was interrupted.
    pub(crate) fn interrupted(home: &Home, config: &Config) -> Vec<AgentId> {
        let is_interrupted = |agent: &&Agent| journal::path(&home.checkpoints(&agent.id)).exists();
        config.agents.iter().filter(is_interrupted).map(|agent| agent.id.clone()).collect()
    }
}

/// The most sessions that are looked at before each turn.
const RECENT: u32 = 20;

/// A turn, from its beginning to its end.
struct Watched {
    checkpoints: Arc<Checkpoints>,
    agent: Agent,
    session: SessionKey,
    turn: TurnId,
    /// `None` once the turn has ended.
    pass: Option<TurnPass>,
    /// Keeps the agent here for the look at the turn's end, which outlasts the turn.
    lease: Option<Arc<LeaseUse>>,
    ready: watch::Receiver<bool>,
    stop: Arc<AtomicBool>,
    /// `true` if the turn's end is looked at, too.
    is_kept: bool,
}

impl WatchedTurn for Watched {
    fn may_change(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if self.waited().await {
                return;
            }
            tracing::warn!(agent = %self.agent.id, "a turn goes on without a checkpoint, which takes too long");
            self.stop.store(true, Ordering::Relaxed);
            // The job ends at the next file. Waiting for it keeps later changes out of what it has read.
            self.waited().await;
        })
    }
}

impl Watched {
    /// Waits until the checkpoint is complete. Returns `false` if that takes too long.
    async fn waited(&self) -> bool {
        let mut ready = self.ready.clone();
        let waited = tokio::time::timeout(TURN_TIMEOUT, async move {
            // An error means that the job has ended.
            ready.wait_for(|ready| *ready).await.is_ok()
        });
        waited.await.is_ok()
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // The turn is over. No rewind begins, and no other gateway gets the agent, before what it has left is recorded.
        let inside = (self.pass.take().map(|pass| pass.share()), self.lease.take());
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if !self.is_kept {
            return;
        }
        let (checkpoints, agent) = (Arc::clone(&self.checkpoints), self.agent.clone());
        let reason = Reason::TurnEnd { session: self.session.clone(), turn: self.turn };
        let gate = checkpoints.gate(&agent.id);
        // One look after the last of several ends shows what all of them have left.
        if gate.end_waits.swap(true, Ordering::AcqRel) {
            return;
        }
        runtime.spawn(async move {
            let _inside = inside;
            let begun = Arc::clone(&gate);
            let ended = checkpoints.blocking(&agent, move |mut store| {
                begun.end_waits.store(false, Ordering::Release);
                store.make(NewCheckpoint {
                    reason,
                    is_listed: false,
                    is_open: &|| begun.is_open(),
                    transcripts: std::collections::BTreeMap::new(),
                    stop: &AtomicBool::new(false),
                })?;
                store.tidy_later()
            });
            if let Err(error) = ended.await {
                // It may not even have begun.
                gate.end_waits.store(false, Ordering::Release);
                tracing::warn!(agent = %agent.id, error = chain(&error), "failed to look at a workspace after a turn");
            }
        });
    }
}

/// Makes a checkpoint at the start of each turn.
pub(crate) struct TurnCheckpoints(pub(crate) Arc<Checkpoints>);

impl TurnWatch for TurnCheckpoints {
    fn begin<'a>(
        &'a self,
        agent: &'a AgentId,
        session: &'a SessionKey,
        turn: TurnId,
    ) -> BoxFuture<'a, Box<dyn WatchedTurn>> {
        Box::pin(async move {
            let checkpoints = Arc::clone(&self.0);
            let gate = checkpoints.gate(agent);
            let pass = checkpoints.enter(agent, &gate).await;
            let lease = checkpoints.ownership.enter_agent(agent).map(Arc::new);
            let config = checkpoints.config();
            let (done, ready) = watch::channel(false);
            let stop = Arc::new(AtomicBool::new(false));
            // An agent that was removed a moment ago has no more turns worth a checkpoint.
            let Some(agent) = config.agent(agent).cloned() else {
                return Box::new(Passed { _pass: pass }) as Box<dyn WatchedTurn>;
            };
            let is_kept = config.checkpoints.turns;
            let reason = Reason::Turn { session: session.clone(), turn };
            if is_kept || checkpoints.home().checkpoints(&agent.id).exists() {
                // Read before anything of this turn is written.
                let files = checkpoints.store.sessions().recent_files(&agent.id, RECENT).await;
                let transcripts =
                    transcript_lengths(checkpoints.home(), &agent.id, files.unwrap_or_default());
                let (checkpoints, agent, stop) = (Arc::clone(&checkpoints), agent.clone(), Arc::clone(&stop));
                let inside = (pass.share(), lease.clone());
                tokio::spawn(async move {
                    // A turn can end before its checkpoint is complete.
                    let _inside = inside;
                    let made = checkpoints.blocking(&agent, move |mut store| {
                        if !is_kept {
                            return store.note_unwatched(reason);
                        }
                        store
                            .make(NewCheckpoint {
                                reason,
                                is_listed: true,
                                is_open: &|| gate.is_open(),
                                transcripts,
                                stop: &stop,
                            })
                            .map(drop)
                    });
                    if let Err(error) = made.await {
                        let error = chain(&error);
                        tracing::error!(agent = %agent.id, error, "failed to make a checkpoint");
                    }
                    // Nobody waits if the turn has ended already.
                    let _ = done.send(true);
                });
            }
            Box::new(Watched {
                checkpoints,
                agent,
                session: session.clone(),
                turn,
                pass: Some(pass),
                lease,
                ready,
                stop,
                is_kept,
            })
        })
    }
}

/// A turn of which no checkpoint is made.
struct Passed {
    _pass: TurnPass,
}

impl WatchedTurn for Passed {
    fn may_change(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}
