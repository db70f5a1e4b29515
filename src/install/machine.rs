//! What this machine has for a build.

use std::path::Path;

use super::InstallError;
use super::error::io;

/// Memory and disk, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// All memory, or the limit of the control group that flock runs in.
    pub memory: u64,
    /// Free for this user where the home is.
    pub disk: u64,
}

/// Looks.
///
/// # Errors
///
/// If the file system of `home` can't be asked.
pub fn measure(home: &Path) -> Result<Machine, InstallError> {
    let found = nix::sys::statvfs::statvfs(home).map_err(|error| io("measure", home)(error.into()))?;
    let disk = (found.blocks_available() as u64).saturating_mul(found.fragment_size() as u64);
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
        let machine = measure(Path::new("/")).unwrap();
        assert!(machine.memory > 1 << 20, "{machine:?}");
        assert_eq!(gigabytes(7_890_000_000), "7.8 GB");
    }
}
