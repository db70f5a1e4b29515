//! What this machine has for a build.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::InstallError;
use super::error::io;

/// Memory and disk, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// All memory, or the limit of the control group that flock runs in.
    pub memory: u64,
    /// Free for this user where the home is, with what an interrupted install has filled of it already.
    pub disk: u64,
}

/// Looks. `staging` is where a build is made: what an interrupted one left there is gone on with, or removed first.
///
/// # Errors
///
/// If the file system of `home` can't be asked.
pub fn measure(home: &Path, staging: &Path) -> Result<Machine, InstallError> {
    let found = nix::sys::statvfs::statvfs(home).map_err(|error| io("measure", home)(error.into()))?;
    let free = (found.blocks_available() as u64).saturating_mul(found.fragment_size() as u64);
    let disk = free.saturating_add(held(staging));
    // Where memory can't be found out, it is no reason to refuse.
    let memory = memory().unwrap_or(u64::MAX);
    Ok(Machine { memory, disk })
}

fn memory() -> Option<u64> {
    let mut system = sysinfo::System::new().ok()?;
    system.refresh_memory();
    let all = system.total_memory();
    let limit = system.cgroup_limits().map_or(all, |limits| limits.total_memory);
    Some(if limit == 0 { all } else { all.min(limit) }).filter(|bytes| *bytes > 0)
}

/// The bytes that a folder takes on the disk, links not followed. What can't be read counts as nothing.
fn held(folder: &Path) -> u64 {
    let mut sum = 0_u64;
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(found) = entry.metadata() else { continue };
            // A file of many names is counted by its share, so that all of them together make it up.
            let links = if found.is_dir() { 1 } else { found.nlink().max(1) };
            sum = sum.saturating_add(found.blocks().saturating_mul(512) / links);
            if found.is_dir() {
                open.push(entry.path());
            }
        }
    }
    sum
}

/// Bytes for people, as in `7.8 GB`.
#[must_use]
pub fn gigabytes(bytes: u64) -> String {
    format!("{}.{} GB", bytes / 1_000_000_000, bytes % 1_000_000_000 / 100_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_has_both() {
        let machine = measure(Path::new("/"), Path::new("/nowhere")).unwrap();
        assert!(machine.memory > 1 << 20, "{machine:?}");
        assert_eq!(gigabytes(7_890_000_000), "7.8 GB");
    }

    #[test]
    fn what_an_interrupted_build_holds_is_room_for_the_next_one() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("inner")).unwrap();
        std::fs::write(dir.path().join("inner/file"), vec![1; 1 << 20]).unwrap();
        std::os::unix::fs::symlink("/usr", dir.path().join("link")).unwrap();
        let found = held(dir.path());
        assert!((1 << 20..2 << 20).contains(&found), "{found}");
        assert_eq!(held(&dir.path().join("none")), 0);
    }
}
