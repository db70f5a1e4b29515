//! What checkpoints need of a running gateway.

use std::sync::{Arc, Weak};

use super::state::Gateway;
use crate::agent::transcript::RewindRecord;
use crate::agent::{Engine, TurnError};
use crate::checkpoint::{AgentServices, CheckpointError};
use crate::error::chain;
use crate::id::{AgentId, SessionKey};
use crate::nix_store::{PackageStores, ProfileDifference};
use crate::provider::BoxFuture;
use crate::sandbox::docker::ConfigSource;
use crate::sandbox::{Sandbox, SandboxError};
use crate::swarm::operation;

/// The gateway that checkpoints belong to. It owns them, so it is not kept alive here.
pub(crate) struct GatewayServices(pub(super) Weak<Gateway>);

impl AgentServices for GatewayServices {
    fn stop_sandbox<'a>(&'a self, agent: &'a AgentId) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let Some(gateway) = self.0.upgrade() else { return Err("the gateway is stopping".to_owned()) };
            stop(&*gateway.sandbox, agent).await
        })
    }

    fn packages_difference<'a>(
        &'a self,
        agent: &'a AgentId,
        number: u32,
    ) -> BoxFuture<'a, Result<Option<ProfileDifference>, String>> {
        Box::pin(async move { operation::packages_difference(&self.packages()?, agent, number).await })
    }

    fn set_packages_back<'a>(
        &'a self,
        agent: &'a AgentId,
        number: u32,
    ) -> BoxFuture<'a, Result<bool, String>> {
        Box::pin(async move { operation::set_packages_back(&self.packages()?, agent, number).await })
    }

    fn copy_packages<'a>(
        &'a self,
        from: &'a AgentId,
        to: &'a AgentId,
        number: Option<u32>,
    ) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move { operation::copy_packages(&self.packages()?, (from, to), number).await })
    }

    fn forget_packages<'a>(&'a self, agent: &'a AgentId) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move { operation::forget_packages(&self.packages()?, agent).await })
    }

    fn set_back<'a>(
        &'a self,
        session: &'a SessionKey,
        record: RewindRecord,
    ) -> BoxFuture<'a, Result<(), CheckpointError>> {
        Box::pin(async move {
            let Some(gateway) = self.0.upgrade() else { return Err(CheckpointError::Stopped) };
            let engine: &Arc<Engine> = &gateway.engine;
            engine.set_back(session, record).await.map_err(explained)
        })
    }
}

impl GatewayServices {
    fn packages(&self) -> Result<PackageStores, String> {
        let gateway = self.0.upgrade().ok_or("the gateway is stopping")?;
        let (home, engines) = (gateway.home().clone(), gateway.swarm.engines().clone());
        let config: ConfigSource = Arc::new(move || gateway.config());
        Ok(PackageStores::new(home, config, engines))
    }
}

/// Removes the sandbox of an agent. It is made again for its next command.
pub(crate) async fn stop(sandbox: &dyn Sandbox, agent: &AgentId) -> Result<(), String> {
    match sandbox.remove(agent).await {
        // If the machine's own engine does not answer, nothing can be running. Another one may only be stopped.
        Ok(())
        | Err(SandboxError::Unavailable { engine: None, .. } | SandboxError::Denied { engine: None, .. }) => {
            Ok(())
        }
        Err(error) => Err(chain(&error)),
    }
}

/// Returns the error of a conversation that could not be set back.
pub(crate) fn explained(error: TurnError) -> CheckpointError {
    match error {
        TurnError::Busy(session) => CheckpointError::Busy(session.agent().clone()),
        TurnError::Store(error) => error.into(),
        TurnError::Transcript(error) => error.into(),
        _ => CheckpointError::Stopped,
    }
}
