//! The files of a workspace that only the helper can reach: one in a volume of an engine on another machine.
//!
//! The answers come from inside the sandbox, so they are bounded and checked like every other frame.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

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

/// Timeout of a request that waits for the disk. The helper answers nothing else meanwhile.
const SYNC_TIMEOUT: Duration = Duration::from_secs(300);

/// An error of access to a workspace by its helper.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The request was not carried out.
    #[error("{path:?} {}", reason(*why, *errno))]
    Refused {
        /// The path as the caller gave it.
        path: PathBuf,
        why: FileRefusal,
        /// The number of the system's error in the sandbox, or 0 if it gave none.
        errno: i32,
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
fn reason(why: FileRefusal, errno: i32) -> String {
    match why {
        FileRefusal::NotFound => "is not there".to_owned(),
        FileRefusal::Outside => "leads outside the folder, or through a link".to_owned(),
        FileRefusal::IsFolder => "is a folder, not a file".to_owned(),
        FileRefusal::NotFolder => "is not a folder".to_owned(),
        FileRefusal::IsFifo => "is a FIFO, not a file".to_owned(),
        FileRefusal::IsSocket => "is a socket, not a file".to_owned(),
        FileRefusal::IsDevice => "is a device, not a file".to_owned(),
        FileRefusal::IsSpecial => "is a socket or a device, not a file".to_owned(),
        FileRefusal::Changed => "changes again and again while it is read or written".to_owned(),
        FileRefusal::System => format!("can't be reached: {}", io::Error::from_raw_os_error(errno)),
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
            reply => Err(failed(path, &reply)),
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
                reply => return Err(failed(path, &reply)),
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
        let (bytes, size) = self.read_up_to(path, cap, true).await?;
        debug_assert_eq!(bytes.len() as u64, size);
        Ok(bytes)
    }

    /// Reads the first bytes of a file, at most `most`. The second value is the size of the file. With no bytes at all it
    /// is only found out that there is a file.
    ///
    /// # Errors
    ///
    /// Returns [`FileError::Refused`] if the path names no regular file below the folder or the file keeps changing.
    pub async fn beginning(&self, path: &Path, most: u64) -> Result<(Vec<u8>, u64), FileError> {
        self.read_up_to(path, most, false).await
    }

    /// Reads the next part of a file, at most [`MAX_PART`] bytes from `offset`, with the version that it is of. A file of
    /// any size can be read so, with the memory of one part. `version` is that of the earlier parts.
    ///
    /// # Errors
    ///
    /// Returns [`FileError::Refused`] with [`FileRefusal::Changed`] if it is another version by now, and with another
    /// reason if the path names no regular file below the folder.
    pub async fn part(
        &self,
        path: &Path,
        offset: u64,
        version: Option<FileVersion>,
    ) -> Result<(Vec<u8>, FileVersion), FileError> {
        let changed = || FileError::Refused { path: path.to_owned(), why: FileRefusal::Changed, errno: 0 };
        self.next_part(path, (offset, MAX_PART as u64), version, None).await?.ok_or_else(changed)
    }

    async fn read_up_to(&self, path: &Path, cap: u64, is_whole: bool) -> Result<(Vec<u8>, u64), FileError> {
        for _ in 0..=MAX_REREADS {
            if let Some(found) = self.read_once(path, cap, is_whole).await? {
                return Ok(found);
            }
        }
        Err(FileError::Refused { path: path.to_owned(), why: FileRefusal::Changed, errno: 0 })
    }

    /// Reads a file in parts, all of it or its first `cap` bytes. Returns `None` if it has changed between two of them.
    async fn read_once(
        &self,
        path: &Path,
        cap: u64,
        is_whole: bool,
    ) -> Result<Option<(Vec<u8>, u64)>, FileError> {
        let mut bytes = Vec::new();
        let mut known: Option<FileVersion> = None;
        loop {
            let offset = bytes.len() as u64;
            let most =
                if is_whole { MAX_PART as u64 } else { cap.saturating_sub(offset).min(MAX_PART as u64) };
            let whole = is_whole.then_some(cap);
            let Some((part, version)) = self.next_part(path, (offset, most), known, whole).await? else {
                return Ok(None);
            };
            bytes.extend_from_slice(&part);
            if bytes.len() as u64 >= version.size.min(cap) {
                return Ok(Some((bytes, version.size)));
            }
            known = Some(version);
        }
    }

    /// Reads a part of a file. Returns `None` if the file is not the known one any more. `whole` is the limit on the whole
    /// file, if there is one.
    async fn next_part(
        &self,
        path: &Path,
        (offset, most): (u64, u64),
        known: Option<FileVersion>,
        whole: Option<u64>,
    ) -> Result<Option<(Vec<u8>, FileVersion)>, FileError> {
        let asked = u32::try_from(most).unwrap_or(u32::MAX);
        let (part, version) =
            match self.ask(path, FileAction::Read { offset, most: asked, version: known }).await? {
                FileReply::Bytes { bytes, version } => (bytes, version),
                FileReply::Refused { why: FileRefusal::Changed, .. } => return Ok(None),
                reply => return Err(failed(path, &reply)),
            };
        if let Some(cap) = whole.filter(|cap| version.size > *cap) {
            return Err(FileError::TooLarge { path: path.to_owned(), size: version.size, cap });
        }
        // A part is as large as it can be, so their number is bounded. A smaller one is of a file that became shorter.
        let wanted = version.size.saturating_sub(offset).min(most);
        let is_same = known.is_none_or(|known| known == version) && part.len() as u64 == wanted;
        Ok(is_same.then_some((part, version)))
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

    /// Removes an empty folder.
    ///
    /// # Errors
    ///
    /// Returns a [`FileError`] if nothing is there, or if it is no folder or not empty.
    pub async fn remove_folder(&self, path: &Path) -> Result<(), FileError> {
        self.done(path, FileAction::RemoveFolder).await
    }

    /// Returns the target of a link, without following it.
    ///
    /// # Errors
    ///
    /// Returns a [`FileError`] if the path is not a link below the folder.
    pub async fn read_link(&self, path: &Path) -> Result<PathBuf, FileError> {
        match self.ask(path, FileAction::ReadLink).await? {
            FileReply::Bytes { bytes, .. } => Ok(PathBuf::from(OsString::from_vec(bytes))),
            reply => Err(failed(path, &reply)),
        }
    }

    /// Creates a link to a path, which need not exist, in one step. Anything but a folder is replaced by it. The link is
    /// known by the draft's number until it has its name.
    ///
    /// # Errors
    ///
    /// Returns a [`FileError`] if a folder is there or the link can't be created.
    pub async fn put_link(&self, path: &Path, draft: u64, to: &Path) -> Result<(), FileError> {
        let target = to.as_os_str().as_bytes().to_vec();
        self.done(path, FileAction::MakeLink { draft, target }).await
    }

    /// Sets the permissions of a file or folder. An empty path is the folder itself.
    ///
    /// # Errors
    ///
    /// Returns a [`FileError`] if nothing is there, it is a link, or the permissions can't be set.
    pub async fn set_mode(&self, path: &Path, mode: u32) -> Result<(), FileError> {
        self.done(path, FileAction::SetMode { mode }).await
    }

    /// Writes the next part of a file that gets its name later, at most [`MAX_PART`] bytes. The part at the offset 0 creates
    /// it.
    ///
    /// # Errors
    ///
    /// Returns a [`FileError`] if the parts before don't end at the offset, or the part can't be written.
    pub(crate) async fn write_part(
        &self,
        path: &Path,
        draft: u64,
        offset: u64,
        bytes: Vec<u8>,
    ) -> Result<(), FileError> {
        self.done(path, FileAction::Part { draft, offset, bytes }).await
    }

    /// Makes a file that is written in parts longer, without writing to it.
    ///
    /// # Errors
    ///
    /// Returns a [`FileError`] if the parts before don't end at the offset, or the file can't be longer.
    pub(crate) async fn write_hole(
        &self,
        path: &Path,
        draft: u64,
        offset: u64,
        size: u64,
    ) -> Result<(), FileError> {
        self.done(path, FileAction::Hole { draft, offset, size }).await
    }

    /// Writes the last part of a file and gives the file its name and these permissions, in one step. Anything but a folder
    /// is replaced.
    ///
    /// # Errors
    ///
    /// Returns a [`FileError`] if a folder is there, if the parts before don't end at the offset, or if the file can't be
    /// written. What was there is then unchanged.
    pub(crate) async fn put(
        &self,
        path: &Path,
        draft: u64,
        (offset, bytes): (u64, Vec<u8>),
        mode: u32,
    ) -> Result<(), FileError> {
        self.done(path, FileAction::Put { draft, offset, bytes, mode }).await
    }

    /// Removes the parts of a file that gets no name. Nobody waits for it, and it is not an error if there are none.
    pub(crate) fn discard(&self, path: &Path, draft: u64) {
        let file = self.request(path, FileAction::Discard { draft });
        // The answer is dropped: no request has this number.
        self.client.tell(&Request::File { request: 0, file });
    }

    /// Waits until everything that was written to the file system of the folder is on the disk.
    ///
    /// # Errors
    ///
    /// Returns a [`FileError`] if the disk refuses a write, or the helper does not answer.
    pub(crate) async fn sync(&self) -> Result<(), FileError> {
        match self.ask_within(Path::new(""), FileAction::Sync, SYNC_TIMEOUT).await? {
            FileReply::Done => Ok(()),
            reply => Err(failed(Path::new(""), &reply)),
        }
    }

    /// Returns the time in nanoseconds since the Unix epoch, by the clock that the files are stamped with.
    ///
    /// # Errors
    ///
    /// Returns a [`FileError`] if the helper does not answer.
    pub async fn clock(&self) -> Result<i64, FileError> {
        match self.ask(Path::new(""), FileAction::Clock).await? {
            FileReply::Clock(now) => Ok(now),
            reply => Err(failed(Path::new(""), &reply)),
        }
    }

    async fn done(&self, path: &Path, action: FileAction) -> Result<(), FileError> {
        match self.ask(path, action).await? {
            FileReply::Done => Ok(()),
            reply => Err(failed(path, &reply)),
        }
    }

    async fn ask(&self, path: &Path, action: FileAction) -> Result<FileReply, FileError> {
        self.ask_within(path, action, REPLY_TIMEOUT).await
    }

    async fn ask_within(
        &self,
        path: &Path,
        action: FileAction,
        limit: Duration,
    ) -> Result<FileReply, FileError> {
        let helper = |source| FileError::Helper { path: path.to_owned(), source };
        if path.as_os_str().len() > MAX_PATH {
            return Err(helper(HelperError::TooLarge("the path")));
        }
        let file = self.request(path, action);
        let make = |request| Request::File { request, file };
        match self.client.ask(make, limit, 0).await.map_err(helper)? {
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
            self.files.discard(self.path, draft);
        }
    }
}

/// Returns the error of an answer that is not the wanted one.
fn failed(path: &Path, reply: &FileReply) -> FileError {
    match reply {
        FileReply::Refused { why, errno } => {
            let errno = i32::try_from(*errno).unwrap_or(0);
            FileError::Refused { path: path.to_owned(), why: *why, errno }
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
