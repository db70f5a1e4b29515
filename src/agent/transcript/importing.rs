//! Transcripts that are being imported. A note beside the file says so until its session is made: a kill in between would
//! otherwise leave a transcript that belongs to no session and that nobody finds again.

use std::io;
use std::path::{Path, PathBuf};

use crate::process::ProcessId;

const NOTE: &str = ".import-";
const ENDING: &str = ".jsonl";

/// Takes note that this process imports a transcript; gives the note, which [`done`] takes back.
///
/// # Errors
///
/// If the note can't be written.
pub fn begin(folder: &Path, name: &str) -> io::Result<PathBuf> {
    let note = folder.join(format!("{NOTE}{}-{name}", std::process::id()));
    fs_err::File::create(&note)?;
    Ok(note)
}

/// Takes the note back: the transcript has its session, or has been removed.
pub fn done(note: &Path) {
    // One that stays is taken back at the next start.
    let _ = fs_err::remove_file(note);
}

/// Removes the transcripts of a folder whose import was interrupted before their session was made; `has_session` says
/// of a transcript's name whether one is its. Gives how many were removed.
///
/// # Errors
///
/// If the folder can't be read, or a file can't be removed.
pub fn sweep(folder: &Path, has_session: impl Fn(&str) -> bool) -> io::Result<usize> {
    let entries = match fs_err::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        entries => entries?,
    };
    let mut removed = 0;
    for entry in entries {
        let note = entry?.file_name();
        let parts = note.to_str().and_then(|note| note.strip_prefix(NOTE)?.split_once('-'));
        let Some((Ok(pid), name)) = parts.map(|(pid, name)| (pid.parse::<i32>(), name)) else { continue };
        if ProcessId::of(pid).is_some() {
            continue;
        }
        let transcript = folder.join(format!("{name}{ENDING}"));
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
    fn only_what_an_interrupted_import_left_goes() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let put = |name: &str| fs_err::write(at(name), "x").unwrap();
        for name in ["gone", "made", "busy", "old"] {
            put(&format!("{name}.jsonl"));
        }
        // No process has this id: it is above the kernel's largest.
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
