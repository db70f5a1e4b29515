//! Opens and lists folders that an agent can write to, without following symbolic links.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use nix::dir::Dir;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;

/// Opens the folder `path` below the folder `at`.
///
/// # Errors
///
/// Fails if the folder does not exist, or if the name is a symbolic link or anything else than a folder.
pub(super) fn open<P: ?Sized + nix::NixPath>(at: impl AsFd, path: &P) -> io::Result<OwnedFd> {
    let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_RDONLY | OFlag::O_CLOEXEC;
    openat(at, path, flags, Mode::empty()).map_err(io::Error::from)
}

/// Lists an open folder. Returns the folder, to look up names in it, and the names.
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
