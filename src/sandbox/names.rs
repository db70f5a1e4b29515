//! The names and labels of what a home owns in an engine. Every name ends in the home's suffix, so two homes
//! never meet; the label tells whose a thing is, whatever its name.

use std::collections::HashMap;

use crate::home::Home;
use crate::id::AgentId;

/// Label: the canonical path of the home that owns a container or a volume.
pub const LABEL_HOME: &str = "flock.home";
/// Label: the agent a container belongs to.
pub const LABEL_AGENT: &str = "flock.agent";
/// Label: the hash of the specification a container was made from.
pub const LABEL_SPEC: &str = "flock.spec";
/// Label: the hash of the recipe an image was made from.
pub const LABEL_RECIPE: &str = "flock.recipe";

/// The agent's container.
#[must_use]
pub fn sandbox(home: &Home, agent: &AgentId) -> String {
    format!("flock-sbx-{agent}{}", home.suffix())
}

/// The container that writes the Nix store.
#[must_use]
pub fn store(home: &Home) -> String {
    format!("flock-nix-daemon{}", home.suffix())
}

/// The volume of the Nix store.
#[must_use]
pub fn store_volume(home: &Home) -> String {
    format!("flock-nix{}", home.suffix())
}

/// The value of [`LABEL_HOME`].
#[must_use]
pub fn owner(home: &Home) -> String {
    home.root().to_string_lossy().into_owned()
}

/// The filter that finds exactly what this home owns.
#[must_use]
pub fn owned(home: &Home) -> HashMap<String, Vec<String>> {
    HashMap::from([("label".to_owned(), vec![format!("{LABEL_HOME}={}", owner(home))])])
}
