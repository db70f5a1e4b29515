//! Opens folders that somebody else wrote, and gives their owner the rights that are missing.

use std::ffi::CStr;
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat, openat2};
use nix::sys::stat::{Mode, fchmod, fstat};

/// Runs `work`. If it fails for lack of permission, gives the owner all rights on `folder` and tries once more.
pub(super) fn with_rights<T>(
    folder: &OwnedFd,
    mut work: impl FnMut() -> Result<T, Errno>,
) -> Result<T, Errno> {
    match work() {
        Err(Errno::EACCES) if lacks_rights(folder) => {
            fchmod(folder, Mode::S_IRWXU)?;
            work()
        }
        other => other,
    }
}

fn lacks_rights(folder: &OwnedFd) -> bool {
    let all = Mode::S_IRWXU.bits();
    fstat(folder).is_ok_and(|found| found.st_mode & all != all)
}

/// Gives the owner all rights on a folder that can't be opened.
pub(super) fn grant_rights(above: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let folder = openat(above, name, flags, Mode::empty())?;
    // A descriptor opened with O_PATH accepts no fchmod, but its path in /proc does.
    let path = format!("/proc/self/fd/{}", folder.as_raw_fd());
    let flags = nix::sys::stat::FchmodatFlags::FollowSymlink;
    nix::sys::stat::fchmodat(nix::fcntl::AT_FDCWD, path.as_str(), Mode::S_IRWXU, flags)
}

/// Opens a folder if it is one and nothing is mounted on it.
pub(crate) fn open_folder(above: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd, Errno> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let how = OpenHow::new().flags(flags).resolve(
        ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_SYMLINKS | ResolveFlag::RESOLVE_NO_XDEV,
    );
    loop {
        match openat2(above, name, how) {
            Err(Errno::EAGAIN | Errno::EINTR) => {}
            // The kernel is old, or a system-call filter does not know the call.
            Err(Errno::ENOSYS | Errno::EPERM) => break,
            other => return other,
        }
    }
    let folder = openat(above, name, flags, Mode::empty())?;
    // Another device means that something is mounted there.
    if fstat(&folder)?.st_dev == fstat(above)?.st_dev { Ok(folder) } else { Err(Errno::EXDEV) }
}
