//! Which container a call gets: the warm one, or one that is made or mended first, and what becomes of what runs in the
//! old one.

use std::sync::Arc;

use crate::id::AgentId;
use crate::sandbox::SandboxError;

use super::DockerSandbox;
use super::slot::{Live, Plan, Slot, Work};

/// What a container is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// A command, which every container of the agent can run.
    Command,
    /// The program that runs its turns, which has to be in it.
    Program,
}

impl DockerSandbox {
    /// The agent's container, ready: the warm one, or a made or mended one.
    pub(super) async fn live(&self, agent: &AgentId, slot: &Slot) -> Result<Arc<Live>, SandboxError> {
        self.live_for(agent, slot, Need::Command).await
    }

    pub(super) async fn live_for(
        &self,
        agent: &AgentId,
        slot: &Slot,
        need: Need,
    ) -> Result<Arc<Live>, SandboxError> {
        let (plan, _making) = loop {
            let plan = self.plan(agent)?;
            if slot.is_frozen() {
                return Err(SandboxError::Frozen(agent.clone()));
            }
            let found = slot.live();
            if let Some(live) = found.clone().filter(|live| live.is_alive()) {
                if live.fits(&plan) {
                    return Ok(live);
                }
                match fate(agent, slot, &live, &plan, need).await {
                    Fate::Stays => return Ok(live),
                    Fate::GoesWhenIdle => {
                        live.idle().await;
                        continue;
                    }
                    Fate::Goes => {}
                }
            }
            let making = slot.making.lock().await;
            // Whoever held the lock may have made it, from a plan that this one is not: making writes files that a plan
            // of before does not know. To make it once more would end what has begun in it, so all is looked at again.
            let is_as_found = match (&found, slot.live()) {
                (None, None) => true,
                (Some(found), Some(now)) => Arc::ptr_eq(found, &now),
                _ => false,
            };
            if is_as_found {
                break (plan, making);
            }
        };
        slot.forget();
        let (live, probed) = Box::pin(self.make(agent, plan)).await?;
        slot.note_probe(probed.clone());
        if let Err(error) = probed.verdict(agent) {
            self.kill(&live.container).await;
            return Err(error);
        }
        let live = Arc::new(live);
        slot.set(Arc::clone(&live));
        if slot.is_frozen() {
            self.settle(agent, slot).await?;
            return Err(SandboxError::Frozen(agent.clone()));
        }
        Ok(live)
    }
}

/// What becomes of a container that is not what the plan asks for.
enum Fate {
    /// It is used as it is.
    Stays,
    /// Once nothing runs in it that somebody waits for.
    GoesWhenIdle,
    /// Now.
    Goes,
}

/// Decides it, and tells what is lost.
async fn fate(agent: &AgentId, slot: &Slot, live: &Live, plan: &Plan, need: Need) -> Fate {
    let is_wanted = live.holds_more(plan) || (need == Need::Program && live.lacks(plan));
    match live.work().await {
        Work::None => Fate::Goes,
        // A changed specification waits until nothing runs.
        _ if !is_wanted => {
            tracing::info!(%agent, "its sandbox has changed settings and is made anew when nothing runs");
            Fate::Stays
        }
        // What was taken back, and what a turn can't do without, waits for no job that the agent lets run on.
        Work::Jobs(jobs) => {
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
            Fate::Goes
        }
        Work::Awaited if live.holds_more(plan) => Fate::Goes,
        Work::Awaited => {
            tracing::info!(%agent, "a turn waits for another one's end: its sandbox has to be made anew");
            Fate::GoesWhenIdle
        }
    }
}
