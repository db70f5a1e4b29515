//! The registry of all tools of a native gateway.

use std::sync::Arc;

use super::exec::Exec;
use super::files;
use super::process::Process;
use super::sessions::{self, Sessions};
use super::{FindAgent, Registry};
use crate::sandbox::Sandbox;

/// The services that the tools use.
#[derive(Clone)]
pub struct Parts {
    /// The sandbox in which commands run.
    pub sandbox: Arc<dyn Sandbox>,
    /// The gateway's sessions.
    pub sessions: Arc<dyn Sessions>,
    /// Looks up an agent's current configuration: its workspace and its sandbox mode.
    pub agents: FindAgent,
}

/// Returns the registry of all built-in tools.
#[must_use]
pub fn build(parts: &Parts) -> Registry {
    let mut registry = Registry::default();
    registry.add(Arc::new(Exec::new(Arc::clone(&parts.sandbox))));
    registry.add(Arc::new(Process::new(Arc::clone(&parts.sandbox))));
    for tool in files::all(&parts.agents) {
        registry.add(Arc::new(tool));
    }
    for tool in sessions::all(&parts.sessions) {
        registry.add(Arc::new(tool));
    }
    registry
}

#[cfg(test)]
#[path = "catalog_tests.rs"]
mod tests;
