//! Who an agent is, told to OpenClaw. By itself it reads that from the workspace, whose files are the agent's; a hook of
//! flock's puts the owner's files in their place. It is a folder of its own and no part of the plugin, because some
//! versions forget what plugins register before they look for hooks.

use std::path::PathBuf;

use super::derive::IDENTITY_HOOK;
use crate::home::{Home, HomeError, atomic};
use crate::id::AgentId;

const FILES: [(&str, &str); 2] =
    [("HOOK.md", include_str!("hook/HOOK.md")), ("handler.js", include_str!("hook/handler.js"))];
/// No file of it is longer, in bytes.
const LARGEST: u64 = 1 << 20;

/// The folder in which OpenClaw finds the hook's folder.
#[must_use]
pub fn hooks(home: &Home) -> PathBuf {
    home.extension("hooks")
}

/// Writes the hook, as far as what is there differs.
///
/// # Errors
///
/// As [`HomeError`] says.
pub fn install(home: &Home) -> Result<(), HomeError> {
    let folder = hooks(home).join(IDENTITY_HOOK);
    make(&folder)?;
    for (name, text) in FILES {
        let path = folder.join(name);
        if atomic::read(&path, LARGEST).ok().flatten().as_deref() != Some(text.as_bytes()) {
            atomic::write(&path, text.as_bytes(), 0o600)?;
        }
    }
    Ok(())
}

/// Writes what an agent's role says, which comes before what its owner wrote. The hook reads it anew for each turn.
///
/// # Errors
///
/// As [`HomeError`] says.
pub fn set_role(home: &Home, agent: &AgentId, text: &str) -> Result<(), HomeError> {
    let path = role(home, agent);
    make(path.parent().unwrap_or(&path))?;
    if atomic::read(&path, LARGEST).ok().flatten().as_deref() == Some(text.as_bytes()) {
        return Ok(());
    }
    atomic::write(&path, text.as_bytes(), 0o600)
}

/// Forgets who an agent was.
///
/// # Errors
///
/// If its file can't be removed.
pub fn forget_role(home: &Home, agent: &AgentId) -> Result<(), HomeError> {
    let path = role(home, agent);
    match fs_err::remove_file(&path) {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
            Err(HomeError::Io { verb: "remove", path, source })
        }
        _ => Ok(()),
    }
}

fn role(home: &Home, agent: &AgentId) -> PathBuf {
    home.openclaw_versions().join("roles").join(format!("{agent}.md"))
}

fn make(folder: &std::path::Path) -> Result<(), HomeError> {
    fs_err::create_dir_all(folder).map_err(|source| HomeError::Io {
        verb: "make",
        path: folder.to_owned(),
        source,
    })
}
