//! Files that a killed process left beside transcripts: what was being mended, and old files of mended ones.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::repair;

/// What was found in a folder of transcripts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leftovers {
    /// How many were deleted: they held nothing that is not elsewhere.
    pub deleted: usize,
    /// Old files of mended transcripts, which have what was cut out of these.
    pub kept: Vec<PathBuf>,
}

/// Deletes what nobody needs: files that mending did not finish, which only `is_start` tells from those it is busy with,
/// and old files that are the transcript itself or whose transcript is gone.
///
/// # Errors
///
/// If the folder can't be read, or a file can't be deleted.
pub fn sweep(folder: &Path, is_start: bool) -> io::Result<Leftovers> {
    let mut found = Leftovers::default();
    let entries = match fs_err::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
        entries => entries?,
    };
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_unfinished = name.starts_with(repair::UNFINISHED);
        let of = name.split_once(repair::BACKUP).map(|(of, _)| folder.join(of));
        let is_needless = match of {
            _ if is_unfinished => is_start,
            None => continue,
            // Killed between giving the old file its second name and replacing it; or deleted with its session.
            Some(of) => is_same(&path, &of)?,
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

/// Whether an old file is the same one as its transcript, or has none.
fn is_same(old: &Path, transcript: &Path) -> io::Result<bool> {
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
    fn what_a_kill_leaves_is_deleted_and_what_was_cut_out_is_kept() {
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
        assert_eq!(sweep(folder.path(), true).unwrap(), Leftovers { deleted: 1, kept: vec![kept] });
        assert_eq!(fs_err::read_dir(folder.path()).unwrap().count(), 3);
        assert_eq!(sweep(Path::new("/nowhere/at/all"), true).unwrap(), Leftovers::default());
    }
}
