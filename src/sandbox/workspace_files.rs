//! The files of a workspace, wherever it is: in a folder of this machine, or beside the sandbox on another machine, where the
//! helper reaches them. Both keep the rules of [`crate::home::beneath`] and give the same errors.
//!
//! All functions block, also on a worker thread of the gateway's runtime, where others take over its tasks meanwhile. They
//! are not for the thread of a runtime that has no other. A workspace of this machine is used as without this
//! module: one look-up of a mark happens only if the folder can't be opened.

mod changes;
mod wait;

use std::any::Any;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use tokio::runtime::Handle;

pub(crate) use self::changes::Draft;
pub(crate) use self::wait::BLOCKING_THREADS;
pub(crate) use super::helper::file_message::{EntryKind, FileEntry, FileVersion};

use self::wait::{NotDone, wait};
use super::helper::file_message::FileRefusal;
use super::helper::{FileError, HelperClient};
use super::{Sandbox, SandboxError};
use crate::home::beneath::{BeneathError, DirEntry, FileKind, Owner, Root, check_fence};
use crate::home::walk::{self, Listing, Walk, WalkLimits};
use crate::home::write_fence::WriteFence;
use crate::id::AgentId;

/// The ways to the workspaces of all agents.
#[derive(Clone)]
pub struct Workspaces {
    /// Weak, because what owns the sandboxes has these ways, too.
    sandbox: Option<Weak<dyn Sandbox>>,
    /// `true` if a sandbox is made for the files in it.
    starts: bool,
    /// Checked before each change of a workspace.
    fence: WriteFence,
}

impl std::fmt::Debug for Workspaces {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Workspaces").field("starts", &self.starts).finish_non_exhaustive()
    }
}

/// The files of one workspace.
pub struct WorkspaceFiles(Place);

enum Place {
    Here(Root),
    There(RemoteFiles),
}

/// The files of a workspace on another machine, as its helper reaches them.
#[derive(Clone)]
pub struct RemoteFiles {
    client: Arc<HelperClient>,
    runtime: Handle,
    /// Checked before each change is sent.
    fence: WriteFence,
    /// A value that has to live as long as the files are used.
    _held: Option<Arc<dyn Any + Send + Sync>>,
}

/// An error of opening a workspace.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    /// The folder can't be opened.
    #[error(transparent)]
    Folder(#[from] BeneathError),
    /// The workspace is on another machine, and its sandbox can't be made ready.
    #[error("the workspace of {agent} is on another machine, and its sandbox can't be reached")]
    Sandbox {
        agent: AgentId,
        #[source]
        source: Box<SandboxError>,
    },
}

impl crate::error::Explain for WorkspaceError {}

impl From<WorkspaceError> for BeneathError {
    fn from(error: WorkspaceError) -> Self {
        match error {
            WorkspaceError::Folder(error) => error,
            WorkspaceError::Sandbox { .. } => {
                Self::Unreachable { path: PathBuf::from("/workspace"), source: Box::new(error) }
            }
        }
    }
}

impl Workspaces {
    /// Returns the ways to workspaces of this machine, and to those on other machines by their sandboxes.
    #[must_use]
    pub fn new(sandbox: &Arc<dyn Sandbox>) -> Self {
        Self { sandbox: Some(Arc::downgrade(sandbox)), starts: true, fence: WriteFence::absent() }
    }

    /// Returns the ways to workspaces of this machine only.
    #[must_use]
    pub const fn of_this_machine() -> Self {
        Self { sandbox: None, starts: false, fence: WriteFence::absent() }
    }

    /// Returns the same ways, which don't lead to a sandbox that does not run. For whoever looks through many workspaces, or
    /// looks often.
    #[must_use]
    pub fn without_starting(&self) -> Self {
        Self { starts: false, ..self.clone() }
    }

    /// Sets the fence of the workspaces, which other gateways may change too. Each change fails with [`BeneathError::CutOff`]
    /// once it is closed.
    #[must_use]
    pub(crate) fn fenced(self, fence: WriteFence) -> Self {
        Self { fence, ..self }
    }

    /// Opens the workspace of an agent, which is `folder` if it is on this machine.
    ///
    /// # Errors
    ///
    /// Returns a [`WorkspaceError`] if the folder can't be opened, or the sandbox that has the workspace can't be made ready.
    pub fn open(&self, agent: &AgentId, folder: &Path) -> Result<WorkspaceFiles, WorkspaceError> {
        let elsewhere = match Root::open(folder) {
            Ok(root) => return Ok(root.fenced(self.fence.clone()).into()),
            Err(error @ BeneathError::Elsewhere { .. }) => error,
            Err(error) => return Err(error.into()),
        };
        let sandbox = self.sandbox.as_ref().and_then(Weak::upgrade);
        let (Some(sandbox), Ok(runtime)) = (sandbox, Handle::try_current()) else {
            return Err(elsewhere.into());
        };
        let (id, starts) = (agent.clone(), self.starts);
        match wait(&runtime, async move { sandbox.remote_files(&id, starts).await }) {
            Ok(Ok(Some(files))) => Ok(files.fenced(self.fence.clone()).into()),
            Ok(Err(source)) => {
                Err(WorkspaceError::Sandbox { agent: agent.clone(), source: Box::new(source) })
            }
            Err(crowded @ NotDone::Crowded) => Err(not_reached(folder, crowded).into()),
            // Its sandbox does not run, or its engine is one of this machine and the workspace has not come back yet.
            Ok(Ok(None)) | Err(NotDone::Ending) => Err(elsewhere.into()),
        }
    }
}

impl From<Root> for WorkspaceFiles {
    fn from(root: Root) -> Self {
        Self(Place::Here(root))
    }
}

impl From<RemoteFiles> for WorkspaceFiles {
    fn from(files: RemoteFiles) -> Self {
        Self(Place::There(files))
    }
}

impl WorkspaceFiles {
    /// Returns the files on another machine, if the workspace is there.
    #[must_use]
    pub const fn remote(&self) -> Option<&RemoteFiles> {
        match &self.0 {
            Place::Here(_) => None,
            Place::There(files) => Some(files),
        }
    }

    /// Reads a whole file of at most `cap` bytes.
    ///
    /// # Errors
    ///
    /// Returns [`BeneathError::TooLarge`] if the file is longer than `cap`, and another error if the path names no regular
    /// file below the workspace or it can't be read.
    pub fn read(&self, path: &Path, cap: u64) -> Result<Vec<u8>, BeneathError> {
        match &self.0 {
            Place::Here(root) => root.read(path, cap),
            Place::There(files) => {
                let (client, at) = files.request(path);
                files.wait("read", path, async move { client.files().read(&at, cap).await })
            }
        }
    }

    /// Reads the first bytes of a file, at most `most`. The second value is the size of the file.
    ///
    /// # Errors
    ///
    /// Returns a [`BeneathError`] if the path names no regular file below the workspace or it can't be read.
    pub fn beginning(&self, path: &Path, most: u64) -> Result<(Vec<u8>, u64), BeneathError> {
        match &self.0 {
            Place::Here(root) => {
                let (file, size) = root.open_file(path)?;
                let mut bytes = Vec::new();
                let failed = |source| BeneathError::Io { verb: "read", path: path.to_owned(), source };
                file.take(most).read_to_end(&mut bytes).map_err(failed)?;
                Ok((bytes, size))
            }
            Place::There(files) => files.beginning(path, most),
        }
    }

    /// Opens a regular file of any size for reading. Of one on another machine, a part at a time is in memory, and the next
    /// part is asked for when it is needed.
    ///
    /// # Errors
    ///
    /// Returns a [`BeneathError`] if the path names no regular file below the workspace.
    pub fn open_file(&self, path: &Path) -> Result<(Box<dyn Read + Send>, u64), BeneathError> {
        match &self.0 {
            Place::Here(root) => {
                root.open_file(path).map(|(file, size)| (Box::new(file) as Box<dyn Read + Send>, size))
            }
            Place::There(files) => {
                let (_, size) = self.beginning(path, 0)?;
                Ok((Box::new(RemoteReader::new(files.clone(), path.to_owned())), size))
            }
        }
    }

    /// Writes a file in one step. The folders above it must exist. A file on another machine belongs to the user of the
    /// sandbox, whoever `owner` is.
    ///
    /// A new file gets the mode of the file that it replaces, unless `mode` is given. A link, a folder or a device is not
    /// replaced.
    ///
    /// # Errors
    ///
    /// Returns a [`BeneathError`] if the path is not suitable or the file can't be written. What was there is then
    /// unchanged, except that it is not known after [`BeneathError::Unreachable`].
    pub fn write(
        &self,
        path: &Path,
        bytes: &[u8],
        mode: Option<u32>,
        owner: Option<Owner>,
    ) -> Result<(), BeneathError> {
        match &self.0 {
            Place::Here(root) => root.write(path, bytes, mode, owner),
            Place::There(files) => {
                let ((client, at), bytes) = (files.change(path)?, bytes.to_vec());
                files.wait("write", path, async move { client.files().write(&at, &bytes, mode).await })
            }
        }
    }

    /// Creates a folder and the folders above it. Existing folders stay as they are.
    ///
    /// # Errors
    ///
    /// Returns a [`BeneathError`] if a component is not a folder, leads outside, or can't be created.
    pub fn create_dir_all(&self, path: &Path, owner: Option<Owner>) -> Result<(), BeneathError> {
        match &self.0 {
            Place::Here(root) => root.create_dir_all(path, owner),
            Place::There(files) => {
                let (client, at) = files.change(path)?;
                files.wait("make", path, async move { client.files().create_dir_all(&at).await })
            }
        }
    }

    /// Removes a file, or a link without its target. A folder is refused.
    ///
    /// # Errors
    ///
    /// Returns a [`BeneathError`] if nothing is there, if it is a folder, or if it can't be removed.
    pub fn remove(&self, path: &Path) -> Result<(), BeneathError> {
        match &self.0 {
            Place::Here(root) => root.remove(path),
            Place::There(files) => {
                let (client, at) = files.change(path)?;
                files.wait("remove", path, async move { client.files().remove(&at).await })
            }
        }
    }

    /// Returns the entry at a path, without following a link.
    ///
    /// # Errors
    ///
    /// Returns [`BeneathError::NotFound`] if nothing is there, and another [`BeneathError`] if the path leads outside or
    /// can't be examined.
    pub fn stat(&self, path: &Path) -> Result<DirEntry, BeneathError> {
        match &self.0 {
            Place::Here(root) => root.stat(path),
            Place::There(files) => {
                let (client, at) = files.request(path);
                let found = files.wait("look at", path, async move { client.files().look(&at).await })?;
                Ok(dir_entry(path.to_owned(), &found))
            }
        }
    }

    /// Returns the permissions of a regular file.
    ///
    /// # Errors
    ///
    /// Returns a [`BeneathError`] if the path names no regular file below the workspace.
    pub fn file_mode(&self, path: &Path) -> Result<u32, BeneathError> {
        match &self.0 {
            Place::Here(root) => {
                let (file, _) = root.open_file(path)?;
                // If they can't be read, the usual ones are taken.
                Ok(file.metadata().map_or(0o644, |data| data.permissions().mode() & 0o777))
            }
            Place::There(files) => {
                // It is opened first, which finds out that it is a file, as here.
                self.beginning(path, 0)?;
                let (client, at) = files.request(path);
                let found = files.wait("read", path, async move { client.files().look(&at).await })?;
                Ok(found.mode & 0o777)
            }
        }
    }

    /// Lists a folder, sorted by name, at most `cap` entries. An empty path is the workspace itself. The second value is
    /// `true` if there are more entries.
    ///
    /// # Errors
    ///
    /// Returns a [`BeneathError`] if the path is not a folder below the workspace or can't be read.
    pub fn list(&self, path: &Path, cap: usize) -> Result<(Vec<DirEntry>, bool), BeneathError> {
        match &self.0 {
            Place::Here(root) => root.list(path, cap),
            Place::There(files) => {
                let (client, at) = files.request(path);
                let (found, more) =
                    files.wait("list", path, async move { client.files().list(&at, cap).await })?;
                let place = |entry: &FileEntry| path.join(std::ffi::OsStr::from_bytes(&entry.name));
                Ok((found.iter().map(|entry| dir_entry(place(entry), entry)).collect(), more))
            }
        }
    }

    /// Walks through `from`, as [`walk::walk`] does.
    ///
    /// # Errors
    ///
    /// Returns a [`BeneathError`] if the folder itself can't be listed.
    pub(crate) fn walk(&self, from: &Path, limits: WalkLimits) -> Result<Walk, BeneathError> {
        walk::walk(self, from, limits)
    }
}

impl Listing for WorkspaceFiles {
    fn list(&self, path: &Path, cap: usize) -> Result<(Vec<DirEntry>, bool), BeneathError> {
        Self::list(self, path, cap)
    }
}

impl RemoteFiles {
    /// Takes the client of a sandbox's helper. `runtime` is the one that the client belongs to.
    #[must_use]
    pub const fn new(client: Arc<HelperClient>, runtime: Handle) -> Self {
        Self { client, runtime, fence: WriteFence::absent(), _held: None }
    }

    /// Keeps something until the files are not used any more.
    #[must_use]
    pub fn holding(self, held: impl Any + Send + Sync) -> Self {
        Self { _held: Some(Arc::new(held)), ..self }
    }

    /// Sets the fence of the workspace.
    fn fenced(self, fence: WriteFence) -> Self {
        Self { fence, ..self }
    }

    /// Reads the first bytes of a file, as [`WorkspaceFiles::beginning`] does.
    ///
    /// # Errors
    ///
    /// Returns a [`BeneathError`] if the path names no regular file below the workspace or it can't be read.
    pub fn beginning(&self, path: &Path, most: u64) -> Result<(Vec<u8>, u64), BeneathError> {
        let (client, at) = self.request(path);
        self.wait("read", path, async move { client.files().beginning(&at, most).await })
    }

    /// Returns what reads a file part by part. An error of it contains a [`BeneathError`].
    #[must_use]
    pub(crate) fn reader(&self, path: PathBuf) -> RemoteReader {
        RemoteReader::new(self.clone(), path)
    }

    /// Describes what is at a path, without following a link.
    ///
    /// # Errors
    ///
    /// Returns a [`BeneathError`] if nothing is there or the path leads outside.
    pub(crate) fn look(&self, path: &Path) -> Result<FileEntry, BeneathError> {
        let (client, at) = self.request(path);
        self.wait("look at", path, async move { client.files().look(&at).await })
    }

    /// Lists a folder with the permissions of its entries, sorted by name.
    ///
    /// # Errors
    ///
    /// Returns a [`BeneathError`] if the path is not a folder below the workspace or can't be read.
    pub(crate) fn list_entries(
        &self,
        path: &Path,
        cap: usize,
    ) -> Result<(Vec<FileEntry>, bool), BeneathError> {
        let (client, at) = self.request(path);
        self.wait("list", path, async move { client.files().list(&at, cap).await })
    }

    /// Reads a part of a file, of whatever version it is by now. The part ends before the end of the file only if it is as
    /// large as one can be.
    ///
    /// # Errors
    ///
    /// Returns a [`BeneathError`] if the path names no regular file below the workspace or it can't be read.
    pub(crate) fn part(&self, path: &Path, offset: u64) -> Result<(Vec<u8>, FileVersion), BeneathError> {
        let (client, at) = self.request(path);
        self.wait("read", path, async move { client.files().part(&at, offset, None).await })
    }

    /// Sets the permissions of a file or folder. An empty path is the workspace itself.
    ///
    /// # Errors
    ///
    /// Returns a [`BeneathError`] if nothing is there, it is a link, or the permissions can't be set.
    pub(crate) fn set_mode(&self, path: &Path, mode: u32) -> Result<(), BeneathError> {
        let (client, at) = self.change(path)?;
        self.wait("change", path, async move { client.files().set_mode(&at, mode).await })
    }

    /// Returns the target of a link, without following it.
    ///
    /// # Errors
    ///
    /// Returns a [`BeneathError`] if the path is not a link below the workspace.
    pub(crate) fn read_link(&self, path: &Path) -> Result<PathBuf, BeneathError> {
        let (client, at) = self.request(path);
        self.wait("read", path, async move { client.files().read_link(&at).await })
    }

    /// Returns the time in nanoseconds since the Unix epoch, by the clock that the files are stamped with.
    ///
    /// # Errors
    ///
    /// Returns [`BeneathError::Unreachable`] if the helper does not answer.
    pub(crate) fn clock(&self) -> Result<i64, BeneathError> {
        let client = Arc::clone(&self.client);
        self.wait("look at", Path::new(""), async move { client.files().clock().await })
    }

    fn request(&self, path: &Path) -> (Arc<HelperClient>, PathBuf) {
        (Arc::clone(&self.client), path.to_owned())
    }

    /// Does the same as [`Self::request`] for a request that changes something.
    fn change(&self, path: &Path) -> Result<(Arc<HelperClient>, PathBuf), BeneathError> {
        check_fence(&self.fence, path)?;
        Ok(self.request(path))
    }

    fn wait<T: Send + 'static>(
        &self,
        verb: &'static str,
        path: &Path,
        work: impl Future<Output = Result<T, FileError>> + Send + 'static,
    ) -> Result<T, BeneathError> {
        let done = wait(&self.runtime, work).map_err(|reason| not_reached(path, reason))?;
        done.map_err(|error| translated(verb, path, error))
    }
}

fn not_reached(path: &Path, reason: NotDone) -> BeneathError {
    BeneathError::Unreachable { path: path.to_owned(), source: Box::new(reason) }
}

/// Returns the error that the same access would have on this machine.
fn translated(verb: &'static str, path: &Path, error: FileError) -> BeneathError {
    let path = path.to_owned();
    let (why, errno) = match error {
        FileError::Refused { why, errno, .. } => (why, errno),
        FileError::TooLarge { size, cap, .. } => return BeneathError::TooLarge { path, size, cap },
        FileError::Helper { source, .. } => {
            return BeneathError::Unreachable { path, source: Box::new(source) };
        }
    };
    let wanted = match verb {
        "list" | "make" => "a folder",
        "look at" => "anything",
        _ => "a file",
    };
    let kind = |found| BeneathError::WrongKind { path: path.clone(), found, wanted };
    match why {
        FileRefusal::NotFound => BeneathError::NotFound { path },
        FileRefusal::Outside => BeneathError::Outside { path },
        FileRefusal::IsFolder => kind("a folder"),
        FileRefusal::NotFolder => {
            BeneathError::WrongKind { path, found: "a file or a link", wanted: "a folder" }
        }
        FileRefusal::IsFifo => kind("a FIFO"),
        FileRefusal::IsSocket => kind("a socket"),
        FileRefusal::IsDevice => kind("a device"),
        FileRefusal::IsSpecial => kind("a socket or a device"),
        FileRefusal::Changed => {
            let source = io::Error::other("it changes again and again");
            BeneathError::Io { verb, path, source }
        }
        FileRefusal::System => BeneathError::Io { verb, path, source: io::Error::from_raw_os_error(errno) },
    }
}

fn dir_entry(path: PathBuf, found: &FileEntry) -> DirEntry {
    let kind = match found.kind {
        EntryKind::File => FileKind::File,
        EntryKind::Folder => FileKind::Folder,
        EntryKind::Link => FileKind::Link,
        EntryKind::Special => FileKind::Other,
    };
    let FileVersion { size, inode, changed_ns } = found.version;
    DirEntry { path, kind, size, modified_ms: found.modified_ms, changed_ns, inode }
}

/// Reads a file of another machine part by part.
pub(crate) struct RemoteReader {
    files: RemoteFiles,
    path: PathBuf,
    version: Option<FileVersion>,
    offset: u64,
    part: Vec<u8>,
    /// The bytes of the part that were taken.
    taken: usize,
}

impl RemoteReader {
    const fn new(files: RemoteFiles, path: PathBuf) -> Self {
        Self { files, path, version: None, offset: 0, part: Vec::new(), taken: 0 }
    }

    fn next_part(&mut self) -> Result<(), BeneathError> {
        let (client, at) = self.files.request(&self.path);
        let (offset, version) = (self.offset, self.version);
        let (part, version) = self
            .files
            .wait("read", &self.path, async move { client.files().part(&at, offset, version).await })?;
        self.offset += part.len() as u64;
        (self.part, self.taken, self.version) = (part, 0, Some(version));
        Ok(())
    }
}

impl Read for RemoteReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let is_at_end = |reader: &Self| reader.version.is_some_and(|known| reader.offset >= known.size);
        if self.taken == self.part.len() && !is_at_end(self) {
            // A file that is another one by now is an error, so that nobody gets parts of two.
            self.next_part().map_err(io::Error::other)?;
        }
        let left = &self.part[self.taken..];
        let count = left.len().min(buffer.len());
        buffer[..count].copy_from_slice(&left[..count]);
        self.taken += count;
        Ok(count)
    }
}

#[cfg(test)]
#[path = "workspace_files_tests.rs"]
mod tests;
