//! Names and labels of everything that a home owns in an engine. Every name ends in the home's suffix, so the names of
//! two homes never collide. The label, not the name, tells which home owns a thing.

use std::collections::HashMap;

use crate::home::Home;
use crate::id::AgentId;

/// Label: the canonical path of the home that owns a container or a volume.
pub(crate) const LABEL_HOME: &str = "flock.home";
/// Label: the agent a container belongs to.
pub(crate) const LABEL_AGENT: &str = "flock.agent";
/// Label: the hash of the specification a container was made from.
pub(crate) const LABEL_SPEC: &str = "flock.spec";
/// Label: the OCI runtime that a person chose for a container.
pub(crate) const LABEL_RUNTIME: &str = "flock.runtime";
/// Label: the hash of the recipe an image was made from.
pub(crate) const LABEL_RECIPE: &str = "flock.recipe";

/// Label: the request and step that a build container was made for.
pub(crate) const LABEL_BUILD: &str = "flock.build";

/// Label: the run of checks that a container was made for.
pub(crate) const LABEL_CHECK: &str = "flock.check";

/// Label: the MCP server a container belongs to.
pub(crate) const LABEL_MCP: &str = "flock.mcp";

/// Label: the agent whose workspace a volume is. Such a volume does not have [`LABEL_HOME`]: nothing that removes all that a home
/// has in an engine may find it.
pub(crate) const LABEL_WORKSPACE: &str = "flock.workspace";
/// Label: the canonical path of the home that made a workspace's volume.
pub(crate) const LABEL_WORKSPACE_HOME: &str = "flock.workspace.home";
/// Label: the instance id of the home that made something, which differs on each machine.
pub(crate) const LABEL_INSTANCE: &str = "flock.instance";

/// Returns the name of the container of an agent or of an MCP server.
#[must_use]
pub fn sandbox(home: &Home, agent: &AgentId) -> String {
    match agent.mcp_server() {
        Some(server) => format!("flock-mcp-{server}{}", home.suffix()),
        None => format!("flock-sbx-{agent}{}", home.suffix()),
    }
}

/// Returns the name of the volume by which the home of another machine at the same path is known in an engine.
#[must_use]
pub(crate) fn claim(home: &Home) -> String {
    format!("flock-home{}", home.suffix())
}

/// Returns the name of the container by which files are brought into a workspace on another machine and out of it. It never runs.
#[must_use]
pub(crate) fn carrier(home: &Home, agent: &AgentId) -> String {
    format!("flock-carry-{agent}{}", home.suffix())
}

/// Returns the name of the container that writes the Nix store. In spite of the name no daemon runs in it.
#[must_use]
pub fn store(home: &Home) -> String {
    format!("flock-nix-daemon{}", home.suffix())
}

/// Returns the name of the volume that holds the Nix store.
#[must_use]
pub(crate) fn store_volume(home: &Home) -> String {
    format!("flock-nix{}", home.suffix())
}

/// Returns the name of the volume for package builds. Each build writes to its own folder in it.
#[must_use]
pub(crate) fn build_volume(home: &Home) -> String {
    format!("flock-nix-builds{}", home.suffix())
}

/// Returns the name of a container in which a package is evaluated or built.
#[must_use]
pub fn build(home: &Home, id: &str) -> String {
    format!("flock-nix-build-{id}{}", home.suffix())
}

/// Returns the name of a container in which a delivered tree is checked.
#[must_use]
pub fn check(home: &Home, id: &str) -> String {
    format!("flock-check-{id}{}", home.suffix())
}

/// Returns the value of [`LABEL_HOME`].
#[must_use]
pub fn owner(home: &Home) -> String {
    home.root().to_string_lossy().into_owned()
}

/// Returns the engine's filter for exactly the things that this home owns.
#[must_use]
pub fn owned(home: &Home) -> HashMap<String, Vec<String>> {
    HashMap::from([("label".to_owned(), vec![format!("{LABEL_HOME}={}", owner(home))])])
}
