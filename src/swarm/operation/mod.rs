//! Operations on an agent that take several steps, for example its removal. Each is recorded before it begins
//! ([`pending`]), and each of its steps can be repeated. An interrupted operation is finished by whoever finds it: the
//! same command, a gateway at its start and every minute, or `flock doctor --fix`.

mod removal;
pub(crate) mod rename;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use crate::config::ConfigError;
use crate::error::{Explain, Kind, chain};
use crate::generation::Origin;
use crate::home::lock::Lock;
use crate::home::pending::{self, AgentOperation, PendingOperation};
use crate::home::remove_tree::clear;
use crate::home::{Home, HomeError};
use crate::id::{AgentId, EngineName};
use crate::nix_store::{self, NixError};
use crate::provider::BoxFuture;
use crate::sandbox::SandboxError;
use crate::sandbox::engines::AgentPlace;
use crate::store::StoreError;
use crate::swarm::{Swarm, SwarmError};

/// The parts of an operation outside of the home: the sandbox, the packages, and OpenClaw.
pub(crate) trait ExternalServices: Send + Sync {
    /// Ends the agent's turns and removes its sandbox. Returns the reason if that fails.
    fn release<'a>(&'a self, agent: &'a AgentId) -> BoxFuture<'a, Result<(), String>>;

    /// Removes the agent's packages. Returns the reason if that fails. Without a package store there is nothing to do.
    fn forget_packages<'a>(&'a self, agent: &'a AgentId) -> BoxFuture<'a, Result<(), String>>;

    /// Moves the agent's packages to another id. Returns the reason if that fails. Without a package store there is
    /// nothing to do.
    fn rename_packages<'a>(&'a self, old: &'a AgentId, new: &'a AgentId)
    -> BoxFuture<'a, Result<(), String>>;

    /// Waits until no running OpenClaw has this agent. Returns `false` if one still has it.
    fn openclaw_drops<'a>(&'a self, agent: &'a AgentId) -> BoxFuture<'a, bool>;
}

/// An operation that could not be finished. Its record stays, so that it is tried again.
#[derive(Debug, thiserror::Error)]
pub enum OperationError {
    /// A file or lock of the home failed.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// The configuration could not be changed.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A change of the team or its database failed.
    #[error(transparent)]
    Swarm(#[from] SwarmError),
    /// A folder could not be deleted.
    #[error("failed to delete {}", path.display())]
    Delete {
        /// The path that could not be deleted.
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    /// The agent's packages could not be removed or moved to its new id.
    #[error("failed to move or take away the packages of {agent}: {reason}")]
    Packages { agent: AgentId, reason: String },
    /// The agent's workspace on an engine of another machine could not be removed.
    #[error("failed to remove the workspace of {agent}")]
    Workspace {
        agent: AgentId,
        #[source]
        source: Box<SandboxError>,
    },
    /// A gateway of the group still has the agent and would write its files and conversations again.
    #[error("a gateway still has the agent {0}: its data is deleted once none has it")]
    Owned(AgentId),
    /// A running OpenClaw still has the agent and would write its conversations again.
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
            Self::Workspace { source, .. } => source.kind(),
            Self::Delete { .. } | Self::Packages { .. } | Self::Owned(_) | Self::OpenClaw(_) => Kind::Failed,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Home(error) => error.hint(),
            Self::Config(error) => error.hint(),
            Self::Swarm(error) => error.hint(),
            Self::Delete { path, .. } => Some(format!("ls -ld {}", path.display())),
            Self::Workspace { source, .. } => source.hint(),
            Self::Packages { .. } => Some("flock doctor".to_owned()),
            Self::Owned(_) => Some("flock status".to_owned()),
            Self::OpenClaw(agent) => Some(format!("flock restart; {agent} is finished by itself then")),
        }
    }

    fn may_pass(&self) -> bool {
        matches!(self, Self::Swarm(error) if error.may_pass())
    }
}

/// Does all steps of an operation and removes its record. The caller must hold [`pending::lock`]. Returns warnings
/// about failed steps on which nothing depends.
///
/// # Errors
///
/// Returns [`OperationError`] if a step fails. The record stays, and the next call begins with the first step again.
pub(crate) async fn finish(
    swarm: &Swarm,
    services: &dyn ExternalServices,
    pending: PendingOperation,
) -> Result<Vec<String>, OperationError> {
    // A removal or a rename is one generation, whoever finishes it and however many of its steps change something.
    origin(&pending).scope(finish_steps(swarm, services, pending)).await
}

/// Returns the origin of the changes that an operation makes.
fn origin(pending: &PendingOperation) -> Origin {
    let mut origin = Origin::new(&pending.by, pending.title());
    if let AgentOperation::Rename { to, .. } = &pending.operation {
        origin.renames = Some((pending.agent.clone(), to.clone()));
    }
    origin
}

async fn finish_steps(
    swarm: &Swarm,
    services: &dyn ExternalServices,
    pending: PendingOperation,
) -> Result<Vec<String>, OperationError> {
    let warnings = match &pending.operation {
        AgentOperation::Remove { purge, workspace } => {
            let removal = removal::Removal { swarm, services, pending: &pending, workspace, purge: *purge };
            removal.run().await?
        }
        AgentOperation::Rename { to, .. } => {
            // The home's part was done before the interruption if the record says so.
            if !pending.configured {
                rename::rename_in_home(swarm.home(), swarm.store(), &pending).await?;
            }
            rename::elsewhere(swarm.home(), services, &pending.agent, to).await?
        }
    };
    // The record is removed last. After a crash before this line, all steps run again.
    pending::clear(swarm.home(), &pending.agent)?;
    Ok(warnings)
}

/// Finishes every interrupted operation, as [`finish`] does, and returns the result of each. Does nothing if another
/// process holds the lock, because that process finishes them.
///
/// # Errors
///
/// Returns [`HomeError`] if the list of operations can't be read or the lock can't be taken.
pub(crate) async fn finish_all(
    swarm: &Swarm,
    services: &dyn ExternalServices,
) -> Result<Vec<(PendingOperation, Result<Vec<String>, OperationError>)>, HomeError> {
    let home = swarm.home();
    // The common case takes no lock.
    if pending::all(home)?.is_empty() {
        return Ok(Vec::new());
    }
    let _lock = match pending::try_lock(home) {
        Err(HomeError::Held { .. }) => return Ok(Vec::new()),
        lock => lock?,
    };
    let mut ended = Vec::new();
    // Read again: another process may have finished some before the lock was taken.
    let all = pending::all(home)?.into_iter();
    for pending in all.filter(|pending| may_finish(home, pending)) {
        let how = finish(swarm, services, pending.clone()).await;
        ended.push((pending, how));
    }
    Ok(ended)
}

/// Returns `true` if an operation can be finished here. The home's part of a rename is done only while no gateway runs.
fn may_finish(home: &Home, pending: &PendingOperation) -> bool {
    let is_rename = matches!(pending.operation, AgentOperation::Rename { .. });
    // If the lock can't be checked, a gateway may be running.
    !is_rename || pending.configured || !Lock::is_held(&home.gateway_lock()).unwrap_or(true)
}

/// Moves an agent's packages to another id, if the home has a package store. The placement has the new id already.
///
/// # Errors
///
/// Returns the package store's error as text, also if another engine than the machine's own does not answer and the agent is
/// on it. Without the machine's own engine there are no packages.
pub(crate) async fn rename_packages(
    packages: &nix_store::PackageStores,
    old: &AgentId,
    new: &AgentId,
) -> Result<(), String> {
    let placed = packages.engines().place_of_id(new).await.map_err(|error| chain(&error))?;
    let renamed = packages.all().into_iter().map(|(engine, store)| async move {
        let renamed = Box::pin(store.rename_profile(old, new)).await;
        (engine, renamed)
    });
    all_done(futures_util::future::join_all(renamed).await, placed.name())
}

/// Gives an agent the packages of another one, if the home has a package store.
///
/// # Errors
///
/// Returns the package store's error as text, also if another engine than the machine's own does not answer. Without the
/// machine's own engine there are no packages.
pub(crate) async fn copy_packages(
    packages: &nix_store::PackageStores,
    (from, to): (&AgentId, &AgentId),
    number: Option<u32>,
) -> Result<(), String> {
    // In a cluster there are none.
    if let Ok(AgentPlace::Cluster(_)) = packages.engines().place_of_id(from).await {
        return Ok(());
    }
    match packages.of_both(from, to).await {
        Ok(Some(store)) => unless_no_engine(Box::pin(store.copy_profile(from, to, number)).await),
        // Packages are in the store of one engine.
        Ok(None) => Err(format!("{to} is on another engine than {from}, so it gets no packages of it")),
        Err(error) => Err(chain(&error)),
    }
}

/// Returns how an agent's packages would change if it went back to a generation of its profile. Returns `None` if there is
/// no such generation any more.
///
/// # Errors
///
/// Returns the package store's error as text.
pub(crate) async fn packages_difference(
    packages: &nix_store::PackageStores,
    agent: &AgentId,
    number: u32,
) -> Result<Option<nix_store::ProfileDifference>, String> {
    let store = packages.of(agent).await.map_err(|error| chain(&error))?;
    Box::pin(store.difference(agent, number)).await.map_err(|error| chain(&error))
}

/// Sets an agent's packages back to a generation of its profile. Returns `false` if there is no such generation any more.
///
/// # Errors
///
/// Returns the package store's error as text.
pub(crate) async fn set_packages_back(
    packages: &nix_store::PackageStores,
    agent: &AgentId,
    number: u32,
) -> Result<bool, String> {
    let store = packages.of(agent).await.map_err(|error| chain(&error))?;
    Box::pin(store.go_back(agent, number)).await.map_err(|error| chain(&error))
}

/// Removes an agent's packages, if the home has a package store.
///
/// # Errors
///
/// Returns the package store's error as text, also if another engine than the machine's own does not answer and the agent is
/// on it. Without the machine's own engine there are no packages.
pub(crate) async fn forget_packages(
    packages: &nix_store::PackageStores,
    agent: &AgentId,
) -> Result<(), String> {
    let placed = packages.engines().place_of_id(agent).await.map_err(|error| chain(&error))?;
    let forgotten = packages.all().into_iter().map(|(engine, store)| async move {
        let forgotten = Box::pin(store.clean_up_profile(agent)).await;
        (engine, forgotten)
    });
    all_done(futures_util::future::join_all(forgotten).await, placed.name())
}

/// Returns the first error of a change in the stores of all engines. An agent may have been on any of them, but the packages
/// that it uses are on the engine where it is placed.
fn all_done(changed: Vec<(EngineName, Result<(), NixError>)>, placed: &EngineName) -> Result<(), String> {
    changed.into_iter().try_for_each(|(engine, changed)| match changed {
        Err(NixError::Sandbox(SandboxError::Unavailable { .. } | SandboxError::Denied { .. }))
            if engine != *placed =>
        {
            Ok(())
        }
        changed => unless_no_engine(changed),
    })
}

/// Returns the error of a change in the package store as text. A machine without an engine of its own has no packages, but
/// another engine that does not answer may only be stopped.
fn unless_no_engine(changed: Result<(), NixError>) -> Result<(), String> {
    match changed {
        Ok(())
        | Err(NixError::Sandbox(
            SandboxError::Unavailable { engine: None, .. } | SandboxError::Denied { engine: None, .. },
        )) => Ok(()),
        Err(error) => Err(chain(&error)),
    }
}

/// Deletes a folder with its contents. Symbolic links in it are removed and not followed.
fn delete(folder: &Path) -> Result<(), OperationError> {
    // Deleted relative to its parent, which `clear` opens once, so that a swapped link can't redirect it.
    let (Some(above), Some(name)) = (folder.parent(), folder.file_name()) else { return Ok(()) };
    clear(above, Path::new(name))
        .map_err(|(stuck, _)| OperationError::Delete { path: stuck.path, source: stuck.error })
}

/// Returns the agent's folders in the home. A workspace elsewhere is a folder of the user and does not belong to them.
fn own_folders(home: &Home, agent: &AgentId, workspace: &Path) -> Vec<PathBuf> {
    let mut folders = vec![home.agent(agent)];
    // The path from the record is compared, because the agent may be gone from the configuration already.
    if workspace == home.workspace(agent) {
        folders.push(workspace.to_owned());
    }
    folders
}
