//! Operations on all sandboxes of the home, and the lookup and removal of one agent's container.

use crate::id::AgentId;
use crate::sandbox::containers::OwnContainer;
use crate::sandbox::{SandboxError, containers, names};

use super::DockerSandbox;

impl DockerSandbox {
    /// Returns all containers of the home, sorted by name. The store's container is among them.
    pub async fn containers(&self) -> Result<Vec<containers::Container>, SandboxError> {
        containers::list(&self.engine, &self.home).await
    }

    /// Kills all containers of the home at the same time. The stopped containers remain.
    ///
    /// # Errors
    ///
    /// Returns the first failure. The other containers are killed all the same.
    pub async fn stop_all(&self) -> Result<(), SandboxError> {
        self.disconnect_all();
        containers::stop_all(&self.engine, &self.home).await
    }

    /// Drops the connections to all sandboxes and leaves the containers running for the next process.
    pub(crate) fn disconnect_all(&self) {
        let slots = self.slots.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        slots.values().for_each(|slot| slot.forget());
    }

    /// Returns the agent's container, or `None` if there is none.
    ///
    /// # Errors
    ///
    /// Returns [`SandboxError::Foreign`] if a container of that name belongs to another home or to nobody.
    pub(super) async fn own_container(&self, agent: &AgentId) -> Result<Option<OwnContainer>, SandboxError> {
        containers::find_own(&self.engine, &self.home, &names::sandbox(&self.home, agent)).await
    }

    pub(super) async fn remove_container(&self, agent: &AgentId) -> Result<(), SandboxError> {
        match self.own_container(agent).await? {
            Some(found) => containers::remove(&self.engine, &found.id).await,
            None => Ok(()),
        }
    }
}
