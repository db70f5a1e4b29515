//! The files of a workspace that only the helper can reach: one in a volume of an engine on another machine.
//!
//! The answers come from inside the sandbox, so they are bounded and checked like every other frame.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::client::{HelperClient, REPLY_TIMEOUT};
use super::error::HelperError;
use super::file_message::{
    FileAction, FileEntry, FileRefusal, FileReply, FileRequest, FileVersion, MAX_LISTED, MAX_PART, MAX_PATH,
};
use super::message::{Reply, Request};
use crate::error::Explain;

/// Number of times that a file is read again from its beginning because it has changed meanwhile.
const MAX_REREADS: usize = 3;

/// Number of lists without a new entry that are read of a folder. All entries of a list may have been removed meanwhile, but
/// a sandbox must not keep its caller asking.
const MAX_EMPTY_LISTS: usize = 16;

/// An error of access to a workspace by its helper.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The request was not carried out.
    #[error("{path:?} {}", reason(*why, text))]
    Refused {
        /// The path as the caller gave it.
        path: PathBuf,
        why: FileRefusal,
        /// The message of the system in the sandbox, if it gave one.
        text: String,
    },
    /// The file is larger than the caller's limit.
    #[error("{path:?} has {size} bytes; at most {cap} are read")]
    TooLarge {
        path: PathBuf,
        /// Its size in bytes.
        size: u64,
        /// The limit in bytes.
        cap: u64,
    },
    /// The helper did not answer, or not what it was asked.
    #[error("the helper of the sandbox failed to reach {path:?}")]
    Helper {
        path: PathBuf,
        #[source]
        source: HelperError,
    },
}

impl Explain for FileError {}

impl FileError {
    /// Returns the reason if the helper refused the request.
    #[must_use]
    pub const fn refusal(&self) -> Option<FileRefusal> {
        match self {
            Self::Refused { why, .. } => Some(*why),
            Self::TooLarge { .. } | Self::Helper { .. } => None,
        }
    }
}

/// Completes a sentence that begins with the path.
fn reason(why: FileRefusal, text: &str) -> String {
    match why {
        FileRefusal::NotFound => "is not there".to_owned(),
        FileRefusal::Outside => "leads outside the folder, or through a link".to_owned(),
        FileRefusal::IsFolder => "is a folder, not a file".to_owned(),
        FileRefusal::NotFolder => "is not a folder".to_owned(),
        FileRefusal::IsSpecial => "is a FIFO, a socket or a device, not a file".to_owned(),
        FileRefusal::Changed => "changes again and again while it is read or written".to_owned(),
        FileRefusal::System => format!("can't be reached: {text}"),
    }
}

/// The files below one folder of a sandbox.
pub struct HelperFiles<'a> {
    client: &'a HelperClient,
    root: Vec<u8>,
}

impl HelperClient {
    /// Returns the files below the root of the environment. The helper reaches them with the rights of the sandbox.
    #[must_use]
    pub fn files(&self) -> HelperFiles<'_> {
        HelperFiles { client: self, root: self.root().as_bytes().to_vec() }
    }
}

impl HelperFiles<'_> {
    /// Describes what is at a path, without following a link. An empty path is the folder itself.
    ///
    /// # Errors
    ///
    /// Returns [`FileError::Refused`] if nothing is there or the path leads outside.
    pub async fn look(&self, path: &Path) -> Result<FileEntry, FileError> {
        match self.ask(path, FileAction::Look).await? {
            FileReply::Entry(entry) => Ok(entry),
            reply => Err(failed(path, reply)),
        }
    }

    /// Lists a folder, sorted by name, at most `cap` entries. The second value is `true` if there are more.
    ///
    /// # Errors
    ///
    /// Returns [`FileError::Refused`] if the path is not a folder below this one or can't be read.
    pub async fn list(&self, path: &Path, cap: usize) -> Result<(Vec<FileEntry>, bool), FileError> {
        let mut found: Vec<FileEntry> = Vec::new();
        let mut after: Vec<u8> = Vec::new();
        for _ in 0..cap.div_ceil(MAX_LISTED) + MAX_EMPTY_LISTS {
            let most = cap.saturating_sub(found.len()).clamp(1, MAX_LISTED);
            let most = u32::try_from(most).unwrap_or(1);
            let action = FileAction::List { after: after.clone(), most };
            let (entries, next) = match self.ask(path, action).await? {
                FileReply::Entries { entries, next } => (entries, next),
                reply => return Err(failed(path, reply)),
            };
            let mut last: &[u8] = &after;
            for entry in &entries {
                let is_name = !entry.name.contains(&b'/') && !entry.name.contains(&0);
                if !is_name || entry.name == b"." || entry.name == b".." || entry.name.as_slice() <= last {
                    return Err(unexpected(path));
                }
                last = &entry.name;
            }
            if !next.is_empty() && (next.as_slice() < last || next <= after) {
                return Err(unexpected(path));
            }
            found.extend(entries);
            if next.is_empty() || found.len() >= cap {
                let more = !next.is_empty() || found.len() > cap;
                found.truncate(cap);
                return Ok((found, more));
            }
            after = next;
        }
        Err(unexpected(path))
    }

    /// Reads a whole file of at most `cap` bytes. A file that changes meanwhile is read again.
    ///
    /// # Errors
    ///
    /// Returns [`FileError::TooLarge`] if the file is longer than `cap`, and [`FileError::Refused`] if the path names no
    /// regular file below the folder or the file keeps changing.
    pub async fn read(&self, path: &Path, cap: u64) -> Result<Vec<u8>, FileError> {
        for _ in 0..=MAX_REREADS {
            if let Some(bytes) = self.read_once(path, cap).await? {
                return Ok(bytes);
            }
        }
        Err(FileError::Refused { path: path.to_owned(), why: FileRefusal::Changed, text: String::new() })
    }

    /// Reads a file in parts. Returns `None` if it has changed between two of them.
    async fn read_once(&self, path: &Path, cap: u64) -> Result<Option<Vec<u8>>, FileError> {
        let mut bytes = Vec::new();
        let mut known: Option<FileVersion> = None;
        loop {
            let offset = bytes.len() as u64;
            let most = u32::try_from(MAX_PART).unwrap_or(u32::MAX);
            let (part, version) =
                match self.ask(path, FileAction::Read { offset, most, version: known }).await? {
                    FileReply::Bytes { bytes, version } => (bytes, version),
                    FileReply::Refused { why: FileRefusal::Changed, .. } => return Ok(None),
                    reply => return Err(failed(path, reply)),
                };
            if version.size > cap {
                return Err(FileError::TooLarge { path: path.to_owned(), size: version.size, cap });
            }
            // A part is as large as it can be, so their number is bounded. A smaller one is of a file that became shorter.
            let wanted = version.size.saturating_sub(offset).min(MAX_PART as u64);
            if part.len() as u64 != wanted || known.is_some_and(|known| known != version) {
                return Ok(None);
            }
            bytes.extend_from_slice(&part);
            if bytes.len() as u64 >= version.size {
                return Ok(Some(bytes));
            }
            known = Some(version);
        }
    }

    /// Writes a file in one step. The folders above it must exist.
    ///
    /// A new file gets the mode of the file that it replaces, unless `mode` is given. A link, a folder or a device is not
    /// replaced.
    ///
    /// # Errors
    ///
    /// Returns a [`FileError`] if the path is not suitable or the file can't be written. What was there is then unchanged.
    pub async fn write(&self, path: &Path, bytes: &[u8], mode: Option<u32>) -> Result<(), FileError> {
        let draft: u64 = rand::random();
        if bytes.len() <= MAX_PART {
            let action = FileAction::Write { draft, bytes: bytes.to_vec(), mode };
            return self.done(path, action).await;
        }
        // Its parts are removed if the caller gives up or something fails.
        let mut guard = DraftGuard { files: self, path, draft: Some(draft) };
        for (number, part) in bytes.chunks(MAX_PART).enumerate() {
            let offset = (number * MAX_PART) as u64;
            self.done(path, FileAction::Part { draft, offset, bytes: part.to_vec() }).await?;
        }
        self.done(path, FileAction::Commit { draft, size: bytes.len() as u64, mode }).await?;
        guard.draft = None;
        Ok(())
    }

    /// Creates a folder and the folders above it. Existing folders stay as they are.
    ///
    /// # Errors
    ///
    /// Returns a [`FileError`] if a part of the path is not a folder, leads outside, or can't be created.
    pub async fn create_dir_all(&self, path: &Path) -> Result<(), FileError> {
        self.done(path, FileAction::MakeFolder).await
    }

    /// Removes a file, or a link without its target. A folder is refused.
    ///
    /// # Errors
    ///
    /// Returns a [`FileError`] if nothing is there, if it is a folder, or if it can't be removed.
    pub async fn remove(&self, path: &Path) -> Result<(), FileError> {
        self.done(path, FileAction::Remove).await
    }

    async fn done(&self, path: &Path, action: FileAction) -> Result<(), FileError> {
        match self.ask(path, action).await? {
            FileReply::Done => Ok(()),
            reply => Err(failed(path, reply)),
        }
    }

    async fn ask(&self, path: &Path, action: FileAction) -> Result<FileReply, FileError> {
        let helper = |source| FileError::Helper { path: path.to_owned(), source };
        if path.as_os_str().len() > MAX_PATH {
            return Err(helper(HelperError::TooLarge("the path")));
        }
        let file = self.request(path, action);
        let make = |request| Request::File { request, file };
        match self.client.ask(make, REPLY_TIMEOUT, 0).await.map_err(helper)? {
            Reply::File { reply, .. } => Ok(reply),
            _ => Err(helper(HelperError::Unexpected)),
        }
    }

    fn request(&self, path: &Path, action: FileAction) -> FileRequest {
        FileRequest { root: self.root.clone(), path: path.as_os_str().as_bytes().to_vec(), action }
    }
}

/// Removes the parts of a file that gets no name when it is dropped.
struct DraftGuard<'a> {
    files: &'a HelperFiles<'a>,
    path: &'a Path,
    draft: Option<u64>,
}

impl Drop for DraftGuard<'_> {
    fn drop(&mut self) {
        if let Some(draft) = self.draft.take() {
            let file = self.files.request(self.path, FileAction::Discard { draft });
            // Nobody waits for the answer, so it has a number that no request has.
            self.files.client.tell(&Request::File { request: 0, file });
        }
    }
}

/// Returns the error of an answer that is not the wanted one.
fn failed(path: &Path, reply: FileReply) -> FileError {
    match reply {
        FileReply::Refused { why, text } => {
            let text = String::from_utf8_lossy(&text).into_owned();
            FileError::Refused { path: path.to_owned(), why, text }
        }
        _ => unexpected(path),
    }
}

/// Returns the error of an answer that no helper gives.
fn unexpected(path: &Path) -> FileError {
    FileError::Helper { path: path.to_owned(), source: HelperError::Unexpected }
}

#[cfg(test)]
#[path = "files_tests.rs"]
mod tests;
