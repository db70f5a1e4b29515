//! Looks at a workspace on another machine and stores what is new in it, as the helper of its sandbox reads it.
//!
//! A folder takes one request, an unchanged file none, and a changed one is transferred in parts. What is found there has
//! the same index and the same trees as a workspace of this machine.

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
use crate::home::beneath::{BeneathError, FileKind};
use crate::sandbox::workspace_files::{RemoteEntry, RemoteFiles};

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
        let tree = self.folder(Path::new(""), 1, &mut progress);
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
            let name = entry.name();
            let file = known.as_mut().and_then(|known| find(known, name));
            let place = path.join(std::ffi::OsStr::from_bytes(name));
            let node = match entry.kind {
                FileKind::File => {
                    let found = self.file(&place, &entry, file, progress)?;
                    found.map(|(node, stamp, is_trusted)| {
                        if let Node::File { content, .. } = &node {
                            new.add(&IndexedFile { name, stamp, content: *content, is_trusted });
                        }
                        node
                    })
                }
                FileKind::Folder => {
                    let inner = self.folder(&place, depth + 1, progress)?;
                    inner.map(|tree| Node::Folder { mode: entry.mode & 0o777, tree })
                }
                FileKind::Link => match self.files.read_link(&place) {
                    Ok(target) => Some(Node::Link { target: target.into_os_string().into_encoded_bytes() }),
                    Err(error) if is_passed_over(&error) => None,
                    Err(error) => return Err(error.into()),
                },
                FileKind::Other => {
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
        entry: &RemoteEntry,
        known: Option<IndexedFile<'_>>,
        progress: &mut Progress,
    ) -> Result<Option<(Node, Stamp, bool)>, CheckpointError> {
        let mut entry = entry.clone();
        progress.bytes = progress.bytes.saturating_add(entry.size);
        let most = self.input.limits.bytes;
        if progress.bytes > most {
            return Err(self.input.limit(&format!("the workspace has more than {most} bytes")));
        }
        for _ in 0..READS {
            let stamp = stamp(&entry);
            let node = |content| Node::File { mode: entry.mode & 0o777, size: entry.size, content };
            if let Some(known) = known.filter(|known| known.is_trusted && known.stamp == stamp) {
                return Ok(Some((node(known.content), stamp, true)));
            }
            let content = match self.transfer(path, entry.size, progress) {
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
            if let Some(content) = content.filter(|_| self::stamp(&after) == stamp) {
                let is_trusted = stamp.changed.max(stamp.modified) < progress.racy_from;
                return Ok(Some((node(content), stamp, is_trusted)));
            }
            if after.kind != FileKind::File {
                return Ok(None);
            }
            entry = after;
        }
        // A mixture of several moments is not kept: unlike here, the parts of it would not even follow one another.
        progress.unstable.add(path.as_os_str().as_bytes());
        Ok(None)
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

fn stamp(entry: &RemoteEntry) -> Stamp {
    Stamp {
        inode: entry.inode,
        size: entry.size,
        modified: entry.modified_ms.saturating_mul(1_000_000),
        changed: entry.changed_ns,
    }
}

#[cfg(test)]
#[path = "helper_walk_tests.rs"]
mod tests;
