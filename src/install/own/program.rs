//! What is known of a version of flock's program.

use std::io::Read as _;
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::OwnError;
use crate::home::{Home, atomic};
use crate::id::hex;
use crate::install::InstallError;
use crate::install::error::io;
use crate::install::tags::Installed;

/// A version of the program, as it is recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Program {
    /// As `flock --version` says it, as in `0.2.0 (0123456789ab)`.
    pub version: String,
    /// The commit it was built from: 40 hex digits where it was built by an update, else what its version says.
    pub commit: Option<String>,
    /// The branch, tag or commit that was asked for.
    pub reference: Option<String>,
    /// Whether that is a branch, which an update follows.
    #[serde(default)]
    pub follows: bool,
    /// Where its source was fetched from.
    pub origin: Option<String>,
    /// When it was built here, in seconds since the epoch.
    pub built_at: Option<i64>,
    /// The digest of its file.
    pub sha256: String,
}

impl Program {
    /// The program at a path, which says that it is `version`. What an update recorded of it counts where it is still that
    /// file.
    ///
    /// # Errors
    ///
    /// If the file can't be read.
    pub fn current(home: &Home, path: &Path, version: &str) -> Result<Self, OwnError> {
        let sha256 = digest(path)?;
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

    /// The program that a rollback goes back to, if it is there and whole.
    #[must_use]
    pub fn previous(home: &Home) -> Option<Self> {
        let folder = home.program();
        let program = read(&folder.join(PREVIOUS))?;
        (digest(&folder.join(PREVIOUS_FILE)).ok()? == program.sha256).then_some(program)
    }

    /// Whether it was built from this commit, and nothing else.
    #[must_use]
    pub fn is_of(&self, commit: &str) -> bool {
        // A shortened one is what its version says.
        self.commit.as_deref().is_some_and(|own| commit.starts_with(own))
    }

    /// The program as the record of tags looks at it, where an update built it.
    #[must_use]
    pub fn as_installed(&self) -> Option<Installed<'_>> {
        Some(Installed {
            origin: self.origin.as_deref()?,
            reference: self.reference.as_deref()?,
            follows: self.follows,
            commit: self.commit.as_deref()?,
        })
    }

    /// Writes the record.
    pub(super) fn write(&self, path: &Path) -> Result<(), OwnError> {
        let text = serde_json::to_vec_pretty(self).map_err(|error| io("describe", path)(error.into()))?;
        Ok(atomic::write(path, &text, 0o600)?)
    }
}

/// The record of the program in use.
pub(super) const CURRENT: &str = "current.json";
/// The record of the one before.
pub(super) const PREVIOUS: &str = "previous.json";
/// The one before.
pub(super) const PREVIOUS_FILE: &str = "flock-previous";

pub(super) fn read(path: &Path) -> Option<Program> {
    serde_json::from_slice(&atomic::read(path, MOST).ok()??).ok()
}

/// The commit that a version names. One that was changed before it was compiled is of no commit.
fn commit_in(version: &str) -> Option<String> {
    let commit = version.split_once('(')?.1.strip_suffix(')')?;
    (commit.len() >= 7 && commit.bytes().all(|byte| byte.is_ascii_hexdigit())).then(|| commit.to_owned())
}

/// The SHA-256 of a file.
///
/// # Errors
///
/// If it can't be read.
pub fn digest(path: &Path) -> Result<String, InstallError> {
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

const MOST: u64 = 64 << 10;

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
    fn a_record_counts_for_the_file_that_it_was_written_of() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path().to_owned(), None);
        std::fs::create_dir_all(home.program()).unwrap();
        let file = dir.path().join("flock");
        std::fs::write(&file, "one").unwrap();
        let found = Program::current(&home, &file, "0.2.0 (0123456789ab)").unwrap();
        assert!(found.is_of("0123456789abcdef0123456789abcdef01234567") && found.origin.is_none());
        let recorded = Program { origin: Some("/there".into()), ..found };
        recorded.write(&home.program().join(CURRENT)).unwrap();
        assert_eq!(Program::current(&home, &file, "x").unwrap(), recorded);
        std::fs::write(&file, "two").unwrap();
        assert_eq!(Program::current(&home, &file, "x").unwrap().origin, None);
        assert_eq!(Program::previous(&home), None);
    }
}
