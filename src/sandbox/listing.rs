//! Opens and lists folders that an agent can write to, without following symbolic links.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, OwnedFd};

use nix::dir::Dir;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;

/// Opens the folder `path` below the folder `at`.
///
/// # Errors
///
/// Fails if the folder does not exist, or if the name is a symbolic link or anything else than a folder.
pub(super) fn open<P: ?Sized + nix::NixPath>(at: impl AsFd, path: &P) -> nix::Result<OwnedFd> {
    let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_RDONLY | OFlag::O_CLOEXEC;
    openat(at, path, flags, Mode::empty())
}

/// Lists an open folder. Returns the folder, to look up names in it, and the names.
pub(super) fn listed(folder: OwnedFd) -> nix::Result<(Dir, Vec<CString>)> {
    let mut dir = Dir::from_fd(folder)?;
    let names = names(&mut dir)?;
    Ok((dir, names))
}

/// Returns the names in an open folder.
pub(super) fn names(dir: &mut Dir) -> nix::Result<Vec<CString>> {
    let mut names = Vec::new();
    for entry in dir.iter() {
        let entry = entry?;
        let name: &CStr = entry.file_name();
        if name != c"." && name != c".." {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}
