//! Operations on agents at the command line: doing one, and finishing those that were interrupted.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::{Context, Failure, team};
use crate::config::{self, Config, Live};
use crate::error::Kind;
use crate::home::Home;
use crate::home::pending::{self, Operation, Pending};
use crate::id::AgentId;
use crate::provider::BoxFuture;
use crate::sandbox::engine::Engine;
use crate::sandbox::names;
use crate::store::Store;
use crate::supervise::loopback::Client;
use crate::supervise::settled;
use crate::swarm::operation::{self, Hands};
use crate::swarm::{Bell, Parts, Swarm};

/// How long OpenClaw may take to do without an agent: it is asked first whether it takes its new configuration, and
/// may be started anew.
const PATIENCE: Duration = Duration::from_secs(240);

/// Does operations on the agents of a home, with the help of its gateway where one runs.
pub struct Operator {
    home: Home,
    config: Config,
    gateway: Option<Client>,
}

impl Operator {
    /// An operator of this home.
    ///
    /// # Errors
    ///
    /// If the home's configuration is not usable, or its gateway runs and can't be used.
    pub async fn open(home: &Home) -> Result<Self, Failure> {
        let config = config::read(home)?;
        let gateway = team::gateway(home, &config).await?;
        if gateway.is_none() {
            team::require_none(home)?;
        }
        Ok(Self { home: home.clone(), config, gateway })
    }

    /// An operator of a home that no gateway serves.
    ///
    /// # Errors
    ///
    /// If the home's configuration is not usable.
    pub fn here(home: &Home) -> Result<Self, Failure> {
        Ok(Self { home: home.clone(), config: config::read(home)?, gateway: None })
    }

    /// Does all steps of an operation that is written down. Call it with [`pending::lock`] held.
    ///
    /// # Errors
    ///
    /// If a step failed.
    pub async fn finish(&self, pending: Pending, context: &Context) -> Result<(), Failure> {
        let swarm = self.swarm()?;
        let hands = AtHand { operator: self, context };
        let warnings = operation::finish(&swarm, &hands, pending).await?;
        warnings.iter().for_each(|warning| context.printer.warn(warning));
        Ok(())
    }

    /// The team, of which nobody hears here: a gateway that runs sees what changed by itself.
    fn swarm(&self) -> Result<Swarm, Failure> {
        let store = Arc::new(Store::open(&self.home)?);
        let (rings, _) = mpsc::unbounded_channel();
        let bell = Bell::new(rings, Arc::new(|_, _| {}));
        let live = Arc::new(Live::open(self.home.clone())?);
        Ok(Swarm::new(Parts { live, store, bell }))
    }
}

/// Finishes the operation on an agent that was interrupted, if there is one. Says so.
///
/// # Errors
///
/// If it could not be finished: whoever would get the id next would have what the agent left.
pub async fn finish(home: &Home, id: &AgentId, context: &Context) -> Result<(), Failure> {
    if pending::read(home, id)?.is_none() {
        return Ok(());
    }
    let operator = Operator::open(home).await?;
    let _lock = pending::lock(home)?;
    let Some(pending) = pending::read(home, id)? else { return Ok(()) };
    if matches!(pending.operation, Operation::Rename { .. })
        && !pending.configured
        && operator.gateway.is_some()
    {
        // The gateway would go on with the old id; it finishes this when it starts.
        let text = format!("{} was interrupted and comes first", pending.title());
        return Err(Failure::new(Kind::Conflict, text).hint("flock restart"));
    }
    context.printer.say(format!("finishing {}, which was interrupted", pending.title()));
    let command = pending.command();
    operator.finish(pending, context).await.map_err(|failure| match failure.hint {
        Some(_) => failure,
        None => failure.hint(command),
    })
}

/// The hands of a verb: the gateway's where it runs, else this process's own.
struct AtHand<'a> {
    operator: &'a Operator,
    context: &'a Context,
}

impl Hands for AtHand<'_> {
    fn release<'a>(&'a self, agent: &'a AgentId) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let Operator { home, config, gateway } = self.operator;
            let removed = match gateway {
                Some(gateway) => team::release(gateway, agent).await,
                None => team::unmake(home, config, agent).await,
            };
            let name = names::sandbox(home, agent);
            removed.map_err(|failure| format!("the container {name} may be left: {}", failure.text()))
        })
    }

    fn forget_packages<'a>(&'a self, agent: &'a AgentId) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let Operator { home, config, .. } = self.operator;
            let packages = team::store(home, config, Arc::new(Engine::from_env()));
            operation::forget_packages(&packages, agent).await
        })
    }

    fn rename_packages<'a>(
        &'a self,
        old: &'a AgentId,
        new: &'a AgentId,
    ) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let Operator { home, config, .. } = self.operator;
            let packages = team::store(home, config, Arc::new(Engine::from_env()));
            operation::rename_packages(&packages, old, new).await
        })
    }

    fn openclaw_drops<'a>(&'a self, agent: &'a AgentId) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            let progress = self.context.printer.progress("waiting until OpenClaw no longer has the agent");
            let dropped = settled::has_dropped(&self.operator.home, agent, PATIENCE).await;
            if dropped {
                progress.done("OpenClaw no longer has the agent");
            }
            dropped
        })
    }
}
