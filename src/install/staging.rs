//! The folder in which a version is made, with a note of how far it got. Both survive a `kill -9`. The next
//! installation continues from the note, or starts again if it wants another version.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::error::{io, remove_file, write_record};
use super::source::{self, FetchedCommit, RepositoryAddress, ResolvedReference};
use super::{InstallError, InstallEvent, InstallPhase};
use crate::home::{Home, atomic};

/// The stages of an installation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Stage {
    /// All files of the commit are there.
    Fetched,
    /// The dependencies are installed.
    Installed,
    /// The build is finished.
    Built,
}

/// The note about the contents of the folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StageRecord {
    pub repository: String,
    pub commit: String,
    pub stage: Stage,
}

/// A folder in which a version is made.
#[derive(Debug)]
pub(crate) struct StagingFolder {
    root: PathBuf,
}

impl StagingFolder {
    /// Returns the folder for the home's OpenClaw.
    #[must_use]
    pub(crate) fn of(home: &Home) -> Self {
        Self { root: home.openclaw_versions().join(".staging") }
    }

    /// Returns the folder for flock's own program.
    #[must_use]
    pub(crate) fn of_program(home: &Home) -> Self {
        Self { root: home.program().join(".staging") }
    }

    #[must_use]
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    #[must_use]
    pub(crate) fn checkout(&self) -> PathBuf {
        self.root.join("checkout")
    }

    /// Returns the folder for files that the trial of a build writes.
    #[must_use]
    pub(crate) fn state(&self) -> PathBuf {
        self.root.join("state")
    }

    /// Returns the stage that an earlier installation of this commit reached, if it left anything.
    #[must_use]
    pub(crate) fn stage(&self, repository: &str, commit: &str) -> Option<Stage> {
        let bytes = atomic::read(&self.note(), MAX_RECORD).ok()??;
        let note: StageRecord = serde_json::from_slice(&bytes).ok()?;
        (note.repository == repository && note.commit == commit).then_some(note.stage)
    }

    /// Records that a stage is reached.
    ///
    /// # Errors
    ///
    /// Returns an error if the note cannot be written.
    pub(crate) fn reach(&self, repository: &str, commit: &str, stage: Stage) -> Result<(), InstallError> {
        let note = StageRecord { repository: repository.to_owned(), commit: commit.to_owned(), stage };
        write_record(&self.note(), serde_json::to_vec(&note))
    }

    /// Empties the folder.
    ///
    /// # Errors
    ///
    /// Returns an error if a file cannot be removed, or the folder cannot be created.
    pub(crate) fn clear(&self) -> Result<(), InstallError> {
        self.remove()?;
        fs_err::create_dir_all(&self.root).map_err(io("make the folder", &self.root))
    }

    /// Empties the folder, fetches a commit into it, and records that.
    ///
    /// # Errors
    ///
    /// Returns an error if the commit cannot be fetched, or the folder cannot be emptied or written.
    pub(crate) fn fetch(
        &self,
        origin: &RepositoryAddress,
        reference: &str,
        tip: &ResolvedReference,
        events: &dyn Fn(InstallEvent<'_>),
    ) -> Result<FetchedCommit, InstallError> {
        self.clear()?;
        events(InstallEvent::Phase(InstallPhase::Fetching {
            commit: tip.commit.as_deref().unwrap_or(reference),
        }));
        let fetched = source::fetch(origin, reference, tip, &self.checkout(), events)?;
        self.reach(origin.as_str(), &fetched.commit, Stage::Fetched)?;
        Ok(fetched)
    }

    /// Removes the folder. The note is removed first, so that a half-removed folder is never continued.
    ///
    /// # Errors
    ///
    /// Returns an error if a file cannot be removed.
    pub(crate) fn remove(&self) -> Result<(), InstallError> {
        remove_file(&self.note())?;
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

const MAX_RECORD: u64 = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_commit_and_repository_is_resumed() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path().to_owned(), None);
        let staging = StagingFolder::of(&home);
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
