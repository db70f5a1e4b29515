//! Chooses the container for a call: the warm one, or one that is created or repaired first. It also decides what
//! happens to the commands in a container that has to be replaced.

use std::sync::Arc;

use crate::error::chain;
use crate::id::AgentId;
use crate::sandbox::{SandboxError, making};

use super::DockerSandbox;
use super::slot::{ContainerPlan, LiveContainer, Slot, Workload};

/// The purpose for which a container is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A command, which any container of the agent can run.
    Command,
    /// The agent program that runs the agent's turns, whose files must be mounted.
    Program,
}

impl DockerSandbox {
    /// Returns a container that is ready for commands: the warm one, or one that was just created or repaired.
    pub(super) async fn live(
        &self,
        agent: &AgentId,
        slot: &Slot,
    ) -> Result<Arc<LiveContainer>, SandboxError> {
        self.acquire_for(agent, slot, Purpose::Command).await
    }

    pub(super) async fn acquire_for(
        &self,
        agent: &AgentId,
        slot: &Slot,
        need: Purpose,
    ) -> Result<Arc<LiveContainer>, SandboxError> {
        let (plan, making) = loop {
            let plan = self.plan(agent).await?;
            if slot.is_frozen() {
                return Err(SandboxError::Frozen(agent.clone()));
            }
            let found = slot.live();
            if let Some(live) = found.clone().filter(|live| live.is_alive()) {
                if live.fits(&plan) {
                    return Ok(live);
                }
                match decide_replacement(agent, slot, &live, &plan, need).await {
                    Replacement::Stays => return Ok(live),
                    Replacement::GoesWhenIdle => {
                        live.active.wait().await;
                        continue;
                    }
                    Replacement::Goes => {}
                }
            }
            let making = making::take(&slot.making).await;
            // Whoever held the lock may have made a new container, from a plan that differs from this one: making it
            // writes files that an earlier plan does not know. Making it again would kill what has started in it, so
            // start over.
            let is_as_found = match (&found, slot.live()) {
                (None, None) => true,
                (Some(found), Some(now)) => Arc::ptr_eq(found, &now),
                _ => false,
            };
            if is_as_found {
                // The configuration may have changed during the wait: an agent that is gone gets no container.
                break (self.plan(agent).await?, making);
            }
        };
        // The old container is not used any more, even if making the new one fails.
        // One that is in another engine is found by nobody from now on. In the same engine, it is replaced or used again below.
        if let Some(old) = slot.live().filter(|old| old.engine() != &plan.engine.engine) {
            self.kill_abandoned(&old);
        }
        slot.forget();
        let (live, probed) = Box::pin(self.make(agent, plan, &making)).await?;
        slot.record_probe(probed.clone());
        if let Err(error) = probed.verdict(agent) {
            // A sandbox that is not confined must not run anything.
            self.kill(&live).await;
            return Err(error);
        }
        // Before the container is used for anything else, so that the first command finds them.
        Box::pin(self.make_clones(agent, &live)).await;
        let live = Arc::new(live);
        slot.set(Arc::clone(&live));
        // After that: who leaves a removed engine from now on finds the container in the slot.
        self.check_engine(agent, slot, &live)?;
        // A freeze may have come in while the container was made. It is applied here, because the freeze itself found
        // no container.
        if slot.is_frozen() {
            self.settle(agent, slot).await?;
            return Err(SandboxError::Frozen(agent.clone()));
        }
        Ok(live)
    }
}

/// The decision about a container that does not match the plan.
enum Replacement {
    /// It is used as it is.
    Stays,
    /// It is replaced when no caller waits for a command in it.
    GoesWhenIdle,
    /// It is replaced now.
    Goes,
}

/// Decides about a container that does not match the plan. Background jobs that end with it are recorded in the slot.
async fn decide_replacement(
    agent: &AgentId,
    slot: &Slot,
    live: &LiveContainer,
    plan: &ContainerPlan,
    need: Purpose,
) -> Replacement {
    let is_wanted = live.has_revoked_mount(plan) || (need == Purpose::Program && live.lacks(plan));
    let work = live.work().await.unwrap_or_else(|error| {
        // The helper hangs. A new container solves that.
        tracing::warn!(%agent, error = chain(&error), "its sandbox does not tell what runs in it and is made anew");
        Workload::None
    });
    match work {
        Workload::None => Replacement::Goes,
        // A changed specification alone waits until nothing runs.
        _ if !is_wanted => {
            tracing::info!(%agent, "its sandbox has changed settings and is made anew when nothing runs");
            Replacement::Stays
        }
        // A mount that is no longer approved, or files that a turn needs, cannot wait for background jobs that the
        // agent lets run on.
        Workload::Jobs(jobs) => {
            let commands: Vec<String> = jobs
                .iter()
                .map(|job| format!("{} ({})", job.id, crate::clean::inline(&job.command)))
                .collect();
            tracing::warn!(
                %agent,
                jobs = commands.join(", "),
                "its sandbox has changed settings and is made anew; its background jobs are ended"
            );
            slot.lose(jobs);
            Replacement::Goes
        }
        Workload::Awaited if live.has_revoked_mount(plan) => Replacement::Goes,
        Workload::Awaited => {
            tracing::info!(%agent, "a turn waits until another one ends, because its sandbox has to be made anew");
            Replacement::GoesWhenIdle
        }
    }
}
