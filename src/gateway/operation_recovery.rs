//! Finishes operations on agents that were interrupted: once when the gateway starts, and then repeatedly until they
//! succeed.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::driver::TurnDriver;
use crate::error::chain;
use crate::home::Home;
use crate::home::pending::{self, AgentOperation, PendingOperation};
use crate::id::AgentId;
use crate::nix_store;
use crate::provider::BoxFuture;
use crate::sandbox::Sandbox;
use crate::store::Store;
use crate::supervise::openclaw_wait;
use crate::swarm::Swarm;
use crate::swarm::operation::{self, ExternalServices, OperationError, rename};

/// Interval between two looks for interrupted operations.
const INTERVAL: Duration = Duration::from_secs(30);
/// Longest time to wait until OpenClaw no longer uses an agent. After that it is asked again at the next look.
const OPENCLAW_TIMEOUT: Duration = Duration::from_secs(240);
/// Longest time to wait until the cancelled turns of an agent have ended.
const TURN_TIMEOUT: Duration = Duration::from_secs(10);

/// The parts of a gateway that operations on agents need.
pub(crate) struct OperationRecovery {
    pub swarm: Arc<Swarm>,
    pub driver: Arc<TurnDriver>,
    /// The backend in which the commands of agents run.
    pub sandbox: Arc<dyn Sandbox>,
    /// The package stores.
    pub packages: nix_store::PackageStores,
}

impl OperationRecovery {
    /// Finishes interrupted operations, now and every 30 seconds, until `stop` is cancelled.
    pub(crate) async fn watch(self, stop: CancellationToken) {
        loop {
            if stop.run_until_cancelled(Box::pin(self.look())).await.is_none()
                || stop.run_until_cancelled(tokio::time::sleep(INTERVAL)).await.is_none()
            {
                return;
            }
        }
    }

    async fn look(&self) {
        let ended = match operation::finish_all(&self.swarm, self).await {
            Ok(ended) => ended,
            Err(error) => {
                return tracing::error!(
                    error = chain(&error),
                    "failed to look for operations that were interrupted"
                );
            }
        };
        // A failure is only logged. The operation stays pending, and the next look tries it again.
        for (pending, how) in ended {
            match how {
                Ok(warnings) => {
                    tracing::info!(
                        operation = pending.title(),
                        ?warnings,
                        "finished an interrupted operation"
                    );
                }
                Err(error) => {
                    let command = pending.command();
                    tracing::error!(
                        error = chain(&error),
                        command,
                        "failed to finish {}, which was interrupted",
                        pending.title()
                    );
                }
            }
        }
    }
}

impl ExternalServices for OperationRecovery {
    fn release<'a>(&'a self, agent: &'a AgentId) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            release(&self.driver, agent).await;
            self.sandbox
                .remove(agent)
                .await
                .map_err(|error| format!("the container of {agent} may still exist: {}", chain(&error)))
        })
    }

    fn forget_packages<'a>(&'a self, agent: &'a AgentId) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(operation::forget_packages(&self.packages, agent))
    }

    fn rename_packages<'a>(
        &'a self,
        old: &'a AgentId,
        new: &'a AgentId,
    ) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(operation::rename_packages(&self.packages, old, new))
    }

    fn openclaw_drops<'a>(&'a self, agent: &'a AgentId) -> BoxFuture<'a, bool> {
        Box::pin(openclaw_wait::wait_until_removed(self.swarm.home(), agent, OPENCLAW_TIMEOUT))
    }
}

/// Finishes interrupted renames. This must run before anything of the home is read, because the gateway would otherwise
/// continue with the old id.
///
/// # Errors
///
/// Returns [`OperationError`] if the list of pending operations can't be read or locked, the database can't be opened,
/// or a step of a rename failed.
pub(crate) async fn renames(home: &Home) -> Result<(), OperationError> {
    let is_open = |pending: &PendingOperation| {
        matches!(pending.operation, AgentOperation::Rename { .. }) && !pending.configured
    };
    // The common case needs neither the lock nor the database.
    if !pending::all(home)?.iter().any(is_open) {
        return Ok(());
    }
    let _lock = pending::lock(home)?;
    let store = Store::open(home)?;
    // The list is read again under the lock, because another process may have finished a rename since the first look.
    for pending in pending::all(home)?.into_iter().filter(is_open) {
        rename::rename_in_home(home, &store, &pending).await?;
        tracing::info!(operation = pending.title(), "finished an interrupted operation");
    }
    Ok(())
}

/// Cancels an agent's turns and waits up to ten seconds until they have ended. Returns the number of turns.
///
/// The wait matters because a turn that still writes would write after the agent's data was deleted.
pub(crate) async fn release(driver: &TurnDriver, agent: &AgentId) -> usize {
    let ends = driver.cancel_agent(agent);
    let all = async {
        for end in &ends {
            end.cancelled().await;
        }
    };
    if tokio::time::timeout(TURN_TIMEOUT, all).await.is_err() {
        tracing::warn!(%agent, "turns of an agent that is removed or renamed did not end in time");
    }
    ends.len()
}
