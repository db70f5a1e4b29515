//! Temporary files that killed processes left in the home's folders.
//!
//! They would have been renamed to their final place, and nobody waits for their content.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::{Home, atomic};
use crate::process::ProcessId;

/// The age at which a temporary file counts as abandoned if its maker is unknown or can't be seen from here.
const UNKNOWN_WRITER_AGE: Duration = Duration::from_secs(3600);
/// The age below which no temporary file counts as abandoned. Its maker may only seem to be gone, because it is in
/// another PID namespace, for example if the home is shared with a container.
const MIN_AGE: Duration = Duration::from_secs(60);

/// Removes abandoned temporary files and returns their number. Files that can't be examined are skipped: they must not
/// prevent a start.
pub fn sweep(home: &Home) -> usize {
    list_abandoned(home).into_iter().filter(|path| fs_err::remove_file(path).is_ok()).count()
}

/// Returns the abandoned temporary files of a home.
#[must_use]
pub(crate) fn list_abandoned(home: &Home) -> Vec<PathBuf> {
    let now = SystemTime::now();
    folders(home).into_iter().flat_map(|folder| abandoned_in(&folder, now)).collect()
}

/// Returns the abandoned temporary files of one folder.
fn abandoned_in(folder: &Path, now: SystemTime) -> Vec<PathBuf> {
    let entries = fs_err::read_dir(folder).into_iter().flatten().flatten();
    let found = entries.filter(|entry| {
        let name = entry.file_name();
        let Some(name) = name.to_str().filter(|name| atomic::is_draft(name)) else { return false };
        // The metadata is that of the entry itself: a link with such a name is not by flock.
        let Ok(meta) = entry.metadata() else { return false };
        let age = meta.modified().ok().and_then(|at| now.duration_since(at).ok()).unwrap_or_default();
        meta.is_file() && is_abandoned(atomic::temp_file_pid(name), age, |pid| ProcessId::of(pid).is_some())
    });
    found.map(|entry| entry.path()).collect()
}

/// Returns `true` if a temporary file of this age and maker is abandoned.
fn is_abandoned(maker: Option<i32>, age: Duration, lives: impl Fn(i32) -> bool) -> bool {
    match maker {
        Some(pid) => age >= MIN_AGE && !lives(pid),
        None => age >= UNKNOWN_WRITER_AGE,
    }
}

/// Returns the folders in which flock replaces files. They belong to flock alone, and no agent can write in them.
fn folders(home: &Home) -> Vec<PathBuf> {
    let mut folders = vec![
        home.root().to_owned(),
        home.data(),
        home.pending(),
        home.generations(),
        home.run(),
        home.backups(),
        home.secrets(),
        home.check_setups(),
    ];
    let openclaw = home.openclaw_versions();
    folders.extend([openclaw.join("roles"), openclaw.clone()]);
    // In these folders, all subfolders as well.
    for above in
        [openclaw, home.helpers(), home.run().join("programs"), home.extension(""), home.extension("hooks")]
    {
        let entries = fs_err::read_dir(&above).into_iter().flatten().flatten();
        let below = entries.filter(|entry| {
            entry.file_type().is_ok_and(|kind| kind.is_dir()) && entry.file_name() != OsStr::new("roles")
        });
        folders.extend(below.map(|entry| entry.path()));
    }
    folders
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn only_temp_files_of_dead_processes_are_abandoned() {
        let alive = |pid| pid == 7;
        let second = Duration::from_secs(1);
        assert!(is_abandoned(Some(8), MIN_AGE, alive));
        assert!(!is_abandoned(Some(8), MIN_AGE - second, alive), "perhaps it is only not seen from here");
        assert!(
            !is_abandoned(Some(7), UNKNOWN_WRITER_AGE * 24, alive),
            "it may be suspended for as long as it likes"
        );
        assert!(
            is_abandoned(None, UNKNOWN_WRITER_AGE, alive)
                && !is_abandoned(None, UNKNOWN_WRITER_AGE - second, alive)
        );
    }

    #[test]
    fn abandoned_temp_files_are_removed_and_other_files_kept() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path().join("home"), None);
        home.make_folders().unwrap();
        let version = home.openclaw_versions().join("1-abc");
        for folder in [&home.pending(), &version, &home.run().join("programs/x")] {
            std::fs::create_dir_all(folder).unwrap();
        }
        let long_ago = SystemTime::now() - 2 * UNKNOWN_WRITER_AGE;
        let put = |path: PathBuf| {
            std::fs::write(&path, "x").unwrap();
            File::options().write(true).open(&path).unwrap().set_modified(long_ago).unwrap();
            path
        };
        // This pid is above the kernel's maximum, so no process has it.
        let gone = ".new-999999999-a1b2c3";
        let places = [
            home.root().to_owned(),
            home.data(),
            home.pending(),
            home.run(),
            home.backups(),
            home.secrets(),
            version,
            home.run().join("programs/x"),
        ];
        let left: Vec<PathBuf> = places.iter().map(|place| put(place.join(gone))).collect();
        let old = put(home.data().join(".new-a1b2c3"));
        let own = put(home.data().join(format!(".new-{}-a1b2c3", std::process::id())));
        let agents = put(home.workspaces().join(gone));
        let other = put(home.data().join("new"));
        std::fs::write(home.data().join(".new-999999999-fresh1"), "x").unwrap();
        assert_eq!(sweep(&home), left.len() + 1);
        assert!(left.iter().chain([&old]).all(|path| !path.exists()));
        assert!(own.exists() && agents.exists() && other.exists());
        assert!(home.data().join(".new-999999999-fresh1").exists());
        assert_eq!(sweep(&home), 0);
    }
}
