//! Reads the files about an agent: those of its owner, and the agent's own ones in its workspace.

use std::path::Path;

use crate::error::chain;
use crate::home::beneath::{BeneathError, Root};
use crate::sandbox::spec::IDENTITY_FILES;
use crate::sandbox::workspace_files::WorkspaceFiles;

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

/// The agent's own notes.
const MEMORY_FILE: &str = "MEMORY.md";

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
    let workspace = Root::open(workspace).map(WorkspaceFiles::from);
    read_files(identity, workspace.as_ref())
}

/// Reads the files as [`read_identity`] does, with a workspace that may be on another machine.
pub(super) fn read_files(
    identity: &Path,
    workspace: Result<&WorkspaceFiles, &BeneathError>,
) -> Vec<IdentityFile> {
    let identity = Root::open(identity).map(WorkspaceFiles::from).ok();
    let read = |name: &'static str| {
        // For these five names a file in the workspace is ignored: it would be the agent's own claim about itself.
        let text = match (IDENTITY_FILES.contains(&name), workspace) {
            (true, _) => text(identity.as_ref()?, name)?,
            (false, Ok(workspace)) => text(workspace, name)?,
            // A workspace on this machine that is missing has no files. One on another machine has, so the agent is told.
            (false, Err(error @ (BeneathError::Elsewhere { .. } | BeneathError::Unreachable { .. })))
                if name == MEMORY_FILE =>
            {
                tracing::warn!("a workspace can't be read: {}", chain(error));
                format!("[{name} can't be read: your workspace is on another machine, which does not answer]")
            }
            (false, Err(_)) => return None,
        };
        Some(IdentityFile { name, text })
    };
    FILES.into_iter().filter_map(read).collect()
}

/// Returns the first [`MAX_CHARS`] characters of a file, or `None` if it is missing or empty.
fn text(root: &WorkspaceFiles, name: &str) -> Option<String> {
    // A character has at most four bytes. One more byte shows that the file is longer.
    let (bytes, size) = match root.beginning(Path::new(name), MAX_CHARS as u64 * 4 + 1) {
        Ok(read) => read,
        Err(BeneathError::NotFound { .. }) => return None,
        // The agent should know that a file of its own exists but can't be read.
        Err(error) => return Some(format!("[{name} can't be read: {error}]")),
    };
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
