//! Folders that an agent can write in, opened and listed without following a link.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use nix::dir::Dir;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;

/// Opens the folder of this name in another one; a link is refused.
///
/// # Errors
///
/// If it is not there, or something else than a folder.
pub(super) fn open<P: ?Sized + nix::NixPath>(at: impl AsFd, path: &P) -> io::Result<OwnedFd> {
    let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_RDONLY | OFlag::O_CLOEXEC;
    openat(at, path, flags, Mode::empty()).map_err(io::Error::from)
}

/// Lists an open folder: the folder to look names up in, and the names.
///
/// # Errors
///
/// If it can't be read.
pub(super) fn listed(folder: OwnedFd) -> io::Result<(Dir, Vec<CString>)> {
    let mut dir = Dir::from_fd(folder)?;
    let mut names = Vec::new();
    for entry in dir.iter() {
        let entry = entry?;
        let name: &CStr = entry.file_name();
        if name != c"." && name != c".." {
            names.push(name.to_owned());
        }
    }
    Ok((dir, names))
}
