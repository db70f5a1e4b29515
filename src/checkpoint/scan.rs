//! Walks through a workspace and stores what is new in it.
//!
//! The agent shares the folder and can change it between two system calls. Everything is opened below an open folder,
//! by one name and without following a link, and judged by what was opened.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, openat, readlinkat};
use nix::sys::stat::{FchmodatFlags, FileStat, Mode, SFlag, fchmodat, fstat, fstatat};

use super::content::ContentId;
use super::error::CheckpointError;
use super::index::{Index, IndexedFile, IndexedFolder, Stamp};
use super::objects::Objects;
use super::tree::{Node, TreeEntry};
use crate::home::folder_rights::open_folder;
use crate::id::AgentId;

/// The limits of a look at a workspace.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScanLimits {
    /// Entries of all folders together.
    pub(super) entries: usize,
    /// Nested folders. Each of them is an open descriptor.
    pub(super) depth: usize,
    /// Bytes that the files use on the disk.
    pub(super) bytes: u64,
    pub(super) time: Duration,
}

impl ScanLimits {
    /// Returns the limits for a workspace whose files may use this many bytes.
    pub(super) const fn with_bytes(bytes: u64) -> Self {
        Self { entries: 500_000, depth: 128, bytes, time: Duration::from_secs(120) }
    }
}

/// The age up to which a file's times do not prove that it is unchanged: two ticks of a slow kernel clock.
const RACY: i64 = 20_000_000;
/// Number of times that a file is read which changes meanwhile.
const READS: usize = 3;
/// The longest path that the kernel accepts.
const MAX_PATH: usize = 4_000;
/// The most names that are reported of each kind of problem.
const MAX_NAMED: usize = 20;

/// The state of a workspace.
#[derive(Clone, Debug)]
pub(super) struct Scan {
    /// The tree of the workspace itself.
    pub(super) tree: ContentId,
    /// Number of files, folders and links.
    pub(super) entries: usize,
    /// Devices, sockets, FIFOs and other file systems, which no checkpoint has.
    pub(super) left_out: Named,
    /// Files that changed each time they were read.
    pub(super) unstable: Named,
}

/// The first paths of a kind, and their number.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Named {
    pub(crate) count: usize,
    pub(crate) paths: Vec<String>,
}

impl Named {
    fn add(&mut self, path: &[u8]) {
        self.count += 1;
        if self.paths.len() < MAX_NAMED {
            self.paths.push(crate::clean::summary(&String::from_utf8_lossy(path), 200));
        }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// What a scan works with.
pub(super) struct ScanInput<'a> {
    pub(super) agent: &'a AgentId,
    /// The workspace. Its own path is the owner's and may be a link.
    pub(super) workspace: &'a Path,
    pub(super) limits: ScanLimits,
    /// Set to stop the scan.
    pub(super) stop: &'a AtomicBool,
}

/// Looks at a workspace, stores what is new, and brings the index up to date. After an error the index knows what was
/// stored until then.
///
/// # Errors
///
/// Returns [`CheckpointError::Limit`] if the workspace exceeds a limit, [`CheckpointError::Stopped`] if the scan was
/// stopped, and another error if a system call fails for a reason that is not the agent's.
pub(super) fn scan(
    input: &ScanInput<'_>,
    objects: &mut Objects,
    index: &mut Index,
) -> Result<Scan, CheckpointError> {
    let workspace =
        fs_err::canonicalize(input.workspace).map_err(CheckpointError::io("open", input.workspace))?;
    let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_RDONLY | OFlag::O_CLOEXEC;
    let failed = |errno: Errno| CheckpointError::io("open", &workspace)(errno.into());
    let unlocked =
        Unlocked::open(AT_FDCWD.as_fd(), &workspace, |at, path| openat(at, path, flags, Mode::empty()));
    let root = unlocked.map_err(failed)?;
    let found = fstat(&root.folder).map_err(failed)?;
    let mut walk = Walk {
        input,
        workspace: &workspace,
        objects,
        old: std::mem::take(index),
        new: Index::default(),
        device: found.st_dev,
        user: found.st_uid,
        bytes: 0,
        end: Instant::now() + input.limits.time,
        racy_from: now().saturating_sub(RACY),
        scan: Scan {
            tree: ContentId([0; 32]),
            entries: 0,
            left_out: Named::default(),
            unstable: Named::default(),
        },
        path: Vec::new(),
    };
    let tree = walk.folder(root, 1);
    // What was not reached stays known, so that the next look does not read it again.
    if tree.is_err() {
        for (path, folder) in std::mem::take(&mut walk.old.folders) {
            walk.new.folders.entry(path).or_insert(folder);
        }
    }
    *index = std::mem::take(&mut walk.new);
    let scan = walk.scan;
    Ok(Scan { tree: tree?, ..scan })
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

struct Walk<'a> {
    input: &'a ScanInput<'a>,
    workspace: &'a Path,
    objects: &'a mut Objects,
    old: Index,
    new: Index,
    device: u64,
    user: u32,
    bytes: u64,
    end: Instant,
    /// A file that was changed after this moment is not trusted next time.
    racy_from: i64,
    scan: Scan,
    /// The current path in the workspace.
    path: Vec<u8>,
}

impl Walk<'_> {
    /// Stores a folder with everything in it.
    fn folder(&mut self, folder: Unlocked, depth: usize) -> Result<ContentId, CheckpointError> {
        let names = names(&folder.folder).map_err(|errno| self.failed(errno))?;
        let before = self.old.folders.remove(self.path.as_slice());
        let mut known = before.as_ref().map_or(&[][..], |folder| &folder.files).iter().peekable();
        let mut entries = Vec::with_capacity(names.len());
        let mut files = Vec::with_capacity(names.len());
        for name in names {
            self.count()?;
            while known.next_if(|file| *file.name < *name.as_bytes()).is_some() {}
            let file = known.next_if(|file| *file.name == *name.as_bytes());
            let above = self.path.len();
            if above > 0 {
                self.path.push(b'/');
            }
            self.path.extend(name.as_bytes());
            if self.path.len() > MAX_PATH {
                return Err(self.limit("a path in the workspace is too long"));
            }
            let node = self.entry(folder.folder.as_fd(), &name, (file, &mut files), depth)?;
            self.path.truncate(above);
            if let Some(node) = node {
                self.scan.entries += 1;
                entries.push(TreeEntry { name: name.into_bytes(), node });
            }
        }
        drop(folder);
        let tree = self.objects.put_folder(&entries, before.map(|folder| folder.tree))?;
        self.new.folders.insert(self.path.as_slice().into(), IndexedFolder { tree, files });
        Ok(tree)
    }

    /// Stores an entry. Returns `None` if it is gone or is nothing that can be kept.
    fn entry(
        &mut self,
        above: BorrowedFd<'_>,
        name: &CString,
        (known, files): (Option<&IndexedFile>, &mut Vec<IndexedFile>),
        depth: usize,
    ) -> Result<Option<Node>, CheckpointError> {
        let found = match fstatat(above, name.as_c_str(), AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(found) => found,
            Err(Errno::ENOENT) => return Ok(None),
            Err(errno) => return Err(self.failed(errno)),
        };
        if found.st_dev != self.device {
            self.scan.left_out.add(&self.path);
            return Ok(None);
        }
        match SFlag::from_bits_truncate(found.st_mode) & SFlag::S_IFMT {
            SFlag::S_IFREG => {
                self.bytes += u64::try_from(found.st_blocks).unwrap_or(0).saturating_mul(512);
                if self.bytes > self.input.limits.bytes {
                    let most = self.input.limits.bytes;
                    return Err(self.limit(&format!("the workspace uses more than {most} bytes")));
                }
                let stamp = Stamp::of(&found);
                if let Some(known) = known.filter(|known| known.is_trusted && known.stamp == stamp) {
                    files.push(known.clone());
                    let mode = permissions(&found);
                    return Ok(Some(Node::File { mode, size: stamp.size, content: known.content }));
                }
                self.read(above, name, files)
            }
            SFlag::S_IFDIR => {
                if depth >= self.input.limits.depth {
                    return Err(self.limit("the folders of the workspace are nested too deep"));
                }
                match Unlocked::open_below(above, name, self.user) {
                    Ok(inner) => {
                        let mode = inner.before.unwrap_or(found.st_mode) & 0o777;
                        let tree = self.folder(inner, depth + 1)?;
                        Ok(Some(Node::Folder { mode, tree }))
                    }
                    Err(Errno::ENOENT) => Ok(None),
                    // It became something else, is mounted, or belongs to another user who keeps everybody out.
                    Err(Errno::ENOTDIR | Errno::ELOOP | Errno::EXDEV | Errno::EACCES | Errno::EPERM) => {
                        self.scan.left_out.add(&self.path);
                        Ok(None)
                    }
                    Err(errno) => Err(self.failed(errno)),
                }
            }
            SFlag::S_IFLNK => match readlinkat(above, name.as_c_str()) {
                Ok(target) => Ok(Some(Node::Link { target: target.into_vec() })),
                // It is gone, or is no link any more.
                Err(Errno::ENOENT | Errno::EINVAL) => Ok(None),
                Err(errno) => Err(self.failed(errno)),
            },
            _ => {
                self.scan.left_out.add(&self.path);
                Ok(None)
            }
        }
    }

    /// Reads a file and stores its content. A file that changes meanwhile is read again.
    fn read(
        &mut self,
        above: BorrowedFd<'_>,
        name: &CString,
        files: &mut Vec<IndexedFile>,
    ) -> Result<Option<Node>, CheckpointError> {
        for attempt in 1..=READS {
            let file = match open_file(above, name, self.user) {
                Ok(file) => file,
                Err(Errno::ENOENT) => return Ok(None),
                Err(Errno::ELOOP | Errno::ENXIO | Errno::EACCES | Errno::EPERM | Errno::EINVAL) => break,
                Err(errno) => return Err(self.failed(errno)),
            };
            let look = |file: &File| fstat(file).map_err(|errno| self.failed(errno));
            let stat = look(&file)?;
            let before = Stamp::of(&stat);
            let (end, stop) = (self.end, self.input.stop);
            let go_on = || {
                if stop.load(Ordering::Relaxed) || Instant::now() > end {
                    Err(CheckpointError::Stopped)
                } else {
                    Ok(())
                }
            };
            let content = match self.objects.put_file(&file, before.size, go_on) {
                Ok(content) => content,
                Err(CheckpointError::Stopped) => return Err(self.stopped()),
                // It was cut short while it was read.
                Err(CheckpointError::Io { source, .. }) if source.kind() == io::ErrorKind::UnexpectedEof => {
                    continue;
                }
                Err(error) => return Err(error),
            };
            let after = Stamp::of(&fstat(&file).map_err(|errno| self.failed(errno))?);
            let is_stable = before == after;
            if !is_stable && attempt < READS {
                continue;
            }
            if !is_stable {
                self.scan.unstable.add(&self.path);
            }
            let is_trusted = is_stable && after.changed.max(after.modified) < self.racy_from;
            files.push(IndexedFile { name: name.as_bytes().into(), stamp: after, content, is_trusted });
            return Ok(Some(Node::File { mode: permissions(&stat), size: before.size, content }));
        }
        self.scan.left_out.add(&self.path);
        Ok(None)
    }

    /// Counts an entry and looks if the limits are reached.
    fn count(&self) -> Result<(), CheckpointError> {
        let count = self.scan.entries + self.scan.left_out.count;
        if count >= self.input.limits.entries {
            let most = self.input.limits.entries;
            return Err(self.limit(&format!("the workspace has more than {most} files and folders")));
        }
        if count.is_multiple_of(64) && (self.input.stop.load(Ordering::Relaxed) || Instant::now() > self.end)
        {
            return Err(self.stopped());
        }
        Ok(())
    }

    fn stopped(&self) -> CheckpointError {
        if self.input.stop.load(Ordering::Relaxed) {
            return CheckpointError::Stopped;
        }
        let seconds = self.input.limits.time.as_secs();
        self.limit(&format!("reading the workspace takes longer than {seconds} s"))
    }

    fn limit(&self, limit: &str) -> CheckpointError {
        CheckpointError::Limit { agent: self.input.agent.clone(), limit: limit.to_owned() }
    }

    fn failed(&self, errno: Errno) -> CheckpointError {
        let path = self.workspace.join(PathBuf::from(std::ffi::OsString::from_vec(self.path.clone())));
        CheckpointError::io("read", &path)(errno.into())
    }
}

/// Returns the permissions that a checkpoint keeps. A sandbox can't set the other bits.
fn permissions(stat: &FileStat) -> u32 {
    stat.st_mode & 0o777
}

/// Returns the names in an open folder, sorted.
fn names(folder: &OwnedFd) -> Result<Vec<CString>, Errno> {
    // Listing needs a descriptor of its own, because it moves the place in it.
    let mut dir = Dir::from_fd(folder.try_clone().map_err(|_| Errno::EMFILE)?)?;
    let mut names = Vec::new();
    for entry in dir.iter() {
        let entry = entry?;
        let name = entry.file_name();
        if name != c"." && name != c".." {
            names.push(name.to_owned());
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// An open folder. If its owner had no right to list and search it, the rights are there until this is dropped.
struct Unlocked {
    folder: OwnedFd,
    /// The permissions to restore.
    before: Option<u32>,
}

impl Unlocked {
    fn open_below(above: BorrowedFd<'_>, name: &CString, user: u32) -> Result<Self, Errno> {
        match open_folder(above, name) {
            Ok(folder) if has_search(&folder) => Ok(Self { folder, before: None }),
            Err(errno) if errno != Errno::EACCES => Err(errno),
            _ => {
                let (link, mode) = unlock(above, name, SFlag::S_IFDIR, user, 0o500)?;
                let opened = open_folder(link.as_fd(), c".");
                match opened {
                    Ok(folder) => Ok(Self { folder, before: Some(mode) }),
                    Err(errno) => {
                        set_mode(&link, mode);
                        Err(errno)
                    }
                }
            }
        }
    }

    fn open(
        above: BorrowedFd<'_>,
        path: &Path,
        open: impl Fn(BorrowedFd<'_>, &Path) -> Result<OwnedFd, Errno>,
    ) -> Result<Self, Errno> {
        match open(above, path) {
            Ok(folder) if has_search(&folder) => Ok(Self { folder, before: None }),
            Err(errno) if errno != Errno::EACCES => Err(errno),
            _ => {
                // The workspace itself, on which the agent has taken its rights away.
                let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
                let link = openat(above, path, flags, Mode::empty())?;
                let mode = fstat(&link)?.st_mode & 0o7777;
                set_mode(&link, mode | 0o500);
                match open(link.as_fd(), Path::new(".")) {
                    Ok(folder) => Ok(Self { folder, before: Some(mode) }),
                    Err(errno) => {
                        set_mode(&link, mode);
                        Err(errno)
                    }
                }
            }
        }
    }
}

impl Drop for Unlocked {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            set_mode(&self.folder, before);
        }
    }
}

/// Returns `true` if what is in the folder can be looked at, and not only its names.
fn has_search(folder: &OwnedFd) -> bool {
    fstatat(folder, c".", AtFlags::empty()).is_ok()
}

/// Opens a regular file for reading. If its owner had no right to read it, the right is there for a moment.
fn open_file(above: BorrowedFd<'_>, name: &CString, user: u32) -> Result<File, Errno> {
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    let file = match openat(above, name.as_c_str(), flags, Mode::empty()) {
        Err(Errno::EACCES) => {
            let (link, mode) = unlock(above, name, SFlag::S_IFREG, user, 0o400)?;
            let path = format!("/proc/self/fd/{}", link.as_raw_fd());
            let again = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
            // The path leads to the file that was checked, whatever has its name by now.
            let opened = openat(AT_FDCWD, path.as_str(), again, Mode::empty());
            set_mode(&link, mode);
            opened?
        }
        opened => opened?,
    };
    let found = fstat(&file)?;
    if SFlag::from_bits_truncate(found.st_mode) & SFlag::S_IFMT == SFlag::S_IFREG {
        Ok(File::from(file))
    } else {
        Err(Errno::EINVAL)
    }
}

/// Gives the owner rights on something of this kind and user. Returns its descriptor and its permissions before.
fn unlock(
    above: BorrowedFd<'_>,
    name: &CString,
    kind: SFlag,
    user: u32,
    rights: u32,
) -> Result<(OwnedFd, u32), Errno> {
    // No right on the thing itself is needed for a descriptor with O_PATH.
    let link =
        openat(above, name.as_c_str(), OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC, Mode::empty())?;
    let found = fstat(&link)?;
    if SFlag::from_bits_truncate(found.st_mode) & SFlag::S_IFMT != kind {
        return Err(Errno::EINVAL);
    }
    if found.st_uid != user {
        return Err(Errno::EACCES);
    }
    let mode = found.st_mode & 0o7777;
    set_mode(&link, mode | rights);
    Ok((link, mode))
}

/// Sets the permissions of what a descriptor is open on. If that fails, the open that needs them fails as well.
fn set_mode(link: &OwnedFd, mode: u32) {
    // fchmod refuses a descriptor with O_PATH, but its path in /proc leads to the file.
    let path = format!("/proc/self/fd/{}", link.as_raw_fd());
    let mode = Mode::from_bits_truncate(mode);
    let _ = fchmodat(AT_FDCWD, path.as_str(), mode, FchmodatFlags::FollowSymlink);
}

#[cfg(test)]
#[path = "scan_tests.rs"]
mod tests;
