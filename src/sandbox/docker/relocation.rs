//! Moves a sandbox from one engine to another. The container is removed before the agent is placed elsewhere, so that two
//! containers never have the same workspace.

use std::sync::Arc;

use crate::error::chain;
use crate::sandbox::engines::PlannedMove;
use crate::sandbox::{Relocation, SandboxError, containers, names};

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
        let to = self.engines.commit_move(planned).await?;
        if to == planned.from {
            return waits("its engine fits again, or has stopped answering");
        }
        tracing::info!(agent = %planned.agent, from = %planned.from, %to, "an agent moved to another engine");
        Ok(Relocation::Done(to))
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
