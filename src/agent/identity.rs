//! Who an agent is: the five files that its workspace starts with. They are made before its first
//! container, which mounts them read-only; the owner edits them, the agent can't.

use std::path::{Path, PathBuf};

use crate::config::Role;
use crate::error::{self, Explain};
use crate::home::beneath::{BeneathError, Kind, Root};
use crate::id::AgentId;

/// The names of the files.
pub const FILES: [&str; 5] = ["AGENTS.md", "SOUL.md", "IDENTITY.md", "USER.md", "TOOLS.md"];

/// Why an agent's files could not be made.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// The folder could not be made.
    #[error("failed to make the workspace {}", path.display())]
    Folder {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A file could not be written.
    #[error("failed to prepare the workspace {}", path.display())]
    File {
        /// The workspace.
        path: PathBuf,
        /// What failed in it.
        #[source]
        source: BeneathError,
    },
}

impl Explain for IdentityError {
    fn kind(&self) -> error::Kind {
        error::Kind::Failed
    }

    fn hint(&self) -> Option<String> {
        let (Self::Folder { path, .. } | Self::File { path, .. }) = self;
        if error::chain(self).contains("No space left") {
            return Some(format!("df -h {}", path.display()));
        }
        Some(format!("ls -ld {}", path.display()))
    }
}

/// Makes the workspace and those of its files that are missing. What a person has written there stays.
///
/// # Errors
///
/// If the folder or a file can't be made, or something else than a file has its name.
pub fn write(
    workspace: &Path,
    id: &AgentId,
    role: Role,
    archetype: Option<&str>,
) -> Result<(), IdentityError> {
    fs_err::create_dir_all(workspace)
        .map_err(|source| IdentityError::Folder { path: workspace.to_owned(), source })?;
    let fail = |source| IdentityError::File { path: workspace.to_owned(), source };
    let root = Root::open(workspace).map_err(fail)?;
    for name in FILES {
        let path = Path::new(name);
        match root.stat(path) {
            Ok(entry) if entry.kind == Kind::File && entry.size > 0 => continue,
            // A link or a pipe was planted by an earlier agent of this id; it is removed, not followed.
            Ok(entry) if !matches!(entry.kind, Kind::File | Kind::Folder) => {
                root.remove(path).map_err(fail)?;
            }
            _ => {}
        }
        let text = template(name, role)
            .replace("{id}", id.as_str())
            .replace("{role}", role.as_str())
            .replace("{archetype}", archetype.unwrap_or("none"));
        root.write(path, text.as_bytes(), Some(0o644), None).map_err(fail)?;
    }
    Ok(())
}

fn template(name: &str, role: Role) -> &'static str {
    match (name, role) {
        ("AGENTS.md", _) => include_str!("identity/AGENTS.md"),
        ("SOUL.md", _) => include_str!("identity/SOUL.md"),
        ("IDENTITY.md", _) => include_str!("identity/IDENTITY.md"),
        ("USER.md", _) => include_str!("identity/USER.md"),
        (_, Role::Sysadmin) => include_str!("identity/TOOLS-sysadmin.md"),
        _ => include_str!("identity/TOOLS.md"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_files_are_made_and_written_ones_stay() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = dir.path().join("coder");
        let id = "coder".parse().unwrap();
        write(&workspace, &id, Role::Worker, None).unwrap();
        for name in FILES {
            assert!(!std::fs::read_to_string(workspace.join(name)).unwrap().contains('{'), "{name}");
        }
        std::fs::write(workspace.join("USER.md"), "Ann").unwrap();
        std::fs::write(workspace.join("SOUL.md"), "").unwrap();
        write(&workspace, &id, Role::Worker, None).unwrap();
        assert_eq!(std::fs::read_to_string(workspace.join("USER.md")).unwrap(), "Ann");
        assert!(std::fs::read_to_string(workspace.join("SOUL.md")).unwrap().contains("Calm"));
    }

    #[test]
    fn a_planted_link_is_not_written_through() {
        let dir = tempfile::tempdir().unwrap();
        let secret = dir.path().join("secret");
        std::fs::write(&secret, "").unwrap();
        let workspace = dir.path().join("coder");
        std::fs::create_dir(&workspace).unwrap();
        std::os::unix::fs::symlink(&secret, workspace.join("USER.md")).unwrap();
        write(&workspace, &"coder".parse().unwrap(), Role::Worker, None).unwrap();
        assert!(std::fs::symlink_metadata(workspace.join("USER.md")).unwrap().is_file());
        assert_eq!(std::fs::read_to_string(&secret).unwrap(), "");
    }
}
