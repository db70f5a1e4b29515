//! Where a version is made: one folder with a note of how far it came. A `kill -9` leaves both, and the next
//! install goes on from the note, or starts anew where it wants something else.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::error::io;
use super::source::{self, Fetched, Origin, Tip};
use super::{Event, InstallError, Phase};
use crate::home::{Home, atomic};

/// How far an install came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// The files of the commit are all there.
    Fetched,
    /// Dependencies are installed.
    Installed,
    /// It is built.
    Built,
}

/// What the folder holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// From where.
    pub repository: String,
    /// The commit.
    pub commit: String,
    /// How far it came.
    pub stage: Stage,
}

/// The folder.
#[derive(Debug)]
pub struct Staging {
    root: PathBuf,
}

impl Staging {
    /// That of a home's OpenClaw.
    #[must_use]
    pub fn of(home: &Home) -> Self {
        Self { root: home.openclaw_versions().join(".staging") }
    }

    /// That of flock's own program.
    #[must_use]
    pub fn of_program(home: &Home) -> Self {
        Self { root: home.program().join(".staging") }
    }

    /// The folder itself.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The checkout in it.
    #[must_use]
    pub fn checkout(&self) -> PathBuf {
        self.root.join("checkout")
    }

    /// For what the trial of a build writes.
    #[must_use]
    pub fn state(&self) -> PathBuf {
        self.root.join("state")
    }

    /// How far an earlier install of this commit came, if one left something.
    #[must_use]
    pub fn stage(&self, repository: &str, commit: &str) -> Option<Stage> {
        let bytes = atomic::read(&self.note(), MOST_NOTE).ok()??;
        let note: Note = serde_json::from_slice(&bytes).ok()?;
        (note.repository == repository && note.commit == commit).then_some(note.stage)
    }

    /// Notes that a stage is reached.
    ///
    /// # Errors
    ///
    /// If that can't be written.
    pub fn reach(&self, repository: &str, commit: &str, stage: Stage) -> Result<(), InstallError> {
        let note = Note { repository: repository.to_owned(), commit: commit.to_owned(), stage };
        let text = serde_json::to_vec(&note).map_err(|error| io("describe", self.note())(error.into()))?;
        Ok(atomic::write(&self.note(), &text, 0o600)?)
    }

    /// Empties it.
    ///
    /// # Errors
    ///
    /// If something can't be removed, or the folder can't be made.
    pub fn clear(&self) -> Result<(), InstallError> {
        self.remove()?;
        fs_err::create_dir_all(&self.root).map_err(io("make the folder", &self.root))
    }

    /// Fetches a commit into the emptied folder, and notes that it is there.
    ///
    /// # Errors
    ///
    /// If the commit can't be fetched, or the folder can't be emptied or written.
    pub fn fetch(
        &self,
        origin: &Origin,
        reference: &str,
        tip: &Tip,
        events: &dyn Fn(Event<'_>),
    ) -> Result<Fetched, InstallError> {
        self.clear()?;
        events(Event::Phase(Phase::Fetching { commit: tip.commit.as_deref().unwrap_or(reference) }));
        let fetched = source::fetch(origin, reference, tip, &self.checkout(), events)?;
        self.reach(origin.as_str(), &fetched.commit, Stage::Fetched)?;
        Ok(fetched)
    }

    /// Removes it. The note goes first: what is half removed is never gone on with.
    ///
    /// # Errors
    ///
    /// If something can't be removed.
    pub fn remove(&self) -> Result<(), InstallError> {
        match fs_err::remove_file(self.note()) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(io("remove", self.note())(error));
            }
            _ => {}
        }
        match fs_err::remove_dir_all(&self.root) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(io("remove", &self.root)(error))
            }
            _ => Ok(()),
        }
    }

    fn note(&self) -> PathBuf {
        self.root.join("stage.json")
    }
}

const MOST_NOTE: u64 = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_commit_of_the_same_repository_is_gone_on_with() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path().to_owned(), None);
        let staging = Staging::of(&home);
        assert_eq!(staging.stage("a", "1"), None);
        staging.clear().unwrap();
        staging.reach("a", "1", Stage::Installed).unwrap();
        assert_eq!(staging.stage("a", "1"), Some(Stage::Installed));
        assert_eq!(staging.stage("a", "2"), None);
        assert_eq!(staging.stage("b", "1"), None);
        std::fs::write(staging.root.join("stage.json"), "{\"repo").unwrap();
        assert_eq!(staging.stage("a", "1"), None);
        staging.clear().unwrap();
        assert_eq!(std::fs::read_dir(&staging.root).unwrap().count(), 0);
        staging.remove().unwrap();
        staging.remove().unwrap();
    }
}
