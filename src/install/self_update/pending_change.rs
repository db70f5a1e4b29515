//! The record of a program change in progress. It is written before anything is changed, and removed when the new
//! version has proved itself or the old one is back. A record that is found belongs to an interrupted change, and the
//! next update completes it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::program::digest;
use super::{ProgramRecord, SelfUpdateError, UpdateLock};
use crate::home::{Home, atomic};
use crate::install::error::{remove_file, write_record};
pub(crate) use crate::install::pending_change::ChangeDirection;

/// A change in progress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PendingProgramChange {
    pub way: ChangeDirection,
    /// The file that is replaced.
    pub path: PathBuf,
    /// The old version.
    pub from: ProgramRecord,
    /// The new version.
    pub to: ProgramRecord,
    /// `true` if the gateway ran before the change. It must then run afterwards.
    pub ran: bool,
    /// `true` if the new version migrates the database, so that a copy of the database was made.
    pub migrates: bool,
    /// Set while the change is being undone.
    #[serde(default)]
    pub back: bool,
    /// The backup that replaces the database, because the new version can't read the present one.
    #[serde(default)]
    pub backup: Option<PathBuf>,
}

/// The state of an interrupted change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProgramChangeState {
    /// The program is still the old one.
    Old,
    /// The program is the new one, and has not proved itself.
    New,
    /// The program is neither of them: somebody else has replaced it since.
    Other,
}

impl PendingProgramChange {
    /// Returns the interrupted change, if there is one.
    #[must_use]
    pub(crate) fn interrupted(home: &Home) -> Option<Self> {
        serde_json::from_slice(&atomic::read(&home.program_change_file(), MAX_RECORD).ok()??).ok()
    }

    /// Returns how far the change got.
    ///
    /// # Errors
    ///
    /// Returns an error if the program cannot be read.
    pub(crate) fn reached(&self) -> Result<ProgramChangeState, SelfUpdateError> {
        // The file itself is examined, not a recorded step: a crash may come between a rename and its record.
        let now = digest(&self.path)?;
        Ok(match now {
            now if now == self.to.sha256 => ProgramChangeState::New,
            now if now == self.from.sha256 => ProgramChangeState::Old,
            _ => ProgramChangeState::Other,
        })
    }

    /// Writes the record.
    ///
    /// # Errors
    ///
    /// Returns an error if the record cannot be written. Then nothing may be changed.
    pub(crate) fn note(&self, _: &UpdateLock, home: &Home) -> Result<(), SelfUpdateError> {
        Ok(write_record(&home.program_change_file(), serde_json::to_vec(self))?)
    }

    /// Removes the record, because the change has ended.
    ///
    /// # Errors
    ///
    /// Returns an error if the record cannot be removed.
    pub(crate) fn end(_: &UpdateLock, home: &Home) -> Result<(), SelfUpdateError> {
        Ok(remove_file(&home.program_change_file())?)
    }
}

const MAX_RECORD: u64 = 64 << 10;
