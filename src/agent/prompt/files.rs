//! The files that say who an agent is: its owner's, and its own in its workspace.

use std::io::Read as _;
use std::path::Path;

use crate::home::beneath::{BeneathError, Root};
use crate::sandbox::spec::IDENTITY_FILES;

/// The most characters of one file that a prompt has.
pub const MAX_CHARS: usize = 20_000;

/// All of them, in the order of a prompt.
pub const FILES: [&str; 8] = [
    "AGENTS.md",
    "SOUL.md",
    "TOOLS.md",
    "IDENTITY.md",
    "USER.md",
    "HEARTBEAT.md",
    "BOOTSTRAP.md",
    "MEMORY.md",
];

/// One of them, as much of it as a prompt has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityFile {
    /// Its name.
    pub name: &'static str,
    /// Its text, or why there is none.
    pub text: String,
}

/// Reads those that are there. An agent can write into its workspace, so nothing there is trusted to be a
/// file, to be short or to be text; the owner's files are read the same way.
#[must_use]
pub fn read_identity(identity: &Path, workspace: &Path) -> Vec<IdentityFile> {
    let (identity, workspace) = (Root::open(identity).ok(), Root::open(workspace).ok());
    let read = |name: &'static str| {
        // What a workspace says of these five is the agent's word about itself, and not taken.
        let root = if IDENTITY_FILES.contains(&name) { &identity } else { &workspace };
        Some(IdentityFile { name, text: text(root.as_ref()?, name)? })
    };
    FILES.into_iter().filter_map(read).collect()
}

/// What is in a file, at most [`MAX_CHARS`] characters of it; `None` where there is nothing.
fn text(root: &Root, name: &str) -> Option<String> {
    let (file, size) = match root.open_file(Path::new(name)) {
        Ok(opened) => opened,
        Err(BeneathError::NotFound { .. }) => return None,
        Err(error) => return Some(format!("[{name} can't be read: {error}]")),
    };
    let mut bytes = Vec::new();
    // A character has at most four bytes; one byte more tells whether there is more.
    if let Err(error) = file.take(MAX_CHARS as u64 * 4 + 1).read_to_end(&mut bytes) {
        return Some(format!("[{name} can't be read: {error}]"));
    }
    let text = String::from_utf8_lossy(&bytes);
    let text = text.trim();
    if text.is_empty() {
        return None;
    }
    Some(match text.char_indices().nth(MAX_CHARS) {
        None => text.to_owned(),
        Some(_) => cut(text, &format!("{name} has {size} bytes, and")),
    })
}

/// The first characters of a text, and where it was longer, that it was.
pub(super) fn cut(text: &str, what: &str) -> String {
    match text.char_indices().nth(MAX_CHARS) {
        None => text.to_owned(),
        Some((end, _)) => {
            format!("{}\n[cut: {what} only its first {MAX_CHARS} characters are shown]", &text[..end])
        }
    }
}
