//! Freezes and thaws containers. The slot holds the wanted state. The container is brought in line with it under the
//! slot's lock, by whoever changed the state or created a container in the meantime, so that the last wish wins.

use std::sync::Arc;
use std::sync::PoisonError;

use bollard::models::ContainerStateStatusEnum as Status;
use futures_util::future;

use crate::id::AgentId;
use crate::sandbox::engine::Engine;
use crate::sandbox::helper::HelperError;
use crate::sandbox::{FreezeCheck, SandboxError, containers};

use super::DockerSandbox;
use super::slot::{LiveContainer, Slot};

impl DockerSandbox {
    pub(super) async fn freeze(&self, agent: &AgentId, frozen: bool) -> Result<(), SandboxError> {
        let slot = self.slot(agent);
        slot.set_frozen(frozen);
        self.settle(agent, &slot).await
    }

    /// Brings all sandboxes in line with `standing`, now and when they are created later. The wish counts from the call
    /// on, also before the future is polled, so that a later call has the last word.
    ///
    /// # Errors
    ///
    /// The future returns the first failure of listing, freezing or thawing. The other containers are frozen or thawed all
    /// the same, and an engine that does not answer delays only its own.
    pub fn follow(&self, standing: FreezeCheck) -> impl Future<Output = Result<(), SandboxError>> + '_ {
        let wished = Arc::clone(&standing);
        *self.standing.lock().unwrap_or_else(PoisonError::into_inner) = standing;
        // Update the slots before asking the engine, so that a container created in the meantime sees the new state.
        let known: Vec<(AgentId, Arc<Slot>)> = {
            let slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
            let differs = |(agent, slot): &(&AgentId, &Arc<Slot>)| slot.is_frozen() != wished(agent);
            let differing = slots.iter().filter(differs);
            differing.map(|(agent, slot)| (agent.clone(), Arc::clone(slot))).collect()
        };
        known.iter().for_each(|(agent, slot)| slot.set_frozen(wished(agent)));
        async move {
            let settled = future::join_all(known.iter().map(|(agent, slot)| self.settle(agent, slot)));
            let engines = self.engines.all();
            let left = engines.iter().map(|found| self.follow_leftovers(&found.engine, &known));
            let (settled, left) = tokio::join!(settled, future::join_all(left));
            settled.into_iter().chain(left).collect()
        }
    }

    /// Freezes or thaws the containers of an engine that have no slot yet, because a previous gateway left them.
    async fn follow_leftovers(
        &self,
        engine: &Engine,
        known: &[(AgentId, Arc<Slot>)],
    ) -> Result<(), SandboxError> {
        let standing = self.standing();
        let mut slots: Vec<(AgentId, Arc<Slot>)> = Vec::new();
        for container in containers::list(engine, &self.home).await? {
            let agent = container.agent.and_then(|agent| agent.parse::<AgentId>().ok());
            let is_still = container.state == "paused";
            if let Some(agent) = agent.filter(|agent| !known.iter().any(|(known, _)| known == agent))
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

    pub(super) fn standing(&self) -> FreezeCheck {
        Arc::clone(&self.standing.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Brings the agent's container in line with the slot's wanted state.
    pub(super) async fn settle(&self, agent: &AgentId, slot: &Slot) -> Result<(), SandboxError> {
        // Held until the engine has answered, so that a freeze and a thaw cannot overtake each other.
        let _freezing = slot.freezing.lock().await;
        let Some((engine, found)) = self.own_container(agent).await? else { return Ok(()) };
        match (slot.is_frozen(), found.state) {
            (true, Some(Status::RUNNING)) => containers::freeze(&engine, &found.id).await,
            (false, Some(Status::PAUSED)) => containers::thaw(&engine, &found.id).await,
            // A stopped container has no processes to freeze.
            _ => Ok(()),
        }
    }

    /// Converts an error of the helper. A helper that does not answer because somebody froze its container directly
    /// through the engine is reported as frozen, not as lost.
    pub(super) async fn explained(
        &self,
        agent: &AgentId,
        live: &LiveContainer,
        error: HelperError,
    ) -> SandboxError {
        if error.is_lost()
            && let Ok(Some(found)) = containers::inspect(live.engine(), &live.container).await
            && found.state.and_then(|state| state.status) == Some(Status::PAUSED)
        {
            return SandboxError::Frozen(agent.clone());
        }
        error.of(agent)
    }
}
