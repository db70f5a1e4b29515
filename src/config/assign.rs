//! Sets one value of the configuration, as `flock config set` does.

use serde_json::Value;

use super::path::ConfigPath;
use super::{ConfigError, agents, edit, ignored, stored_keys};
use crate::home::Home;

/// The other changes that came with a new value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Assigned {
    /// Names of the secrets to which literal keys were moved.
    pub stored: Vec<String>,
    /// Agents that no longer run on this machine itself, because that was chosen for another program.
    pub off_host: Vec<String>,
}

/// Sets the value at a path, with all checks of the configuration. Literal keys are moved to the home's secrets.
///
/// # Errors
///
/// Returns an error if the path can't be set, if the change adds a setting that flock does not read, or if the result
/// would be no valid configuration. Then the file stays as it was.
pub(crate) fn assign(home: &Home, path: &ConfigPath, mut value: Value) -> Result<Assigned, ConfigError> {
    // The secret is stored before the configuration names it. A name without a secret would be of no use.
    let stored = stored_keys::store_keys(home, path, &mut value)?;
    let off_host = edit(home, |document| put(document, home, path, value))?;
    Ok(Assigned { stored, off_host })
}

/// Sets the value at a path of a document, and returns the agents that no longer run on this machine itself.
///
/// # Errors
///
/// Returns an error if the path can't be set, or if the change adds a setting that flock does not read.
pub(crate) fn put(
    document: &mut Value,
    home: &Home,
    path: &ConfigPath,
    value: Value,
) -> Result<Vec<String>, ConfigError> {
    // The check compares with the state before: only new mistakes are refused, so that an old one can be repaired.
    let before = document.clone();
    path.set(document, value)?;
    ignored::check_change(&before, document, home)?;
    // Running on the host is a right that was given to one program. It does not pass to the next one.
    let keeps_host = path.keys().last() != Some(&"runtime");
    Ok(if keeps_host { Vec::new() } else { agents::revoke_host_access(&before, document) })
}
