//! Walks through the folders of a home and passes on what a backup has of them.
//!
//! Agents write in some of these folders while the walk goes on. So everything is opened below an open folder, by one name
//! and without following a link, and judged by what was opened.

use std::ffi::{CString, OsStr};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AtFlags, readlinkat};
use nix::sys::stat::{FileStat, SFlag, fstat, fstatat};

use super::error::BackupError;
use super::manifest::Named;
use super::selection;
use crate::home::unlocked::{Unlocked, names};

/// The most folders that are open at the same time, one in another.
const MAX_DEPTH: usize = 200;
/// The longest path below the home. A restore opens it in one piece, and the kernel accepts 4096 bytes.
const MAX_PATH: usize = 3800;

/// A regular file that a walk has found.
pub(super) struct FoundFile<'w> {
    /// The path below the home.
    pub(super) path: &'w Path,
    pub(super) name: &'w CString,
    /// The open folder that it is in.
    pub(super) above: BorrowedFd<'w>,
    pub(super) stat: FileStat,
    /// The owner of the tree, whose missing rights may be restored for a moment.
    pub(super) user: u32,
}

/// The destination of what a walk finds. Its functions return `Some` with the reason for what is left out.
pub(super) trait WalkSink {
    /// A folder comes before its content.
    fn folder(&mut self, path: &Path, mode: u32) -> Result<(), BackupError>;

    fn link(&mut self, path: &Path, target: Vec<u8>) -> Result<(), BackupError>;

    fn file(&mut self, file: &FoundFile<'_>) -> Result<Option<&'static str>, BackupError>;
}

/// A walk through a part of a home.
pub(super) struct Walk<'a> {
    /// The folder of the home.
    pub(super) root: &'a Path,
    /// Returns `true` for the paths below the home that are wanted.
    pub(super) is_wanted: &'a dyn Fn(&Path) -> bool,
    pub(super) left_out: &'a mut Named,
    pub(super) sink: &'a mut dyn WalkSink,
}

/// An open folder and the names in it that were not looked at yet.
struct Level {
    folder: Unlocked,
    path: PathBuf,
    left: std::vec::IntoIter<CString>,
}

impl Walk<'_> {
    /// Walks through what is at `top`, a path below the home: a file, or a folder with everything in it. Does nothing if
    /// there is nothing. The path itself is the owner's, and a link there is followed.
    ///
    /// # Errors
    ///
    /// Returns an error if a folder can't be read, and the errors of the sink.
    pub(super) fn tree(&mut self, top: &Path) -> Result<(), BackupError> {
        if !(self.is_wanted)(top) {
            return Ok(());
        }
        let full = self.root.join(top);
        let read = BackupError::read(&full);
        let found = match fs_err::metadata(&full) {
            Ok(found) => found,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(read(error)),
        };
        if !found.is_dir() {
            return self.single(top, &full);
        }
        let real = fs_err::canonicalize(&full).map_err(&read)?;
        let folder = Unlocked::open(&real).map_err(|errno| read(errno.into()))?;
        let stat = fstat(&folder.folder).map_err(|errno| read(errno.into()))?;
        let mode = folder.before.unwrap_or(stat.st_mode);
        self.sink.folder(top, mode & 0o777)?;
        let left = list(&folder, &full)?;
        let tree = (stat.st_dev, stat.st_uid);
        let mut levels = vec![Level { folder, path: top.to_owned(), left }];
        while let Some(level) = levels.last_mut() {
            let Some(name) = level.left.next() else {
                levels.pop();
                continue;
            };
            let path = level.path.join(OsStr::from_bytes(name.as_bytes()));
            if !(self.is_wanted)(&path) {
                continue;
            }
            let is_full = levels.len() >= MAX_DEPTH;
            let Some(level) = levels.last() else { break };
            if let Some(inner) = self.entry(level.folder.folder.as_fd(), &name, &path, (tree, is_full))? {
                levels.push(inner);
            }
        }
        Ok(())
    }

    /// Takes a file at the top of the home.
    fn single(&mut self, top: &Path, full: &Path) -> Result<(), BackupError> {
        let (Some(above), Some(name)) = (full.parent(), full.file_name()) else { return Ok(()) };
        let read = BackupError::read(full);
        let folder = Unlocked::open(above).map_err(|errno| read(errno.into()))?;
        let stat = fstat(&folder.folder).map_err(|errno| read(errno.into()))?;
        let name = CString::new(name.as_bytes()).map_err(|error| read(error.into()))?;
        self.entry(folder.folder.as_fd(), &name, top, ((stat.st_dev, stat.st_uid), true)).map(drop)
    }

    /// Passes an entry on. A folder is opened and returned.
    fn entry(
        &mut self,
        above: BorrowedFd<'_>,
        name: &CString,
        path: &Path,
        ((device, user), is_full): ((u64, u32), bool),
    ) -> Result<Option<Level>, BackupError> {
        let full = || self.root.join(path);
        let stat = match fstatat(above, name.as_c_str(), AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            // Somebody has removed it meanwhile.
            Err(Errno::ENOENT) => return Ok(None),
            Err(errno) => return Err(BackupError::read(&full())(errno.into())),
        };
        let why = if stat.st_dev != device {
            Some("it is on another file system")
        } else if path.as_os_str().len() > MAX_PATH {
            Some("its path is too long")
        } else {
            match SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT {
                SFlag::S_IFREG => self.sink.file(&FoundFile { path, name, above, stat, user })?,
                SFlag::S_IFLNK if !selection::may_be_link(path) => {
                    Some("it is a link in the place of a file")
                }
                SFlag::S_IFLNK => match readlinkat(above, name.as_c_str()) {
                    Ok(target) => {
                        self.sink.link(path, target.into_vec())?;
                        None
                    }
                    // It is gone, or is no link any more.
                    Err(Errno::ENOENT | Errno::EINVAL) => None,
                    Err(errno) => return Err(BackupError::read(&full())(errno.into())),
                },
                SFlag::S_IFDIR if is_full => Some("it is nested too deep"),
                SFlag::S_IFDIR => match Unlocked::open_below(above, name, user) {
                    Ok(folder) => {
                        let mode = folder.before.unwrap_or(stat.st_mode);
                        self.sink.folder(path, mode & 0o777)?;
                        let left = list(&folder, &full())?;
                        return Ok(Some(Level { folder, path: path.to_owned(), left }));
                    }
                    Err(Errno::ENOENT) => None,
                    Err(Errno::ENOTDIR | Errno::ELOOP) => Some("it was replaced meanwhile"),
                    Err(Errno::EXDEV) => Some("it is on another file system"),
                    Err(Errno::EACCES | Errno::EPERM) => Some("it can't be read"),
                    Err(errno) => return Err(BackupError::read(&full())(errno.into())),
                },
                _ => Some("it is a FIFO, a socket or a device"),
            }
        };
        if let Some(why) = why {
            self.left_out.add(path, why);
        }
        Ok(None)
    }
}

fn list(folder: &Unlocked, path: &Path) -> Result<std::vec::IntoIter<CString>, BackupError> {
    let names = names(&folder.folder).map_err(|errno| BackupError::read(path)(errno.into()))?;
    Ok(names.into_iter())
}
