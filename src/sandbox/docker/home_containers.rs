//! Operations on all sandboxes of the home, and the lookup and removal of one agent's container.

use std::sync::Arc;

use futures_util::future;

use crate::id::AgentId;
use crate::sandbox::containers::OwnContainer;
use crate::sandbox::engine::Engine;
use crate::sandbox::{SandboxError, containers, names};

use super::DockerSandbox;

impl DockerSandbox {
    /// Returns all containers of the home in all engines, for each engine sorted by name. The store's containers are among
    /// them.
    ///
    /// # Errors
    ///
    /// Returns the first failure of an engine.
    pub async fn containers(&self) -> Result<Vec<containers::Container>, SandboxError> {
        let engines = self.engines.all();
        let listed = engines.iter().map(|found| containers::list(&found.engine, &self.home));
        let listed: Result<Vec<_>, SandboxError> = future::join_all(listed).await.into_iter().collect();
        Ok(listed?.into_iter().flatten().collect())
    }

    /// Kills all containers of the home at the same time, in all engines. The stopped containers remain.
    ///
    /// # Errors
    ///
    /// Returns the first failure. The other containers are killed all the same.
    pub async fn stop_all(&self) -> Result<(), SandboxError> {
        self.disconnect_all();
        let engines = self.engines.all();
        let stopped = engines.iter().map(|found| containers::stop_all(&found.engine, &self.home));
        future::join_all(stopped).await.into_iter().collect()
    }

    /// Drops the connections to all sandboxes and leaves the containers running for the next process.
    pub(crate) fn disconnect_all(&self) {
        let slots = self.slots.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        slots.values().for_each(|slot| slot.forget());
    }

    /// Returns the agent's container with the engine that it is in, or `None` if there is none.
    ///
    /// # Errors
    ///
    /// Returns [`SandboxError::Foreign`] if a container of that name belongs to another home or to nobody.
    pub(super) async fn own_container(
        &self,
        agent: &AgentId,
    ) -> Result<Option<(Arc<Engine>, OwnContainer)>, SandboxError> {
        let engine = self.engines.of_id(agent).await?.engine;
        let found = containers::find_own(&engine, &self.home, &names::sandbox(&self.home, agent)).await?;
        Ok(found.map(|found| (engine, found)))
    }

    pub(super) async fn remove_container(&self, agent: &AgentId) -> Result<(), SandboxError> {
        match self.own_container(agent).await? {
            Some((engine, found)) => containers::remove(&engine, &found.id).await,
            None => Ok(()),
        }
    }
}
