//! The commits of flock that did not work here, which updates pass over.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::OwnError;
use crate::home::Home;
use crate::install::versions::{self, Failed};

/// Returns them with the reasons.
#[must_use]
pub fn all(home: &Home) -> BTreeMap<String, Failed> {
    versions::failed_in(&record(home))
}

/// Remembers one; says whether it is passed over from now on.
///
/// # Errors
///
/// If that can't be written.
pub fn remember(home: &Home, commit: &str, failed: Failed) -> Result<bool, OwnError> {
    Ok(versions::remember_in(&record(home), commit, failed)?)
}

/// Forgets one: it works now.
///
/// # Errors
///
/// If that can't be written.
pub fn forget(home: &Home, commit: &str) -> Result<(), OwnError> {
    Ok(versions::forget_in(&record(home), commit)?)
}

fn record(home: &Home) -> PathBuf {
    home.program().join("failed.json")
}
