//! An agent's removal, step by step.

use std::path::Path;

use super::{Hands, OperationError, delete, own_folders};
use crate::clock::unix_ms;
use crate::config::{self, ConfigError, agents};
use crate::home::Home;
use crate::home::pending::{self, Pending};
use crate::openclaw::{identity, state};
use crate::store::{AuditEntry, Level};
use crate::swarm::Swarm;

/// A removal that is being done, or done again.
pub struct Removal<'a> {
    pub swarm: &'a Swarm,
    pub hands: &'a dyn Hands,
    pub pending: &'a Pending,
    pub workspace: &'a Path,
    pub purge: bool,
}

impl Removal<'_> {
    /// Does every step, in an order in which nothing that is gone is written again: first nobody starts a turn of the
    /// agent any more, then its turns end, then what they wrote goes.
    pub async fn run(&self) -> Result<Vec<String>, OperationError> {
        let mut warnings = Vec::new();
        self.take_from_configuration()?;
        if let Err(reason) = self.hands.release(&self.pending.agent).await {
            warnings.push(reason);
        }
        self.revoke().await?;
        self.swarm.forget_agent(&self.pending.agent).await?;
        identity::forget_role(self.home(), &self.pending.agent)?;
        if self.purge {
            self.purge().await?;
        }
        Ok(warnings)
    }

    fn home(&self) -> &Home {
        self.swarm.home()
    }

    fn take_from_configuration(&self) -> Result<(), OperationError> {
        if self.pending.configured {
            return Ok(());
        }
        match config::edit(self.home(), |document| agents::remove(document, &self.pending.agent)) {
            // Killed between this step and its note; or a person took it out by hand.
            Ok(()) | Err(ConfigError::Unknown(_)) => {}
            Err(error) => return Err(error.into()),
        }
        pending::write(self.home(), &Pending { configured: true, ..self.pending.clone() })?;
        Ok(())
    }

    /// Takes back what the agent was granted, and refuses what it still waits for: an agent that gets the same id later
    /// is another one.
    async fn revoke(&self) -> Result<(), OperationError> {
        let (store, agent) = (self.swarm.store(), &self.pending.agent);
        store.revoke_grants(agent.clone(), None, self.entry("request.revoke"), unix_ms()).await?;
        store.audit_once(self.entry("agent.remove"), self.pending.begun_at, unix_ms()).await?;
        Ok(())
    }

    fn entry(&self, action: &'static str) -> AuditEntry {
        AuditEntry {
            actor: self.pending.by.clone(),
            action,
            subject: self.pending.agent.to_string(),
            level: Level::Yellow,
            detail: "the agent was removed".to_owned(),
            session: None,
            turn: None,
        }
    }

    /// Deletes what is the agent's: rows before files, since a row whose file is gone would begin the next one's
    /// transcript in its name, and a file without its row is nobody's.
    async fn purge(&self) -> Result<(), OperationError> {
        let agent = &self.pending.agent;
        self.swarm.store().forget_agent(agent.clone()).await?;
        for folder in own_folders(self.home(), agent, self.workspace) {
            delete(&folder)?;
        }
        let forgotten = self.hands.forget_packages(agent).await;
        forgotten.map_err(|reason| OperationError::Packages { agent: agent.clone(), reason })?;
        let conversations = state::of_agent(self.home(), agent);
        if conversations.is_empty() {
            return Ok(());
        }
        // One that runs would write them again as long as it has the agent.
        if !self.hands.openclaw_drops(agent).await {
            return Err(OperationError::OpenClaw(agent.clone()));
        }
        conversations.iter().try_for_each(|folder| delete(folder))
    }
}
