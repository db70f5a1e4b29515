//! Assembles the tools that a gateway gives to its agents.

use std::sync::{Arc, Weak};

use super::mcp::{ApprovedDefinitions, RequestedReview};
use super::projects::{self, Projects};
use super::sessions::GatewaySessions;
use super::state::Gateway;
use crate::bridge::tool::GrantedLinks;
use crate::config::Live;
use crate::mcp::Servers;
use crate::sandbox::Sandbox;
use crate::swarm::triage::{HostExecutor, Triage};
use crate::swarm::{self, Swarm};
use crate::tool::{self, Registry};

/// Returns the tools of a gateway.
#[must_use]
pub fn registry(
    live: &Arc<Live>,
    triage: &Arc<Triage>,
    sandboxes: &Arc<dyn Sandbox>,
    projects: &Arc<Projects>,
    servers: &Arc<Servers>,
    gateway: Weak<Gateway>,
) -> Registry {
    // Tools look an agent up at each call, so they follow a change of the configuration.
    let finder = live.clone();
    let mut registry = tool::catalog::build(&tool::catalog::ToolServices {
        sandbox: sandboxes.clone(),
        sessions: Arc::new(GatewaySessions(gateway)),
        agents: Arc::new(move |id| finder.current().agent(id).cloned()),
        workspaces: triage.swarm().workspaces().clone(),
    });
    let tools = swarm::tools::assembled(triage.swarm(), triage, live.home());
    let bridges = crate::bridge::tool::all(triage);
    tools
        .into_iter()
        .chain(bridges)
        .chain(projects::tools::all(projects))
        .for_each(|tool| registry.add(tool));
    registry.add_source(servers.clone());
    registry
}

/// Returns the part that decides about agents' requests. This does not contact Docker.
#[must_use]
pub fn triage(
    live: &Arc<Live>,
    swarm: &Arc<Swarm>,
    sandboxes: &Arc<dyn Sandbox>,
    servers: &Arc<Servers>,
) -> Arc<Triage> {
    // The set of packages that agents may get without a person is pinned before any agent asks for one.
    if let Err(error) = crate::nix_store::pin::adopt(live.home(), live.current().nix_flake.as_deref()) {
        tracing::warn!(error = %crate::error::chain(&error), "the package set can't be pinned");
    }
    let newest = live.clone();
    let packages = crate::nix_store::PackageStores::new(
        live.home().clone(),
        Arc::new(move || newest.current()),
        swarm.engines().clone(),
    );
    let executor = HostExecutor {
        live: live.clone(),
        packages: Arc::new(packages),
        sandbox: sandboxes.clone(),
        links: Arc::new(GrantedLinks(swarm.clone())),
        definitions: Arc::new(ApprovedDefinitions(servers.clone())),
    };
    let triage = Triage::new(swarm.clone(), Arc::new(executor));
    servers.reviewed_by(Arc::new(RequestedReview(Arc::downgrade(&triage))));
    triage
}
