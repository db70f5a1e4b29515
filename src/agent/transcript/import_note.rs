//! Marks transcripts that are being imported. A note file beside the transcript exists until its session is created.
//! Without it, a kill in between would leave a transcript that belongs to no session and that nobody finds again.

use std::io;
use std::path::{Path, PathBuf};

use crate::process::ProcessId;

const NOTE_PREFIX: &str = ".import-";
const TRANSCRIPT_SUFFIX: &str = ".jsonl";

/// Creates the note that this process imports a transcript, and returns its path for [`done`].
///
/// # Errors
///
/// Returns an error if the note can't be written.
pub fn begin(folder: &Path, name: &str) -> io::Result<PathBuf> {
    let note = folder.join(format!("{NOTE_PREFIX}{}-{name}", std::process::id()));
    fs_err::File::create(&note)?;
    Ok(note)
}

/// Removes the note, after the session was created or the transcript was removed.
pub fn done(note: &Path) {
    // A note that stays is removed at the next start.
    let _ = fs_err::remove_file(note);
}

/// Removes the transcripts of a folder whose import was interrupted before their session was created, and returns their
/// number. `has_session` returns `true` if a transcript's name belongs to a session.
///
/// # Errors
///
/// Returns an error if the folder can't be read or a file can't be removed.
pub fn sweep(folder: &Path, has_session: impl Fn(&str) -> bool) -> io::Result<usize> {
    let entries = match fs_err::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        entries => entries?,
    };
    let mut removed = 0;
    for entry in entries {
        let note = entry?.file_name();
        // The process id in the name shows if the import is still running.
        let parts = note.to_str().and_then(|note| note.strip_prefix(NOTE_PREFIX)?.split_once('-'));
        let Some((Ok(pid), name)) = parts.map(|(pid, name)| (pid.parse::<i32>(), name)) else { continue };
        // The importing process still runs, so its import is not interrupted.
        if ProcessId::of(pid).is_some() {
            continue;
        }
        let transcript = folder.join(format!("{name}{TRANSCRIPT_SUFFIX}"));
        // An import that was killed after its session was created is complete.
        if !has_session(name) && transcript.exists() {
            fs_err::remove_file(&transcript)?;
            removed += 1;
        }
        fs_err::remove_file(folder.join(&note))?;
    }
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_an_interrupted_import_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let put = |name: &str| fs_err::write(at(name), "x").unwrap();
        for name in ["gone", "made", "busy", "old"] {
            put(&format!("{name}.jsonl"));
        }
        // This process id can't exist, because it is above the kernel's largest.
        for name in ["gone", "made", "none"] {
            put(&format!(".import-999999999-{name}"));
        }
        let busy = begin(folder.path(), "busy").unwrap();
        put(".import-x");
        assert_eq!(sweep(folder.path(), |name| name == "made").unwrap(), 1);
        assert!(!at("gone.jsonl").exists());
        assert!(at("made.jsonl").exists() && at("busy.jsonl").exists() && at("old.jsonl").exists());
        assert!(busy.exists() && !at(".import-999999999-made").exists());
        done(&busy);
        done(&busy);
        assert_eq!(sweep(folder.path(), |_| false).unwrap(), 0);
        assert_eq!(sweep(&at("none"), |_| false).unwrap(), 0);
        assert!(at("old.jsonl").exists(), "nobody said that it is half an import");
    }
}
