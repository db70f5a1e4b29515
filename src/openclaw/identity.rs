//! Installs the hook that tells OpenClaw who an agent is. By default, OpenClaw reads that from the workspace, whose
//! files the agent can change. The hook puts the owner's files in their place. It is in a separate folder and not part
//! of the plugin, because some versions forget what plugins registered before they look for hooks.

use std::path::PathBuf;

use super::derive::IDENTITY_HOOK;
use super::state::failed;
use super::write_if_changed;
use crate::home::{Home, HomeError};
use crate::id::AgentId;

const FILES: [(&str, &str); 2] =
    [("HOOK.md", include_str!("hook/HOOK.md")), ("handler.js", include_str!("hook/handler.js"))];

/// Returns the folder in which OpenClaw looks for the hook's folder.
#[must_use]
pub(crate) fn hooks(home: &Home) -> PathBuf {
    home.extension("hooks")
}

/// Writes the files of the hook that differ from this binary's.
///
/// # Errors
///
/// Returns [`HomeError`] if a folder or file can't be written.
pub(crate) fn install(home: &Home) -> Result<(), HomeError> {
    let folder = hooks(home).join(IDENTITY_HOOK);
    fs_err::create_dir_all(&folder).map_err(failed("make", &folder))?;
    for (name, text) in FILES {
        write_if_changed(&folder.join(name), text.as_bytes(), 0o600)?;
    }
    Ok(())
}

/// Writes an agent's role text, which the hook puts before the owner's text. The hook reads it anew for each turn.
///
/// # Errors
///
/// Returns [`HomeError`] if the folder or file can't be written.
pub(crate) fn set_role(home: &Home, agent: &AgentId, text: &str) -> Result<(), HomeError> {
    let path = role_path(home, agent);
    let folder = path.parent().unwrap_or(&path);
    fs_err::create_dir_all(folder).map_err(failed("make", folder))?;
    write_if_changed(&path, text.as_bytes(), 0o600).map(drop)
}

/// Removes an agent's role text, if there is one.
///
/// # Errors
///
/// Returns [`HomeError`] if the file exists and can't be removed.
pub(crate) fn remove_role(home: &Home, agent: &AgentId) -> Result<(), HomeError> {
    let path = role_path(home, agent);
    match fs_err::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(failed("remove", path)(error)),
        _ => Ok(()),
    }
}

fn role_path(home: &Home, agent: &AgentId) -> PathBuf {
    home.openclaw_versions().join("roles").join(format!("{agent}.md"))
}
