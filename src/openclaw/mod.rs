//! Support for OpenClaw, the Node.js gateway that flock can run beside its own.
//!
//! Users edit only the home's configuration. [`mod@derive`] makes OpenClaw's configuration from it for the schema of
//! the installed version ([`schema`]), and [`place`] puts it where OpenClaw reads it. [`mod@update`] changes the version.

pub(crate) mod check;
pub(crate) mod copy;
pub(crate) mod derive;
mod error;
pub(crate) mod identity;
pub mod place;
pub mod plugin;
pub(crate) mod port;
pub(crate) mod prepare;
pub mod probe;
pub(crate) mod process;
pub(crate) mod sandboxes;
pub(crate) mod schema;
pub(crate) mod state;
pub(crate) mod trial;
pub(crate) mod uninstall;
pub(crate) mod unit;
pub(crate) mod update;

pub(crate) use error::{FailureCause, OpenClawError, SettingRefusal};
pub(crate) use plugin::RUNTIME;

use std::path::Path;

use crate::config::{Agent, Config};
use crate::home::{Home, HomeError, atomic};

/// Returns `true` if OpenClaw runs this agent's turns.
#[must_use]
pub(crate) fn runs(agent: &Agent) -> bool {
    agent.runtime == RUNTIME
}

/// Returns the agents whose turns OpenClaw runs.
pub(crate) fn agents(config: &Config) -> impl Iterator<Item = &Agent> {
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

/// Writes a file unless it has this content already, and returns `true` if it was written. A file that can't be read is
/// replaced like one that is missing.
fn write_if_changed(path: &Path, text: &[u8], mode: u32) -> Result<bool, HomeError> {
    const MAX_FILE_SIZE: u64 = 1 << 20;
    if atomic::read(path, MAX_FILE_SIZE).ok().flatten().as_deref() == Some(text) {
        return Ok(false);
    }
    atomic::write(path, text, mode).map(|()| true)
}
