//! The steps by which a rewind changes a workspace, wherever it is. A file or a link gets its name in one step, and replaces
//! anything but a folder.
//!
//! Until then it is a draft, whose number the caller chooses. So the caller finds what it has left if it is interrupted.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use super::{Place, RemoteFiles, WorkspaceFiles};
use crate::home::beneath::{BeneathError, Owner, Root};
use crate::sandbox::helper::file_message::{EntryKind, MAX_PART};

/// Returns the name of a draft. It is beside the place that it gets.
fn draft_name(draft: u64) -> String {
    format!(".flock-new-{draft:016x}")
}

impl WorkspaceFiles {
    /// Returns the beginning of the names of all drafts whose numbers have these upper 32 bits.
    pub(crate) fn draft_prefix(upper: u32) -> String {
        format!(".flock-new-{upper:08x}")
    }

    /// Returns the permissions of a file or folder. An empty path is the workspace itself.
    ///
    /// # Errors
    ///
    /// Returns a [`BeneathError`] if nothing is there or it is a link.
    pub(crate) fn mode(&self, path: &Path) -> Result<u32, BeneathError> {
        match &self.0 {
            Place::Here(root) => root.mode(path),
            Place::There(files) => {
                let found = files.look(path)?;
                match found.kind {
                    EntryKind::Link => Err(BeneathError::Outside { path: path.to_owned() }),
                    _ => Ok(found.mode),
                }
            }
        }
    }

    /// Sets the permissions of a file or folder. An empty path is the workspace itself.
    ///
    /// # Errors
    ///
    /// Returns a [`BeneathError`] if nothing is there, it is a link, or the permissions can't be set.
    pub(crate) fn set_mode(&self, path: &Path, mode: u32) -> Result<(), BeneathError> {
        match &self.0 {
            Place::Here(root) => root.set_mode(path, mode),
            Place::There(files) => files.set_mode(path, mode),
        }
    }

    /// Removes an empty folder.
    ///
    /// # Errors
    ///
    /// Returns a [`BeneathError`] if nothing is there, or if it is no folder or not empty.
    pub(crate) fn remove_folder(&self, path: &Path) -> Result<(), BeneathError> {
        match &self.0 {
            Place::Here(root) => root.remove_folder(path),
            Place::There(files) => {
                let (client, at) = files.change(path)?;
                files.wait("remove", path, async move { client.files().remove_folder(&at).await })
            }
        }
    }

    /// Creates a folder. The one above it exists.
    ///
    /// # Errors
    ///
    /// Returns a [`BeneathError`] if something else is there or the folder can't be created.
    pub(crate) fn create_dir(&self, path: &Path, owner: Option<Owner>) -> Result<(), BeneathError> {
        match &self.0 {
            Place::Here(root) => root.create_dir(path, owner),
            Place::There(_) => self.create_dir_all(path, owner),
        }
    }

    /// Begins a file that gets its name later. A file on another machine belongs to the user of the sandbox, whoever `owner`
    /// is.
    ///
    /// # Errors
    ///
    /// Returns a [`BeneathError`] if the draft can't be created, or if there is one with its number.
    pub(crate) fn draft(
        &self,
        path: &Path,
        number: u64,
        owner: Option<Owner>,
    ) -> Result<Draft<'_>, BeneathError> {
        let path = path.to_owned();
        match &self.0 {
            Place::Here(root) => {
                let temporary = path.with_file_name(draft_name(number));
                let file = root.create_file(&temporary, owner)?;
                Ok(Draft(Kind::Here { root, path, temporary, file, written: 0 }))
            }
            Place::There(files) => Ok(Draft(Kind::There(RemoteDraft::new(files.clone(), path, number)))),
        }
    }

    /// Creates a link to a path, which need not exist, in one step. Anything but a folder is replaced by it.
    ///
    /// # Errors
    ///
    /// Returns a [`BeneathError`] if a folder is there or the link can't be created.
    pub(crate) fn put_link(
        &self,
        path: &Path,
        number: u64,
        target: &Path,
        owner: Option<Owner>,
    ) -> Result<(), BeneathError> {
        match &self.0 {
            Place::Here(root) => {
                let temporary = path.with_file_name(draft_name(number));
                root.link(&temporary, target)?;
                root.change_owner(&temporary, owner)?;
                root.replace(&temporary, path)
            }
            Place::There(files) => {
                let ((client, at), target) = (files.change(path)?, target.to_owned());
                files.wait(
                    "replace",
                    path,
                    async move { client.files().put_link(&at, number, &target).await },
                )
            }
        }
    }

    /// Waits until everything that was written to the file system of the workspace is on the disk.
    ///
    /// # Errors
    ///
    /// Returns a [`BeneathError`] if the workspace can't be opened or the disk refuses a write.
    pub(crate) fn sync(&self) -> Result<(), BeneathError> {
        match &self.0 {
            Place::Here(root) => root.sync_file_system(),
            Place::There(files) => {
                let (client, _) = files.request(Path::new(""));
                files.wait("sync", Path::new(""), async move { client.files().sync().await })
            }
        }
    }
}

/// A file that has not got its name yet.
pub(crate) struct Draft<'a>(Kind<'a>);

enum Kind<'a> {
    Here {
        root: &'a Root,
        path: PathBuf,
        temporary: PathBuf,
        file: File,
        /// The bytes that [`Draft::write`] has written, with holes.
        written: u64,
    },
    There(RemoteDraft),
}

impl Draft<'_> {
    /// Returns the empty file itself if it is on this machine, for whoever knows a quicker way to fill it.
    pub(crate) const fn file(&self) -> Option<&File> {
        match &self.0 {
            Kind::Here { file, .. } => Some(file),
            Kind::There(_) => None,
        }
    }

    /// Writes bytes after all that were written before. What lies between them is a hole.
    ///
    /// # Errors
    ///
    /// Returns a [`BeneathError`] if they can't be written, or are not after the others.
    pub(crate) fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), BeneathError> {
        match &mut self.0 {
            Kind::Here { path, file, written, .. } => {
                let failed = |source| BeneathError::Io { verb: "write", path: path.clone(), source };
                if at < *written {
                    return Err(failed(out_of_order()));
                }
                file.write_all_at(bytes, at).map_err(failed)?;
                *written = at.saturating_add(bytes.len() as u64);
                Ok(())
            }
            Kind::There(draft) => draft.write(at, bytes),
        }
    }

    /// Gives the file this size, its permissions and its name.
    ///
    /// # Errors
    ///
    /// Returns a [`BeneathError`] if a folder has the name, or the file can't be completed. What was there is then unchanged,
    /// except that it is not known after [`BeneathError::Unreachable`].
    pub(crate) fn put(self, size: u64, mode: u32) -> Result<(), BeneathError> {
        match self.0 {
            Kind::Here { root, path, temporary, file, .. } => {
                let failed = |source| BeneathError::Io { verb: "write", path: path.clone(), source };
                if file.metadata().map_err(failed)?.len() != size {
                    file.set_len(size).map_err(failed)?;
                }
                root.set_mode(&temporary, mode)?;
                root.replace(&temporary, &path)
            }
            Kind::There(draft) => draft.put(size, mode),
        }
    }
}

fn out_of_order() -> io::Error {
    io::Error::other("its parts are not in order")
}

/// A file of another machine that is written in parts. Its parts are removed if it gets no name.
struct RemoteDraft {
    files: RemoteFiles,
    path: PathBuf,
    number: u64,
    /// The bytes that were sent, with holes.
    sent: u64,
    /// The bytes that are sent next.
    part: Vec<u8>,
    /// `true` while there is something on the other machine that has no name.
    is_there: bool,
}

impl RemoteDraft {
    const fn new(files: RemoteFiles, path: PathBuf, number: u64) -> Self {
        Self { files, path, number, sent: 0, part: Vec::new(), is_there: false }
    }

    fn written(&self) -> u64 {
        self.sent.saturating_add(self.part.len() as u64)
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), BeneathError> {
        self.skip_to(at)?;
        let mut left = bytes;
        while !left.is_empty() {
            if self.part.len() == MAX_PART {
                self.send()?;
            }
            let (now, later) = left.split_at(left.len().min(MAX_PART - self.part.len()));
            self.part.extend_from_slice(now);
            left = later;
        }
        Ok(())
    }

    /// Makes a hole up to this place.
    fn skip_to(&mut self, at: u64) -> Result<(), BeneathError> {
        if at < self.written() {
            return Err(BeneathError::Io { verb: "write", path: self.path.clone(), source: out_of_order() });
        }
        if at == self.written() {
            return Ok(());
        }
        // A hole needs a file.
        if !self.part.is_empty() || !self.is_there {
            self.send()?;
        }
        let ((client, path), number, from) = (self.files.change(&self.path)?, self.number, self.sent);
        let made = async move { client.files().write_hole(&path, number, from, at).await };
        self.files.wait("write", &self.path, made)?;
        self.sent = at;
        Ok(())
    }

    fn send(&mut self) -> Result<(), BeneathError> {
        // By the name of the draft: a file tool's first part is refused if it can't replace what has the name, and a rewind may.
        let draft = self.path.with_file_name(draft_name(self.number));
        let ((client, path), number, from) = (self.files.change(&draft)?, self.number, self.sent);
        self.sent = self.written();
        self.is_there = true;
        let bytes = std::mem::take(&mut self.part);
        let sent = async move { client.files().write_part(&path, number, from, bytes).await };
        self.files.wait("write", &self.path, sent)
    }

    fn put(mut self, size: u64, mode: u32) -> Result<(), BeneathError> {
        self.skip_to(size)?;
        let last = (self.sent, std::mem::take(&mut self.part));
        let ((client, path), number) = (self.files.change(&self.path)?, self.number);
        let put = async move { client.files().put(&path, number, last, mode).await };
        let done = self.files.wait("write", &self.path, put);
        self.is_there &= done.is_err();
        done
    }
}

impl Drop for RemoteDraft {
    fn drop(&mut self) {
        if self.is_there {
            self.files.client.files().discard(&self.path, self.number);
        }
    }
}
