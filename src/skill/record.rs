//! The record of an imported skill: where it came from, and which content a person agreed to.
//!
//! It is a hidden file in the skill's own folder, so that content and record are replaced in one step. Hidden files are
//! never imported, so no source can bring a record of its own.

use serde::{Deserialize, Serialize};

/// The name of the record in the skill's folder.
pub(crate) const RECORD_FILE: &str = ".flock-skill.json";
/// The most bytes of a record.
pub(super) const MAX_RECORD: u64 = 64 << 10;

/// The record of an imported skill.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SkillRecord {
    pub(crate) source: RecordedOrigin,
    /// The hash of the content that the person agreed to.
    pub(crate) hash: String,
    /// Unix milliseconds of the import.
    pub(crate) imported_at: i64,
    /// The person who imported it.
    pub(crate) imported_by: String,
    /// Unix milliseconds of the last update.
    #[serde(default)]
    pub(crate) updated_at: Option<i64>,
    /// The person who updated it last.
    #[serde(default)]
    pub(crate) updated_by: Option<String>,
}

/// The origin of an imported skill.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub(crate) enum RecordedOrigin {
    /// A folder of this machine.
    Folder { path: String },
    /// A folder of a git repository.
    Git {
        repository: String,
        /// The folder in the repository.
        path: String,
        /// The branch, tag or commit that the person named. `HEAD` is the repository's main branch.
        reference: String,
        pin: PinKind,
        /// The commit that was imported.
        commit: String,
    },
}

/// The kind of a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum PinKind {
    /// It moves, and an update follows it.
    Branch,
    /// It should not move, and an update does not follow it.
    Tag,
    Commit,
}

impl RecordedOrigin {
    /// Returns the commit, if it comes from git.
    #[must_use]
    pub(crate) fn commit(&self) -> Option<&str> {
        match self {
            Self::Folder { .. } => None,
            Self::Git { commit, .. } => Some(commit),
        }
    }

    /// Returns the origin on one line.
    #[must_use]
    pub(crate) fn summary(&self) -> String {
        match self {
            Self::Folder { path } => path.clone(),
            Self::Git { repository, path, reference, .. } => format!("{repository}#{path}@{reference}"),
        }
    }
}
