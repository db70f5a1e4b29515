//! The history of texts that a person typed in chats, kept after the program ends.
//!
//! It is a file with one JSON string on each line, which only its owner can read.

use std::collections::VecDeque;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::time::Duration;

use super::commands;
use super::secret_detection::looks_secret;
use crate::home::lock::Lock;
use crate::home::{Home, HomeError, atomic, regular};
use crate::ui::editor::MOST_HISTORY;

/// Longest text in bytes that is kept. A longer text was pasted from some other place.
const MAX_TEXT: usize = 16 << 10;

/// Size of the file in bytes above which its older part is removed.
const MAX_BYTES: u64 = 1 << 20;

/// Largest file in bytes that is read. flock never writes a larger one.
const MAX_READ: u64 = 4 * MAX_BYTES;

/// Time to wait for another chat that is writing to the file.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);

/// Returns the texts, the oldest first.
///
/// # Errors
///
/// Returns an error if the file can't be read.
pub(crate) fn read(home: &Home) -> Result<Vec<String>, HomeError> {
    let bytes = atomic::read(&home.chat_history(), MAX_READ)?.unwrap_or_default();
    Ok(parse_newest(&bytes).into())
}

/// Appends a text, unless it is a command, looks like a secret, or begins with a space, as in shells.
///
/// # Errors
///
/// Returns an error if the file can't be written, or if another chat holds its lock for too long.
pub(crate) fn append(home: &Home, text: &str) -> Result<(), HomeError> {
    if !belongs_in_history(text) {
        return Ok(());
    }
    let path = home.chat_history();
    let fail = |source| HomeError::Io { verb: "write", path: path.clone(), source };
    let mut line = serde_json::to_vec(text).map_err(|error| fail(error.into()))?;
    line.push(b'\n');
    // The lock protects the rewriting below: a line that another chat appends meanwhile would be lost.
    let _lock = Lock::acquire(&home.chat_history_lock(), LOCK_TIMEOUT)?;
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(0o600);
    let mut file = regular::open_with(&path, &mut options).map_err(fail)?;
    if file.metadata().map_err(fail)?.len() > MAX_BYTES {
        drop_oldest(home)?;
        // The file was replaced, so the old descriptor leads to a deleted file.
        file = regular::open_with(&path, &mut options).map_err(fail)?;
    }
    // One write call: a full disk leaves at most one broken line, which reading skips.
    file.write_all(&line).map_err(fail)
}

/// Returns `true` if a text belongs in the history.
fn belongs_in_history(text: &str) -> bool {
    let is_plain = !text.starts_with(char::is_whitespace) && !text.trim().is_empty();
    is_plain && text.len() <= MAX_TEXT && !commands::is_command(text) && !looks_secret(text)
}

/// Removes the older texts until at most half of the limit is left.
fn drop_oldest(home: &Home) -> Result<(), HomeError> {
    // An unreadable file is replaced by an empty one, so that it does not stay too large forever.
    let bytes = atomic::read(&home.chat_history(), MAX_READ).ok().flatten().unwrap_or_default();
    let mut kept = parse_newest(&bytes);
    let mut text = Vec::new();
    let mut size = 0;
    let from = kept.iter().rposition(|line| {
        size += line.len() as u64;
        size > MAX_BYTES / 2
    });
    kept.drain(..from.map_or(0, |at| at + 1));
    for line in &kept {
        if serde_json::to_writer(&mut text, line).is_ok() {
            text.push(b'\n');
        }
    }
    atomic::write(&home.chat_history(), &text, 0o600)
}

fn parse_newest(bytes: &[u8]) -> VecDeque<String> {
    let mut kept = VecDeque::new();
    for line in bytes.split(|byte| *byte == b'\n') {
        let Ok(text) = serde_json::from_slice(line) else { continue };
        if kept.len() == MOST_HISTORY {
            kept.pop_front();
        }
        kept.push_back(text);
    }
    kept
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn home() -> (tempfile::TempDir, Home) {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path().to_owned(), None);
        home.make_folders().unwrap();
        (dir, home)
    }

    #[test]
    fn history_is_kept_and_readable_only_by_its_owner() {
        let (_dir, home) = home();
        assert_eq!(read(&home).unwrap(), Vec::<String>::new());
        for text in
            ["one", "two\nlines", " not this", "/new", "/quit", "", "my password: hunter2", "/etc is what?"]
        {
            append(&home, text).unwrap();
        }
        append(&home, &"x".repeat(MAX_TEXT + 1)).unwrap();
        assert_eq!(read(&home).unwrap(), ["one", "two\nlines", "/etc is what?"]);
        let mode = std::fs::metadata(home.chat_history()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn history_is_bounded_and_keeps_the_newest() {
        let (_dir, home) = home();
        let long = "y".repeat(MAX_TEXT - 10);
        for number in 0..200 {
            append(&home, &format!("{number} {long}")).unwrap();
        }
        assert!(std::fs::metadata(home.chat_history()).unwrap().len() < 2 * MAX_BYTES);
        let kept = read(&home).unwrap();
        assert!(kept.last().unwrap().starts_with("199 ") && kept.len() > 20, "{}", kept.len());
    }

    #[test]
    fn a_broken_line_is_skipped() {
        let (_dir, home) = home();
        append(&home, "one").unwrap();
        std::fs::write(home.chat_history(), "\"one\"\n\"tw\n{}\n\"three\"\n").unwrap();
        assert_eq!(read(&home).unwrap(), ["one", "three"]);
        std::fs::remove_file(home.chat_history()).unwrap();
        nix::unistd::mkfifo(&home.chat_history(), nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(read(&home).is_err() && append(&home, "two").is_err());
    }
}
