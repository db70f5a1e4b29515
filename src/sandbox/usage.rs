//! Measures the disk space that a workspace uses.

use std::collections::HashSet;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;

use nix::fcntl::AtFlags;
use nix::sys::stat::{SFlag, fstat, fstatat};

use super::listing::{listed, open};

/// Limit on the number of nested folders that are open at once.
const OPEN: usize = 128;

/// Returns the disk space used below a folder, in bytes. A file with several hard links counts once. The walk does not
/// follow symbolic links and does not enter other file systems. It stops as soon as the sum exceeds `most`, because an
/// agent can create more files than anyone wants to count.
///
/// # Errors
///
/// Fails if the folder itself cannot be opened or read.
pub fn size(folder: &Path, most: u64) -> io::Result<u64> {
    let root = open(nix::fcntl::AT_FDCWD, folder)?;
    let mut count = Count { device: fstat(&root)?.st_dev, seen: HashSet::new(), bytes: 0, most };
    // Folders nested deeper than `OPEN` are queued and walked from there later, because file descriptors are limited.
    let mut roots = vec![root];
    while let Some(root) = roots.pop() {
        count.below(root, &mut roots)?;
        if count.is_full() || roots.len() > OPEN {
            // Too many deep folders count as "more than allowed". To report less would let an agent hide data in them.
            return Ok(count.bytes.max(if roots.len() > OPEN { most.saturating_add(1) } else { 0 }));
        }
    }
    Ok(count.bytes)
}

struct Count {
    device: u64,
    seen: HashSet<u64>,
    bytes: u64,
    most: u64,
}

impl Count {
    const fn is_full(&self) -> bool {
        self.bytes > self.most
    }

    fn below(&mut self, root: OwnedFd, deeper: &mut Vec<OwnedFd>) -> io::Result<()> {
        let mut stack = vec![listed(root)?];
        while let Some((dir, names)) = stack.last_mut() {
            let Some(name) = names.pop() else {
                stack.pop();
                continue;
            };
            // A file that has been removed in the meantime uses nothing.
            let Ok(found) = fstatat(dir.as_fd(), name.as_c_str(), AtFlags::AT_SYMLINK_NOFOLLOW) else {
                continue;
            };
            // Another device number means another file system. A further hard link to a counted file is skipped.
            if found.st_dev != self.device || (found.st_nlink > 1 && !self.seen.insert(found.st_ino)) {
                continue;
            }
            // `st_blocks` counts units of 512 bytes whatever the file system's block size is. Holes in sparse files are
            // not in it.
            self.bytes =
                self.bytes.saturating_add(u64::try_from(found.st_blocks).unwrap_or(0).saturating_mul(512));
            if self.is_full() {
                return Ok(());
            }
            if SFlag::from_bits_truncate(found.st_mode) & SFlag::S_IFMT == SFlag::S_IFDIR
                && let Ok(inner) = open(dir.as_fd(), name.as_c_str())
            {
                if stack.len() < OPEN {
                    stack.extend(listed(inner).ok());
                } else {
                    deeper.push(inner);
                    if deeper.len() > OPEN {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use nix::fcntl::{OFlag, openat};
    use nix::sys::stat::Mode;

    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn files_count_once_links_not_at_all_and_holes_are_nothing() {
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
        assert!((2 * MIB..3 * MIB).contains(&found), "{found}");
        assert!(size(&root, MIB).unwrap() > MIB);
        assert!(size(&root.join("none"), MIB).is_err());
    }

    #[test]
    fn what_lies_deep_is_counted() {
        let folder = tempfile::tempdir().unwrap();
        let mut at = open(nix::fcntl::AT_FDCWD, folder.path()).unwrap();
        for _ in 0..3 * OPEN {
            nix::sys::stat::mkdirat(&at, "d", Mode::S_IRWXU).unwrap();
            at = open(&at, "d").unwrap();
        }
        let flags = OFlag::O_CREAT | OFlag::O_WRONLY;
        let file = openat(&at, "file", flags, Mode::S_IRWXU).unwrap();
        nix::unistd::write(&file, &vec![1; 1 << 20]).unwrap();
        assert!(size(folder.path(), u64::MAX).unwrap() >= MIB);
    }
}
