//! The files of a workspace that say who an agent is.

use std::io::Read as _;
use std::path::Path;

use crate::home::beneath::{BeneathError, Root};
use crate::sandbox::spec::IDENTITY_FILES;

/// The most characters of one file that a prompt has.
pub const MAX_CHARS: usize = 20_000;

/// The agent's own, in its workspace.
const MEMORY: &str = "MEMORY.md";

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
    let read = |folder: &Path, name: &'static str| {
        let root = Root::open(folder).ok()?;
        Some(IdentityFile { name, text: text(&root, name)? })
    };
    let own = IDENTITY_FILES.into_iter().filter_map(|name| read(identity, name));
    own.chain(read(workspace, MEMORY)).collect()
}

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
        Some((end, _)) => format!(
            "{}\n[cut: {name} has {size} bytes, and only its first {MAX_CHARS} characters are shown]",
            &text[..end]
        ),
    })
}
