//! The way to the files of a workspace that lies beside its sandbox on another machine: the helper in the container.

use std::sync::Arc;

use tokio::runtime::Handle;

use super::DockerSandbox;
use crate::home::elsewhere;
use crate::id::AgentId;
use crate::sandbox::SandboxError;
use crate::sandbox::workspace_files::RemoteFiles;

/// The end of the error message for a container whose streams cannot be attached.
const FILES_NEED_STREAMS: &str = "the files of its workspace are reached by them";

impl DockerSandbox {
    /// Returns the files of an agent's workspace if that is on another machine and its container runs or is to be started.
    /// While they are held, the container is not replaced.
    pub(super) async fn files_there(
        &self,
        agent: &AgentId,
        starts: bool,
    ) -> Result<Option<RemoteFiles>, SandboxError> {
        let config = (self.config)();
        let Some(found) = config.agent(agent) else { return Err(SandboxError::Unknown(agent.clone())) };
        if elsewhere::engine_of(&found.workspace).is_none() {
            return Ok(None);
        }
        let slot = self.slot(agent);
        if !starts && (slot.is_frozen() || slot.live().is_none_or(|live| !live.is_alive())) {
            return Ok(None);
        }
        let live = self.live(agent, &slot).await?;
        let busy = live.active.begin();
        let client = Arc::clone(live.helper(agent, FILES_NEED_STREAMS)?);
        Ok(Some(RemoteFiles::new(client, Handle::current()).holding(busy)))
    }
}
