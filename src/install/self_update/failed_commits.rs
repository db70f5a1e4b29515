//! The commits of flock that did not work on this machine. Updates skip them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::SelfUpdateError;
use crate::home::Home;
use crate::install::versions::{self, Failed};

/// Returns all failed commits with the reasons.
#[must_use]
pub fn all(home: &Home) -> BTreeMap<String, Failed> {
    versions::failed_commits_in(&record_path(home))
}

/// Records a failed commit. Returns `true` if updates skip it from now on.
///
/// # Errors
///
/// Returns an error if the record cannot be written.
pub fn remember(home: &Home, commit: &str, failed: Failed) -> Result<bool, SelfUpdateError> {
    Ok(versions::record_failure_in(&record_path(home), commit, failed)?)
}

/// Removes a commit from the record, because it works now.
///
/// # Errors
///
/// Returns an error if the record cannot be written.
pub fn forget(home: &Home, commit: &str) -> Result<(), SelfUpdateError> {
    Ok(versions::forget_failure_in(&record_path(home), commit)?)
}

fn record_path(home: &Home) -> PathBuf {
    home.program().join("failed.json")
}
