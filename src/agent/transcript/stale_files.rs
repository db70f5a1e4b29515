//! Finds the files that a killed process left beside transcripts: unfinished repairs, and backups of repaired files.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::repair;

/// The leftovers of a folder of transcripts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StaleFiles {
    /// Number of deleted files. Everything in them was stored elsewhere too.
    pub deleted: usize,
    /// Backups of repaired transcripts, which have the lines that were cut out.
    pub kept: Vec<PathBuf>,
}

/// Deletes files that nobody needs: unfinished repairs, and backups that are the transcript itself or whose transcript
/// is gone. Unfinished repairs are deleted only if `is_start` is set, because later they may be in progress.
///
/// # Errors
///
/// Returns an error if the folder can't be read or a file can't be deleted.
pub fn sweep(folder: &Path, is_start: bool) -> io::Result<StaleFiles> {
    let mut found = StaleFiles::default();
    let entries = match fs_err::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
        entries => entries?,
    };
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        // An unfinished repair has no valuable data: the damaged file is still in its place.
        let is_unfinished = name.starts_with(repair::TEMP_PREFIX);
        let of = name.split_once(repair::BACKUP_INFIX).map(|(of, _)| folder.join(of));
        let is_needless = match of {
            _ if is_unfinished => is_start,
            None => continue,
            // The process was killed after it made the backup's name and before it replaced the transcript, or the
            // session was deleted since.
            Some(of) => is_redundant(&path, &of)?,
        };
        if is_needless {
            fs_err::remove_file(&path)?;
            found.deleted += 1;
        } else if !is_unfinished {
            found.kept.push(path);
        }
    }
    found.kept.sort();
    Ok(found)
}

/// Returns `true` if a backup is the same file as its transcript, or has no transcript.
fn is_redundant(old: &Path, transcript: &Path) -> io::Result<bool> {
    let old = fs_err::symlink_metadata(old)?;
    match fs_err::symlink_metadata(transcript) {
        Ok(now) => Ok((old.dev(), old.ino()) == (now.dev(), now.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stale_files_are_deleted_and_backups_with_cut_lines_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| {
            fs_err::write(folder.path().join(name), name).unwrap();
            folder.path().join(name)
        };
        let transcript = file("a.jsonl");
        let kept = file("a.jsonl.bak-7-1");
        fs_err::hard_link(&transcript, folder.path().join("a.jsonl.bak-7-2")).unwrap();
        file("gone.jsonl.bak-7-1");
        file(".mend-x");
        file("other");
        let found = sweep(folder.path(), false).unwrap();
        assert_eq!((found.deleted, &found.kept), (2, &vec![kept.clone()]));
        assert!(folder.path().join(".mend-x").exists(), "it may be in use");
        assert_eq!(sweep(folder.path(), true).unwrap(), StaleFiles { deleted: 1, kept: vec![kept] });
        assert_eq!(fs_err::read_dir(folder.path()).unwrap().count(), 3);
        assert_eq!(sweep(Path::new("/nowhere/at/all"), true).unwrap(), StaleFiles::default());
    }
}
