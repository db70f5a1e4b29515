//! The registry of all tools of a native gateway.

use std::sync::Arc;

use super::exec::ExecTool;
use super::files;
use super::process::ProcessTool;
use super::sessions::{self, SessionService};
use super::{AgentLookup, Registry};
use crate::sandbox::Sandbox;

/// The services that the tools use.
#[derive(Clone)]
pub struct ToolServices {
    /// The sandbox in which commands run.
    pub sandbox: Arc<dyn Sandbox>,
    /// The gateway's sessions.
    pub sessions: Arc<dyn SessionService>,
    /// Looks up an agent's current configuration: its workspace and its sandbox mode.
    pub agents: AgentLookup,
}

/// Returns the registry of all built-in tools.
#[must_use]
pub fn build(parts: &ToolServices) -> Registry {
    let mut registry = Registry::default();
    registry.add(Arc::new(ExecTool::new(Arc::clone(&parts.sandbox))));
    registry.add(Arc::new(ProcessTool::new(Arc::clone(&parts.sandbox))));
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
