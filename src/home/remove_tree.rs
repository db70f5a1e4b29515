//! Removal of a folder with all its content, whoever wrote it.
//!
//! No link is followed, and nothing that is mounted in it is touched. A folder without permissions gets them back, and
//! no tree is too deep. What can't be removed stays and is reported; everything else is removed.

use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, openat, renameat};
use nix::sys::stat::{Mode, fstatat};
use nix::unistd::{UnlinkatFlags, unlinkat};

use super::folder_rights::{grant_rights, open_folder, with_rights};

/// An entry that could not be removed.
#[derive(Debug)]
pub(crate) struct RemoveFailure {
    pub path: PathBuf,
    pub error: io::Error,
}

/// Removes what is at `path` below `root`: a file, a link, or a folder with all its content. Succeeds if nothing is
/// there.
///
/// # Errors
///
/// Returns the first entry that could not be removed, and the number of such entries. Also fails if a link on the way
/// leads elsewhere.
pub fn clear(root: &Path, path: &Path) -> Result<(), (RemoveFailure, usize)> {
    let full = root.join(path);
    let fail = |errno| Err((stuck(&full, errno), 1));
    let (above, name) = match place(root, path) {
        Ok(found) => found,
        Err(Errno::ENOENT) => return Ok(()),
        Err(errno) => return fail(errno),
    };
    let mut work = TreeRemoval { first: None, count: 0 };
    if let Err(errno) = work.tree(&above, full.parent().unwrap_or(root), &name) {
        work.note(&full, errno);
    }
    match work.first {
        Some(first) => Err((first, work.count)),
        None => Ok(()),
    }
}

/// Moves what is at `path` below `root`, whatever it is, to `to`. Returns `false` if there was nothing.
///
/// `to` must not exist yet and must be on the same file system, in a folder that no other user can write to.
///
/// # Errors
///
/// Returns an error if it can't be moved, or if a link on the way leads elsewhere.
pub(crate) fn put_away(root: &Path, path: &Path, to: &Path) -> io::Result<bool> {
    let (above, name) = match place(root, path) {
        Ok(found) => found,
        Err(Errno::ENOENT) => return Ok(false),
        Err(errno) => return Err(errno.into()),
    };
    let moved = || with_rights(&above, || renameat(&above, name.as_c_str(), AT_FDCWD, to));
    let result = match moved() {
        // Moving a folder changes its `..` entry, so the folder itself has to be writable.
        Err(Errno::EACCES) => grant_rights(above.as_fd(), &name).and_then(|()| moved()),
        other => other,
    };
    match result {
        Ok(()) => Ok(true),
        // ENOENT can also mean that the folder of `to` is missing, so check that the source is really gone.
        Err(Errno::ENOENT) if fstatat(&above, name.as_c_str(), AtFlags::AT_SYMLINK_NOFOLLOW).is_err() => {
            Ok(false)
        }
        Err(errno) => Err(errno.into()),
    }
}

/// Moves what is at `from` to `to` on the same file system. Succeeds if nothing is there. Links are moved, not
/// followed.
///
/// Both parent folders must be ones that no other user can write to.
///
/// # Errors
///
/// Returns [`io::ErrorKind::AlreadyExists`] if something is at `to`, and another error if it can't be moved.
pub(crate) fn relocate(from: &Path, to: &Path) -> io::Result<()> {
    if from.symlink_metadata().is_err() {
        return Ok(());
    }
    if to.symlink_metadata().is_ok() {
        let text = format!("{} is in the way", to.display());
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
    }
    fs_err::rename(from, to)
}

/// Opens the folder that contains `path` below `root`, and returns it with the name in it.
fn place(root: &Path, path: &Path) -> Result<(OwnedFd, CString), Errno> {
    let mut names = Vec::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => match CString::new(name.as_bytes()) {
                Ok(name) => names.push(name),
                Err(_) => return Err(Errno::EINVAL),
            },
            _ => return Err(Errno::EINVAL),
        }
    }
    let name = names.pop().ok_or(Errno::EINVAL)?;
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let mut above = nix::fcntl::open(root, flags, Mode::empty());
    for name in names {
        above = above.and_then(|above| with_rights(&above, || open_folder(above.as_fd(), &name)));
    }
    above.map(|above| (above, name))
}

fn stuck(path: &Path, errno: Errno) -> RemoveFailure {
    let error = match errno {
        Errno::EXDEV | Errno::EBUSY => io::Error::other("something is mounted there"),
        Errno::ELOOP | Errno::ENOTDIR => io::Error::other("a link on the way leads elsewhere"),
        errno => errno.into(),
    };
    RemoveFailure { path: path.to_owned(), error }
}

/// A folder that is being emptied.
struct OpenFolder {
    fd: OwnedFd,
    path: PathBuf,
    /// The name of the folder in its parent.
    name: CString,
    left: Vec<CString>,
    /// Set if something in it could not be removed, so the folder has to stay.
    keeps: bool,
}

struct TreeRemoval {
    first: Option<RemoveFailure>,
    count: usize,
}

impl TreeRemoval {
    fn note(&mut self, path: &Path, errno: Errno) {
        self.count += 1;
        if self.first.is_none() {
            self.first = Some(stuck(path, errno));
        }
    }

    /// Removes the entry `name` of a folder. The error is about the entry itself; failures inside it are only counted.
    fn tree(&mut self, above: &OwnedFd, place: &Path, name: &CStr) -> Result<(), Errno> {
        let path = place.join(OsStr::from_bytes(name.to_bytes()));
        let Some(fd) = remove_or_open(above, name)? else { return Ok(()) };
        let mut levels = vec![OpenFolder::new(fd, path, name.to_owned())?];
        let mut moved = 0_u64;
        // A loop instead of a recursion: the depth of the tree must not be limited by the stack.
        while let Some(next) = levels.last_mut().map(|level| level.left.pop()) {
            match next {
                Some(name) => self.one(&mut levels, &name, &mut moved),
                None => {
                    let Some(done) = levels.pop() else { break };
                    let parent = levels.last().map_or(above, |level| &level.fd);
                    if done.keeps {
                        levels.last_mut().into_iter().for_each(|level| level.keeps = true);
                    } else if let Err(errno) = remove_folder(parent, &done.name) {
                        self.keep(&mut levels, &done.path, errno);
                    }
                }
            }
        }
        Ok(())
    }

    /// Removes the entry `name` of the last folder in `levels`, or pushes it as the next level if it is a folder.
    fn one(&mut self, levels: &mut Vec<OpenFolder>, name: &CStr, moved: &mut u64) {
        let Some(level) = levels.last() else { return };
        let path = level.path.join(OsStr::from_bytes(name.to_bytes()));
        let inner = match remove_or_open(&level.fd, name) {
            Ok(None) => return,
            Ok(Some(fd)) if levels.len() < MAX_OPEN_FOLDERS => {
                OpenFolder::new(fd, path.clone(), name.to_owned()).map(Ok)
            }
            // Too deep for the number of open folders: move the folder to the top and continue with it there.
            Ok(Some(_)) => {
                *moved += 1;
                let short = format!(".removed-{moved}-{:08x}", rand::random::<u32>());
                let renamed = nix::fcntl::renameat(&level.fd, name, &levels[0].fd, short.as_str());
                renamed.map(|()| Err(CString::new(short).unwrap_or_default()))
            }
            Err(errno) => Err(errno),
        };
        match inner {
            Ok(Ok(inner)) => levels.push(inner),
            Ok(Err(short)) => levels[0].left.push(short),
            Err(errno) => self.keep(levels, &path, errno),
        }
    }

    fn keep(&mut self, levels: &mut [OpenFolder], path: &Path, errno: Errno) {
        self.note(path, errno);
        if let Some(level) = levels.last_mut() {
            level.keeps = true;
        }
    }
}

impl OpenFolder {
    fn new(fd: OwnedFd, path: PathBuf, name: CString) -> Result<Self, Errno> {
        // A second descriptor reads the names, so that the position of the first one is not changed.
        let reader =
            openat(&fd, ".", OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())?;
        let mut dir = Dir::from_fd(reader)?;
        let mut left = Vec::new();
        for entry in dir.iter() {
            let entry = entry?;
            let name = entry.file_name();
            if name != c"." && name != c".." {
                left.push(name.to_owned());
            }
        }
        Ok(Self { fd, path, name, left, keeps: false })
    }
}

/// Removes the entry `name`. If it is a folder, it is opened and returned instead.
fn remove_or_open(above: &OwnedFd, name: &CStr) -> Result<Option<OwnedFd>, Errno> {
    let removed = with_rights(above, || unlinkat(above, name, UnlinkatFlags::NoRemoveDir));
    match removed {
        Ok(()) | Err(Errno::ENOENT) => return Ok(None),
        // For a folder, Linux returns the first of these and other systems the second.
        Err(Errno::EISDIR | Errno::EPERM) => {}
        Err(errno) => return Err(errno),
    }
    match with_rights(above, || open_folder(above.as_fd(), name)) {
        Ok(fd) => Ok(Some(fd)),
        Err(Errno::ENOENT) => Ok(None),
        Err(Errno::EACCES) => {
            grant_rights(above.as_fd(), name)?;
            open_folder(above.as_fd(), name).map(Some)
        }
        // So it is not a folder, and could not be removed.
        Err(Errno::ENOTDIR | Errno::ELOOP) => Err(Errno::EPERM),
        Err(errno) => Err(errno),
    }
}

fn remove_folder(above: &OwnedFd, name: &CStr) -> Result<(), Errno> {
    match with_rights(above, || unlinkat(above, name, UnlinkatFlags::RemoveDir)) {
        Err(Errno::ENOENT) => Ok(()),
        other => other,
    }
}

/// The most folders that are open at the same time.
const MAX_OPEN_FOLDERS: usize = 100;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn a_folder_is_removed_and_its_link_targets_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::create_dir_all(at("outside/inner")).unwrap();
        std::fs::write(at("outside/inner/file"), "kept").unwrap();
        std::fs::create_dir_all(at("home/a/b/c")).unwrap();
        for name in ["home/a/1", "home/a/b/2", "home/.hidden"] {
            std::fs::write(at(name), "x").unwrap();
        }
        symlink(at("outside"), at("home/a/link")).unwrap();
        symlink("/nowhere", at("home/a/b/broken")).unwrap();
        nix::unistd::mkfifo(&at("home/fifo"), Mode::S_IRWXU).unwrap();
        clear(dir.path(), Path::new("home")).unwrap();
        assert!(!at("home").exists());
        // Neither a path through a link nor one outside.
        symlink(at("outside"), at("link")).unwrap();
        for path in ["link/inner", "../x", "/etc", ""] {
            assert!(clear(dir.path(), Path::new(path)).is_err(), "{path}");
        }
        // A link itself, and things that do not exist.
        clear(dir.path(), Path::new("link")).unwrap();
        clear(dir.path(), Path::new("link")).unwrap();
        clear(dir.path(), Path::new("none/none")).unwrap();
        assert_eq!(std::fs::read_to_string(at("outside/inner/file")).unwrap(), "kept");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn moving_never_replaces_an_entry() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::create_dir(at("old")).unwrap();
        std::fs::write(at("old/file"), "x").unwrap();
        relocate(&at("old"), &at("new")).unwrap();
        relocate(&at("old"), &at("new")).unwrap();
        assert_eq!(std::fs::read_to_string(at("new/file")).unwrap(), "x");
        std::fs::create_dir(at("old")).unwrap();
        let error = relocate(&at("old"), &at("new")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert!(at("old").exists() && at("new/file").exists());
    }

    #[test]
    fn a_folder_without_permissions_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let locked = dir.path().join("a/b/locked");
        std::fs::create_dir_all(locked.join("in")).unwrap();
        std::fs::write(locked.join("in/file"), "x").unwrap();
        for folder in [locked.join("in"), locked, dir.path().join("a/b")] {
            std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o000)).unwrap();
        }
        clear(dir.path(), Path::new("a")).unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_very_deep_tree_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().join("top");
        std::fs::create_dir(&top).unwrap();
        let mut at = nix::fcntl::open(&top, OFlag::O_RDONLY | OFlag::O_DIRECTORY, Mode::empty()).unwrap();
        for _ in 0..3000 {
            nix::sys::stat::mkdirat(&at, "a long name of a folder", Mode::S_IRWXU).unwrap();
            at = openat(&at, "a long name of a folder", OFlag::O_RDONLY | OFlag::O_DIRECTORY, Mode::empty())
                .unwrap();
        }
        clear(dir.path(), Path::new("top")).unwrap();
        assert!(!top.exists());
    }

    #[test]
    fn a_mount_is_kept_and_named_in_the_error() {
        if !nix::unistd::Uid::effective().is_root() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let (theirs, top) = (dir.path().join("theirs"), dir.path().join("top"));
        std::fs::create_dir_all(top.join("in/mount")).unwrap();
        std::fs::write(top.join("in/file"), "x").unwrap();
        std::fs::create_dir(&theirs).unwrap();
        std::fs::write(theirs.join("precious"), "x").unwrap();
        let mount = |args: &[&std::ffi::OsStr]| {
            std::process::Command::new("mount").args(args).status().is_ok_and(|status| status.success())
        };
        if !mount(&["--bind".as_ref(), theirs.as_os_str(), top.join("in/mount").as_os_str()]) {
            // This machine does not let root mount anything.
            return;
        }
        let cleared = clear(dir.path(), Path::new("top"));
        let unmounted = std::process::Command::new("umount").arg(top.join("in/mount")).status().unwrap();
        assert!(unmounted.success());
        let (stuck, count) = cleared.unwrap_err();
        assert_eq!((stuck.path, count), (top.join("in/mount"), 1));
        assert!(stuck.error.to_string().contains("mounted"));
        assert!(theirs.join("precious").exists() && !top.join("in/file").exists());
        clear(dir.path(), Path::new("top")).unwrap();
    }
}
