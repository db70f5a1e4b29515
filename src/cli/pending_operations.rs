//! Operations on agents from the command line: carrying one out, and completing interrupted ones.

use std::time::Duration;

use super::{Context, Failure, team};
use crate::config::{self, Config};
use crate::error::Kind;
use crate::home::Home;
use crate::home::pending::{self, AgentOperation, PendingOperation};
use crate::id::AgentId;
use crate::provider::BoxFuture;
use crate::sandbox::names;
use crate::supervise::gateway_client::Client;
use crate::supervise::openclaw_wait;
use crate::swarm::operation::{self, ExternalServices};

/// Time that OpenClaw may take to drop an agent. It first checks its new configuration, and may have to be restarted.
const OPENCLAW_TIMEOUT: Duration = Duration::from_secs(240);

/// Carries out operations on the agents of a home, with the help of its gateway if one runs.
pub(crate) struct OperationRunner {
    home: Home,
    config: Config,
    gateway: Option<Client>,
}

impl OperationRunner {
    /// Creates an operator for this home.
    ///
    /// # Errors
    ///
    /// Returns an error if the configuration is not valid, or if a gateway runs but can't be used.
    pub(crate) async fn open(home: &Home) -> Result<Self, Failure> {
        let config = config::read(home)?;
        let gateway = team::gateway(home, &config).await?;
        // A gateway that lives but does not answer would not follow the operation.
        if gateway.is_none() {
            team::require_no_gateway(home)?;
        }
        Ok(Self { home: home.clone(), config, gateway })
    }

    /// Creates an operator for a home that no gateway serves.
    ///
    /// # Errors
    ///
    /// Returns an error if the configuration is not valid.
    pub(crate) fn here(home: &Home) -> Result<Self, Failure> {
        Ok(Self { home: home.clone(), config: config::read(home)?, gateway: None })
    }

    /// Carries out all steps of an operation that is written down. The caller must hold [`pending::lock`].
    ///
    /// # Errors
    ///
    /// Returns the error of the step that failed.
    pub(crate) async fn finish(&self, pending: PendingOperation, context: &Context) -> Result<(), Failure> {
        // A running gateway notices the changes by itself.
        let swarm = team::swarm(&self.home)?;
        let services = CliServices { operator: self, context };
        let warnings = operation::finish(&swarm, &services, pending).await?;
        warnings.iter().for_each(|warning| context.printer.warn(warning));
        Ok(())
    }
}

/// Completes the interrupted operation on an agent, if there is one, and prints a message.
///
/// # Errors
///
/// Returns an error if it can't be completed. A new agent with this id would otherwise get the files of the old one.
pub(crate) async fn finish(home: &Home, id: &AgentId, context: &Context) -> Result<(), Failure> {
    if pending::read(home, id)?.is_none() {
        return Ok(());
    }
    let operator = OperationRunner::open(home).await?;
    let _lock = pending::lock(home)?;
    // Another process may have completed it while this one waited for the lock.
    let Some(pending) = pending::read(home, id)? else { return Ok(()) };
    if matches!(pending.operation, AgentOperation::Rename { .. })
        && !pending.configured
        && operator.gateway.is_some()
    {
        // A running gateway would continue with the old id. It completes the rename at its next start.
        return Err(unfinished(&pending).hint("flock restart"));
    }
    context.printer.say(format!("finishing {}, which was interrupted", pending.title()));
    // The command is kept for the hint, because the operation is moved into the call below.
    let command = pending.command();
    operator.finish(pending, context).await.map_err(|failure| failure.or_hint(command))
}

/// Returns the error that an interrupted operation stands in the way of another one.
pub(crate) fn unfinished(pending: &PendingOperation) -> Failure {
    let text = format!("{} was interrupted and has to be finished first", pending.title());
    Failure::new(Kind::Conflict, text).hint(pending.command())
}

/// The actions that an operation needs: by the gateway if it runs, otherwise by this process.
struct CliServices<'a> {
    operator: &'a OperationRunner,
    context: &'a Context,
}

impl ExternalServices for CliServices<'_> {
    fn release<'a>(&'a self, agent: &'a AgentId) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let OperationRunner { home, config, gateway } = self.operator;
            let removed = match gateway {
                Some(gateway) => team::release(gateway, agent).await,
                None => team::remove_sandbox(home, config, agent).await,
            };
            let name = names::sandbox(home, agent);
            // A container that remains is only a warning for the operation, which continues.
            removed.map_err(|failure| format!("the container {name} may still exist: {}", failure.text()))
        })
    }

    fn forget_packages<'a>(&'a self, agent: &'a AgentId) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let OperationRunner { home, config, .. } = self.operator;
            let packages = team::stores(home, config);
            operation::forget_packages(&packages, agent).await
        })
    }

    fn rename_packages<'a>(
        &'a self,
        old: &'a AgentId,
        new: &'a AgentId,
    ) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let OperationRunner { home, config, .. } = self.operator;
            let packages = team::stores(home, config);
            operation::rename_packages(&packages, old, new).await
        })
    }

    fn openclaw_drops<'a>(&'a self, agent: &'a AgentId) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            let progress = self.context.printer.progress("waiting until OpenClaw no longer has the agent");
            let dropped =
                openclaw_wait::wait_until_removed(&self.operator.home, agent, OPENCLAW_TIMEOUT).await;
            if dropped {
                progress.done("OpenClaw no longer has the agent");
            }
            dropped
        })
    }
}
