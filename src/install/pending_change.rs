//! The record of a version change in progress. It is written before the link is changed, and removed when the new
//! version has proved itself or the old one is back. A record that is found belongs to an interrupted change, and the
//! next update completes it.

use serde::{Deserialize, Serialize};

use super::error::{remove_file, write_record};
use super::{InstallError, InstallLock, InstalledVersion, versions};
use crate::home::{Home, atomic};

/// The direction of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ChangeDirection {
    /// To a version that is new here.
    Update,
    /// Back to the previous version.
    Rollback,
}

/// A change in progress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PendingVersionChange {
    pub way: ChangeDirection,
    /// Folder name of the old version.
    pub from: String,
    /// Folder name of the new version.
    pub to: String,
    /// Set while the change is being undone.
    #[serde(default)]
    pub back: bool,
}

/// The state of an interrupted change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum VersionChangeState {
    /// The link still points to the old version: nothing has happened.
    Nothing,
    /// The new version is current and has not proved itself.
    Swapped {
        way: ChangeDirection,
        /// The old version.
        from: Box<InstalledVersion>,
        /// The current version.
        to: Box<InstalledVersion>,
    },
    /// The old version is current again, and may not run yet.
    Back { from: Box<InstalledVersion> },
}

impl PendingVersionChange {
    /// Writes the record.
    ///
    /// # Errors
    ///
    /// Returns an error if the record cannot be written. Then nothing may be changed.
    pub(crate) fn begin(&self, _: &InstallLock, home: &Home) -> Result<(), InstallError> {
        write_record(&home.openclaw_change_file(), serde_json::to_vec(self))
    }

    /// Removes the record, because the change has ended.
    ///
    /// # Errors
    ///
    /// Returns an error if the record cannot be removed.
    pub(crate) fn end(_: &InstallLock, home: &Home) -> Result<(), InstallError> {
        remove_file(&home.openclaw_change_file())
    }
}

/// Returns the state of an interrupted change, if there is one.
#[must_use]
pub(crate) fn interrupted(home: &Home) -> Option<VersionChangeState> {
    let bytes = atomic::read(&home.openclaw_change_file(), MAX_RECORD).ok()??;
    // An unreadable record belongs to a change that had not begun.
    let Ok(found) = serde_json::from_slice::<PendingVersionChange>(&bytes) else {
        return Some(VersionChangeState::Nothing);
    };
    let current = versions::current(home).filter(|current| current.name() == found.to);
    let before = versions::named(home, &found.from);
    Some(match (current, before) {
        (Some(to), Some(from)) => {
            VersionChangeState::Swapped { way: found.way, from: Box::new(from), to: Box::new(to) }
        }
        (None, Some(from)) if found.back && versions::current(home).as_ref() == Some(&from) => {
            VersionChangeState::Back { from: Box::new(from) }
        }
        _ => VersionChangeState::Nothing,
    })
}

const MAX_RECORD: u64 = 64 << 10;
