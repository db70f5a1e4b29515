//! The tools that a gateway gives its agents, all together.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::mpsc;

use super::sessions::GatewaySessions;
use crate::config::Live;
use crate::home::Home;
use crate::provider::{BoxFuture, ToolSpec};
use crate::sandbox::docker::DockerSandbox;
use crate::sandbox::engine::Engine;
use crate::store::{Store, StoreError};
use crate::swarm::triage::{Machine, Triage};
use crate::swarm::{self, Bell, Swarm};
use crate::tool::{self, CallContext, Registry, Tool, ToolError, ToolOutput};

/// Them, and what stands behind some of them.
pub struct Tools {
    /// The tools.
    pub registry: Registry,
    /// What the session tools reach, once it is connected.
    pub sessions: Arc<GatewaySessions>,
    /// Who decides about requests.
    pub triage: Arc<Triage>,
}

/// The tools of a home's gateway. Nothing is asked of Docker here.
#[must_use]
pub fn assembled(live: &Arc<Live>, swarm: &Arc<Swarm>, sandboxes: &Arc<DockerSandbox>) -> Tools {
    let sessions = Arc::new(GatewaySessions::default());
    let finder = live.clone();
    let mut registry = tool::catalog::build(&tool::catalog::Parts {
        sandbox: sandboxes.clone(),
        sessions: sessions.clone(),
        agents: Arc::new(move |id| finder.current().agent(id).cloned()),
    });
    let triage = triage(live, swarm, sandboxes);
    let tools = swarm::tools::assembled(swarm, &triage, live.home());
    tools.into_iter().for_each(|tool| registry.add(tool));
    Tools { registry, sessions, triage }
}

/// What the tools say of themselves, for who looks at them beside a gateway or without one. They work on an
/// empty database of their own, so nothing of the home is opened for writing.
///
/// # Errors
///
/// If there is no room for that database.
pub fn specs(live: &Arc<Live>) -> Result<Vec<ToolSpec>, SpecsError> {
    let scratch = tempfile::Builder::new().prefix("flock-").tempdir().map_err(SpecsError::Folder)?;
    let store = Arc::new(Store::open(&Home::new(scratch.path().to_owned(), None))?);
    let (rings, _) = mpsc::unbounded_channel();
    let bell = Bell::new(rings, Arc::new(|_, _| {}));
    let swarm = Arc::new(Swarm::new(swarm::Parts { live: live.clone(), store, bell }));
    let newest = live.clone();
    let engine = Arc::new(Engine::from_env());
    let sandboxes =
        Arc::new(DockerSandbox::new(live.home().clone(), Arc::new(move || newest.current()), engine));
    let tools = assembled(live, &swarm, &sandboxes);
    Ok(tools.registry.iter().map(|tool| tool.spec().clone()).collect())
}

/// The tools as they are told of, for who measures what they cost beside a gateway. They can't be called.
///
/// # Errors
///
/// As [`specs`].
pub fn described(live: &Arc<Live>) -> Result<Registry, SpecsError> {
    let mut registry = Registry::default();
    specs(live)?.into_iter().for_each(|spec| registry.add(Arc::new(Described(spec))));
    Ok(registry)
}

struct Described(ToolSpec);

impl Tool for Described {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn call<'a>(&'a self, _: &'a CallContext, _: &'a Value) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(std::future::ready(Err(ToolError::ForModel("no tool can be called here".to_owned()))))
    }
}

/// Why the tools can't be told.
#[derive(Debug, thiserror::Error)]
pub enum SpecsError {
    /// No folder could be made.
    #[error("failed to make a temporary folder")]
    Folder(#[source] std::io::Error),
    /// No database could be made in it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl crate::error::Explain for SpecsError {
    fn hint(&self) -> Option<String> {
        Some("df -h /tmp".to_owned())
    }
}

fn triage(live: &Arc<Live>, swarm: &Arc<Swarm>, sandboxes: &Arc<DockerSandbox>) -> Arc<Triage> {
    // What agents may have without a person is fixed before they ask for it.
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
