//! A rewind that has begun. It is written down before its first change and deleted after its last one, so that it can be
//! completed if its process is killed.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::content::ContentId;
use super::error::CheckpointError;
use crate::home::atomic;
use crate::id::{EngineName, SessionKey, hex};

/// A rewind that has begun and has not ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Journal {
    /// A random id, which is in the names of files that are not complete.
    pub(super) id: String,
    /// Unix milliseconds.
    pub(super) at: i64,
    /// The person who asked for it.
    pub(super) by: String,
    /// The checkpoint that it goes back to.
    pub(super) to: u64,
    /// The steps for the files, unless they stay.
    pub(super) files: Option<JournalFiles>,
    /// The step for the packages, unless they stay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) packages: Option<JournalPackages>,
    /// The steps for conversations.
    pub(super) conversations: Vec<JournalCut>,
    /// The engine with which the workspace was lost, if its files are put back into an empty folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) lost: Option<EngineName>,
}

/// The files of a rewind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct JournalFiles {
    /// The tree before it.
    pub(super) before: ContentId,
    /// The tree after it.
    pub(super) wanted: ContentId,
    /// The paths that stay as they are, in hex, because a path need not be text.
    kept: Vec<String>,
}

impl JournalFiles {
    pub(super) fn new<'p>(
        before: ContentId,
        wanted: ContentId,
        kept: impl IntoIterator<Item = &'p PathBuf>,
    ) -> Self {
        let kept = kept.into_iter().map(|path| hex(path.as_os_str().as_bytes())).collect();
        Self { before, wanted, kept }
    }
}

/// The packages of a rewind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct JournalPackages {
    /// The generation of the profile before it. 0 stands for no profile.
    pub(super) from: u32,
    /// The generation after it.
    pub(super) to: u32,
    /// The package stores that these numbers are of. Another home of a group may complete the rewind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) of: Option<String>,
}

/// A conversation that goes on after an earlier record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct JournalCut {
    pub(super) session: SessionKey,
    /// Id of the record that is written.
    pub(super) id: String,
    /// Id of the record after which the conversation goes on.
    pub(super) after: Option<String>,
    /// Number of messages that a model is no longer shown.
    pub(super) messages: usize,
}

/// The largest record in bytes.
const MAX_BYTES: u64 = 1 << 30;

impl Journal {
    /// Returns the number by which files that the rewind has not completed are known.
    pub(super) fn drafts(&self) -> u32 {
        u32::from_str_radix(&self.id, 16).unwrap_or_default()
    }

    /// Returns the paths that stay as they are.
    pub(super) fn kept(&self) -> Vec<PathBuf> {
        let kept = self.files.iter().flat_map(|files| &files.kept);
        kept.filter_map(|path| Some(PathBuf::from(OsString::from_vec(unhex(path)?)))).collect()
    }

    /// Writes the rewind down. Returns once the record is on the disk.
    ///
    /// # Errors
    ///
    /// Returns an error if it can't be written.
    pub(super) fn write(&self, folder: &Path) -> Result<(), CheckpointError> {
        let bytes = serde_json::to_vec_pretty(self).unwrap_or_default();
        Ok(atomic::write(&path(folder), &bytes, 0o600)?)
    }

    /// Returns the rewind that has begun, if there is one.
    ///
    /// # Errors
    ///
    /// Returns an error if the record can't be read or is invalid.
    pub(super) fn read(folder: &Path) -> Result<Option<Self>, CheckpointError> {
        let path = path(folder);
        let Some(bytes) = atomic::read(&path, MAX_BYTES)? else { return Ok(None) };
        let failed = |error: serde_json::Error| CheckpointError::io("read", &path)(error.into());
        serde_json::from_slice(&bytes).map(Some).map_err(failed)
    }

    /// Deletes the record of a rewind that has ended.
    ///
    /// # Errors
    ///
    /// Returns an error if it can't be removed.
    pub(super) fn clear(folder: &Path) -> Result<(), CheckpointError> {
        let path = path(folder);
        match fs_err::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(CheckpointError::io("remove", &path)(error))
            }
            _ => Ok(()),
        }
    }
}

/// Returns the path of the record of an unfinished rewind.
pub(super) fn path(folder: &Path) -> PathBuf {
    folder.join("rewind.json")
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rewind_is_known_from_its_beginning_to_its_end() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Journal::read(folder.path()).unwrap(), None);
        let kept = [PathBuf::from(OsString::from_vec(vec![0xff, b'/', b'a'])), PathBuf::from("ü")];
        let journal = Journal {
            id: "ab12".into(),
            at: 7,
            by: "human:ann".into(),
            to: 3,
            files: Some(JournalFiles::new(ContentId::of_tree(b"1"), ContentId::of_tree(b"2"), &kept)),
            packages: Some(JournalPackages { from: 3, to: 0, of: Some("1a2b".to_owned()) }),
            conversations: vec![JournalCut {
                session: "agent:a:flock:main:ann".parse().unwrap(),
                id: "r".into(),
                after: None,
                messages: 2,
            }],
            lost: Some("far".parse().unwrap()),
        };
        journal.write(folder.path()).unwrap();
        let read = Journal::read(folder.path()).unwrap().unwrap();
        assert_eq!(read.kept(), kept);
        assert_eq!(read, journal);
        Journal::clear(folder.path()).unwrap();
        Journal::clear(folder.path()).unwrap();
        assert_eq!(Journal::read(folder.path()).unwrap(), None);
        std::fs::write(path(folder.path()), "{").unwrap();
        assert!(Journal::read(folder.path()).is_err(), "an unreadable one is no reason to go on without it");
    }
}
