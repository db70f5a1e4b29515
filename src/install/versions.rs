//! The installed versions: a folder for each, with a record that is written last, and a link to the one in use. There
//! is no separate list, which could be wrong.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::checkout_diff::{self, Alterations};
use super::error::{io, write_record};
use super::source::ResolvedReference;
use super::tags::{self, InstalledReference, MovedTag};
use super::{InstallError, source};
use crate::home::{Home, atomic};

/// Name of the record in a version's folder. A folder without a record is not a version.
pub(crate) const RECORD: &str = "flock-install.json";

/// An installed version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InstalledVersion {
    /// The package's version, as in `2026.2.9`. Two commits may have the same.
    pub version: String,
    /// The commit, 40 hex digits. It identifies the version.
    pub commit: String,
    /// The branch, tag or commit that was requested.
    pub reference: String,
    /// `true` if `reference` is a branch, which updates follow. A tag or a commit never changes.
    pub follows: bool,
    /// The repository that it was cloned from.
    pub origin: String,
    /// Time of the commit, in Unix seconds.
    pub committed_at: i64,
    /// Time of the build on this machine, in Unix seconds.
    pub built_at: i64,
    /// The Node that it was built and tried with.
    pub node: PathBuf,
    /// Version of that Node, as in `22.12.0`.
    pub node_version: String,
    /// Folder name of the version that was in use before it. Set when this one is put in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<String>,
    /// Files of the commit that its own build changed. `None` if an older flock built it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub altered: Option<Alterations>,
    /// Its folder. It is not in the record, because a home can be moved.
    #[serde(skip)]
    pub path: PathBuf,
}

impl InstalledVersion {
    /// Returns the name of its folder, as in `2026.2.9-0123456789ab`.
    #[must_use]
    pub(crate) fn name(&self) -> String {
        folder_name(&self.version, &self.commit)
    }

    /// Returns its name for people, as in `OpenClaw 2026.9.6 (0123456789ab, main)`.
    #[must_use]
    pub(crate) fn full_name(&self) -> String {
        format!("OpenClaw {self}")
    }

    /// Returns the program that Node runs.
    #[must_use]
    pub(crate) fn entry(&self) -> PathBuf {
        self.path.join(super::package::ENTRY)
    }

    /// Compares its files with those that were cloned and built.
    ///
    /// # Errors
    ///
    /// Returns [`InstallError::Altered`] with the first file that differs.
    pub(crate) fn check(&self) -> Result<(), InstallError> {
        // An older flock did not record this. There is nothing to compare with.
        let Some(built) = &self.altered else { return Ok(()) };
        let now = checkout_diff::find(&self.path, &self.commit)
            .map_err(|error| source::unusable(&self.path, error))?;
        let differs = |name: &&String| now.get(*name) != built.get(*name);
        // Both lists are searched, because a file that the build changed may have been changed back.
        match now.keys().chain(built.keys()).find(differs) {
            Some(file) => Err(source::altered(&self.path, &self.commit, file)),
            None => Ok(()),
        }
    }

    /// Returns the version in the form that the record of tags uses.
    #[must_use]
    pub(crate) fn as_installed(&self) -> InstalledReference<'_> {
        InstalledReference {
            origin: &self.origin,
            reference: &self.reference,
            follows: self.follows,
            commit: &self.commit,
        }
    }

    /// Writes its record into a folder.
    pub(super) fn write(&self, folder: &Path) -> Result<(), InstallError> {
        write_record(&folder.join(RECORD), serde_json::to_vec_pretty(self))
    }
}

/// Formats the version for people, as in `2026.9.6 (0123456789ab, main)`.
impl fmt::Display for InstalledVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}, {})", self.version, short(&self.commit), self.reference)
    }
}

/// Returns the digits of a commit that people see, and that are in the names of versions.
#[must_use]
pub(crate) fn short(commit: &str) -> &str {
    commit.get(..12).unwrap_or(commit)
}

/// Returns the name of a version's folder.
#[must_use]
pub(crate) fn folder_name(version: &str, commit: &str) -> String {
    format!("{version}-{}", short(commit))
}

/// Returns every installed version, the newest build first. A folder without a readable record is left out.
///
/// # Errors
///
/// Returns an error if the folder of all versions exists but cannot be read.
pub(crate) fn list(home: &Home) -> Result<Vec<InstalledVersion>, InstallError> {
    let folder = home.openclaw_versions();
    let entries = match std::fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(io("read", folder)(error)),
    };
    let mut found: Vec<InstalledVersion> =
        entries.filter_map(Result::ok).filter_map(|entry| read(&entry.path())).collect();
    found.sort_by(|a, b| (b.built_at, &b.commit).cmp(&(a.built_at, &a.commit)));
    Ok(found)
}

/// Returns the version in a folder, if there is one. The folder must have the version's name: a half-moved folder does
/// not.
#[must_use]
pub(crate) fn read(folder: &Path) -> Option<InstalledVersion> {
    let bytes = atomic::read(&folder.join(RECORD), MAX_RECORD).ok()??;
    let mut version: InstalledVersion = serde_json::from_slice(&bytes).ok()?;
    if folder.file_name()?.to_str()? != version.name() {
        return None;
    }
    version.path = folder.to_owned();
    Some(version)
}

/// Returns the version in use, if there is one.
#[must_use]
pub(crate) fn current(home: &Home) -> Option<InstalledVersion> {
    let target = std::fs::read_link(home.openclaw()).ok()?;
    // Only the name of the link's target counts, because the home may have been moved.
    read(&home.openclaw_versions().join(target.file_name()?))
}

/// Returns the version that was in use before the current one, if it still exists.
#[must_use]
pub(crate) fn previous(home: &Home) -> Option<InstalledVersion> {
    named(home, &current(home)?.replaces?)
}

/// Returns the version whose folder has this name, if there is one.
#[must_use]
pub(crate) fn named(home: &Home, name: &str) -> Option<InstalledVersion> {
    is_folder_name(name).then(|| read(&home.openclaw_versions().join(name)))?
}

/// Returns the old and new commit if `reference` is a tag that pointed elsewhere when this home first saw it.
///
/// # Errors
///
/// Returns an error if the record of tags or the installed versions cannot be read.
pub(crate) fn moved(
    home: &Home,
    origin: &str,
    reference: &str,
    tip: &ResolvedReference,
) -> Result<Option<MovedTag>, InstallError> {
    let known = list(home)?;
    let installed: Vec<InstalledReference<'_>> = known.iter().map(InstalledVersion::as_installed).collect();
    tags::moved(&home.openclaw_tags_file(), origin, reference, tip, &installed)
}

// Names come from records. A name must not lead out of the folder of versions.
fn is_folder_name(name: &str) -> bool {
    !name.is_empty() && !name.contains('/') && name != "." && name != ".."
}

/// A commit that failed on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Failed {
    /// Its version, if it is known.
    pub version: Option<String>,
    /// The reason, in one line.
    pub reason: String,
    /// Time of the failure, in Unix seconds.
    pub at: i64,
    /// `true` if the machine may have been at fault. Such a failure counts only if it happens again.
    #[serde(default, skip_serializing_if = "is_false")]
    pub doubtful: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands it over like this")]
const fn is_false(value: &bool) -> bool {
    !*value
}

/// Returns the commits in a record of failures. An unreadable record counts as empty, so the commits are tried again.
#[must_use]
pub(crate) fn failed(record: &Path) -> BTreeMap<String, Failed> {
    let mut known = read_failures(record);
    known.retain(|_, failure| !failure.doubtful);
    known
}

/// Returns the failed commits and the doubtful ones.
fn read_failures(record: &Path) -> BTreeMap<String, Failed> {
    let bytes = atomic::read(record, MAX_RECORD).ok().flatten().unwrap_or_default();
    serde_json::from_slice(&bytes).unwrap_or_default()
}

/// Adds a commit to a record of failures. Returns `true` if updates skip it from now on. A doubtful failure counts the second
/// time. Only the newest 32 are kept.
///
/// # Errors
///
/// Returns an error if the record cannot be written.
pub(crate) fn record_failure(record: &Path, commit: &str, mut failure: Failed) -> Result<bool, InstallError> {
    let mut known = read_failures(record);
    failure.doubtful &= !known.contains_key(commit);
    let counts = !failure.doubtful;
    known.insert(commit.to_owned(), failure);
    while known.len() > MAX_FAILURES {
        let Some(oldest) =
            known.iter().min_by_key(|(_, failure)| failure.at).map(|(commit, _)| commit.clone())
        else {
            break;
        };
        known.remove(&oldest);
    }
    write_failures(record, &known)?;
    Ok(counts)
}

/// Removes a commit from a record of failures, because it works now.
///
/// # Errors
///
/// Returns an error if the record cannot be written.
pub(crate) fn forget_failure(record: &Path, commit: &str) -> Result<(), InstallError> {
    let mut known = read_failures(record);
    if known.remove(commit).is_none() {
        return Ok(());
    }
    write_failures(record, &known)
}

fn write_failures(record: &Path, known: &BTreeMap<String, Failed>) -> Result<(), InstallError> {
    write_record(record, serde_json::to_vec_pretty(known))
}

const MAX_RECORD: u64 = 1 << 20;
const MAX_FAILURES: usize = 32;

#[cfg(test)]
#[path = "versions_tests.rs"]
mod tests;
