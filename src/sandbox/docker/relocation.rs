//! Moves a sandbox from one engine to another. The container is removed before the agent is placed elsewhere, so that two
//! containers never have the same workspace.

use std::sync::Arc;

use crate::error::chain;
use crate::home::elsewhere;
use crate::id::AgentId;
use crate::sandbox::engines::{PlacedEngine, PlannedMove};
use crate::sandbox::image;
use crate::sandbox::workspace_volume::WorkspaceVolume;
use crate::sandbox::{Relocation, SandboxError, containers, names, workspace};

use super::DockerSandbox;
use super::slot::{LiveContainer, Workload};

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
            return waits("it is frozen; the command that ends this is flock thaw");
        }
        if let Some(live) = slot.live().filter(|live| live.is_alive()) {
            match live.work().await {
                Workload::None => {}
                Workload::Awaited => return waits("a command runs in its sandbox"),
                Workload::Jobs(jobs) => {
                    return Ok(Relocation::Waits(format!(
                        "{} background jobs run in its sandbox",
                        jobs.len()
                    )));
                }
            }
            // One may have begun while the helper was asked for its jobs.
            if !live.active.is_zero() {
                return waits("a command runs in its sandbox");
            }
        }
        let Some(from) = self.engines.find(&planned.from) else { return waits("its engine was removed") };
        // Before the engine is asked: a command that begins meanwhile waits for the lock instead of ending with the container.
        slot.forget();
        let name = names::sandbox(&self.home, &planned.agent);
        if let Some(found) = containers::find_own(&from.engine, &self.home, &name).await? {
            containers::remove(&from.engine, &found.id).await?;
        }
        // The workspace comes back before the agent is placed elsewhere. From here its next container takes it along.
        if from.engine.is_remote() {
            self.bring_back(&planned.agent, &from).await?;
        }
        let to = self.engines.commit_move(planned).await?;
        if to == planned.from {
            return waits("its engine fits again, or has stopped answering");
        }
        tracing::info!(agent = %planned.agent, from = %planned.from, %to, "an agent moved to another engine");
        Ok(Relocation::Done(to))
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
            home: &self.home,
            agent,
            engine: &from.engine,
            mark: &mark,
            image: &image,
            user,
        };
        Box::pin(place.bring_back(&found.workspace, owner)).await
    }

    /// Kills the container of an agent on an engine that was removed from the configuration, if that engine still answers.
    /// The agent does not wait for it.
    pub(super) fn kill_abandoned(&self, old: &Arc<LiveContainer>) {
        let old = Arc::clone(old);
        tokio::spawn(async move {
            if let Err(error) = containers::remove(old.engine(), &old.container).await {
                let (container, engine) = (&old.container, &old.plan.engine.name);
                tracing::warn!(container, %engine, error = chain(&error), "an abandoned container may still run");
            }
        });
    }
}
