//! Assembles the tools that a gateway gives to its agents.

use std::sync::Arc;

use super::sessions::GatewaySessions;
use crate::config::Live;
use crate::sandbox::docker::DockerSandbox;
use crate::sandbox::engine::Engine;
use crate::swarm::triage::{Machine, Triage};
use crate::swarm::{self, Swarm};
use crate::tool::{self, Registry};

/// The tools, and the parts behind some of them.
pub struct GatewayTools {
    pub registry: Registry,
    /// The backend of the session tools. It works once it is connected.
    pub sessions: Arc<GatewaySessions>,
    /// The part that decides about agents' requests.
    pub triage: Arc<Triage>,
}

/// Builds the tools of a home's gateway. This does not contact Docker.
#[must_use]
pub fn assembled(live: &Arc<Live>, swarm: &Arc<Swarm>, sandboxes: &Arc<DockerSandbox>) -> GatewayTools {
    let sessions = Arc::new(GatewaySessions::default());
    // Tools look an agent up at each call, so they follow a change of the configuration.
    let finder = live.clone();
    let mut registry = tool::catalog::build(&tool::catalog::ToolServices {
        sandbox: sandboxes.clone(),
        sessions: sessions.clone(),
        agents: Arc::new(move |id| finder.current().agent(id).cloned()),
    });
    let triage = triage(live, swarm, sandboxes);
    let tools = swarm::tools::assembled(swarm, &triage, live.home());
    tools.into_iter().for_each(|tool| registry.add(tool));
    GatewayTools { registry, sessions, triage }
}

fn triage(live: &Arc<Live>, swarm: &Arc<Swarm>, sandboxes: &Arc<DockerSandbox>) -> Arc<Triage> {
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
