//! What flock knows of OpenClaw, the Node.js gateway that it can run beside its own.
//!
//! The home's configuration stays the one that a person edits. OpenClaw reads a file that [`mod@derive`] makes of it for
//! the schema of the installed version ([`dialect`]), and that [`place`] puts where OpenClaw finds it.

pub mod check;
pub mod copy;
pub mod derive;
pub mod dialect;
mod error;
pub mod facts;
pub mod identity;
pub mod place;
pub mod plugin;
pub mod port;
pub mod probe;
pub mod process;
pub mod remains;
pub mod sandboxes;
pub mod state;
pub mod trial;
pub mod unit;

pub use error::{Blame, OpenClawError, Refusal};
pub use plugin::RUNTIME;

use crate::config::{Agent, Config};
use crate::home::Home;

/// Whether OpenClaw runs this agent's turns.
#[must_use]
pub fn runs(agent: &Agent) -> bool {
    agent.runtime == RUNTIME
}

/// The agents whose turns OpenClaw runs.
pub fn agents(config: &Config) -> impl Iterator<Item = &Agent> {
    config.agents.iter().filter(|agent| runs(agent))
}

/// What the names of the containers begin with that OpenClaw makes for this home. Every home has one of its own, the
/// one at the default path too: by itself OpenClaw names them by the agent alone, and two homes would share one. It is short because newer versions cut
/// it where the whole name has more than 63 characters, and theirs has 42.
#[must_use]
pub fn container_prefix(home: &Home) -> String {
    format!("flock-oc-{}-", home.digest())
}
