//! Opens folders and files of a workspace that the agent can change between two system calls, also those on which it
//! has taken its own rights away.
//!
//! Everything is opened below an open folder, by one name and without following a link, and judged by what was opened.

use std::ffi::CString;
use std::fs::File;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, openat};
use nix::sys::stat::{FchmodatFlags, Mode, SFlag, fchmodat, fstat, fstatat};

use super::folder_rights::open_folder;

/// Returns the names in an open folder, sorted.
///
/// # Errors
///
/// Returns the error of the system call that failed.
pub(crate) fn names(folder: &OwnedFd) -> Result<Vec<CString>, Errno> {
    // Listing needs a descriptor of its own, because it moves the place in it.
    let dir = Dir::from_fd(folder.try_clone().map_err(|_| Errno::EMFILE)?)?;
    let mut names = Vec::new();
    for entry in dir {
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
#[derive(Debug)]
pub(crate) struct Unlocked {
    pub(crate) folder: OwnedFd,
    /// The permissions to restore.
    pub(crate) before: Option<u32>,
}

impl Unlocked {
    /// Opens a folder by its name.
    ///
    /// # Errors
    ///
    /// Returns the error of the system call that failed.
    pub(crate) fn open_below(above: BorrowedFd<'_>, name: &CString, user: u32) -> Result<Self, Errno> {
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

    /// Opens the workspace itself, whose path is the owner's.
    ///
    /// # Errors
    ///
    /// Returns the error of the system call that failed.
    pub(crate) fn open(path: &Path) -> Result<Self, Errno> {
        let above = AT_FDCWD.as_fd();
        let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_RDONLY | OFlag::O_CLOEXEC;
        let open = |above: BorrowedFd<'_>, path: &Path| openat(above, path, flags, Mode::empty());
        match open(above, path) {
            Ok(folder) if has_search(&folder) => Ok(Self { folder, before: None }),
            Err(errno) if errno != Errno::EACCES => Err(errno),
            _ => {
                // The agent has taken its own rights away.
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
///
/// # Errors
///
/// Returns [`Errno::EINVAL`] if it is no regular file, and otherwise the error of the system call that failed.
pub(crate) fn open_file(above: BorrowedFd<'_>, name: &CString, user: u32) -> Result<File, Errno> {
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
