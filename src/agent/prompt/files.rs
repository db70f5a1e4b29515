//! Reads the files about an agent: those of its owner, and the agent's own ones in its workspace.

use std::io::Read as _;
use std::path::Path;

use crate::home::beneath::{BeneathError, Root};
use crate::sandbox::spec::IDENTITY_FILES;

/// The most characters of one file in a prompt.
pub const MAX_CHARS: usize = 20_000;

/// All files, in the order of the prompt.
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

/// One of these files, as far as the prompt includes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityFile {
    pub name: &'static str,
    /// The file's text, or the reason why it can't be read.
    pub text: String,
}

/// Reads the files that exist. The agent can write to its workspace, so a file there may be anything: no file at all,
/// very long, or not text. The owner's files are read with the same care.
#[must_use]
pub fn read_identity(identity: &Path, workspace: &Path) -> Vec<IdentityFile> {
    let (identity, workspace) = (Root::open(identity).ok(), Root::open(workspace).ok());
    let read = |name: &'static str| {
        // For these five names a file in the workspace is ignored: it would be the agent's own claim about itself.
        let root = if IDENTITY_FILES.contains(&name) { &identity } else { &workspace };
        Some(IdentityFile { name, text: text(root.as_ref()?, name)? })
    };
    FILES.into_iter().filter_map(read).collect()
}

/// Returns the first [`MAX_CHARS`] characters of a file, or `None` if it is missing or empty.
fn text(root: &Root, name: &str) -> Option<String> {
    let (file, size) = match root.open_file(Path::new(name)) {
        Ok(opened) => opened,
        Err(BeneathError::NotFound { .. }) => return None,
        // The agent should know that a file of its own exists but can't be read.
        Err(error) => return Some(format!("[{name} can't be read: {error}]")),
    };
    let mut bytes = Vec::new();
    // A character has at most four bytes. One more byte shows that the file is longer.
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

/// Returns the first [`MAX_CHARS`] characters of a text, with a note if it was longer.
pub(super) fn cut(text: &str, what: &str) -> String {
    match text.char_indices().nth(MAX_CHARS) {
        None => text.to_owned(),
        Some((end, _)) => {
            format!("{}\n[cut: {what} only its first {MAX_CHARS} characters are shown]", &text[..end])
        }
    }
}
