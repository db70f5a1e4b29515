//! The texts that a person typed in chats, kept over the end of the program: a file of one JSON string a line, which only
//! its owner can read.

use std::collections::VecDeque;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::time::Duration;

use super::secret::looks_secret;
use super::typed;
use crate::home::lock::Lock;
use crate::home::{Home, HomeError, atomic, regular};
use crate::ui::editor::MOST_HISTORY;

/// Longest text that is kept; what is longer was pasted and has its place elsewhere.
const LONGEST: usize = 16 << 10;

/// Size of the file above which its older part goes.
const MOST_BYTES: u64 = 1 << 20;

/// Size that is never exceeded: a file of this size was not written here.
const READABLE: u64 = 4 * MOST_BYTES;

/// How long another chat that writes its own is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// Returns what was typed, oldest first.
///
/// # Errors
///
/// If the file can't be read.
pub fn read(home: &Home) -> Result<Vec<String>, HomeError> {
    let bytes = atomic::read(&home.chat_history(), READABLE)?.unwrap_or_default();
    Ok(newest(&bytes).into())
}

/// Keeps a text, unless it is one that a shell would not keep either or that nobody wants to have kept.
///
/// # Errors
///
/// If the file can't be written.
pub fn append(home: &Home, text: &str) -> Result<(), HomeError> {
    if !is_kept(text) {
        return Ok(());
    }
    let path = home.chat_history();
    let fail = |source| HomeError::Io { verb: "write", path: path.clone(), source };
    let mut line = serde_json::to_vec(text).map_err(|error| fail(error.into()))?;
    line.push(b'\n');
    let _lock = Lock::acquire(&home.chat_history_lock(), PATIENCE)?;
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(0o600);
    let mut file = regular::open_with(&path, &mut options).map_err(fail)?;
    if file.metadata().map_err(fail)?.len() > MOST_BYTES {
        shorten(home)?;
        file = regular::open_with(&path, &mut options).map_err(fail)?;
    }
    // One write, so that a full disk leaves at most one broken line, which is passed over.
    file.write_all(&line).map_err(fail)
}

/// Whether a text is kept.
fn is_kept(text: &str) -> bool {
    let is_plain = !text.starts_with(char::is_whitespace) && !text.trim().is_empty();
    is_plain && text.len() <= LONGEST && !typed::is_command(text) && !looks_secret(text)
}

/// Leaves the newer half.
fn shorten(home: &Home) -> Result<(), HomeError> {
    let bytes = atomic::read(&home.chat_history(), READABLE).ok().flatten().unwrap_or_default();
    let mut kept = newest(&bytes);
    let mut text = Vec::new();
    let mut size = 0;
    let from = kept.iter().rposition(|line| {
        size += line.len() as u64;
        size > MOST_BYTES / 2
    });
    kept.drain(..from.map_or(0, |at| at + 1));
    for line in &kept {
        if serde_json::to_writer(&mut text, line).is_ok() {
            text.push(b'\n');
        }
    }
    atomic::write(&home.chat_history(), &text, 0o600)
}

fn newest(bytes: &[u8]) -> VecDeque<String> {
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
    fn what_was_typed_is_kept_for_its_owner_alone() {
        let (_dir, home) = home();
        assert_eq!(read(&home).unwrap(), Vec::<String>::new());
        for text in
            ["one", "two\nlines", " not this", "/new", "/quit", "", "my password: hunter2", "/etc is what?"]
        {
            append(&home, text).unwrap();
        }
        append(&home, &"x".repeat(LONGEST + 1)).unwrap();
        assert_eq!(read(&home).unwrap(), ["one", "two\nlines", "/etc is what?"]);
        let mode = std::fs::metadata(home.chat_history()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn it_stays_small_and_keeps_the_newest() {
        let (_dir, home) = home();
        let long = "y".repeat(LONGEST - 10);
        for number in 0..200 {
            append(&home, &format!("{number} {long}")).unwrap();
        }
        assert!(std::fs::metadata(home.chat_history()).unwrap().len() < 2 * MOST_BYTES);
        let kept = read(&home).unwrap();
        assert!(kept.last().unwrap().starts_with("199 ") && kept.len() > 20, "{}", kept.len());
    }

    #[test]
    fn a_broken_line_costs_that_line_alone() {
        let (_dir, home) = home();
        append(&home, "one").unwrap();
        std::fs::write(home.chat_history(), "\"one\"\n\"tw\n{}\n\"three\"\n").unwrap();
        assert_eq!(read(&home).unwrap(), ["one", "three"]);
        std::fs::remove_file(home.chat_history()).unwrap();
        ::nix::unistd::mkfifo(&home.chat_history(), ::nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(read(&home).is_err() && append(&home, "two").is_err());
    }
}
