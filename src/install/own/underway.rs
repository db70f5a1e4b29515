//! A change of the program that is under way: written before anything of it happens, removed when the new version has
//! proved itself or the old one is back. One that is found was interrupted, and the next update ends it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::program::digest;
use super::{OwnError, Program, Updater};
use crate::home::{Home, atomic};
use crate::install::error::io;
pub use crate::install::underway::Way;

/// The change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Underway {
    /// Which way.
    pub way: Way,
    /// The file that is replaced.
    pub path: PathBuf,
    /// The version that is left.
    pub from: Program,
    /// The version that is taken.
    pub to: Program,
    /// Whether the gateway ran before: then it has to run afterwards.
    pub ran: bool,
    /// Whether the new version changes the database when it opens it, so that a copy was made.
    pub migrates: bool,
    /// Whether it is being taken back.
    #[serde(default)]
    pub back: bool,
}

/// How far a change came that was interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reached {
    /// The program is still the old one.
    Old,
    /// The program is the new one, and has not proved itself.
    New,
    /// The program is neither: somebody else has replaced it since.
    Other,
}

impl Underway {
    /// The change that was interrupted, if one was.
    #[must_use]
    pub fn interrupted(home: &Home) -> Option<Self> {
        serde_json::from_slice(&atomic::read(&home.program_underway(), MOST).ok()??).ok()
    }

    /// How far it came.
    ///
    /// # Errors
    ///
    /// If the program can't be read.
    pub fn reached(&self) -> Result<Reached, OwnError> {
        let now = digest(&self.path)?;
        Ok(match now {
            now if now == self.to.sha256 => Reached::New,
            now if now == self.from.sha256 => Reached::Old,
            _ => Reached::Other,
        })
    }

    /// Remembers it.
    ///
    /// # Errors
    ///
    /// If it can't be written; then nothing may be changed.
    pub fn note(&self, _: &Updater, home: &Home) -> Result<(), OwnError> {
        let path = home.program_underway();
        let text = serde_json::to_vec(self).map_err(|error| io("describe", path.clone())(error.into()))?;
        Ok(atomic::write(&path, &text, 0o600)?)
    }

    /// Forgets it: it has come to an end.
    ///
    /// # Errors
    ///
    /// If the record can't be removed.
    pub fn end(_: &Updater, home: &Home) -> Result<(), OwnError> {
        let path = home.program_underway();
        match fs_err::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(io("remove", path)(error).into())
            }
            _ => Ok(()),
        }
    }
}

const MOST: u64 = 64 << 10;
