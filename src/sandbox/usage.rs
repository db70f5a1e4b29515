//! Measures the disk space that a workspace uses.

use std::collections::HashSet;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use nix::NixPath;
use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, openat};
use nix::sys::stat::{FchmodatFlags, Mode, SFlag, fchmod, fchmodat, fstat, fstatat, lstat};
use nix::unistd::Uid;

use super::listing::{names, open};

/// Limit on the number of nested folders that are open at once.
const MAX_OPEN_FOLDERS: usize = 128;

/// The disk space that a workspace uses.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct DiskUsage {
    /// The number of bytes that were counted.
    pub bytes: u64,
    /// The first part of the workspace that could not be counted, if there is one.
    pub uncounted: Option<Uncounted>,
}

/// A part of a workspace that could not be counted.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Uncounted {
    /// Too many folders are nested too deep.
    Deep,
    /// A folder of the sandbox's user that could not be opened.
    Closed(PathBuf),
}

/// Returns the disk space used below a folder. A file with several hard links counts once. The walk does not follow
/// symbolic links and does not enter other file systems. It stops as soon as the sum exceeds `most`, because an agent
/// can create more files than anyone wants to count.
///
/// An agent can take away its own rights on a folder, and with them those of flock, which runs as the same user. The
/// walk gives the owner's rights back while it is in such a folder. A folder of another user that flock cannot open
/// does not count, because a sandbox cannot write to it either.
///
/// # Errors
///
/// Fails if the folder itself cannot be opened, and if a system call fails for another reason than missing rights.
pub fn size(folder: &Path, most: u64) -> io::Result<DiskUsage> {
    // The path itself is the owner's and may be a link. An agent can only replace what is in its workspace.
    let folder = fs_err::canonicalize(folder)?;
    let found = lstat(&folder)?;
    let own = Uid::effective();
    // If flock runs as root, it has given the workspace to the sandbox's user.
    let user = if own.is_root() { found.st_uid } else { own.as_raw() };
    let usage = DiskUsage::default();
    let mut count = DiskCounter { folder, user, device: found.st_dev, seen: HashSet::new(), usage, most };
    // Folders nested deeper than `MAX_OPEN_FOLDERS` are queued and walked from there later, because file descriptors are limited.
    let mut roots = Vec::new();
    match count.enter(AT_FDCWD, count.folder.as_path()) {
        Ok(root) => roots.push(root),
        Err(Shut::Gone) => return Err(Errno::ENOENT.into()),
        Err(Shut::Foreign) => return Err(Errno::EACCES.into()),
        Err(shut) => count.pass(shut)?,
    }
    while let Some(root) = roots.pop() {
        count.below(root, &mut roots)?;
        if roots.len() > MAX_OPEN_FOLDERS {
            count.note(Uncounted::Deep);
            break;
        }
        if count.is_full() {
            break;
        }
    }
    Ok(count.usage)
}

struct DiskCounter {
    /// The workspace, with all links resolved.
    folder: PathBuf,
    /// The user that the sandbox runs as.
    user: u32,
    device: u64,
    seen: HashSet<u64>,
    usage: DiskUsage,
    most: u64,
}

impl DiskCounter {
    const fn is_full(&self) -> bool {
        self.usage.bytes > self.most
    }

    fn below(&mut self, root: Level, deeper: &mut Vec<Level>) -> io::Result<()> {
        let mut stack = Vec::new();
        self.push(&mut stack, root)?;
        while let Some(level) = stack.last_mut() {
            let Some(name) = level.names.pop() else {
                stack.pop();
                continue;
            };
            let dir = level.dir.as_fd();
            let found = match fstatat(dir, name.as_c_str(), AtFlags::AT_SYMLINK_NOFOLLOW) {
                Ok(found) => found,
                Err(errno) => {
                    self.pass(self.shut(dir, errno))?;
                    continue;
                }
            };
            // Another device number means another file system. A further hard link to a counted file is skipped.
            if found.st_dev != self.device || (found.st_nlink > 1 && !self.seen.insert(found.st_ino)) {
                continue;
            }
            // `st_blocks` counts units of 512 bytes whatever the file system's block size is. Holes in sparse files are
            // not in it.
            let bytes = u64::try_from(found.st_blocks).unwrap_or(0).saturating_mul(512);
            self.usage.bytes = self.usage.bytes.saturating_add(bytes);
            if self.is_full() {
                return Ok(());
            }
            if SFlag::from_bits_truncate(found.st_mode) & SFlag::S_IFMT != SFlag::S_IFDIR {
                continue;
            }
            match self.enter(dir, name.as_c_str()) {
                Ok(inner) if stack.len() < MAX_OPEN_FOLDERS => self.push(&mut stack, inner)?,
                Ok(inner) => {
                    deeper.push(inner);
                    if deeper.len() > MAX_OPEN_FOLDERS {
                        return Ok(());
                    }
                }
                Err(shut) => self.pass(shut)?,
            }
        }
        Ok(())
    }

    /// Lists a folder and puts it on the stack. A queued folder is listed only then, because names take memory.
    fn push(&mut self, stack: &mut Vec<Level>, mut level: Level) -> io::Result<()> {
        match names(&mut level.dir) {
            Ok(names) => {
                level.names = names;
                stack.push(level);
                Ok(())
            }
            Err(errno) => self.pass(self.shut(level.dir.as_fd(), errno)),
        }
    }

    /// Opens the folder `path` below `at`.
    fn enter<P: ?Sized + NixPath>(&self, at: BorrowedFd<'_>, path: &P) -> Result<Level, Shut> {
        match open(at, path).and_then(|folder| Level::new(folder, None)) {
            Ok(level) => Ok(level),
            Err(Errno::EACCES) => self.unlock(at, path),
            Err(errno) => Err(self.shut(at, errno)),
        }
    }

    /// Opens a folder on which the sandbox's user has taken its own rights away. The user has them again until the
    /// result is dropped, or for good if flock is killed before. The rights of others do not change.
    fn unlock<P: ?Sized + NixPath>(&self, at: BorrowedFd<'_>, path: &P) -> Result<Level, Shut> {
        let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        // No right on the folder itself is needed for a descriptor with O_PATH.
        let folder = openat(at, path, flags | OFlag::O_PATH, Mode::empty());
        let folder = folder.map_err(|errno| self.shut(at, errno))?;
        let found = fstat(&folder).map_err(|errno| self.shut(at, errno))?;
        if found.st_uid != self.user {
            return Err(Shut::Foreign);
        }
        let before = Mode::from_bits_truncate(found.st_mode);
        let unlocked = set_mode(&folder, with_rights(before))
            // Opens the same folder again, whatever has its name by now.
            .and_then(|()| openat(&folder, ".", flags | OFlag::O_RDONLY, Mode::empty()))
            .and_then(|inner| Level::new(inner, Some(before)));
        unlocked.map_err(|errno| {
            // If this fails as well, the owner keeps a right that it can take away again.
            let _ = set_mode(&folder, before);
            self.shut(folder.as_fd(), errno)
        })
    }

    /// Returns what an error about an entry of the open folder, or about the folder itself, means for the count.
    fn shut(&self, folder: BorrowedFd<'_>, errno: Errno) -> Shut {
        match errno {
            Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP => Shut::Gone,
            Errno::EACCES | Errno::EPERM => {
                let path = fs_err::read_link(format!("/proc/self/fd/{}", folder.as_raw_fd()));
                // The kernel gives no path that is longer than a page.
                Shut::Closed(path.unwrap_or_else(|_| self.folder.clone()))
            }
            errno => Shut::Failed(errno),
        }
    }

    /// Goes on without something that cannot be opened, or fails if the reason is not the agent's.
    fn pass(&mut self, shut: Shut) -> io::Result<()> {
        match shut {
            Shut::Gone | Shut::Foreign => {}
            Shut::Closed(path) => self.note(Uncounted::Closed(path)),
            Shut::Failed(errno) => return Err(errno.into()),
        }
        Ok(())
    }

    fn note(&mut self, uncounted: Uncounted) {
        if self.usage.uncounted.is_none() {
            self.usage.uncounted = Some(uncounted);
        }
    }
}

/// The reason why something below a workspace cannot be looked at.
enum Shut {
    /// It was removed or replaced in the meantime, so it uses nothing.
    Gone,
    /// It is a folder of another user than the sandbox's.
    Foreign,
    /// The sandbox's user has no right to look into this folder.
    Closed(PathBuf),
    /// The system failed, for example because too many files are open.
    Failed(Errno),
}

/// A folder that is being counted.
struct Level {
    dir: Dir,
    /// The names in it that are not counted yet. Empty until it is listed.
    names: Vec<CString>,
    /// The mode to restore, if the walk has given its owner rights.
    before: Option<Mode>,
}

impl Level {
    fn new(folder: OwnedFd, before: Option<Mode>) -> nix::Result<Self> {
        // A folder that can be read but not searched shows names, but not the sizes of the files.
        fstatat(&folder, c".", AtFlags::empty())?;
        Ok(Self { dir: Dir::from_fd(folder)?, names: Vec::new(), before })
    }
}

impl Drop for Level {
    fn drop(&mut self) {
        let Some(before) = self.before else { return };
        let rights = |mode: Mode| mode.bits() & 0o777;
        // A mode that the agent has set in the meantime stays.
        let is_unlocked = |mode| rights(Mode::from_bits_truncate(mode)) == rights(with_rights(before));
        if fstat(&self.dir).is_ok_and(|found| is_unlocked(found.st_mode)) {
            // If this fails, the owner keeps a right that it can take away again.
            let _ = fchmod(&self.dir, before);
        }
    }
}

/// Returns the mode with the owner's rights to list and search a folder.
fn with_rights(mode: Mode) -> Mode {
    mode | Mode::S_IRUSR | Mode::S_IXUSR
}

/// Sets the mode of a folder that was opened with `O_PATH`. `fchmod` refuses such a descriptor, but its path in /proc
/// leads to the folder.
fn set_mode(folder: &OwnedFd, mode: Mode) -> nix::Result<()> {
    let path = format!("/proc/self/fd/{}", folder.as_raw_fd());
    fchmodat(AT_FDCWD, path.as_str(), mode, FchmodatFlags::FollowSymlink)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use nix::unistd::{chown, setfsuid};

    use super::*;

    const MIB: u64 = 1 << 20;
    /// The user of the sandbox where the tests run as root.
    const AGENT: Uid = Uid::from_raw(20_007);

    /// Runs `test` with a workspace and without root's right to open everything.
    fn with_workspace(test: impl FnOnce(&Path) + Send) {
        let folder = tempfile::tempdir().unwrap();
        let workspace = folder.path().join("workspace");
        let test = || {
            std::fs::create_dir(&workspace).unwrap();
            test(&workspace);
        };
        if !Uid::effective().is_root() {
            return test();
        }
        chown(folder.path(), Some(AGENT), None).unwrap();
        as_user(AGENT, test);
    }

    /// Runs `test` in a thread whose files and rights are those of another user.
    fn as_user(user: Uid, test: impl FnOnce() + Send) {
        let run = || {
            setfsuid(user);
            test();
        };
        std::thread::scope(|scope| scope.spawn(run).join()).unwrap();
    }

    fn set(folder: &Path, mode: u32) {
        std::fs::set_permissions(folder, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    fn mode(folder: &Path) -> u32 {
        std::fs::symlink_metadata(folder).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn hard_links_count_once_and_symlinks_and_holes_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("large"), vec![1; 8 << 20]).unwrap();
        let root = folder.path().join("workspace");
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        std::fs::write(root.join("a/b/file"), vec![1; 2 << 20]).unwrap();
        std::fs::hard_link(root.join("a/b/file"), root.join("twice")).unwrap();
        std::os::unix::fs::symlink(outside.path(), root.join("a/link")).unwrap();
        std::fs::File::create(root.join("hole")).unwrap().set_len(1 << 30).unwrap();
        let found = size(&root, u64::MAX).unwrap();
        assert!((2 * MIB..3 * MIB).contains(&found.bytes), "{found:?}");
        assert_eq!(found.uncounted, None);
        assert!(size(&root, MIB).unwrap().bytes > MIB);
        // A person may keep a workspace elsewhere and put a link in its place.
        std::os::unix::fs::symlink(&root, folder.path().join("link")).unwrap();
        let found = size(&folder.path().join("link"), u64::MAX).unwrap();
        assert!((2 * MIB..3 * MIB).contains(&found.bytes), "{found:?}");
        assert!(size(&root.join("none"), MIB).is_err());
    }

    #[test]
    fn deeply_nested_files_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let mut at = open(nix::fcntl::AT_FDCWD, folder.path()).unwrap();
        for _ in 0..3 * MAX_OPEN_FOLDERS {
            nix::sys::stat::mkdirat(&at, "d", Mode::S_IRWXU).unwrap();
            at = open(&at, "d").unwrap();
        }
        let flags = OFlag::O_CREAT | OFlag::O_WRONLY;
        let file = openat(&at, "file", flags, Mode::S_IRWXU).unwrap();
        nix::unistd::write(&file, &vec![1; 1 << 20]).unwrap();
        let found = size(folder.path(), u64::MAX).unwrap();
        assert!(found.bytes >= MIB);
        assert_eq!(found.uncounted, None);
    }

    #[test]
    fn too_many_deep_folders_are_said_not_to_be_counted() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("d/".repeat(MAX_OPEN_FOLDERS - 1));
        for number in 0..=MAX_OPEN_FOLDERS {
            std::fs::create_dir_all(deep.join(number.to_string())).unwrap();
        }
        let found = size(folder.path(), u64::MAX).unwrap();
        assert_eq!(found.uncounted, Some(Uncounted::Deep));
        assert!(found.bytes < 1 << 40, "{found:?}");
    }

    #[test]
    fn what_an_agent_closes_to_itself_is_counted_and_stays_closed() {
        with_workspace(|workspace| {
            let (closed, inner) = (workspace.join("closed"), workspace.join("closed/inner"));
            std::fs::create_dir_all(&inner).unwrap();
            std::fs::write(inner.join("file"), vec![1; 2 << 20]).unwrap();
            let check = |what: &str| {
                let found = size(workspace, u64::MAX).unwrap();
                assert!((2 * MIB..3 * MIB).contains(&found.bytes), "{what}: {found:?}");
                assert_eq!(found.uncounted, None, "{what}");
            };
            for folder in [workspace, &closed, &inner] {
                for rights in [0o000, 0o055, 0o100, 0o400] {
                    set(folder, rights);
                    check(&format!("{} with {rights:o}", folder.display()));
                    assert_eq!(mode(folder), rights);
                    set(folder, 0o700);
                }
            }
            // The innermost first: nothing below a closed folder can be closed.
            for folder in [inner.as_path(), &closed, workspace] {
                set(folder, 0o000);
            }
            check("all at once");
            for folder in [workspace, &closed, &inner] {
                assert_eq!(mode(folder), 0o000, "{}", folder.display());
                set(folder, 0o700);
            }
        });
    }

    #[test]
    fn what_cannot_be_opened_is_named_unless_it_is_another_users() {
        if !Uid::effective().is_root() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let workspace = folder.path().canonicalize().unwrap().join("workspace");
        let (closed, foreign) = (workspace.join("closed"), workspace.join("foreign"));
        for path in [&workspace, &closed, &foreign] {
            std::fs::create_dir_all(path).unwrap();
            chown(path.as_path(), Some(AGENT), None).unwrap();
        }
        let other = Uid::from_raw(20_008);
        chown(&foreign, Some(Uid::from_raw(20_009)), None).unwrap();
        set(folder.path(), 0o755);
        set(&workspace, 0o755);
        set(&closed, 0o755);
        set(&foreign, 0o700);
        // Another user than the owner may not change a mode, as root may not on some network file systems.
        as_user(other, || assert_eq!(size(&workspace, u64::MAX).unwrap().uncounted, None));
        set(&closed, 0o700);
        as_user(other, || {
            let found = size(&workspace, u64::MAX).unwrap();
            assert_eq!(found.uncounted, Some(Uncounted::Closed(closed.clone())));
        });
    }
}
