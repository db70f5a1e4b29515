//! Assembles the tools that a gateway gives to its agents.

use std::sync::{Arc, Weak};

use serde_json::Value;
use tokio::sync::mpsc;

use super::sessions::GatewaySessions;
use super::state::Gateway;
use crate::config::Live;
use crate::home::Home;
use crate::provider::{BoxFuture, ToolSpec};
use crate::sandbox::docker::DockerSandbox;
use crate::sandbox::engine::Engine;
use crate::store::{Store, StoreError};
use crate::swarm::triage::{Machine, Triage};
use crate::swarm::{self, Notifier, Swarm};
use crate::tool::{self, CallContext, Registry, Tool, ToolError, ToolOutput};

/// Returns the tools of a gateway.
#[must_use]
pub fn registry(
    live: &Arc<Live>,
    triage: &Arc<Triage>,
    sandboxes: &Arc<DockerSandbox>,
    gateway: Weak<Gateway>,
) -> Registry {
    // Tools look an agent up at each call, so they follow a change of the configuration.
    let finder = live.clone();
    let mut registry = tool::catalog::build(&tool::catalog::ToolServices {
        sandbox: sandboxes.clone(),
        sessions: Arc::new(GatewaySessions(gateway)),
        agents: Arc::new(move |id| finder.current().agent(id).cloned()),
    });
    let tools = swarm::tools::assembled(triage.swarm(), triage, live.home());
    tools.into_iter().for_each(|tool| registry.add(tool));
    registry
}

/// Returns the descriptions of the tools, for commands that run beside a gateway or without one.
///
/// The tools work on an empty temporary database, so nothing of the home is opened for writing.
///
/// # Errors
///
/// Returns [`SpecsError`] if the temporary folder or the database in it can't be created.
pub fn specs(live: &Arc<Live>) -> Result<Vec<ToolSpec>, SpecsError> {
    let scratch = tempfile::Builder::new().prefix("flock-").tempdir().map_err(SpecsError::Folder)?;
    let store = Arc::new(Store::open(&Home::new(scratch.path().to_owned(), None))?);
    // Nobody reads the rings: no tool is called here.
    let (rings, _) = mpsc::unbounded_channel();
    let bell = Notifier::new(rings, Arc::new(|_, _| {}));
    let swarm = Arc::new(Swarm::new(swarm::SwarmParts { live: live.clone(), store, bell }));
    let newest = live.clone();
    let engine = Arc::new(Engine::from_env());
    let sandboxes =
        Arc::new(DockerSandbox::new(live.home().clone(), Arc::new(move || newest.current()), engine));
    let triage = triage(live, &swarm, &sandboxes);
    let registry = registry(live, &triage, &sandboxes, Weak::new());
    Ok(registry.iter().map(|tool| tool.spec().clone()).collect())
}

/// Returns a registry of tools that have a description but can't be called. It serves commands that measure what the
/// descriptions cost.
///
/// # Errors
///
/// Fails as [`specs`] does.
pub fn described(live: &Arc<Live>) -> Result<Registry, SpecsError> {
    let mut registry = Registry::default();
    specs(live)?.into_iter().for_each(|spec| registry.add(Arc::new(SpecOnlyTool(spec))));
    Ok(registry)
}

struct SpecOnlyTool(ToolSpec);

impl Tool for SpecOnlyTool {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn call<'a>(&'a self, _: &'a CallContext, _: &'a Value) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(std::future::ready(Err(ToolError::ForModel("no tool can be called here".to_owned()))))
    }
}

/// The reason why the tools can't be described.
#[derive(Debug, thiserror::Error)]
pub enum SpecsError {
    /// The temporary folder could not be created.
    #[error("failed to make a temporary folder")]
    Folder(#[source] std::io::Error),
    /// The database in it could not be created.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl crate::error::Explain for SpecsError {
    fn hint(&self) -> Option<String> {
        Some("df -h /tmp".to_owned())
    }
}

/// Returns the part that decides about agents' requests. This does not contact Docker.
#[must_use]
pub fn triage(live: &Arc<Live>, swarm: &Arc<Swarm>, sandboxes: &Arc<DockerSandbox>) -> Arc<Triage> {
    // The set of packages that agents may get without a person is pinned before any agent asks for one.
    if let Err(error) = crate::nix::pin::adopt(live.home(), live.current().nix_flake.as_deref()) {
        tracing::warn!(error = %crate::error::chain(&error), "the package set can't be pinned");
    }
    let newest = live.clone();
    let packages = crate::nix::Store::new(
        live.home().clone(),
        Arc::new(move || newest.current()),
        Arc::new(Engine::from_env()),
    );
    let hands = Machine { live: live.clone(), packages: Arc::new(packages), sandbox: sandboxes.clone() };
    Triage::new(swarm.clone(), Arc::new(hands))
}
