//! Support for OpenClaw, the Node.js gateway that flock can run beside its own.
//!
//! Users edit only the home's configuration. [`mod@derive`] makes OpenClaw's configuration from it for the schema of
//! the installed version ([`schema`]), and [`place`] puts it where OpenClaw reads it. [`mod@update`] changes the version.

pub mod check;
pub mod copy;
pub mod derive;
mod error;
pub mod identity;
pub mod place;
pub mod plugin;
pub mod port;
pub mod prepare;
pub mod probe;
pub mod process;
pub mod sandboxes;
pub mod schema;
pub mod state;
pub mod trial;
pub mod uninstall;
pub mod unit;
pub mod update;

pub use error::{FailureCause, OpenClawError, SettingRefusal};
pub use plugin::RUNTIME;

use crate::config::{Agent, Config};
use crate::home::Home;

/// Returns `true` if OpenClaw runs this agent's turns.
#[must_use]
pub fn runs(agent: &Agent) -> bool {
    agent.runtime == RUNTIME
}

/// Returns the agents whose turns OpenClaw runs.
pub fn agents(config: &Config) -> impl Iterator<Item = &Agent> {
    config.agents.iter().filter(|agent| runs(agent))
}

/// Returns the name prefix of the containers that OpenClaw makes for this home. Every home has its own prefix,
/// including the one at the default path: OpenClaw itself names containers by agent alone, and two homes would share
/// one. The prefix is short because newer versions cut the prefix if the whole name has more than 63 characters, and
/// their part of the name has 42.
#[must_use]
pub fn container_prefix(home: &Home) -> String {
    format!("flock-oc-{}-", home.digest())
}
