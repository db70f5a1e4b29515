//! Moves a sandbox from one engine to another. The container is removed before the agent is placed elsewhere, so that two
//! containers never have the same workspace.

use std::sync::Arc;

use bollard::models::ContainerStateStatusEnum as Status;

use crate::error::chain;
use crate::home::elsewhere;
use crate::id::AgentId;
use crate::sandbox::containers::OwnContainer;
use crate::sandbox::engine::{self, Engine};
use crate::sandbox::engines::{self, PlacedEngine, PlannedMove};
use crate::sandbox::image;
use crate::sandbox::workspace_volume::WorkspaceVolume;
use crate::sandbox::{BackgroundJob, Relocation, SandboxError, containers, names, work_left, workspace};

use super::DockerSandbox;
use super::attach::attach;
use super::slot::{CommandTransport, LiveContainer, Slot, Workload};

/// The work in an agent's container, as far as this process knows it without asking the engine.
enum KnownWork {
    Nothing,
    /// Something runs in it, or its helper does not tell. The text is the reason for which it stays.
    Runs(String),
    /// There is no connection to its helper. Jobs may run all the same: the gateway was restarted, or a break of the
    /// connection lasted too long.
    Unknown,
}

impl KnownWork {
    async fn of(slot: &Slot) -> Self {
        let Some(live) = slot.live() else { return Self::Unknown };
        // Asked first: a command that goes through the engine's exec needs no connection.
        if !live.active.is_zero() {
            return Self::Runs(work_left::COMMAND.to_owned());
        }
        if !live.is_alive() || matches!(live.line, CommandTransport::Exec) {
            return Self::Unknown;
        }
        match work_left::told(live.work()).await {
            Ok(Workload::None) => Self::Nothing,
            Ok(Workload::Awaited) => Self::Runs(work_left::COMMAND.to_owned()),
            Ok(Workload::Jobs(jobs)) => work_left::of_jobs(&jobs).map_or(Self::Nothing, Self::Runs),
            Err(reason) => Self::Runs(reason),
        }
    }
}

impl DockerSandbox {
    /// Moves an agent's sandbox if nothing runs in it. The next command makes the new container.
    ///
    /// # Errors
    ///
    /// Returns an error if the container can't be removed from its engine, or if no engine fits any more. The agent then
    /// stays where it is.
    pub(super) async fn relocate_idle(&self, planned: &PlannedMove) -> Result<Relocation, SandboxError> {
        let waits = |reason: &str| Ok(Relocation::Waits(reason.to_owned()));
        if let Err(reason) = &planned.to {
            return Ok(Relocation::Waits(reason.to_string()));
        }
        let slot = self.slot(&planned.agent);
        // Whoever holds the lock may be waiting for an engine that does not answer.
        let Ok(_making) = slot.making.try_lock() else { return waits("its sandbox is being made") };
        if slot.is_frozen() {
            return waits(work_left::FROZEN);
        }
        let is_idle = match KnownWork::of(&slot).await {
            KnownWork::Runs(reason) => return Ok(Relocation::Waits(reason)),
            KnownWork::Nothing => true,
            KnownWork::Unknown => false,
        };
        let Some(from) = self.engines.find(&planned.from) else { return waits("its engine was removed") };
        // Before the engine is asked: a command that begins meanwhile waits for the lock instead of ending with the container.
        slot.forget();
        let name = names::sandbox(&self.home, &planned.agent);
        if let Some(found) = containers::find_own(&from.engine, &self.home, &name).await? {
            if !is_idle && let Some(reason) = work_in(&planned.agent, &from.engine, &found).await {
                return Ok(Relocation::Waits(reason));
            }
            containers::remove(&from.engine, &found.id).await?;
        }
        // The workspace comes back before the agent is placed elsewhere. From here its next container takes it along.
        if from.engine.is_remote() {
            self.bring_back(&planned.agent, &from).await?;
        }
        let to = self.engines.commit_move(planned).await?;
        if to == planned.from {
            return waits("its engine fits again or has stopped answering, or the other one fits no more");
        }
        tracing::info!(agent = %planned.agent, from = %planned.from, %to, "an agent moved to another engine");
        Ok(Relocation::Done(to))
    }

    /// Removes the container that an agent has left on an engine that did not answer, unless it is placed there again.
    ///
    /// # Errors
    ///
    /// Returns an error if the container can't be removed or is not this home's, or if the database fails.
    pub(crate) async fn end_leftover(&self, agent: &AgentId, on: &PlacedEngine) -> Result<(), SandboxError> {
        let slot = self.slot(agent);
        // Nobody makes a container meanwhile.
        let _making = slot.making.lock().await;
        if *self.engines.place_of_id(agent).await?.name() == on.name {
            return Ok(());
        }
        slot.forget_if(|live| Arc::ptr_eq(live.engine(), &on.engine));
        let name = names::sandbox(&self.home, agent);
        if let Some(found) = containers::find_own(&on.engine, &self.home, &name).await? {
            containers::remove(&on.engine, &found.id).await?;
            tracing::info!(%agent, engine = %on.name, "the sandbox that an agent had left there was removed");
        }
        Ok(())
    }

    /// Brings an agent's workspace back from an engine on another machine. The volume there is removed when the files are here.
    async fn bring_back(&self, agent: &AgentId, from: &PlacedEngine) -> Result<(), SandboxError> {
        let config = (self.config)();
        let Some(found) = config.agent(agent) else { return Err(SandboxError::Unknown(agent.clone())) };
        // Without a mark the workspace is here, because no container was made there or an earlier move was interrupted.
        let Some(mark) = elsewhere::read(&found.workspace).filter(|mark| mark.engine == from.name) else {
            return Ok(());
        };
        let failed = |(path, source)| SandboxError::Host { path, source };
        let user = workspace::sandbox_user(&found.identity).map_err(failed)?;
        let owner = workspace::owner(&found.identity).map_err(failed)?;
        let image = image::of_agent(&self.home, &config, found);
        let place = WorkspaceVolume {
            home: self.home.clone(),
            agent: agent.clone(),
            engine: Arc::clone(&from.engine),
            mark,
            image,
            user,
        };
        Box::pin(place.bring_back(&found.workspace, owner)).await
    }

    /// Kills the container of an agent on an engine that was removed from the configuration, if that engine still answers.
    /// The agent does not wait for it.
    pub(super) fn kill_abandoned(&self, old: &Arc<LiveContainer>) {
        let (old, killing) = (Arc::clone(old), self.abandoned.begin());
        tokio::spawn(async move {
            if let Err(error) = containers::remove(old.engine(), &old.container).await {
                let (container, engine) = (&old.container, &old.plan.engine.name);
                tracing::warn!(container, %engine, error = chain(&error), "an abandoned container may still run");
            }
            drop(killing);
        });
    }

    /// Ends a container that has just been made, if its engine was removed from the configuration meanwhile: then nobody has
    /// found it in its slot.
    ///
    /// # Errors
    ///
    /// Returns [`SandboxError::Lost`] if the engine was removed.
    pub(super) fn check_engine(
        &self,
        agent: &AgentId,
        slot: &Slot,
        live: &Arc<LiveContainer>,
    ) -> Result<(), SandboxError> {
        let name = &live.plan.engine.name;
        if self.engines.find(name).is_some_and(|now| Arc::ptr_eq(&now.engine, live.engine())) {
            return Ok(());
        }
        slot.forget();
        let reason = engines::removed(name);
        live.disconnect(&reason);
        self.kill_abandoned(live);
        Err(SandboxError::Lost { agent: agent.clone(), reason })
    }

    /// Leaves the engines that were removed from the configuration, by whichever process. What still runs there ends with an
    /// error, its containers are killed if the engine answers, and then the way to the engine ends.
    pub(crate) fn leave_removed(&self) {
        let removed = self.engines.take_removed();
        if removed.is_empty() {
            return;
        }
        let is_there = |live: &LiveContainer| removed.iter().any(|engine| Arc::ptr_eq(engine, live.engine()));
        let slots: Vec<Arc<Slot>> = crate::sync::lock(&self.slots).values().cloned().collect();
        for old in slots.iter().filter_map(|slot| slot.forget_if(is_there)) {
            old.disconnect(&engines::removed(&old.plan.engine.name));
            self.kill_abandoned(&old);
        }
        let abandoned = self.abandoned.clone();
        tokio::spawn(async move {
            let killed = async {
                // Who makes a container there at this moment finds out at the end, and kills it.
                for slot in &slots {
                    drop(slot.making.lock().await);
                }
                abandoned.wait().await;
            };
            // Without the way, nothing there could be killed. One that does not answer is not waited for any longer.
            let _ = tokio::time::timeout(engine::QUICK, killed).await;
            for engine in &removed {
                engine.close().await;
                tracing::info!(engine = engine.endpoint(), "an engine that was removed is not used any more");
            }
        });
    }
}

/// Returns why a container to which this process has no connection has to stay, or `None` if nothing runs in it.
async fn work_in(agent: &AgentId, engine: &Engine, found: &OwnContainer) -> Option<String> {
    match found.state {
        Some(Status::CREATED | Status::EXITED | Status::DEAD | Status::REMOVING) => return None,
        Some(Status::PAUSED) => return Some(work_left::FROZEN.to_owned()),
        _ => {}
    }
    let reason = match work_left::told(Box::pin(jobs_in(agent, engine, &found.id))).await {
        Ok(jobs) => return work_left::of_jobs(&jobs),
        Err(reason) => reason,
    };
    // An engine that lets nobody attach, or a helper that hangs, would keep an idle agent for ever. No job runs where the
    // helper is alone.
    match containers::count_processes(engine, &found.id).await {
        Ok(1) => None,
        Ok(_) | Err(_) => Some(reason),
    }
}

async fn jobs_in(
    agent: &AgentId,
    engine: &Engine,
    container: &str,
) -> Result<Vec<BackgroundJob>, SandboxError> {
    let streams = attach(&engine.client()?, container).await;
    let streams = streams.map_err(|error| engine.error("attach", error))?;
    work_left::ask(streams).await.map_err(|error| error.of(agent))
}
