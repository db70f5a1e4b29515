//! The tools of a native gateway, all together.

use std::sync::Arc;

use super::exec::Exec;
use super::files;
use super::process::Process;
use super::sessions::{self, Sessions};
use super::{FindAgent, Registry};
use crate::sandbox::Sandbox;

/// What the tools work with.
#[derive(Clone)]
pub struct Parts {
    /// Where commands run.
    pub sandbox: Arc<dyn Sandbox>,
    /// The gateway's sessions.
    pub sessions: Arc<dyn Sessions>,
    /// Who an agent is now: its workspace and its sandbox mode.
    pub agents: FindAgent,
}

/// The registry of all built-in tools.
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
