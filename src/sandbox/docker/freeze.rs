//! Freezing and thawing. What is wanted is in the slot; the container is brought in line with it under the
//! slot's lock, by whoever changed it or made the container meanwhile, so that the last word holds.

use std::sync::Arc;
use std::sync::PoisonError;

use bollard::models::ContainerStateStatusEnum as Status;
use bollard::query_parameters::InspectContainerOptions;
use futures_util::future;

use crate::id::AgentId;
use crate::sandbox::helper::HelperError;
use crate::sandbox::{SandboxError, engine, owned};

use super::DockerSandbox;
use super::slot::{Live, Slot};

/// Whether an agent's sandbox is to stand still.
pub type Standing = Arc<dyn Fn(&AgentId) -> bool + Send + Sync>;

impl DockerSandbox {
    pub(super) async fn freeze(&self, agent: &AgentId, frozen: bool) -> Result<(), SandboxError> {
        let slot = self.slot(agent);
        slot.set_frozen(frozen);
        self.settle(agent, &slot).await
    }

    /// Brings all sandboxes in line with `standing`, and those that come later. The first failure; the others
    /// are still frozen or thawed.
    ///
    /// # Errors
    ///
    /// As [`SandboxError`] says.
    pub async fn follow(&self, standing: Standing) -> Result<(), SandboxError> {
        *self.standing.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&standing);
        // Before the engine is asked: whoever makes a container meanwhile sees it.
        let mut slots: Vec<(AgentId, Arc<Slot>)> = {
            let slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
            let differs = |(agent, slot): &(&AgentId, &Arc<Slot>)| slot.is_frozen() != standing(agent);
            let differing = slots.iter().filter(differs);
            differing.map(|(agent, slot)| (agent.clone(), Arc::clone(slot))).collect()
        };
        slots.iter().for_each(|(agent, slot)| slot.set_frozen(standing(agent)));
        // Of a gateway before this one there may be more.
        for container in self.containers().await? {
            let agent = container.agent.and_then(|agent| agent.parse::<AgentId>().ok());
            let is_still = container.state == "paused";
            if let Some(agent) = agent.filter(|agent| !slots.iter().any(|(known, _)| known == agent))
                && is_still != standing(&agent)
            {
                let slot = self.slot(&agent);
                slot.set_frozen(standing(&agent));
                slots.push((agent, slot));
            }
        }
        let settled = slots.iter().map(|(agent, slot)| self.settle(agent, slot));
        future::join_all(settled).await.into_iter().collect()
    }

    pub(super) fn standing(&self) -> Standing {
        Arc::clone(&self.standing.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Brings the container in line with what the slot says.
    pub(super) async fn settle(&self, agent: &AgentId, slot: &Slot) -> Result<(), SandboxError> {
        let _freezing = slot.freezing.lock().await;
        let Some((id, found)) = self.own_container(agent).await? else { return Ok(()) };
        match (slot.is_frozen(), found.state.and_then(|state| state.status)) {
            (true, Some(Status::RUNNING)) => owned::freeze(&self.engine, &id).await,
            (false, Some(Status::PAUSED)) => owned::thaw(&self.engine, &id).await,
            _ => Ok(()),
        }
    }

    /// What an error of the helper means. A helper that is silent because somebody froze its container behind
    /// flock's back is not lost.
    pub(super) async fn explained(&self, agent: &AgentId, live: &Live, error: HelperError) -> SandboxError {
        if error.is_lost()
            && let Ok(client) = self.engine.client()
            && let found = client.inspect_container(&live.container, None::<InspectContainerOptions>)
            && let Ok(Some(found)) = self.engine.find("look at it", engine::QUICK, found).await
            && found.state.and_then(|state| state.status) == Some(Status::PAUSED)
        {
            return SandboxError::Frozen(agent.clone());
        }
        error.of(agent)
    }
}
