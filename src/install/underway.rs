//! A change of versions that is under way: written before the link is swapped, removed when the new version has proved
//! itself or the old one is back. One that is found was interrupted, and the next update ends it.

use serde::{Deserialize, Serialize};

use super::error::io;
use super::{InstallError, Installer, Version, versions};
use crate::home::{Home, atomic};

/// What is being changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// To a version that is new here.
    Update,
    /// To the version before.
    Rollback,
}

/// The change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Underway {
    /// Which way.
    pub way: Way,
    /// The folder's name of the version that is left.
    pub from: String,
    /// The folder's name of the version that is taken.
    pub to: String,
    /// Whether it is being taken back.
    #[serde(default)]
    pub back: bool,
}

/// How far a change came that was interrupted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reached {
    /// The link is still the old one's: nothing has happened.
    Nothing,
    /// The new version is the current one, and has not proved itself.
    Swapped {
        /// Which way.
        way: Way,
        /// The one before.
        from: Box<Version>,
        /// The current one.
        to: Box<Version>,
    },
    /// The old version is the current one again, and may not run yet.
    Back {
        /// That version.
        from: Box<Version>,
    },
}

impl Underway {
    /// Remembers it.
    ///
    /// # Errors
    ///
    /// If it can't be written; then nothing may be changed.
    pub fn begin(&self, _: &Installer, home: &Home) -> Result<(), InstallError> {
        let path = home.openclaw_underway();
        let text = serde_json::to_vec(self).map_err(|error| io("describe", path.clone())(error.into()))?;
        Ok(atomic::write(&path, &text, 0o600)?)
    }

    /// Forgets it: it has come to an end.
    ///
    /// # Errors
    ///
    /// If the record can't be removed.
    pub fn end(_: &Installer, home: &Home) -> Result<(), InstallError> {
        let path = home.openclaw_underway();
        match fs_err::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(io("remove", path)(error)),
            _ => Ok(()),
        }
    }
}

/// The change that was interrupted, if one was.
#[must_use]
pub fn interrupted(home: &Home) -> Option<Reached> {
    let bytes = atomic::read(&home.openclaw_underway(), MOST).ok()??;
    // A record that can't be read is one of a change that had not begun.
    let Ok(found) = serde_json::from_slice::<Underway>(&bytes) else { return Some(Reached::Nothing) };
    let current = versions::current(home).filter(|current| current.name() == found.to);
    let before = versions::named(home, &found.from);
    Some(match (current, before) {
        (Some(to), Some(from)) => Reached::Swapped { way: found.way, from: Box::new(from), to: Box::new(to) },
        (None, Some(from)) if found.back && versions::current(home).as_ref() == Some(&from) => {
            Reached::Back { from: Box::new(from) }
        }
        _ => Reached::Nothing,
    })
}

const MOST: u64 = 64 << 10;
