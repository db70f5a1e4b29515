//! Finishes operations on agents that were interrupted: when the gateway starts, and as often as it takes.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::driver::Driver;
use crate::error::chain;
use crate::home::Home;
use crate::home::pending::{self, Operation, Pending};
use crate::id::AgentId;
use crate::nix;
use crate::provider::BoxFuture;
use crate::sandbox::Sandbox;
use crate::store::Store;
use crate::supervise::settled;
use crate::swarm::Swarm;
use crate::swarm::operation::{self, Hands, OperationError, rename};

/// How often is looked for an operation that was interrupted.
const EVERY: Duration = Duration::from_secs(30);
/// How long OpenClaw may take to do without an agent before it is asked again.
const PATIENCE: Duration = Duration::from_secs(240);
/// How long the turns of an agent may take to end that were cancelled.
const TURNS: Duration = Duration::from_secs(10);

/// What a gateway works on agents with.
pub struct Finisher {
    /// The team.
    pub swarm: Arc<Swarm>,
    /// What runs the turns.
    pub driver: Arc<Driver>,
    /// Where agents' commands run.
    pub sandbox: Arc<dyn Sandbox>,
    /// Where packages come from.
    pub packages: nix::Store,
}

impl Finisher {
    /// Finishes what was interrupted, now and from time to time, until `stop`.
    pub async fn watch(self, stop: CancellationToken) {
        loop {
            if stop.run_until_cancelled(self.look()).await.is_none()
                || stop.run_until_cancelled(tokio::time::sleep(EVERY)).await.is_none()
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
        for (pending, how) in ended {
            match how {
                Ok(warnings) => {
                    tracing::info!(operation = pending.title(), ?warnings, "finished what was interrupted");
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

impl Hands for Finisher {
    fn release<'a>(&'a self, agent: &'a AgentId) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            release(&self.driver, agent).await;
            self.sandbox
                .remove(agent)
                .await
                .map_err(|error| format!("the container of {agent} may be left: {}", chain(&error)))
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
        Box::pin(settled::has_dropped(self.swarm.home(), agent, PATIENCE))
    }
}

/// Finishes what was interrupted of renames before anything of the home is read: a gateway would go on with the old id.
///
/// # Errors
///
/// If a step failed.
pub async fn renames(home: &Home) -> Result<(), OperationError> {
    let is_open =
        |pending: &Pending| matches!(pending.operation, Operation::Rename { .. }) && !pending.configured;
    if !pending::all(home)?.iter().any(is_open) {
        return Ok(());
    }
    let _lock = pending::lock(home)?;
    let store = Store::open(home)?;
    for pending in pending::all(home)?.into_iter().filter(is_open) {
        rename::in_home(home, &store, &pending).await?;
        tracing::info!(operation = pending.title(), "finished what was interrupted");
    }
    Ok(())
}

/// Ends an agent's turns and waits until they have ended, for some seconds at most: what a turn still writes would
/// otherwise come after what the agent had was deleted. Gives how many there were.
pub async fn release(driver: &Driver, agent: &AgentId) -> usize {
    let ends = driver.cancel_agent(agent);
    let all = async {
        for end in &ends {
            end.cancelled().await;
        }
    };
    if tokio::time::timeout(TURNS, all).await.is_err() {
        tracing::warn!(%agent, "turns of an agent that goes did not end in time");
    }
    ends.len()
}
