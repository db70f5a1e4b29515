//! Who an agent is: five files that its owner edits, in a folder of the home that no sandbox has. They are
//! made before its first container, which mounts them read-only over `/workspace`.

use std::path::{Path, PathBuf};

use super::prompt::archetype;
use crate::config::Role;
use crate::error::{self, Explain};
use crate::home::beneath::{BeneathError, Kind, Root};
use crate::id::AgentId;

/// The names of the files: what is written here is what a sandbox mounts.
pub use crate::sandbox::spec::IDENTITY_FILES as FILES;

/// Why an agent's files could not be made.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// The folder could not be made.
    #[error("failed to make the folder {}", path.display())]
    Folder {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A file could not be written.
    #[error("failed to write who an agent is to {}", path.display())]
    File {
        /// The folder.
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

/// Whose files are made.
#[derive(Clone, Copy, Debug)]
pub struct Who<'a> {
    /// The agent.
    pub id: &'a AgentId,
    /// What it is in the team.
    pub role: Role,
    /// Its archetype, if it has one.
    pub archetype: Option<&'a str>,
    /// Where a person's own archetypes are.
    pub archetypes: &'a Path,
}

impl Who<'_> {
    /// The text of the archetype. One that is gone since the agent was added costs the agent nothing else.
    fn soul(&self) -> Option<String> {
        archetype::find(self.archetypes, self.archetype?)
            .inspect_err(|failure| {
                tracing::warn!(agent = %self.id, error = error::chain(failure), "an agent has no archetype");
            })
            .ok()
    }
}

/// Makes the workspace, and in `folder` the files that are missing. What a person has written stays; what a
/// workspace that is older than the folder says of its agent is taken over.
///
/// # Errors
///
/// If the folder or a file can't be made, or something else than a file has its name.
pub fn write(folder: &Path, workspace: &Path, who: &Who<'_>) -> Result<(), IdentityError> {
    // Only then can what lies in the workspace be the owner's: no sandbox of flock's has had it yet.
    let takes_over = !folder.exists();
    for path in [workspace, folder] {
        fs_err::create_dir_all(path)
            .map_err(|source| IdentityError::Folder { path: path.to_owned(), source })?;
    }
    let fail = |source| IdentityError::File { path: folder.to_owned(), source };
    let root = Root::open(folder).map_err(fail)?;
    let old = if takes_over { Root::open(workspace).ok() } else { None };
    for name in FILES {
        let path = Path::new(name);
        if root.stat(path).is_ok_and(|entry| entry.kind == Kind::File && entry.size > 0) {
            continue;
        }
        let taken = old.as_ref().and_then(|old| old.read(path, TAKEN).ok()).filter(|text| !text.is_empty());
        let text = taken.unwrap_or_else(|| {
            let soul = (name == "SOUL.md").then(|| who.soul()).flatten();
            soul.unwrap_or_else(|| {
                template(name, who.role)
                    .replace("{id}", who.id.as_str())
                    .replace("{role}", who.role.as_str())
                    .replace("{archetype}", who.archetype.unwrap_or("none"))
            })
            .into_bytes()
        });
        root.write(path, &text, Some(0o644), None).map_err(fail)?;
    }
    Ok(())
}

/// The most bytes of a file that are taken over.
const TAKEN: u64 = 1 << 20;

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

    fn coder(folder: &Path, workspace: &Path) {
        made(folder, workspace, None);
    }

    fn made(folder: &Path, workspace: &Path, archetype: Option<&str>) {
        let id = "coder".parse().unwrap();
        let who = Who { id: &id, role: Role::Worker, archetype, archetypes: folder };
        write(folder, workspace, &who).unwrap();
    }

    #[test]
    fn missing_files_are_made_and_written_ones_stay() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, workspace) = (dir.path().join("identity"), dir.path().join("workspace"));
        coder(&folder, &workspace);
        for name in FILES {
            assert!(!std::fs::read_to_string(folder.join(name)).unwrap().contains('{'), "{name}");
        }
        std::fs::write(folder.join("USER.md"), "Ann").unwrap();
        std::fs::write(folder.join("SOUL.md"), "").unwrap();
        coder(&folder, &workspace);
        assert_eq!(std::fs::read_to_string(folder.join("USER.md")).unwrap(), "Ann");
        assert!(std::fs::read_to_string(folder.join("SOUL.md")).unwrap().contains("Calm"));
    }

    #[test]
    fn an_archetype_becomes_the_soul_and_one_that_is_gone_does_no_harm() {
        let dir = tempfile::tempdir().unwrap();
        for (archetype, soul) in [("qa", "# QA"), ("gone", "Calm"), ("../qa", "Calm")] {
            let folder = dir.path().join(archetype.replace('/', "-"));
            made(&folder, &dir.path().join("workspace"), Some(archetype));
            assert!(std::fs::read_to_string(folder.join("SOUL.md")).unwrap().contains(soul), "{archetype}");
        }
    }

    #[test]
    fn an_older_workspace_is_believed_once_and_never_through_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, workspace) = (dir.path().join("identity"), dir.path().join("workspace"));
        let secret = dir.path().join("secret");
        std::fs::write(&secret, "a secret").unwrap();
        std::fs::create_dir(&workspace).unwrap();
        std::fs::write(workspace.join("SOUL.md"), "kind").unwrap();
        std::os::unix::fs::symlink(&secret, workspace.join("USER.md")).unwrap();
        coder(&folder, &workspace);
        assert_eq!(std::fs::read_to_string(folder.join("SOUL.md")).unwrap(), "kind");
        assert!(!std::fs::read_to_string(folder.join("USER.md")).unwrap().contains("secret"));
        // From now on the agent may have been at it.
        std::fs::remove_file(folder.join("SOUL.md")).unwrap();
        coder(&folder, &workspace);
        assert_ne!(std::fs::read_to_string(folder.join("SOUL.md")).unwrap(), "kind");
    }
}
