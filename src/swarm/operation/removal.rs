//! The steps of an agent's removal.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::{ExternalServices, OperationError, delete, own_folders};
use crate::clock::unix_ms;
use crate::config::{self, ConfigError, agents};
use crate::home::pending::{self, PendingOperation};
use crate::home::{Home, elsewhere};
use crate::openclaw::{identity, state};
use crate::project;
use crate::sandbox::engines::AgentPlace;
use crate::sandbox::kubernetes::relocation;
use crate::sandbox::workspace_volume::{self, FOREIGN, Removed};
use crate::store::{AuditEntry, LeaseSubject, Level, StoreError};
use crate::swarm::Swarm;

/// Longest time to wait until no gateway has the agent. After that the removal stays open, and is tried again later.
const OWNER_TIMEOUT: Duration = Duration::from_secs(30);
/// The time in which every gateway of a group has adopted a configuration. Until then it may still take the agent.
const ADOPTION: Duration = Duration::from_secs(3);
/// Pause between two looks which gateway has the agent.
const OWNER_INTERVAL: Duration = Duration::from_millis(500);

/// A removal that runs for the first time or is repeated.
pub(crate) struct Removal<'a> {
    pub swarm: &'a Swarm,
    pub services: &'a dyn ExternalServices,
    pub pending: &'a PendingOperation,
    pub workspace: &'a Path,
    pub purge: bool,
}

impl Removal<'_> {
    /// Does every step. The order makes sure that nothing is written again after it was deleted: first no new turn of
    /// the agent can start, then its turns end, and then their data is deleted.
    pub(crate) async fn run(&self) -> Result<Vec<String>, OperationError> {
        let mut warnings = Vec::new();
        self.remove_from_config()?;
        if let Err(reason) = self.services.release(&self.pending.agent).await {
            warnings.push(reason);
        }
        self.revoke().await?;
        self.swarm.forget_agent(&self.pending.agent).await?;
        identity::remove_role(self.home(), &self.pending.agent)?;
        if self.purge {
            self.until_unowned().await?;
            warnings.extend(self.purge().await?);
        }
        Ok(warnings)
    }

    fn home(&self) -> &Home {
        self.swarm.home()
    }

    fn remove_from_config(&self) -> Result<(), OperationError> {
        if self.pending.configured {
            return Ok(());
        }
        match config::edit(self.home(), |document| agents::remove(document, &self.pending.agent)) {
            // An earlier run was killed between this step and its record, or a person removed the entry by hand.
            Ok(()) | Err(ConfigError::Unknown(_)) => {}
            Err(error) => return Err(error.into()),
        }
        pending::write(self.home(), &PendingOperation { configured: true, ..self.pending.clone() })?;
        Ok(())
    }

    /// Revokes the agent's grants and refuses its pending requests. An agent that gets the same id later must not
    /// inherit them.
    async fn revoke(&self) -> Result<(), OperationError> {
        let (store, agent) = (self.swarm.store(), &self.pending.agent);
        store.grants().revoke(agent.clone(), None, self.entry("request.revoke"), unix_ms()).await?;
        // Recorded only once per operation, even if the steps are repeated.
        store.audit().append_once(self.entry("agent.remove"), self.pending.begun_at, unix_ms()).await?;
        Ok(())
    }

    fn entry(&self, action: &'static str) -> AuditEntry {
        let (by, agent) = (&self.pending.by, self.pending.agent.as_str());
        AuditEntry::new(by, action, agent, Level::Yellow, "the agent was removed".to_owned())
    }

    /// Removes the workspace of an agent whose engine is on another machine. One in an engine that the home has given up is
    /// out of reach. Returns a warning if the volume stays.
    async fn remove_volume(&self) -> Result<Option<String>, OperationError> {
        let agent = &self.pending.agent;
        let Some(mark) = elsewhere::read(self.workspace) else { return Ok(None) };
        let removed = match self.swarm.engines().find_any(&mark.engine) {
            Some(AgentPlace::Engine(found)) => {
                workspace_volume::remove_with_sandbox(&found.engine, self.home(), agent, &mark).await
            }
            Some(AgentPlace::Cluster(found)) => {
                match relocation::remove_sandbox(&found, self.home(), agent).await {
                    Ok(()) => relocation::remove_volume(&found, self.home(), &mark).await,
                    Err(error) => Err(error),
                }
            }
            None => return Ok(None),
        };
        match removed {
            Ok(Removed::Gone) => Ok(None),
            Ok(Removed::Foreign) => {
                Ok(Some(format!("{FOREIGN}: {} on the engine {}", mark.volume, mark.engine)))
            }
            Err(source) => Err(OperationError::Workspace { agent: agent.clone(), source: Box::new(source) }),
        }
    }

    /// Waits until no gateway of a group has the agent, nor will take it. Each of them gives it up once it has adopted the
    /// configuration and the agent's turns have ended.
    async fn until_unowned(&self) -> Result<(), OperationError> {
        let deadline = Instant::now() + OWNER_TIMEOUT;
        let mut free_since: Option<Instant> = None;
        while let Some(is_free) = self.is_free().await? {
            let now = Instant::now();
            free_since = is_free.then(|| free_since.unwrap_or(now));
            if free_since.is_some_and(|since| now - since >= ADOPTION) {
                break;
            }
            if now >= deadline {
                return Err(OperationError::Owned(self.pending.agent.clone()));
            }
            sleep(OWNER_INTERVAL).await;
        }
        Ok(())
    }

    /// Returns `true` if no gateway has the agent, and the configuration that the gateways share has lost it. Returns `None`
    /// if there is no group, or if none of its gateways lives.
    pub(super) async fn is_free(&self) -> Result<Option<bool>, StoreError> {
        let (store, agent) = (self.swarm.store(), &self.pending.agent);
        let Some(group) = store.gateway_group().find().await? else { return Ok(None) };
        let (now, gateways) = store.gateways().living().await?;
        if gateways.iter().all(|gateway| gateway.beat_until <= now) {
            return Ok(None);
        }
        // Other gateways can't adopt one that is not JSON, and keep the agent.
        let shared: Value = serde_json::from_str(&group.config.text).unwrap_or_default();
        let subject = LeaseSubject::agent(agent);
        let leases = store.leases().list().await?;
        let is_owned = leases.iter().any(|lease| lease.subject == subject && lease.owner.is_some());
        Ok(Some(!is_owned && !agents::lists(&shared, agent)))
    }

    /// Deletes the agent's data. Rows go before files: a row without its file would begin the transcript of the next
    /// agent with this id, but a file without its row belongs to nobody.
    async fn purge(&self) -> Result<Option<String>, OperationError> {
        let agent = &self.pending.agent;
        // Before its mark goes, which is all that tells where it is.
        let warning = self.remove_volume().await?;
        self.swarm.store().agents().delete(agent.clone()).await?;
        for folder in own_folders(self.home(), agent, self.workspace) {
            delete(&folder)?;
        }
        project::agents::delete_branches(self.home(), agent);
        let forgotten = self.services.forget_packages(agent).await;
        forgotten.map_err(|reason| OperationError::Packages { agent: agent.clone(), reason })?;
        let conversations = state::of_agent(self.home(), agent);
        if conversations.is_empty() {
            return Ok(warning);
        }
        // A running OpenClaw that still has the agent would write them again.
        if !self.services.openclaw_drops(agent).await {
            return Err(OperationError::OpenClaw(agent.clone()));
        }
        conversations.iter().try_for_each(|folder| delete(folder))?;
        Ok(warning)
    }
}
