//! The steps of changing an agent's id.

use std::path::{Path, PathBuf};

use super::{ExternalServices, OperationError};
use crate::clock::unix_ms;
use crate::config::{self, ConfigError, agents};
use crate::generation::Origin;
use crate::home::pending::{self, AgentOperation, PendingOperation};
use crate::home::remove_tree::relocate;
use crate::home::{Home, HomeError};
use crate::id::AgentId;
use crate::openclaw::{identity, state};
use crate::project;
use crate::store::{AuditEntry, Level, Store};

/// Does the part of a rename that belongs to the home: database, folders, configuration. No gateway of the home may
/// run, because it would continue with the old id. Does nothing if this part was done before. The caller must hold
/// [`pending::lock`].
///
/// # Errors
///
/// Returns [`OperationError`] if a step fails. The record of the operation stays.
pub(crate) async fn rename_in_home(
    home: &Home,
    store: &Store,
    pending: &PendingOperation,
) -> Result<PendingOperation, OperationError> {
    let done = PendingOperation { configured: true, ..pending.clone() };
    let AgentOperation::Rename { to, workspace, .. } = &pending.operation else { return Ok(done) };
    if pending.configured {
        return Ok(done);
    }
    let old = &pending.agent;
    let detail = format!("from now on {to}; begun at {}", pending.begun_at);
    let entry = AuditEntry::new(&pending.by, "agent.rename", old.as_str(), Level::Yellow, detail);
    store.agents().rename(old.clone(), to.clone(), entry, unix_ms()).await?;
    // The rows must be on disk before the folders move: otherwise a power failure could leave the rows with the old id.
    store.sync().await?;
    rename(&home.agent(old), &home.agent(to))?;
    if *workspace == home.workspace(old) {
        rename(workspace, &home.workspace(to))?;
    }
    project::agents::rename_branches(home, old, to);
    // A gateway that finishes this part of an interrupted rename has no other origin for it.
    let current = Origin::current();
    let origin = if current.renames.is_some() { current } else { super::origin(pending) };
    match origin.run(|| config::edit(home, |document| agents::rename(document, home, old, to))) {
        Ok(()) => {}
        // An earlier run was killed between this step and its record.
        Err(error @ (ConfigError::Exists(_) | ConfigError::Unknown(_))) => {
            let config = config::read(home)?;
            if config.agent(to).is_none() || config.agent(old).is_some() {
                return Err(error.into());
            }
        }
        Err(error) => return Err(error.into()),
    }
    pending::write(home, &done)?;
    Ok(done)
}

/// Does the rest of a rename, which concerns the engine and OpenClaw. Returns warnings about failed steps.
pub(super) async fn elsewhere(
    home: &Home,
    services: &dyn ExternalServices,
    old: &AgentId,
    to: &AgentId,
) -> Result<Vec<String>, OperationError> {
    let mut warnings = Vec::new();
    if let Err(reason) = services.release(old).await {
        warnings.push(reason);
    }
    let moved = services.rename_packages(old, to).await;
    moved.map_err(|reason| OperationError::Packages { agent: old.clone(), reason })?;
    identity::remove_role(home, old)?;
    let conversations = state::of_agent(home, old);
    if conversations.is_empty() {
        return Ok(warnings);
    }
    if !services.openclaw_drops(old).await {
        return Err(OperationError::OpenClaw(old.clone()));
    }
    for folder in conversations {
        let target: PathBuf = folder.with_file_name(to.as_str());
        rename(&folder, &target)?;
    }
    Ok(warnings)
}

/// Moves a folder, unless it was moved before. An existing target is never overwritten.
fn rename(from: &Path, to: &Path) -> Result<(), OperationError> {
    let fail = |source| HomeError::Io { verb: "move", path: from.to_owned(), source };
    relocate(from, to).map_err(|source| fail(source).into())
}
