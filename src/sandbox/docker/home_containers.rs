//! Operations on all sandboxes of the home, and the lookup and removal of one agent's container.

use bollard::models::ContainerInspectResponse;
use bollard::query_parameters::InspectContainerOptions;

use crate::id::AgentId;
use crate::sandbox::{SandboxError, containers, engine, names};

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

    /// Removes all containers of the home.
    ///
    /// # Errors
    ///
    /// Returns the first failure. The other containers are removed all the same.
    pub async fn remove_all(&self) -> Result<(), SandboxError> {
        self.disconnect_all();
        containers::remove_all(&self.engine, &self.home).await
    }

    /// Drops the connections to all sandboxes and leaves the containers running for the next process.
    pub(crate) fn disconnect_all(&self) {
        let slots = self.slots.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        slots.values().for_each(|slot| slot.forget());
    }

    /// Returns the agent's container and its id, or its name if the engine reports no id. `None` if there is none.
    ///
    /// # Errors
    ///
    /// Returns [`SandboxError::Foreign`] if a container of that name belongs to another home or to nobody.
    pub(super) async fn own_container(
        &self,
        agent: &AgentId,
    ) -> Result<Option<(String, ContainerInspectResponse)>, SandboxError> {
        let name = names::sandbox(&self.home, agent);
        let client = self.engine.client()?;
        let what = format!("inspect {name}");
        let found = client.inspect_container(&name, None::<InspectContainerOptions>);
        let Some(found) = self.engine.find(&what, engine::QUICK, found).await? else { return Ok(None) };
        let labels = found.config.as_ref().and_then(|config| config.labels.as_ref());
        if labels.and_then(|labels| labels.get(names::LABEL_HOME)) != Some(&names::owner(&self.home)) {
            return Err(SandboxError::Foreign { name });
        }
        Ok(Some((found.id.clone().unwrap_or(name), found)))
    }

    pub(super) async fn remove_container(&self, agent: &AgentId) -> Result<(), SandboxError> {
        match self.own_container(agent).await? {
            Some((id, _)) => containers::remove(&self.engine, &id).await,
            None => Ok(()),
        }
    }
}
