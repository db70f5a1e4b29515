//! Removes one value of the configuration, as `flock config unset` does.

use super::path::ConfigPath;
use super::{ConfigError, edit};
use crate::home::Home;

/// Removes the value at a path. Returns `false` if there is none.
///
/// # Errors
///
/// Returns an error if the result would be no valid configuration. Then the file stays as it was.
pub(crate) fn unassign(home: &Home, path: &ConfigPath) -> Result<bool, ConfigError> {
    edit(home, |document| Ok(path.remove(document)))
}
