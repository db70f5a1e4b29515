//! All sandboxes of the home together, and one container's end.

use bollard::models::ContainerInspectResponse;
use bollard::query_parameters::InspectContainerOptions;

use crate::id::AgentId;
use crate::sandbox::{SandboxError, engine, names, owned};

use super::DockerSandbox;

impl DockerSandbox {
    /// The home's containers, the store's among them, by name.
    ///
    /// # Errors
    ///
    /// As `Engine::call`.
    pub async fn containers(&self) -> Result<Vec<owned::Container>, SandboxError> {
        owned::list(&self.engine, &self.home).await
    }

    /// Ends every container of the home at once; they stay, stopped.
    ///
    /// # Errors
    ///
    /// The first failure; the others are still stopped.
    pub async fn stop_all(&self) -> Result<(), SandboxError> {
        self.forget_all();
        owned::stop_all(&self.engine, &self.home).await
    }

    /// Removes every container of the home.
    ///
    /// # Errors
    ///
    /// The first failure; the others are still removed.
    pub async fn remove_all(&self) -> Result<(), SandboxError> {
        self.forget_all();
        owned::remove_all(&self.engine, &self.home).await
    }

    /// Lets go of all sandboxes and leaves them running, for whoever comes next.
    pub fn forget_all(&self) {
        let slots = self.slots.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        slots.values().for_each(|slot| slot.forget());
    }

    /// The agent's container and by what it is named best; `None` where there is none.
    pub(super) async fn own_container(
        &self,
        agent: &AgentId,
    ) -> Result<Option<(String, ContainerInspectResponse)>, SandboxError> {
        let name = names::sandbox(&self.home, agent);
        let client = self.engine.client()?;
        let what = format!("look at {name}");
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
            Some((id, _)) => owned::remove(&self.engine, &id).await,
            None => Ok(()),
        }
    }
}
