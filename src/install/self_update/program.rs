//! Information about a version of flock's program.

use std::io::Read as _;
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::SelfUpdateError;
use crate::home::{Home, atomic};
use crate::id::hex;
use crate::install::InstallError;
use crate::install::error::{io, write_record};
use crate::install::tags::InstalledReference;

/// The record of a version of the program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ProgramRecord {
    /// The output of `flock --version`, as in `0.2.0 (0123456789ab)`.
    pub version: String,
    /// The commit that it was built from. It has 40 hex digits if an update built it, otherwise those in its version.
    pub commit: Option<String>,
    /// The branch, tag or commit that was requested.
    pub reference: Option<String>,
    /// `true` if the reference is a branch, which updates follow.
    #[serde(default)]
    pub follows: bool,
    /// The repository of its source.
    pub origin: Option<String>,
    /// Time of the build on this machine, in Unix seconds.
    pub built_at: Option<i64>,
    /// SHA-256 of the file.
    pub sha256: String,
}

impl ProgramRecord {
    /// Returns the record of the program at a path, which reports `version`. A record that an update wrote counts only
    /// if the file still has its digest.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read.
    pub(crate) fn current(home: &Home, path: &Path, version: &str) -> Result<Self, SelfUpdateError> {
        let sha256 = digest(path)?;
        // Somebody may have replaced the program by hand. The digest shows it, and then only its version is known.
        let recorded = read(&home.program().join(CURRENT)).filter(|program| program.sha256 == sha256);
        Ok(recorded.unwrap_or_else(|| Self {
            version: version.to_owned(),
            commit: commit_in(version),
            reference: None,
            follows: false,
            origin: None,
            built_at: None,
            sha256,
        }))
    }

    /// Returns the program that the last update put in use, if there was one. Somebody may have replaced it since.
    #[must_use]
    pub(crate) fn recorded(home: &Home) -> Option<Self> {
        read(&home.program().join(CURRENT))
    }

    /// Returns the program for a rollback, if its file exists and is complete.
    #[must_use]
    pub(crate) fn previous(home: &Home) -> Option<Self> {
        let folder = home.program();
        let program = read(&folder.join(PREVIOUS_RECORD))?;
        (digest(&folder.join(PREVIOUS_FILE)).ok()? == program.sha256).then_some(program)
    }

    /// Returns `true` if the program was built from exactly this commit.
    #[must_use]
    pub(crate) fn is_of(&self, commit: &str) -> bool {
        // The recorded commit may be the shortened one of its version.
        self.commit.as_deref().is_some_and(|own| commit.starts_with(own))
    }

    /// Returns the program in the form that the record of tags uses. `None` if no update built it.
    #[must_use]
    pub(crate) fn as_installed(&self) -> Option<InstalledReference<'_>> {
        Some(InstalledReference {
            origin: self.origin.as_deref()?,
            reference: self.reference.as_deref()?,
            follows: self.follows,
            commit: self.commit.as_deref()?,
        })
    }

    /// Writes the record.
    pub(super) fn write(&self, path: &Path) -> Result<(), SelfUpdateError> {
        Ok(write_record(path, serde_json::to_vec_pretty(self))?)
    }
}

/// Record of the program in use.
pub(super) const CURRENT: &str = "current.json";
/// Record of the previous program.
pub(super) const PREVIOUS_RECORD: &str = "previous.json";
/// File of the previous program.
pub(super) const PREVIOUS_FILE: &str = "flock-previous";

pub(super) fn read(path: &Path) -> Option<ProgramRecord> {
    serde_json::from_slice(&atomic::read(path, MAX_RECORD).ok()??).ok()
}

/// Returns the commit in a version text. A program that was changed before it was compiled has none.
fn commit_in(version: &str) -> Option<String> {
    let commit = version.split_once('(')?.1.strip_suffix(')')?;
    // A changed one has a suffix after the digits.
    (commit.len() >= 7 && commit.bytes().all(|byte| byte.is_ascii_hexdigit())).then(|| commit.to_owned())
}

/// Returns the SHA-256 of a file.
///
/// # Errors
///
/// Returns an error if the file cannot be read.
pub(crate) fn digest(path: &Path) -> Result<String, InstallError> {
    let mut file = crate::home::regular::open(path).map_err(io("read", path))?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer).map_err(io("read", path))? {
            0 => return Ok(hex(&hash.finalize())),
            count => hash.update(&buffer[..count]),
        }
    }
}

const MAX_RECORD: u64 = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_names_its_commit_unless_it_was_changed() {
        assert_eq!(commit_in("0.2.0 (0123456789ab)").as_deref(), Some("0123456789ab"));
        for none in ["0.2.0", "0.2.0 (0123456789ab-dirty)", "0.2.0 (unknown)", "0.2.0 ()"] {
            assert_eq!(commit_in(none), None, "{none}");
        }
    }

    #[test]
    fn a_record_applies_only_to_the_file_with_its_digest() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path().to_owned(), None);
        std::fs::create_dir_all(home.program()).unwrap();
        let file = dir.path().join("flock");
        std::fs::write(&file, "one").unwrap();
        let found = ProgramRecord::current(&home, &file, "0.2.0 (0123456789ab)").unwrap();
        assert!(found.is_of("0123456789abcdef0123456789abcdef01234567") && found.origin.is_none());
        let recorded = ProgramRecord { origin: Some("/there".into()), ..found };
        recorded.write(&home.program().join(CURRENT)).unwrap();
        assert_eq!(ProgramRecord::current(&home, &file, "x").unwrap(), recorded);
        std::fs::write(&file, "two").unwrap();
        assert_eq!(ProgramRecord::current(&home, &file, "x").unwrap().origin, None);
        assert_eq!(ProgramRecord::previous(&home), None);
    }
}
