//! Operations on an agent that take several steps, as its removal. Each is written down before it begins
//! ([`pending`]), each of its steps may be done again, and whoever finds one that was interrupted finishes it: the same
//! command, a gateway at its start and every minute, `flock doctor --fix`.

mod removal;
pub mod rename;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use crate::config::ConfigError;
use crate::error::{Explain, Kind, chain};
use crate::home::clear::clear;
use crate::home::lock::Lock;
use crate::home::pending::{self, Operation, Pending};
use crate::home::{Home, HomeError};
use crate::id::AgentId;
use crate::nix::{self, NixError};
use crate::provider::BoxFuture;
use crate::sandbox::SandboxError;
use crate::store::StoreError;
use crate::swarm::{Swarm, SwarmError};

/// What of an operation is not the home's own: the sandbox, the packages, OpenClaw.
pub trait Hands: Send + Sync {
    /// Ends the agent's turns and removes its sandbox; why that was not possible.
    fn release<'a>(&'a self, agent: &'a AgentId) -> BoxFuture<'a, Result<(), String>>;

    /// Takes the agent's packages away; why that was not possible. Where there is no package store there are none.
    fn forget_packages<'a>(&'a self, agent: &'a AgentId) -> BoxFuture<'a, Result<(), String>>;

    /// Gives the agent's packages to another id; why that was not possible. Where there is no package store there are none.
    fn rename_packages<'a>(&'a self, old: &'a AgentId, new: &'a AgentId)
    -> BoxFuture<'a, Result<(), String>>;

    /// Waits until no OpenClaw runs that has this agent; whether it came to that.
    fn openclaw_drops<'a>(&'a self, agent: &'a AgentId) -> BoxFuture<'a, bool>;
}

/// Why an operation was not finished. It stays written down.
#[derive(Debug, thiserror::Error)]
pub enum OperationError {
    /// The home failed.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// The configuration could not be changed.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The team or its database failed.
    #[error(transparent)]
    Swarm(#[from] SwarmError),
    /// A folder could not be deleted.
    #[error("failed to delete {}", path.display())]
    Delete {
        /// What stayed of it.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The agent's packages could not be taken away or given to its new id.
    #[error("failed to move or take away the packages of {agent}: {reason}")]
    Packages {
        /// The agent.
        agent: AgentId,
        /// Why.
        reason: String,
    },
    /// OpenClaw would write the agent's conversations again.
    #[error("OpenClaw still has the agent {0}: its conversations there are as they were")]
    OpenClaw(AgentId),
}

impl From<StoreError> for OperationError {
    fn from(error: StoreError) -> Self {
        Self::Swarm(error.into())
    }
}

impl Explain for OperationError {
    fn kind(&self) -> Kind {
        match self {
            Self::Home(error) => error.kind(),
            Self::Config(error) => error.kind(),
            Self::Swarm(error) => error.kind(),
            Self::Delete { .. } | Self::Packages { .. } | Self::OpenClaw(_) => Kind::Failed,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Home(error) => error.hint(),
            Self::Config(error) => error.hint(),
            Self::Swarm(error) => error.hint(),
            Self::Delete { path, .. } => Some(format!("ls -ld {}", path.display())),
            Self::Packages { .. } => Some("flock nix status".to_owned()),
            Self::OpenClaw(agent) => Some(format!("flock restart; {agent} is finished by itself then")),
        }
    }

    fn may_pass(&self) -> bool {
        matches!(self, Self::Swarm(error) if error.may_pass())
    }
}

/// Does all steps of an operation and strikes it out. Call it with [`pending::lock`] held. Gives what is to be said of
/// it: steps that failed and that nothing depends on.
///
/// # Errors
///
/// If a step failed; the operation stays written down, and the next call begins with its first step again.
pub async fn finish(
    swarm: &Swarm,
    hands: &dyn Hands,
    pending: Pending,
) -> Result<Vec<String>, OperationError> {
    let warnings = match &pending.operation {
        Operation::Remove { purge, workspace } => {
            let removal = removal::Removal { swarm, hands, pending: &pending, workspace, purge: *purge };
            removal.run().await?
        }
        Operation::Rename { to, .. } => {
            if !pending.configured {
                rename::in_home(swarm.home(), swarm.store(), &pending).await?;
            }
            rename::elsewhere(swarm.home(), hands, &pending.agent, to).await?
        }
    };
    pending::clear(swarm.home(), &pending.agent)?;
    Ok(warnings)
}

/// Finishes every operation that was interrupted, as [`finish`] does; one that another process is at is left to it.
/// Gives each with how it ended.
///
/// # Errors
///
/// If it can't be found out which there are.
pub async fn finish_all(
    swarm: &Swarm,
    hands: &dyn Hands,
) -> Result<Vec<(Pending, Result<Vec<String>, OperationError>)>, HomeError> {
    let home = swarm.home();
    if pending::all(home)?.is_empty() {
        return Ok(Vec::new());
    }
    let _lock = match pending::try_lock(home) {
        Err(HomeError::Held { .. }) => return Ok(Vec::new()),
        lock => lock?,
    };
    let mut ended = Vec::new();
    // Read again: another process may have finished one until now.
    let all = pending::all(home)?.into_iter();
    for pending in all.filter(|pending| may_finish(home, pending)) {
        let how = finish(swarm, hands, pending.clone()).await;
        ended.push((pending, how));
    }
    Ok(ended)
}

/// Whether an operation can be finished here: the home's part of a rename is only done while no gateway runs.
fn may_finish(home: &Home, pending: &Pending) -> bool {
    let is_rename = matches!(pending.operation, Operation::Rename { .. });
    !is_rename || pending.configured || !Lock::is_held(&home.gateway_lock()).unwrap_or(true)
}

/// Gives an agent's packages to another id, where the home has a package store. An engine that does not answer has none
/// that could be asked.
///
/// # Errors
///
/// In the store's words.
pub async fn rename_packages(packages: &nix::Store, old: &AgentId, new: &AgentId) -> Result<(), String> {
    match packages.rename_if_any(old, new).await {
        Ok(()) | Err(NixError::Sandbox(SandboxError::Unavailable { .. } | SandboxError::Denied { .. })) => {
            Ok(())
        }
        Err(error) => Err(chain(&error)),
    }
}

/// Takes an agent's packages away, where the home has a package store. An engine that does not answer has none that
/// could be asked.
///
/// # Errors
///
/// In the store's words.
pub async fn forget_packages(packages: &nix::Store, agent: &AgentId) -> Result<(), String> {
    match packages.forget_if_any(agent).await {
        Ok(()) | Err(NixError::Sandbox(SandboxError::Unavailable { .. } | SandboxError::Denied { .. })) => {
            Ok(())
        }
        Err(error) => Err(chain(&error)),
    }
}

/// Deletes a folder with all in it. Links in it are removed, not followed.
fn delete(folder: &Path) -> Result<(), OperationError> {
    let (Some(above), Some(name)) = (folder.parent(), folder.file_name()) else { return Ok(()) };
    clear(above, Path::new(name))
        .map_err(|(stuck, _)| OperationError::Delete { path: stuck.path, source: stuck.error })
}

/// The folders of the home that are an agent's. A workspace elsewhere is a person's own folder and is not one of them.
fn own_folders(home: &Home, agent: &AgentId, workspace: &Path) -> Vec<PathBuf> {
    let mut folders = vec![home.agent(agent)];
    if workspace == home.workspace(agent) {
        folders.push(workspace.to_owned());
    }
    folders
}
