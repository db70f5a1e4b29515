//! Looks at a workspace on another machine and stores what is new in it, as the helper of its sandbox reads it.
//!
//! A folder takes one request, an unchanged file none, and a changed one is transferred in parts. What is found there has
//! the same index and the same trees as a workspace of this machine. What an agent has closed to itself is opened for as long
//! as it is read.

use std::io::{self, Read, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::content::ContentId;
use super::error::CheckpointError;
use super::index::{Index, IndexedFile, NewFolder, Stamp, find};
use super::objects::{CLONE_FROM, Objects};
use super::scan::{Named, Scan, ScanInput};
use super::tree::{Node, TreeEntry};
use super::walk::{RACY, READS, Walked};
use crate::home::beneath::BeneathError;
use crate::sandbox::workspace_files::{EntryKind, FileEntry, FileVersion, RemoteFiles};

/// A look at a workspace on another machine.
pub(super) struct HelperWalk<'a> {
    pub(super) input: &'a ScanInput<'a>,
    pub(super) files: &'a RemoteFiles,
    pub(super) objects: &'a Objects,
    pub(super) old: &'a Index,
    /// The folder for a file that is being transferred, on this machine.
    pub(super) scratch: &'a Path,
}

/// The state of a walk: the end of its time, and the files found so far.
struct Progress {
    end: Instant,
    /// A file that was changed after this moment is not trusted next time. By the clock of the other machine.
    racy_from: i64,
    names: usize,
    bytes: u64,
    entries: usize,
    left_out: Named,
    unstable: Named,
    folders: Vec<NewFolder>,
}

impl HelperWalk<'_> {
    /// Walks through everything.
    ///
    /// # Errors
    ///
    /// Returns an error if the helper does not answer at all. One that comes later is in the result.
    pub(super) fn run(&self) -> Result<Walked, CheckpointError> {
        let mut progress = Progress {
            end: Instant::now() + self.input.limits.time,
            racy_from: self.files.clock()?.saturating_sub(RACY),
            names: 0,
            bytes: 0,
            entries: 0,
            left_out: Named::default(),
            unstable: Named::default(),
            folders: Vec::new(),
        };
        let mode = self.files.look(Path::new(""))?.mode;
        let tree = self.folder(Path::new(""), (1, mode), &mut progress);
        let Progress { entries, left_out, unstable, folders, .. } = progress;
        let scan = tree.and_then(|tree| {
            let tree =
                tree.ok_or_else(|| BeneathError::NotFound { path: self.input.workspace.to_owned() })?;
            Ok(Scan { tree, entries, left_out, unstable })
        });
        Ok(Walked { scan, folders })
    }

    /// Stores a folder with everything in it. Returns `None` if it is gone or can't be opened.
    fn folder(
        &self,
        path: &Path,
        (depth, mode): (usize, u32),
        progress: &mut Progress,
    ) -> Result<Option<ContentId>, CheckpointError> {
        // What is in a folder without the right to search it looks like nothing.
        let is_opened = mode & 0o500 != 0o500 && self.open(path, mode | 0o500)?;
        let stored = self.inside(path, depth, progress);
        if is_opened {
            self.open(path, mode)?;
        }
        stored
    }

    /// Sets permissions. Returns `false` if the agent itself could not do that.
    fn open(&self, path: &Path, mode: u32) -> Result<bool, CheckpointError> {
        match self.files.set_mode(path, mode) {
            Err(error @ BeneathError::Unreachable { .. }) => Err(error.into()),
            done => Ok(done.is_ok()),
        }
    }

    /// Stores what is in a folder.
    fn inside(
        &self,
        path: &Path,
        depth: usize,
        progress: &mut Progress,
    ) -> Result<Option<ContentId>, CheckpointError> {
        if depth > self.input.limits.depth {
            return Err(self.input.limit("the folders of the workspace are nested too deep"));
        }
        self.input.go_on(progress.end)?;
        let most = self.input.limits.entries;
        let room = most.saturating_sub(progress.names);
        let (listed, more) = match self.files.list_entries(path, room) {
            Ok(listed) => listed,
            Err(error) if depth > 1 && is_passed_over(&error) => {
                if !matches!(error, BeneathError::NotFound { .. }) {
                    progress.left_out.add(path.as_os_str().as_bytes());
                }
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        };
        progress.names += listed.len();
        if more {
            return Err(self.input.limit(&format!("the workspace has more than {most} files and folders")));
        }
        let key = path.as_os_str().as_bytes();
        let before = self.old.folder(key);
        let mut known = before.as_ref().map(|folder| folder.files().peekable());
        let mut entries = Vec::with_capacity(listed.len());
        let mut new = NewFolder::new(key.to_vec(), ContentId([0; 32]), listed.len());
        for entry in listed {
            let name = entry.name.as_slice();
            let file = known.as_mut().and_then(|known| find(known, name));
            let place = path.join(std::ffi::OsStr::from_bytes(name));
            let node = match entry.kind {
                EntryKind::File => {
                    let found = self.file(&place, &entry, file, progress)?;
                    found.map(|(node, stamp, is_trusted)| {
                        if let Node::File { content, .. } = &node {
                            new.add(&IndexedFile { name, stamp, content: *content, is_trusted });
                        }
                        node
                    })
                }
                EntryKind::Folder => {
                    let inner = self.folder(&place, (depth + 1, entry.mode), progress)?;
                    inner.map(|tree| Node::Folder { mode: entry.mode & 0o777, tree })
                }
                EntryKind::Link => match self.files.read_link(&place) {
                    Ok(target) => Some(Node::Link { target: target.into_os_string().into_encoded_bytes() }),
                    Err(error) if is_passed_over(&error) => None,
                    Err(error) => return Err(error.into()),
                },
                EntryKind::Special => {
                    progress.left_out.add(place.as_os_str().as_bytes());
                    None
                }
            };
            if let Some(node) = node {
                entries.push(TreeEntry { name: name.to_vec(), node });
            }
        }
        let tree = self.objects.put_folder(&entries, before.map(|folder| folder.tree))?;
        new.tree = tree;
        progress.entries += entries.len();
        progress.folders.push(new);
        Ok(Some(tree))
    }

    /// Stores a file, unless it is the known one.
    fn file(
        &self,
        path: &Path,
        entry: &FileEntry,
        known: Option<IndexedFile<'_>>,
        progress: &mut Progress,
    ) -> Result<Option<(Node, Stamp, bool)>, CheckpointError> {
        progress.bytes = progress.bytes.saturating_add(entry.version.size);
        let most = self.input.limits.bytes;
        if progress.bytes > most {
            return Err(self.input.limit(&format!("the workspace has more than {most} bytes")));
        }
        let stamp = stamp(entry);
        if let Some(known) = known.filter(|known| known.is_trusted && known.stamp == stamp) {
            return Ok(Some((node(entry, known.content), stamp, true)));
        }
        if entry.mode & 0o400 != 0 || !self.open(path, entry.mode | 0o400)? {
            return self.read(path, entry.clone(), progress);
        }
        let stored = match self.files.look(path) {
            Ok(opened) => self.read(path, opened, progress),
            Err(error) if is_passed_over(&error) => Ok(None),
            Err(error) => Err(error.into()),
        };
        self.open(path, entry.mode)?;
        // Its times are those of a moment ago by now. It is read again next time.
        let closed = |(node, stamp, _)| match node {
            Node::File { size, content, .. } => {
                (Node::File { mode: entry.mode & 0o777, size, content }, stamp, false)
            }
            other => (other, stamp, false),
        };
        Ok(stored?.map(closed))
    }

    /// Reads a file and stores its content. A file that changes meanwhile is read again.
    fn read(
        &self,
        path: &Path,
        entry: FileEntry,
        progress: &mut Progress,
    ) -> Result<Option<(Node, Stamp, bool)>, CheckpointError> {
        let mut entry = entry;
        for attempt in 1..=READS {
            let stamp = stamp(&entry);
            // The last time, whatever is there is taken.
            let transferred = if attempt < READS {
                self.transfer(path, entry.version.size, progress)
            } else {
                self.transfer_mixed(path, entry.version, progress)
            };
            let content = match transferred {
                Ok(content) => content,
                Err(Failure::Gone) => return Ok(None),
                Err(Failure::Closed) => {
                    progress.left_out.add(path.as_os_str().as_bytes());
                    return Ok(None);
                }
                Err(Failure::Changed) => None,
                Err(Failure::Error(error)) => return Err(error),
            };
            let after = match self.files.look(path) {
                Ok(after) => after,
                Err(error) if is_passed_over(&error) => return Ok(None),
                Err(error) => return Err(error.into()),
            };
            let is_stable = self::stamp(&after) == stamp;
            if let Some(content) = content.filter(|_| is_stable || attempt == READS) {
                if !is_stable {
                    progress.unstable.add(path.as_os_str().as_bytes());
                }
                let is_trusted = is_stable && stamp.changed.max(stamp.modified) < progress.racy_from;
                return Ok(Some((node(&entry, content), stamp, is_trusted)));
            }
            if after.kind != EntryKind::File {
                return Ok(None);
            }
            entry = after;
        }
        // It was another file, or a shorter one, each time.
        progress.unstable.add(path.as_os_str().as_bytes());
        Ok(None)
    }

    /// Brings the first bytes of a file here, as many as the version has, although the file is being changed. Returns `None`
    /// if it is another file, or has fewer bytes.
    fn transfer_mixed(
        &self,
        path: &Path,
        version: FileVersion,
        progress: &Progress,
    ) -> Result<Option<ContentId>, Failure> {
        let failed = CheckpointError::io("write a file below", self.scratch);
        let mut draft = tempfile::tempfile_in(self.scratch).map_err(&failed)?;
        let mut copied = 0;
        while copied < version.size {
            self.input.go_on(progress.end)?;
            let (part, found) = self.files.part(path, copied)?;
            if found.inode != version.inode || part.is_empty() {
                return Ok(None);
            }
            let left = usize::try_from(version.size - copied).unwrap_or(usize::MAX);
            let part = &part[..part.len().min(left)];
            draft.write_all(part).map_err(&failed)?;
            copied += part.len() as u64;
        }
        Ok(Some(self.objects.put_file(&draft, version.size, || self.input.go_on(progress.end))?))
    }

    /// Brings the content of a file here. Returns `None` if it has another size by now.
    fn transfer(&self, path: &Path, size: u64, progress: &Progress) -> Result<Option<ContentId>, Failure> {
        self.input.go_on(progress.end)?;
        if size < CLONE_FROM {
            let (bytes, found) = self.files.beginning(path, size)?;
            if found != size || bytes.len() as u64 != size {
                return Ok(None);
            }
            let id = ContentId::of_file(&bytes);
            self.objects.put(id, &bytes)?;
            return Ok(Some(id));
        }
        let failed = CheckpointError::io("write a file below", self.scratch);
        let mut draft = tempfile::tempfile_in(self.scratch).map_err(&failed)?;
        let mut reader = self.files.reader(path.to_owned());
        let mut buffer = vec![0; 256 << 10];
        let mut copied = 0;
        loop {
            self.input.go_on(progress.end)?;
            let count = reader.read(&mut buffer).map_err(Failure::of_part)?;
            copied += count as u64;
            if copied > size {
                return Ok(None);
            }
            if count == 0 {
                break;
            }
            draft.write_all(&buffer[..count]).map_err(&failed)?;
        }
        if copied != size {
            return Ok(None);
        }
        Ok(Some(self.objects.put_file(&draft, size, || self.input.go_on(progress.end))?))
    }
}

/// The reason why a file was not brought here.
enum Failure {
    Gone,
    /// The agent has taken its own right to read it away.
    Closed,
    Changed,
    Error(CheckpointError),
}

impl Failure {
    /// Returns the reason for an error of a reader.
    fn of_part(error: io::Error) -> Self {
        match error.downcast::<BeneathError>() {
            Ok(error) => error.into(),
            Err(error) => Self::Error(CheckpointError::io("read", &PathBuf::from("/workspace"))(error)),
        }
    }
}

impl From<CheckpointError> for Failure {
    fn from(error: CheckpointError) -> Self {
        Self::Error(error)
    }
}

impl From<BeneathError> for Failure {
    fn from(error: BeneathError) -> Self {
        match &error {
            BeneathError::NotFound { .. } | BeneathError::WrongKind { .. } | BeneathError::Outside { .. } => {
                Self::Gone
            }
            BeneathError::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                Self::Closed
            }
            // Said by the helper, or found out here.
            BeneathError::Io { source, .. } if source.raw_os_error().is_none() => Self::Changed,
            _ => Self::Error(error.into()),
        }
    }
}

/// Returns `true` for what is gone, became something else, or is closed to the agent itself.
fn is_passed_over(error: &BeneathError) -> bool {
    match error {
        BeneathError::NotFound { .. } | BeneathError::WrongKind { .. } | BeneathError::Outside { .. } => true,
        BeneathError::Io { source, .. } => {
            // EINVAL: it is no link any more.
            matches!(source.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::InvalidInput)
        }
        _ => false,
    }
}

fn node(entry: &FileEntry, content: ContentId) -> Node {
    Node::File { mode: entry.mode & 0o777, size: entry.version.size, content }
}

fn stamp(entry: &FileEntry) -> Stamp {
    Stamp {
        inode: entry.version.inode,
        size: entry.version.size,
        modified: entry.modified_ms.saturating_mul(1_000_000),
        changed: entry.version.changed_ns,
    }
}

#[cfg(test)]
#[path = "helper_walk_tests.rs"]
mod tests;
