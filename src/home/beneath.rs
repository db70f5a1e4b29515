//! The only way flock opens what an agent can write: below one folder, without following any link, regular
//! files only, never blocking, with a cap.
//!
//! An agent shares its workspace with the host and can change it between two system calls. So nothing here
//! looks at a path and opens it afterwards: the kernel resolves it below a descriptor (`openat2` with
//! `RESOLVE_BENEATH` and `RESOLVE_NO_SYMLINKS`), and what was opened is looked at, not what was named.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{
    AtFlags, OFlag, OpenHow, RenameFlags, ResolveFlag, openat, openat2, readlinkat, renameat, renameat2,
};
use nix::sys::stat::{FileStat, Mode, SFlag, fchmod, fstat, fstatat, mkdirat};
use nix::unistd::{Gid, Uid, UnlinkatFlags, fchown, symlinkat, unlinkat};

use crate::error::Explain;

/// Why something below a folder could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum BeneathError {
    /// It leads outside, or through a link.
    #[error("{path:?} leads outside the folder, or through a link")]
    Outside {
        /// As it was given.
        path: PathBuf,
    },
    /// Nothing is there.
    #[error("{path:?} is not there")]
    NotFound {
        /// As it was given.
        path: PathBuf,
    },
    /// It is something else than asked for.
    #[error("{path:?} is {found}, not {wanted}")]
    WrongKind {
        /// As it was given.
        path: PathBuf,
        /// As in `a FIFO`.
        found: &'static str,
        /// As in `a file`.
        wanted: &'static str,
    },
    /// It is larger than the caller takes.
    #[error("{path:?} has {size} bytes; at most {cap} are read")]
    TooLarge {
        /// As it was given.
        path: PathBuf,
        /// Its size.
        size: u64,
        /// The most that is read.
        cap: u64,
    },
    /// The system said no.
    #[error("failed to {verb} {path:?}")]
    Io {
        /// As in `read`.
        verb: &'static str,
        /// As it was given.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

impl Explain for BeneathError {}

/// What something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link.
    Link,
    /// A FIFO, a socket or a device.
    Other,
}

/// Something found below the folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its path, relative to the folder.
    pub path: PathBuf,
    /// What it is.
    pub kind: Kind,
    /// Its size in bytes.
    pub size: u64,
    /// When it was changed, in milliseconds since the epoch.
    pub modified_ms: i64,
}

/// Who owns what is made: uid and gid.
pub type Owner = (u32, u32);

/// Where a path leads, with every link on the way followed; the path itself where it can't be said. For comparing where
/// things are, never for opening what an agent can write.
#[must_use]
pub fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// A folder whose content is not trusted.
#[derive(Debug)]
pub struct Root {
    fd: OwnedFd,
}

impl Root {
    /// Opens the folder. Its own path is the caller's and is followed as usual, except for a link in the
    /// last place.
    ///
    /// # Errors
    ///
    /// If it is not there or not a folder.
    pub fn open(folder: &Path) -> Result<Self, BeneathError> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let fd = nix::fcntl::open(folder, flags, Mode::empty())
            .map_err(|errno| failed("open", folder, errno, "a folder"))?;
        Ok(Self { fd })
    }

    /// Reads a whole file of at most `cap` bytes.
    ///
    /// # Errors
    ///
    /// As [`BeneathError`] says.
    pub fn read(&self, path: &Path, cap: u64) -> Result<Vec<u8>, BeneathError> {
        let (file, size) = self.open_file(path)?;
        if size > cap {
            return Err(BeneathError::TooLarge { path: path.to_owned(), size, cap });
        }
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
        // The file may grow while it is read; the cap holds for what comes, not for what was promised.
        file.take(cap + 1).read_to_end(&mut bytes).map_err(io("read", path))?;
        if bytes.len() as u64 > cap {
            return Err(BeneathError::TooLarge { path: path.to_owned(), size: bytes.len() as u64, cap });
        }
        Ok(bytes)
    }

    /// Opens a regular file for reading; also gives its size at that moment.
    ///
    /// # Errors
    ///
    /// As [`BeneathError`] says.
    pub fn open_file(&self, path: &Path) -> Result<(File, u64), BeneathError> {
        let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
        let fd = self.resolve(path, flags, "read", "a file")?;
        let stat = fstat(&fd).map_err(|errno| failed("read", path, errno, "a file"))?;
        expect_kind(path, &stat, Kind::File, "a file")?;
        Ok((File::from(fd), u64::try_from(stat.st_size).unwrap_or(0)))
    }

    /// Puts a file there in one step. Folders above it must exist. A file that was there gives its mode to
    /// the new one, unless `mode` says otherwise; a link, folder or device is refused.
    ///
    /// # Errors
    ///
    /// As [`BeneathError`] says; what was there is then untouched.
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
                expect_kind(path, &stat, Kind::File, "a file")?;
                Some(stat.st_mode & 0o777)
            }
            Err(Errno::ENOENT) => None,
            Err(errno) => return Err(failed("write", path, errno, "a file")),
        };
        let fail = |errno| failed("write", path, errno, "a file");
        let temporary = OsString::from(format!(".flock-new-{:016x}", rand::random::<u64>()));
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let fd =
            openat(&folder, temporary.as_os_str(), flags, Mode::from_bits_truncate(0o600)).map_err(fail)?;
        let written = (|| {
            set_owner(fd.as_fd(), owner).map_err(fail)?;
            let bits = mode.or(old).unwrap_or(0o644);
            fchmod(&fd, Mode::from_bits_truncate(bits)).map_err(fail)?;
            let mut file = File::from(fd);
            file.write_all(bytes).map_err(io("write", path))?;
            renameat(&folder, temporary.as_os_str(), &folder, name).map_err(fail)
        })();
        if written.is_err() {
            // Nothing more can be done if this fails too; the name says what the file was.
            let _ = unlinkat(&folder, temporary.as_os_str(), UnlinkatFlags::NoRemoveDir);
        }
        written
    }

    /// Makes a folder and those above it; folders that are there stay as they are.
    ///
    /// # Errors
    ///
    /// As [`BeneathError`] says.
    pub fn create_dir_all(&self, path: &Path, owner: Option<Owner>) -> Result<(), BeneathError> {
        let mut at = PathBuf::new();
        for name in parts(path)? {
            let above = if at.as_os_str().is_empty() {
                dup(self.fd.as_fd()).map_err(io("open", path))?
            } else {
                self.folder(&at)?
            };
            at.push(name);
            match mkdirat(&above, name, Mode::from_bits_truncate(0o755)) {
                Ok(()) => {
                    let made = self.folder(&at)?;
                    set_owner(made.as_fd(), owner).map_err(|errno| failed("make", &at, errno, "a folder"))?;
                }
                Err(Errno::EEXIST) => drop(self.folder(&at)?),
                Err(errno) => return Err(failed("make", &at, errno, "a folder")),
            }
        }
        Ok(())
    }

    /// What is there, without following a link.
    ///
    /// # Errors
    ///
    /// As [`BeneathError`] says.
    pub fn stat(&self, path: &Path) -> Result<Entry, BeneathError> {
        let (folder, name) = self.parent(path)?;
        let stat = fstatat(&folder, name, AtFlags::AT_SYMLINK_NOFOLLOW)
            .map_err(|errno| failed("look at", path, errno, "anything"))?;
        Ok(entry(path.to_owned(), &stat))
    }

    /// The entries of a folder, sorted by name, at most `cap`; an empty path is the folder itself. The
    /// second value says whether there were more.
    ///
    /// # Errors
    ///
    /// As [`BeneathError`] says.
    pub fn list(&self, path: &Path, cap: usize) -> Result<(Vec<Entry>, bool), BeneathError> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NONBLOCK;
        let fd = if path.as_os_str().is_empty() {
            openat(&self.fd, ".", flags | OFlag::O_CLOEXEC, Mode::empty())
                .map_err(|errno| failed("list", path, errno, "a folder"))?
        } else {
            self.resolve(path, flags, "list", "a folder")?
        };
        let mut dir = Dir::from_fd(fd).map_err(|errno| failed("list", path, errno, "a folder"))?;
        let raw = dir.as_raw_fd();
        let mut found = Vec::new();
        let mut more = false;
        for item in dir.iter() {
            let item = item.map_err(|errno| failed("list", path, errno, "a folder"))?;
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
        // SAFETY: `dir` owns the descriptor and lives until the end of this function.
        let folder = unsafe { BorrowedFd::borrow_raw(raw) };
        let mut entries: Vec<Entry> = found
            .into_iter()
            .filter_map(|name| {
                // An entry may be gone by now; then it is simply not listed.
                let stat = fstatat(folder, name.as_os_str(), AtFlags::AT_SYMLINK_NOFOLLOW).ok()?;
                Some(entry(path.join(name), &stat))
            })
            .collect();
        entries.sort_by(|a, b| a.path.cmp(&b.path));
        Ok((entries, more))
    }

    /// Reads where a link leads, without following it.
    ///
    /// # Errors
    ///
    /// As [`BeneathError`] says.
    pub fn read_link(&self, path: &Path) -> Result<PathBuf, BeneathError> {
        let (folder, name) = self.parent(path)?;
        let target = readlinkat(&folder, name).map_err(|errno| failed("read", path, errno, "a link"))?;
        Ok(target.into())
    }

    /// Makes a link to a path, whatever is there. Nothing is to be where the link comes.
    ///
    /// # Errors
    ///
    /// As [`BeneathError`] says.
    pub fn link(&self, path: &Path, to: &Path) -> Result<(), BeneathError> {
        let (folder, name) = self.parent(path)?;
        symlinkat(to, &folder, name).map_err(|errno| failed("make", path, errno, "a link"))
    }

    /// Removes a file or a link, not what it points to; a folder is refused.
    ///
    /// # Errors
    ///
    /// As [`BeneathError`] says.
    pub fn remove(&self, path: &Path) -> Result<(), BeneathError> {
        let (folder, name) = self.parent(path)?;
        unlinkat(&folder, name, UnlinkatFlags::NoRemoveDir)
            .map_err(|errno| failed("remove", path, errno, "a file"))
    }

    /// Gives a file or folder another name in the same folder; `false` where something has that name already.
    ///
    /// # Errors
    ///
    /// As [`BeneathError`] says.
    pub fn rename(&self, path: &Path, other: &Path) -> Result<bool, BeneathError> {
        let (folder, name) = self.parent(path)?;
        let (_, other) = self.parent(other)?;
        match renameat2(&folder, name, &folder, other, RenameFlags::RENAME_NOREPLACE) {
            Ok(()) => Ok(true),
            Err(Errno::EEXIST) => Ok(false),
            Err(errno) => Err(failed("rename", path, errno, "anything")),
        }
    }

    /// Removes a folder, which must be empty.
    ///
    /// # Errors
    ///
    /// As [`BeneathError`] says.
    pub fn remove_folder(&self, path: &Path) -> Result<(), BeneathError> {
        let (folder, name) = self.parent(path)?;
        unlinkat(&folder, name, UnlinkatFlags::RemoveDir)
            .map_err(|errno| failed("remove", path, errno, "a folder"))
    }

    fn parent<'p>(&self, path: &'p Path) -> Result<(OwnedFd, &'p OsStr), BeneathError> {
        let names = parts(path)?;
        let Some((name, above)) = names.split_last() else {
            return Err(BeneathError::WrongKind {
                path: path.to_owned(),
                found: "a folder",
                wanted: "a file",
            });
        };
        let folder = if above.is_empty() {
            dup(self.fd.as_fd()).map_err(io("open", path))?
        } else {
            self.folder(&above.iter().collect::<PathBuf>())?
        };
        Ok((folder, name))
    }

    fn folder(&self, path: &Path) -> Result<OwnedFd, BeneathError> {
        self.resolve(path, OFlag::O_PATH | OFlag::O_DIRECTORY, "open", "a folder")
    }

    fn resolve(
        &self,
        path: &Path,
        flags: OFlag,
        verb: &'static str,
        wanted: &'static str,
    ) -> Result<OwnedFd, BeneathError> {
        let names = parts(path)?;
        let clean: PathBuf = names.iter().collect();
        let flags = flags | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW;
        let how = OpenHow::new()
            .flags(flags)
            .resolve(ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_SYMLINKS);
        loop {
            match openat2(&self.fd, &clean, how) {
                Ok(fd) => return Ok(fd),
                Err(Errno::EAGAIN | Errno::EINTR) => {}
                // An old kernel, or a filter that does not know the call.
                Err(Errno::ENOSYS | Errno::EPERM) => break,
                Err(errno) => return Err(failed(verb, path, errno, wanted)),
            }
        }
        self.step_by_step(&names, flags).map_err(|errno| failed(verb, path, errno, wanted))
    }

    /// The same without `openat2`: one component at a time, none of them a link.
    fn step_by_step(&self, names: &[&OsStr], flags: OFlag) -> Result<OwnedFd, Errno> {
        let mut at = dup(self.fd.as_fd()).map_err(|_| Errno::EMFILE)?;
        let (last, above) = names.split_last().ok_or(Errno::EISDIR)?;
        let step = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        for name in above {
            at = openat(&at, *name, step, Mode::empty())?;
        }
        openat(&at, *last, flags, Mode::empty())
    }
}

/// The names of a relative path; anything that climbs, starts at the root or can't be a name is refused
/// before the kernel sees it, so that the message is plain.
fn parts(path: &Path) -> Result<Vec<&OsStr>, BeneathError> {
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

fn dup(fd: BorrowedFd<'_>) -> std::io::Result<OwnedFd> {
    fd.try_clone_to_owned()
}

fn set_owner(fd: BorrowedFd<'_>, owner: Option<Owner>) -> Result<(), Errno> {
    match owner {
        Some((uid, gid)) => match fchown(fd, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid))) {
            // A folder is opened O_PATH, which some kernels don't let fchown; the path of the descriptor does.
            Err(Errno::EBADF) => nix::unistd::fchownat(
                fd,
                "",
                Some(Uid::from_raw(uid)),
                Some(Gid::from_raw(gid)),
                AtFlags::AT_EMPTY_PATH,
            ),
            other => other,
        },
        None => Ok(()),
    }
}

const fn kind_of(stat: &FileStat) -> Kind {
    match SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits()) {
        SFlag::S_IFREG => Kind::File,
        SFlag::S_IFDIR => Kind::Folder,
        SFlag::S_IFLNK => Kind::Link,
        _ => Kind::Other,
    }
}

const fn name_of(stat: &FileStat) -> &'static str {
    match SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits()) {
        SFlag::S_IFREG => "a file",
        SFlag::S_IFDIR => "a folder",
        SFlag::S_IFLNK => "a link",
        SFlag::S_IFIFO => "a FIFO",
        SFlag::S_IFSOCK => "a socket",
        _ => "a device",
    }
}

fn expect_kind(path: &Path, stat: &FileStat, kind: Kind, wanted: &'static str) -> Result<(), BeneathError> {
    match kind_of(stat) {
        found if found == kind => Ok(()),
        Kind::Link => Err(BeneathError::Outside { path: path.to_owned() }),
        _ => Err(BeneathError::WrongKind { path: path.to_owned(), found: name_of(stat), wanted }),
    }
}

fn entry(path: PathBuf, stat: &FileStat) -> Entry {
    Entry {
        path,
        kind: kind_of(stat),
        size: u64::try_from(stat.st_size).unwrap_or(0),
        modified_ms: stat.st_mtime * 1000 + stat.st_mtime_nsec / 1_000_000,
    }
}

fn io(verb: &'static str, path: &Path) -> impl Fn(std::io::Error) -> BeneathError {
    let path = path.to_owned();
    move |source| BeneathError::Io { verb, path: path.clone(), source }
}

fn failed(verb: &'static str, path: &Path, errno: Errno, wanted: &'static str) -> BeneathError {
    let path = path.to_owned();
    match errno {
        Errno::ENOENT => BeneathError::NotFound { path },
        // ELOOP: a link; EXDEV: `..` or a root above the folder.
        Errno::ELOOP | Errno::EXDEV => BeneathError::Outside { path },
        Errno::ENOTDIR => BeneathError::WrongKind { path, found: "a file or a link", wanted: "a folder" },
        Errno::EISDIR => BeneathError::WrongKind { path, found: "a folder", wanted },
        // Opening a socket, or a device that has no driver.
        Errno::ENXIO | Errno::ENODEV => {
            BeneathError::WrongKind { path, found: "a socket or a device", wanted }
        }
        errno => BeneathError::Io { verb, path, source: errno.into() },
    }
}

#[cfg(test)]
#[path = "beneath_tests.rs"]
mod tests;
