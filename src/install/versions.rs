//! What is installed: a folder for each version with a record in it that is written last, and a link to the one
//! in use. There is no list of them that could be wrong.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::alteration::{self, Alterations};
use super::error::io;
use super::source::Tip;
use super::tags::{self, Installed, Moved};
use super::{InstallError, source};
use crate::home::{Home, atomic};

/// The record in a version's folder. A folder without one is no version.
pub const RECORD: &str = "flock-install.json";

/// An installed version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Version {
    /// The package's version, as in `2026.2.9`. Two commits may have the same.
    pub version: String,
    /// The commit, 40 hex digits: what tells versions apart.
    pub commit: String,
    /// The branch, tag or commit that was asked for.
    pub reference: String,
    /// Whether `reference` is a branch, which an update follows; a tag or a commit stays what it is.
    pub follows: bool,
    /// Where it was cloned from.
    pub origin: String,
    /// When it was committed, in seconds since the epoch.
    pub committed_at: i64,
    /// When it was built here, in seconds since the epoch.
    pub built_at: i64,
    /// The Node that it was built and tried with.
    pub node: PathBuf,
    /// That Node's version, as in `22.12.0`.
    pub node_version: String,
    /// The folder's name of the version that was in use before it; set when it comes into use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<String>,
    /// What its own build made of files of the commit; `None` where an older flock built it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub altered: Option<Alterations>,
    /// Its folder. Not in the record: folders can be moved with their home.
    #[serde(skip)]
    pub path: PathBuf,
}

impl Version {
    /// The name of its folder, as in `2026.2.9-0123456789ab`.
    #[must_use]
    pub fn name(&self) -> String {
        folder_name(&self.version, &self.commit)
    }

    /// What Node runs.
    #[must_use]
    pub fn entry(&self) -> PathBuf {
        self.path.join(super::package::ENTRY)
    }

    /// Compares its files with what was cloned and built.
    ///
    /// # Errors
    ///
    /// [`InstallError::Altered`] with a file that is another one now.
    pub fn check(&self) -> Result<(), InstallError> {
        let Some(built) = &self.altered else { return Ok(()) };
        let now = alteration::find(&self.path, &self.commit)
            .map_err(|error| source::unusable(&self.path, error))?;
        let differs = |name: &&String| now.get(*name) != built.get(*name);
        match now.keys().chain(built.keys()).find(differs) {
            Some(file) => Err(source::altered(&self.path, &self.commit, file)),
            None => Ok(()),
        }
    }

    /// The version as the record of tags looks at it.
    #[must_use]
    pub fn as_installed(&self) -> Installed<'_> {
        Installed {
            origin: &self.origin,
            reference: &self.reference,
            follows: self.follows,
            commit: &self.commit,
        }
    }

    /// Writes its record into a folder.
    pub(super) fn write(&self, folder: &Path) -> Result<(), InstallError> {
        let text = serde_json::to_vec_pretty(self).map_err(|error| InstallError::Io {
            verb: "describe",
            path: folder.to_owned(),
            source: error.into(),
        })?;
        Ok(atomic::write(&folder.join(RECORD), &text, 0o600)?)
    }
}

/// The digits of a commit that people get to see, and that stand in the names of versions.
#[must_use]
pub fn short(commit: &str) -> &str {
    commit.get(..12).unwrap_or(commit)
}

/// The name of a version's folder.
#[must_use]
pub fn folder_name(version: &str, commit: &str) -> String {
    format!("{version}-{}", short(commit))
}

/// Every installed version, the newest build first. A folder without a readable record is left out.
///
/// # Errors
///
/// If the folder of all versions can't be read. One that is not there holds none.
pub fn list(home: &Home) -> Result<Vec<Version>, InstallError> {
    let folder = home.openclaw_versions();
    let entries = match std::fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(io("read", folder)(error)),
    };
    let mut found: Vec<Version> =
        entries.filter_map(Result::ok).filter_map(|entry| read(&entry.path())).collect();
    found.sort_by(|a, b| (b.built_at, &b.commit).cmp(&(a.built_at, &a.commit)));
    Ok(found)
}

/// The version in a folder, if there is one. Its folder must have its name: what was left half-moved has not.
#[must_use]
pub fn read(folder: &Path) -> Option<Version> {
    let bytes = atomic::read(&folder.join(RECORD), MOST_RECORD).ok()??;
    let mut version: Version = serde_json::from_slice(&bytes).ok()?;
    if folder.file_name()?.to_str()? != version.name() {
        return None;
    }
    version.path = folder.to_owned();
    Some(version)
}

/// The version in use, if there is one.
#[must_use]
pub fn current(home: &Home) -> Option<Version> {
    let target = std::fs::read_link(home.openclaw()).ok()?;
    // Only the name counts: the home may have been moved since.
    read(&home.openclaw_versions().join(target.file_name()?))
}

/// The version that was in use before the current one, if it is still there.
#[must_use]
pub fn previous(home: &Home) -> Option<Version> {
    named(home, &current(home)?.replaces?)
}

/// The version whose folder has this name, if there is one.
#[must_use]
pub fn named(home: &Home, name: &str) -> Option<Version> {
    is_plain(name).then(|| read(&home.openclaw_versions().join(name)))?
}

/// Looks whether what was asked for is a tag that was at another commit when it was first seen in this home.
///
/// # Errors
///
/// If the record of tags or the installed versions can't be read.
pub fn moved(home: &Home, origin: &str, reference: &str, tip: &Tip) -> Result<Option<Moved>, InstallError> {
    let known = list(home)?;
    let installed: Vec<Installed<'_>> = known.iter().map(Version::as_installed).collect();
    tags::moved(&home.openclaw_tags(), origin, reference, tip, &installed)
}

fn is_plain(name: &str) -> bool {
    !name.is_empty() && !name.contains('/') && name != "." && name != ".."
}

/// A commit that did not work here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Failed {
    /// Its version, where that was found out.
    pub version: Option<String>,
    /// What went wrong, in one line.
    pub reason: String,
    /// When, in seconds since the epoch.
    pub at: i64,
    /// Whether it may have been the machine's fault: then it counts only if it comes again.
    #[serde(default, skip_serializing_if = "is_false")]
    pub doubtful: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands it over like this")]
const fn is_false(value: &bool) -> bool {
    !*value
}

/// The commits that did not work here. A record that can't be read remembers none: then they are tried again.
#[must_use]
pub fn failed(home: &Home) -> BTreeMap<String, Failed> {
    failed_in(&home.openclaw_failed())
}

/// The same, of the record at a path.
pub(super) fn failed_in(record: &Path) -> BTreeMap<String, Failed> {
    let mut known = noted(record);
    known.retain(|_, failure| !failure.doubtful);
    known
}

/// Those, and those of which it is not known yet.
fn noted(record: &Path) -> BTreeMap<String, Failed> {
    let bytes = atomic::read(record, MOST_RECORD).ok().flatten().unwrap_or_default();
    serde_json::from_slice(&bytes).unwrap_or_default()
}

/// Remembers that a commit did not work; says whether it counts as one that does not from now on. What is doubtful does
/// the second time. Only the newest few are kept.
///
/// # Errors
///
/// If that can't be written.
pub fn remember_failure(home: &Home, commit: &str, failure: Failed) -> Result<bool, InstallError> {
    remember_in(&home.openclaw_failed(), commit, failure)
}

/// The same, in the record at a path.
pub(super) fn remember_in(record: &Path, commit: &str, mut failure: Failed) -> Result<bool, InstallError> {
    let mut known = noted(record);
    failure.doubtful &= !known.contains_key(commit);
    let counts = !failure.doubtful;
    known.insert(commit.to_owned(), failure);
    while known.len() > MOST_FAILED {
        let Some(oldest) =
            known.iter().min_by_key(|(_, failure)| failure.at).map(|(commit, _)| commit.clone())
        else {
            break;
        };
        known.remove(&oldest);
    }
    write_failed(record, &known)?;
    Ok(counts)
}

/// Forgets that a commit did not work: it does now.
///
/// # Errors
///
/// If that can't be written.
pub fn forget_failure(home: &Home, commit: &str) -> Result<(), InstallError> {
    forget_in(&home.openclaw_failed(), commit)
}

/// The same, in the record at a path.
pub(super) fn forget_in(record: &Path, commit: &str) -> Result<(), InstallError> {
    let mut known = noted(record);
    if known.remove(commit).is_none() {
        return Ok(());
    }
    write_failed(record, &known)
}

fn write_failed(record: &Path, known: &BTreeMap<String, Failed>) -> Result<(), InstallError> {
    let text = serde_json::to_vec_pretty(known).map_err(|error| io("describe", record)(error.into()))?;
    Ok(atomic::write(record, &text, 0o600)?)
}

const MOST_RECORD: u64 = 1 << 20;
const MOST_FAILED: usize = 32;

#[cfg(test)]
#[path = "versions_tests.rs"]
mod tests;
