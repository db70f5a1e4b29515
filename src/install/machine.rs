//! Measures the memory and disk that this machine has for a build.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::InstallError;
use super::error::io;
use crate::home::free_space;

/// Memory and disk, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MachineResources {
    /// All memory, or the limit of the control group in which flock runs, if that is less.
    pub memory: u64,
    /// Space that is free for this user on the home's disk, plus the space that an interrupted installation already
    /// uses.
    pub disk: u64,
}

/// Measures the machine. `staging` is the folder in which a build is made. Files of an interrupted build there are
/// either used or removed first, so their space counts as free.
///
/// # Errors
///
/// Returns an error if the file system of `home` cannot be queried.
pub(crate) fn measure(home: &Path, staging: &Path) -> Result<MachineResources, InstallError> {
    let free = free_space::measure(home).map_err(io("measure", home))?;
    let disk = free.saturating_add(disk_usage(staging));
    // An unknown amount of memory is no reason to refuse.
    let memory = memory().unwrap_or(u64::MAX);
    Ok(MachineResources { memory, disk })
}

fn memory() -> Option<u64> {
    let mut system = sysinfo::System::new().ok()?;
    system.refresh_memory();
    let all = system.total_memory();
    let limit = system.cgroup_limits().map_or(all, |limits| limits.total_memory);
    // A limit of 0 means that there is none.
    Some(if limit == 0 { all } else { all.min(limit) }).filter(|bytes| *bytes > 0)
}

/// Returns the number of bytes that a folder takes on the disk, without following links. Unreadable files count as
/// nothing.
fn disk_usage(folder: &Path) -> u64 {
    let mut sum = 0_u64;
    // A loop instead of recursion: folders may be nested deeply.
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(found) = entry.metadata() else { continue };
            // pnpm links one file under many names. Each name counts its share, so that all of them add up to the file.
            let links = if found.is_dir() { 1 } else { found.nlink().max(1) };
            sum = sum.saturating_add(found.blocks().saturating_mul(512) / links);
            if found.is_dir() {
                open.push(entry.path());
            }
        }
    }
    sum
}

/// Formats bytes for people, as in `7.8 GB`.
#[must_use]
pub(crate) fn gigabytes(bytes: u64) -> String {
    format!("{}.{} GB", bytes / 1_000_000_000, bytes % 1_000_000_000 / 100_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_and_disk_are_measured() {
        let machine = measure(Path::new("/"), Path::new("/nowhere")).unwrap();
        assert!(machine.memory > 1 << 20, "{machine:?}");
        assert_eq!(gigabytes(7_890_000_000), "7.8 GB");
    }

    #[test]
    fn files_of_an_interrupted_build_count_as_free_space() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("inner")).unwrap();
        std::fs::write(dir.path().join("inner/file"), vec![1; 1 << 20]).unwrap();
        std::os::unix::fs::symlink("/usr", dir.path().join("link")).unwrap();
        let found = disk_usage(dir.path());
        assert!((1 << 20..2 << 20).contains(&found), "{found}");
        assert_eq!(disk_usage(&dir.path().join("none")), 0);
    }
}
