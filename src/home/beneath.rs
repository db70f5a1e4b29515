//! Safe access to files that an agent can write.
//!
//! It is the only way in which flock opens them: below one folder, without following links, regular files only, never
//! blocking, and with a size limit.
//!
//! An agent shares its workspace with the host and can change it between two system calls. So nothing here checks a
//! path and opens it afterwards. The kernel resolves the path below a descriptor (`openat2` with `RESOLVE_BENEATH` and
//! `RESOLVE_NO_SYMLINKS`), and the checks apply to the opened file, not to its name.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{
    AT_FDCWD, AtFlags, OFlag, OpenHow, RenameFlags, ResolveFlag, openat, openat2, readlinkat, renameat,
    renameat2,
};
use nix::sys::stat::{FchmodatFlags, FileStat, Mode, SFlag, fchmod, fchmodat, fstat, fstatat, mkdirat};
use nix::unistd::{Gid, Uid, UnlinkatFlags, fchown, linkat, symlinkat, unlinkat};

use super::elsewhere;
use super::write_fence::{CutOff, WriteFence};
use crate::error::Explain;
use crate::id::EngineName;

/// An error of access below a folder.
#[derive(Debug, thiserror::Error)]
pub enum BeneathError {
    /// The path leads outside the folder, or through a link.
    #[error("{path:?} leads outside the folder, or through a link")]
    Outside {
        /// The path as the caller gave it.
        path: PathBuf,
    },
    /// Nothing is at the path.
    #[error("{path:?} is not there")]
    NotFound {
        /// The path as the caller gave it.
        path: PathBuf,
    },
    /// The path names something of another kind than requested.
    #[error("{path:?} is {found}, not {wanted}")]
    WrongKind {
        path: PathBuf,
        /// The actual kind, as in `a FIFO`.
        found: &'static str,
        /// The requested kind, as in `a file`.
        wanted: &'static str,
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
    /// The workspace is not a folder of this machine.
    #[error("{path:?} is on the engine {engine}, which is on another machine, and this needs it on this one")]
    Elsewhere {
        path: PathBuf,
        /// The engine that has it.
        engine: EngineName,
    },
    /// The files are on another machine, and what reaches them there failed. Whether a change was made is not known.
    #[error("failed to reach {path:?} on another machine")]
    Unreachable {
        /// The path as the caller gave it.
        path: PathBuf,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Another gateway may have taken over from this one, so the change was not made.
    #[error("{path:?} was left as it is")]
    CutOff {
        path: PathBuf,
        #[source]
        source: CutOff,
    },
    /// A system call failed.
    #[error("failed to {verb} {path:?}")]
    Io {
        /// The operation, as in `read`.
        verb: &'static str,
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
}

impl Explain for BeneathError {}

/// The kind of a directory entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    File,
    Folder,
    Link,
    /// A FIFO, a socket or a device.
    Other,
}

/// An entry that was found below the folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// Relative to the folder.
    pub path: PathBuf,
    pub kind: FileKind,
    /// In bytes.
    pub size: u64,
    /// Unix milliseconds of the last change of the content.
    pub modified_ms: i64,
    /// Nanoseconds since the Unix epoch of the last change of the file or its attributes. A program can't set it.
    pub changed_ns: i64,
    pub inode: u64,
}

/// The uid and gid that a new file or folder gets.
pub type Owner = (u32, u32);

/// Returns a path with every link on the way followed, or the path itself if that fails.
///
/// Use it only to compare locations, never to open something that an agent can write.
#[must_use]
pub fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// A folder whose content is not trusted.
#[derive(Debug)]
pub(crate) struct Root {
    fd: OwnedFd,
    /// Checked just before each change.
    fence: WriteFence,
}

/// Checks before a change that no other gateway can have taken over from this one.
///
/// # Errors
///
/// Returns [`BeneathError::CutOff`] if one can have.
pub(crate) fn check_fence(fence: &WriteFence, path: &Path) -> Result<(), BeneathError> {
    fence.check().map_err(|source| BeneathError::CutOff { path: path.to_owned(), source })
}

impl Root {
    /// Opens a folder. Its own path is trusted and followed as usual, but its last component must not be a link.
    ///
    /// # Errors
    ///
    /// Returns [`BeneathError::NotFound`] if it does not exist, [`BeneathError::Elsewhere`] if it is the mark of a workspace
    /// on another machine, and another variant if it is not a folder or is a link.
    pub fn open(folder: &Path) -> Result<Self, BeneathError> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        match nix::fcntl::open(folder, flags, Mode::empty()) {
            Ok(fd) => Ok(Self { fd, fence: WriteFence::absent() }),
            Err(errno) => {
                Err(match (errno == Errno::ENOTDIR).then(|| elsewhere::engine_of(folder)).flatten() {
                    Some(engine) => BeneathError::Elsewhere { path: folder.to_owned(), engine },
                    None => errno_error("open", folder, "a folder")(errno),
                })
            }
        }
    }

    /// Sets the fence of a folder that other gateways may change too. Each change fails with [`BeneathError::CutOff`] once it
    /// is closed.
    #[must_use]
    pub(crate) fn fenced(self, fence: WriteFence) -> Self {
        Self { fence, ..self }
    }

    /// Reads a whole file of at most `cap` bytes.
    ///
    /// # Errors
    ///
    /// Returns [`BeneathError::TooLarge`] if the file is longer than `cap`, and otherwise the errors of
    /// [`Root::open_file`].
    pub fn read(&self, path: &Path, cap: u64) -> Result<Vec<u8>, BeneathError> {
        let (file, size) = self.open_file(path)?;
        if size > cap {
            return Err(BeneathError::TooLarge { path: path.to_owned(), size, cap });
        }
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
        // The file may grow while it is read, so the limit is applied to what arrives and not to the announced size.
        file.take(cap + 1).read_to_end(&mut bytes).map_err(io("read", path))?;
        if bytes.len() as u64 > cap {
            return Err(BeneathError::TooLarge { path: path.to_owned(), size: bytes.len() as u64, cap });
        }
        Ok(bytes)
    }

    /// Opens a regular file for reading. Returns it with its size at that moment.
    ///
    /// # Errors
    ///
    /// Returns [`BeneathError::NotFound`], [`BeneathError::Outside`] or [`BeneathError::WrongKind`] if the path names
    /// no regular file below the folder, and [`BeneathError::Io`] if opening it fails.
    pub(crate) fn open_file(&self, path: &Path) -> Result<(File, u64), BeneathError> {
        // O_NONBLOCK, because opening a FIFO would wait for its other end. The check of the kind follows on the open
        // descriptor.
        let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
        let fd = self.resolve(path, flags, "read", "a file")?;
        let stat = fstat(&fd).map_err(errno_error("read", path, "a file"))?;
        expect_file(path, &stat)?;
        Ok((File::from(fd), u64::try_from(stat.st_size).unwrap_or(0)))
    }

    /// Writes a file in one step. The folders above it must exist.
    ///
    /// A new file gets the mode of the file that it replaces, unless `mode` is given. A link, a folder or a device is
    /// not replaced.
    ///
    /// # Errors
    ///
    /// Returns a [`BeneathError`] if the path is not suitable or the file can't be written. What was there is then
    /// unchanged.
    pub fn write(
        &self,
        path: &Path,
        bytes: &[u8],
        mode: Option<u32>,
        owner: Option<Owner>,
    ) -> Result<(), BeneathError> {
        let (folder, name) = self.parent(path)?;
        let old = match fstatat(&folder, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(stat) => {
                expect_file(path, &stat)?;
                Some(stat.st_mode & 0o777)
            }
            Err(Errno::ENOENT) => None,
            Err(errno) => return Err(errno_error("write", path, "a file")(errno)),
        };
        let fail = errno_error("write", path, "a file");
        // A random name and O_EXCL: an agent can't prepare a file or a link under the temporary name.
        let temporary = OsString::from(format!(".flock-new-{:016x}", rand::random::<u64>()));
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let fd =
            openat(&folder, temporary.as_os_str(), flags, Mode::from_bits_truncate(0o600)).map_err(&fail)?;
        let written = (|| {
            set_owner(fd.as_fd(), owner).map_err(&fail)?;
            let bits = mode.or(old).unwrap_or(0o644);
            fchmod(&fd, Mode::from_bits_truncate(bits)).map_err(&fail)?;
            let mut file = File::from(fd);
            file.write_all(bytes).map_err(io("write", path))?;
            // Looked at last, because writing may take long.
            self.may_change(path)?;
            renameat(&folder, temporary.as_os_str(), &folder, name).map_err(&fail)
        })();
        if written.is_err() {
            // If this fails as well, nothing more can be done. The name shows what the file is.
            let _ = unlinkat(&folder, temporary.as_os_str(), UnlinkatFlags::NoRemoveDir);
        }
        written
    }

    /// Creates a folder and the folders above it. Existing folders stay as they are.
    ///
    /// # Errors
    ///
    /// Returns a [`BeneathError`] if a component is not a folder, leads outside, or can't be created.
    pub fn create_dir_all(&self, path: &Path, owner: Option<Owner>) -> Result<(), BeneathError> {
        let mut at = PathBuf::new();
        for name in path_components(path)? {
            let above = self.folder(&at)?;
            at.push(name);
            self.may_change(&at)?;
            match mkdirat(&above, name, Mode::from_bits_truncate(0o755)) {
                Ok(()) => {
                    let made = self.folder(&at)?;
                    set_owner(made.as_fd(), owner).map_err(errno_error("make", &at, "a folder"))?;
                }
                // Opening it checks that what exists is a folder and not a link.
                Err(Errno::EEXIST) => drop(self.folder(&at).map_err(|error| self.named_link(&at, error))?),
                Err(errno) => return Err(errno_error("make", &at, "a folder")(errno)),
            }
        }
        Ok(())
    }

    /// Returns the error of a folder that can't be opened, or of a link if that is what is in its place: the kernel says the
    /// same of a link and of a file there.
    fn named_link(&self, path: &Path, error: BeneathError) -> BeneathError {
        match self.stat(path) {
            Ok(found) if found.kind == FileKind::Link => BeneathError::Outside { path: path.to_owned() },
            _ => error,
        }
    }

    /// Returns the entry at a path, without following a link.
    ///
    /// # Errors
    ///
    /// Returns [`BeneathError::NotFound`] if nothing is there, and another [`BeneathError`] if the path leads outside
    /// or can't be examined.
    pub fn stat(&self, path: &Path) -> Result<DirEntry, BeneathError> {
        let (folder, name) = self.parent(path)?;
        let stat = fstatat(&folder, name, AtFlags::AT_SYMLINK_NOFOLLOW)
            .map_err(errno_error("look at", path, "anything"))?;
        Ok(entry(path.to_owned(), &stat))
    }

    /// Lists a folder, sorted by name, at most `cap` entries. An empty path is the folder itself. The second value is
    /// `true` if there are more entries. An entry that can't be examined, for example because the disk fails, counts as one of
    /// these.
    ///
    /// # Errors
    ///
    /// Returns a [`BeneathError`] if the path is not a folder below this one or can't be read.
    pub fn list(&self, path: &Path, cap: usize) -> Result<(Vec<DirEntry>, bool), BeneathError> {
        let fail = errno_error("list", path, "a folder");
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        // A folder has no other name for itself than `.`, so that this follows no link.
        let fd = openat(&self.folder(path)?, ".", flags, Mode::empty()).map_err(&fail)?;
        let mut dir = Dir::from_fd(fd).map_err(&fail)?;
        let raw = dir.as_raw_fd();
        let mut found = Vec::new();
        let mut more = false;
        for item in dir.iter() {
            let item = item.map_err(&fail)?;
            let name = OsStr::from_bytes(item.file_name().to_bytes()).to_owned();
            if name == "." || name == ".." {
                continue;
            }
            if found.len() == cap {
                more = true;
                break;
            }
            found.push(name);
        }
        // SAFETY: `dir` owns the descriptor and is dropped at the end of this function, after the last use of `folder`.
        let folder = unsafe { BorrowedFd::borrow_raw(raw) };
        let examined = found.into_iter().filter_map(|name| {
            let examined = fstatat(folder, name.as_os_str(), AtFlags::AT_SYMLINK_NOFOLLOW);
            // One that was removed since is left out.
            more |= matches!(&examined, Err(errno) if *errno != Errno::ENOENT);
            Some(entry(path.join(name), &examined.ok()?))
        });
        let mut entries: Vec<DirEntry> = examined.collect();
        entries.sort_by(|a, b| a.path.cmp(&b.path));
        Ok((entries, more))
    }

    /// Returns the target of a link, without following it.
    ///
    /// # Errors
    ///
    /// Returns a [`BeneathError`] if the path is not a link below the folder.
    pub fn read_link(&self, path: &Path) -> Result<PathBuf, BeneathError> {
        let (folder, name) = self.parent(path)?;
        let target = readlinkat(&folder, name).map_err(errno_error("read", path, "a link"))?;
        Ok(target.into())
    }

    /// Creates a link to a path, which need not exist. Nothing may exist at the link's own path.
    ///
    /// # Errors
    ///
    /// Returns a [`BeneathError`] if something exists there already or the link can't be created.
    pub fn link(&self, path: &Path, to: &Path) -> Result<(), BeneathError> {
        let (folder, name) = self.parent(path)?;
        self.may_change(path)?;
        symlinkat(to, &folder, name).map_err(errno_error("make", path, "a link"))
    }

    /// Gives a file a further name. Nothing may exist at the new path.
    ///
    /// # Errors
    ///
    /// Returns a [`BeneathError`] if there is no file, if something has the new name, or if the name can't be made.
    pub(crate) fn hard_link(&self, path: &Path, other: &Path) -> Result<(), BeneathError> {
        let (folder, name) = self.parent(path)?;
        let stat = fstatat(&folder, name, AtFlags::AT_SYMLINK_NOFOLLOW)
            .map_err(errno_error("look at", path, "a file"))?;
        expect_file(path, &stat)?;
        let (other_folder, other_name) = self.parent(other)?;
        self.may_change(other)?;
        linkat(&folder, name, &other_folder, other_name, AtFlags::empty())
            .map_err(errno_error("make", other, "a file"))
    }

    /// Removes a file, or a link without its target. A folder is refused.
    ///
    /// # Errors
    ///
    /// Returns a [`BeneathError`] if nothing is there, if it is a folder, or if it can't be removed.
    pub fn remove(&self, path: &Path) -> Result<(), BeneathError> {
        let (folder, name) = self.parent(path)?;
        self.may_change(path)?;
        unlinkat(&folder, name, UnlinkatFlags::NoRemoveDir).map_err(errno_error("remove", path, "a file"))
    }

    /// Renames or moves a file or folder. The folder above the new path must exist. Returns `false` if the new path is in
    /// use.
    ///
    /// # Errors
    ///
    /// Returns a [`BeneathError`] if nothing is there or it can't be renamed.
    pub fn rename(&self, path: &Path, other: &Path) -> Result<bool, BeneathError> {
        let (folder, name) = self.parent(path)?;
        let (other_folder, other_name) = self.parent(other)?;
        self.may_change(path)?;
        match renameat2(&folder, name, &other_folder, other_name, RenameFlags::RENAME_NOREPLACE) {
            Ok(()) => Ok(true),
            Err(Errno::EEXIST) => Ok(false),
            Err(errno) => Err(errno_error("rename", path, "anything")(errno)),
        }
    }

    /// Lets two files or folders change places in one step.
    ///
    /// # Errors
    ///
    /// Returns a [`BeneathError`] if one of them is missing, or if the file system can't do it.
    pub(crate) fn exchange(&self, path: &Path, other: &Path) -> Result<(), BeneathError> {
        let (folder, name) = self.parent(path)?;
        let (other_folder, other_name) = self.parent(other)?;
        self.may_change(other)?;
        renameat2(&folder, name, &other_folder, other_name, RenameFlags::RENAME_EXCHANGE)
            .map_err(errno_error("replace", other, "anything"))
    }

    /// Waits until the entries of a folder are on the disk. An empty path is this folder itself.
    ///
    /// # Errors
    ///
    /// Returns a [`BeneathError`] if the path is not a folder below this one or can't be synced.
    pub(crate) fn sync_folder(&self, path: &Path) -> Result<(), BeneathError> {
        let fail = errno_error("sync", path, "a folder");
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let fd = openat(&self.folder(path)?, ".", flags, Mode::empty()).map_err(&fail)?;
        File::from(fd).sync_all().map_err(io("sync", path))
    }

    /// Waits until everything on the file system of this folder is on the disk.
    ///
    /// # Errors
    ///
    /// Returns a [`BeneathError`] if the folder can't be opened or the disk refuses a write.
    pub(crate) fn sync_file_system(&self) -> Result<(), BeneathError> {
        let fail = errno_error("sync", Path::new("."), "a folder");
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let fd = openat(&self.fd, ".", flags, Mode::empty()).map_err(&fail)?;
        nix::unistd::syncfs(fd).map_err(fail)
    }

    /// Removes an empty folder.
    ///
    /// # Errors
    ///
    /// Returns a [`BeneathError`] if nothing is there, or if it is no folder or not empty.
    pub(crate) fn remove_folder(&self, path: &Path) -> Result<(), BeneathError> {
        let (folder, name) = self.parent(path)?;
        self.may_change(path)?;
        unlinkat(&folder, name, UnlinkatFlags::RemoveDir).map_err(errno_error("remove", path, "a folder"))
    }

    /// Creates an empty folder. The folder above it must exist, and nothing may exist at its own path.
    ///
    /// # Errors
    ///
    /// Returns a [`BeneathError`] if something exists there already or the folder can't be created.
    pub(crate) fn create_dir(&self, path: &Path, owner: Option<Owner>) -> Result<(), BeneathError> {
        let (folder, name) = self.parent(path)?;
        let fail = errno_error("make", path, "a folder");
        self.may_change(path)?;
        mkdirat(&folder, name, Mode::S_IRWXU).map_err(&fail)?;
        self.change_owner(path, owner)
    }

    /// Creates an empty file for writing, with mode 0600. Nothing may exist at its path.
    ///
    /// # Errors
    ///
    /// Returns a [`BeneathError`] if something exists there already or the file can't be created.
    pub(crate) fn create_file(&self, path: &Path, owner: Option<Owner>) -> Result<File, BeneathError> {
        let (folder, name) = self.parent(path)?;
        let fail = errno_error("make", path, "a file");
        let flags = OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        self.may_change(path)?;
        let fd = openat(&folder, name, flags, Mode::from_bits_truncate(0o600)).map_err(&fail)?;
        set_owner(fd.as_fd(), owner).map_err(&fail)?;
        Ok(File::from(fd))
    }

    /// Renames something and replaces what is at the new path, unless that is a folder.
    ///
    /// # Errors
    ///
    /// Returns a [`BeneathError`] if nothing is there or it can't be renamed.
    pub(crate) fn replace(&self, path: &Path, other: &Path) -> Result<(), BeneathError> {
        let (folder, name) = self.parent(path)?;
        let (other_folder, other_name) = self.parent(other)?;
        self.may_change(other)?;
        renameat(&folder, name, &other_folder, other_name).map_err(errno_error("rename", other, "a file"))
    }

    /// Returns the permissions of a file or folder. An empty path is this folder itself.
    ///
    /// # Errors
    ///
    /// Returns a [`BeneathError`] if nothing is there or it is a link.
    pub(crate) fn mode(&self, path: &Path) -> Result<u32, BeneathError> {
        let fd = self.handle(path)?;
        let stat = fstat(&fd).map_err(errno_error("look at", path, "a file or a folder"))?;
        match entry_kind(&stat) {
            FileKind::Link => Err(BeneathError::Outside { path: path.to_owned() }),
            _ => Ok(stat.st_mode & 0o7777),
        }
    }

    /// Sets the permissions of a file or folder. An empty path is this folder itself.
    ///
    /// # Errors
    ///
    /// Returns a [`BeneathError`] if nothing is there, it is a link, or the permissions can't be set.
    pub(crate) fn set_mode(&self, path: &Path, mode: u32) -> Result<(), BeneathError> {
        let fd = self.handle(path)?;
        let fail = errno_error("change", path, "a file or a folder");
        let stat = fstat(&fd).map_err(&fail)?;
        if entry_kind(&stat) == FileKind::Link {
            return Err(BeneathError::Outside { path: path.to_owned() });
        }
        // fchmod refuses a descriptor with O_PATH, but its path in /proc leads to the file.
        let open = format!("/proc/self/fd/{}", fd.as_raw_fd());
        let mode = Mode::from_bits_truncate(mode);
        self.may_change(path)?;
        fchmodat(AT_FDCWD, open.as_str(), mode, FchmodatFlags::FollowSymlink).map_err(fail)
    }

    /// Gives something to another user. A link is not followed. `None` changes nothing.
    ///
    /// # Errors
    ///
    /// Returns a [`BeneathError`] if nothing is there or the owner can't be changed.
    pub(crate) fn change_owner(&self, path: &Path, owner: Option<Owner>) -> Result<(), BeneathError> {
        let Some((uid, gid)) = owner else { return Ok(()) };
        let (folder, name) = self.parent(path)?;
        let (uid, gid) = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
        self.may_change(path)?;
        nix::unistd::fchownat(&folder, name, uid, gid, AtFlags::AT_SYMLINK_NOFOLLOW)
            .map_err(errno_error("change", path, "anything"))
    }

    fn may_change(&self, path: &Path) -> Result<(), BeneathError> {
        check_fence(&self.fence, path)
    }

    /// Opens something without any right on it.
    fn handle(&self, path: &Path) -> Result<OwnedFd, BeneathError> {
        if path.as_os_str().is_empty() {
            return self.folder(path);
        }
        self.resolve(path, OFlag::O_PATH, "look at", "a file or a folder")
    }

    fn parent<'p>(&self, path: &'p Path) -> Result<(OwnedFd, &'p OsStr), BeneathError> {
        let names = path_components(path)?;
        let Some((name, above)) = names.split_last() else {
            return Err(BeneathError::WrongKind {
                path: path.to_owned(),
                found: "a folder",
                wanted: "a file",
            });
        };
        Ok((self.folder(&above.iter().collect::<PathBuf>())?, name))
    }

    /// Opens a folder; an empty path is this folder itself.
    fn folder(&self, path: &Path) -> Result<OwnedFd, BeneathError> {
        // Empty, or `.`.
        if path_components(path)?.is_empty() {
            return self.fd.try_clone().map_err(io("open", path));
        }
        self.resolve(path, OFlag::O_PATH | OFlag::O_DIRECTORY, "open", "a folder")
    }

    fn resolve(
        &self,
        path: &Path,
        flags: OFlag,
        verb: &'static str,
        wanted: &'static str,
    ) -> Result<OwnedFd, BeneathError> {
        let names = path_components(path)?;
        let clean: PathBuf = names.iter().collect();
        let flags = flags | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW;
        let how = OpenHow::new()
            .flags(flags)
            .resolve(ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_SYMLINKS);
        loop {
            match openat2(&self.fd, &clean, how) {
                Ok(fd) => return Ok(fd),
                // EAGAIN: a rename in the tree raced with the look-up, and the kernel asks to try again.
                Err(Errno::EAGAIN | Errno::EINTR) => {}
                // The kernel is old, or a system-call filter does not know the call.
                Err(Errno::ENOSYS | Errno::EPERM) => break,
                Err(errno) => return Err(errno_error(verb, path, wanted)(errno)),
            }
        }
        self.resolve_stepwise(&names, flags).map_err(errno_error(verb, path, wanted))
    }

    /// Resolves a path without `openat2`: one component at a time, none of which may be a link.
    fn resolve_stepwise(&self, names: &[&OsStr], flags: OFlag) -> Result<OwnedFd, Errno> {
        let mut at = self.fd.try_clone().map_err(|_| Errno::EMFILE)?;
        let (last, above) = names.split_last().ok_or(Errno::EISDIR)?;
        let step = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        for name in above {
            at = openat(&at, *name, step, Mode::empty())?;
        }
        openat(&at, *last, flags, Mode::empty())
    }
}

/// Splits a relative path into its names.
///
/// A path with `..`, an absolute path or one that can't be a name is refused before the kernel sees it, so that the
/// error message is clear.
fn path_components(path: &Path) -> Result<Vec<&OsStr>, BeneathError> {
    let outside = || BeneathError::Outside { path: path.to_owned() };
    if path.as_os_str().len() > 4096 || path.as_os_str().as_bytes().contains(&0) {
        return Err(outside());
    }
    path.components()
        .filter_map(|part| match part {
            Component::Normal(name) => Some(Ok(name)),
            Component::CurDir => None,
            _ => Some(Err(outside())),
        })
        .collect()
}

fn set_owner(fd: BorrowedFd<'_>, owner: Option<Owner>) -> Result<(), Errno> {
    let Some((uid, gid)) = owner else { return Ok(()) };
    let (uid, gid) = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
    match fchown(fd, uid, gid) {
        // A folder is opened with O_PATH, and some kernels allow no fchown on that. The call with an empty path works.
        Err(Errno::EBADF) => nix::unistd::fchownat(fd, "", uid, gid, AtFlags::AT_EMPTY_PATH),
        other => other,
    }
}

const fn entry_kind(stat: &FileStat) -> FileKind {
    match SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits()) {
        SFlag::S_IFREG => FileKind::File,
        SFlag::S_IFDIR => FileKind::Folder,
        SFlag::S_IFLNK => FileKind::Link,
        _ => FileKind::Other,
    }
}

fn expect_file(path: &Path, stat: &FileStat) -> Result<(), BeneathError> {
    let found = match SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits()) {
        SFlag::S_IFREG => return Ok(()),
        SFlag::S_IFLNK => return Err(BeneathError::Outside { path: path.to_owned() }),
        SFlag::S_IFDIR => "a folder",
        SFlag::S_IFIFO => "a FIFO",
        SFlag::S_IFSOCK => "a socket",
        _ => "a device",
    };
    Err(BeneathError::WrongKind { path: path.to_owned(), found, wanted: "a file" })
}

fn entry(path: PathBuf, stat: &FileStat) -> DirEntry {
    DirEntry {
        path,
        kind: entry_kind(stat),
        size: u64::try_from(stat.st_size).unwrap_or(0),
        modified_ms: stat.st_mtime * 1000 + stat.st_mtime_nsec / 1_000_000,
        changed_ns: stat.st_ctime.saturating_mul(1_000_000_000).saturating_add(stat.st_ctime_nsec),
        inode: stat.st_ino,
    }
}

fn io(verb: &'static str, path: &Path) -> impl Fn(std::io::Error) -> BeneathError {
    let path = path.to_owned();
    move |source| BeneathError::Io { verb, path: path.clone(), source }
}

fn errno_error(verb: &'static str, path: &Path, wanted: &'static str) -> impl Fn(Errno) -> BeneathError {
    move |errno| {
        let path = path.to_owned();
        match errno {
            Errno::ENOENT => BeneathError::NotFound { path },
            // ELOOP: a link. EXDEV: `..` or a path that leaves the folder.
            Errno::ELOOP | Errno::EXDEV => BeneathError::Outside { path },
            Errno::ENOTDIR => BeneathError::WrongKind { path, found: "a file or a link", wanted: "a folder" },
            Errno::EISDIR => BeneathError::WrongKind { path, found: "a folder", wanted },
            // The path names a socket, or a device without a driver.
            Errno::ENXIO | Errno::ENODEV => {
                BeneathError::WrongKind { path, found: "a socket or a device", wanted }
            }
            errno => BeneathError::Io { verb, path, source: errno.into() },
        }
    }
}

#[cfg(test)]
#[path = "beneath_tests.rs"]
mod tests;
