//! An agent's identity: five files that its owner edits, in a folder of the home that no sandbox can write. They are
//! created before the agent's first container, which mounts them read-only over `/workspace`.

use std::path::{Path, PathBuf};

use super::prompt::archetype;
use crate::config::Role;
use crate::error::{self, Explain};
use crate::home::beneath::{BeneathError, FileKind, Root};
use crate::home::{elsewhere, existing};
use crate::id::AgentId;
use crate::sandbox::workspace::placeholder;

/// Names of the identity files. The list belongs to the sandbox, because what is written here is what it mounts.
pub(crate) use crate::sandbox::spec::IDENTITY_FILES as FILES;

/// An error while creating an agent's files.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    #[error("failed to make the folder {}", path.display())]
    Folder {
        /// The folder that could not be created.
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("failed to write who an agent is to {}", path.display())]
    File {
        /// The folder that the file belongs in.
        path: PathBuf,
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
        let path = existing(path);
        // A full disk needs another command than a wrong owner or mode.
        if error::chain(self).contains("No space left") {
            return Some(format!("df -h {}", path.display()));
        }
        Some(format!("ls -ld {}", path.display()))
    }
}

/// The agent whose files are created.
#[derive(Clone, Copy, Debug)]
pub struct AgentIdentity<'a> {
    pub id: &'a AgentId,
    /// The agent's role in the team.
    pub role: Role,
    /// The agent's archetype, if it has one.
    pub archetype: Option<&'a str>,
    /// Folder of the person's own archetypes.
    pub archetypes: &'a Path,
}

impl AgentIdentity<'_> {
    /// Returns the archetype's text. If the archetype no longer exists, a warning is logged and the agent gets the
    /// default text.
    fn soul(&self) -> Option<String> {
        archetype::find(self.archetypes, self.archetype?)
            .inspect_err(|failure| {
                tracing::warn!(agent = %self.id, error = error::chain(failure), "an agent has no archetype");
            })
            .ok()
    }

    /// Returns flock's own text for one of the files.
    fn text(&self, name: &str) -> String {
        let soul = (name == SOUL_FILE).then(|| self.soul()).flatten();
        soul.unwrap_or_else(|| {
            template(name, self.role)
                .replace("{id}", self.id.as_str())
                .replace("{role}", self.role.as_str())
                .replace("{archetype}", self.archetype.unwrap_or("none"))
        })
    }
}

/// Name of the file that holds the archetype's text.
const SOUL_FILE: &str = "SOUL.md";

/// Creates the workspace, and the identity files that are missing in `folder`.
///
/// Files that a person wrote stay. If the workspace is older than the folder, the identity files in it are copied.
///
/// # Errors
///
/// Returns an error if the folder or a file can't be created, or if something that is not a file has its name.
pub fn write(folder: &Path, workspace: &Path, who: &AgentIdentity<'_>) -> Result<(), IdentityError> {
    // Files in the workspace are the owner's only as long as no sandbox of flock's has had it, that is, before the
    // folder exists. Later the agent may have written them.
    let takes_over = !folder.exists();
    // One on another machine has only a mark here.
    let here = elsewhere::engine_of(workspace).is_none().then_some(workspace);
    for path in here.into_iter().chain([folder]) {
        fs_err::create_dir_all(path)
            .map_err(|source| IdentityError::Folder { path: path.to_owned(), source })?;
    }
    let fail = |source| IdentityError::File { path: folder.to_owned(), source };
    let root = Root::open(folder).map_err(fail)?;
    let old = if takes_over { Root::open(workspace).ok() } else { None };
    for name in FILES {
        let path = Path::new(name);
        if root.stat(path).is_ok_and(|entry| entry.kind == FileKind::File && entry.size > 0) {
            continue;
        }
        let taken = old.as_ref().and_then(|old| old.read(path, MAX_COPIED_BYTES).ok());
        // A new workspace has placeholders under these names. They are flock's and nobody's text.
        let taken = taken.filter(|text| !text.is_empty() && *text != placeholder(name).into_bytes());
        let text = taken.unwrap_or_else(|| who.text(name).into_bytes());
        root.write(path, &text, Some(0o644), None).map_err(fail)?;
    }
    Ok(())
}

/// A file in a workspace that its owner may mistake for an identity file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadFile {
    /// The file that flock does not read.
    pub found: PathBuf,
    /// The file that flock reads instead.
    pub read: PathBuf,
}

/// Returns the workspace files that have a text of their own and are not read. The agent may have written them.
#[must_use]
pub fn unread(folder: &Path, workspace: &Path) -> Vec<UnreadFile> {
    let (Ok(folder_root), Ok(workspace_root)) = (Root::open(folder), Root::open(workspace)) else {
        return Vec::new();
    };
    let is_own = |name: &&str| {
        let path = Path::new(name);
        let Ok(text) = workspace_root.read(path, MAX_COPIED_BYTES) else { return false };
        !text.trim_ascii().is_empty()
            && text != placeholder(name).as_bytes()
            && folder_root.read(path, MAX_COPIED_BYTES).is_ok_and(|known| known != text)
    };
    let names = FILES.into_iter().filter(is_own);
    names.map(|name| UnreadFile { found: workspace.join(name), read: folder.join(name) }).collect()
}

/// Gives a newly added agent the text of its archetype if the folder still has one of flock's own texts, from an
/// earlier agent of the same name. If a person wrote the file, it stays and its path is returned.
///
/// # Errors
///
/// Returns an error if the file can't be written.
pub(crate) fn rewrite_soul(folder: &Path, who: &AgentIdentity<'_>) -> Result<Option<PathBuf>, IdentityError> {
    let (Some(soul), Ok(root)) = (who.soul(), Root::open(folder)) else { return Ok(None) };
    let Ok(text) = root.read(Path::new(SOUL_FILE), MAX_COPIED_BYTES) else { return Ok(None) };
    let text = String::from_utf8_lossy(&text);
    if text.trim().is_empty() || text == soul {
        // Nothing to do if the owner emptied the file or it already has this text.
        return Ok(None);
    }
    // The text of any archetype counts as flock's own, because an earlier agent may have had another one.
    let is_flocks = |name: &String| archetype::find(who.archetypes, name).is_ok_and(|known| known == text);
    if text == template(SOUL_FILE, who.role) || archetype::names(who.archetypes).iter().any(is_flocks) {
        let fail = |source| IdentityError::File { path: folder.to_owned(), source };
        root.write(Path::new(SOUL_FILE), soul.as_bytes(), Some(0o644), None).map_err(fail)?;
        return Ok(None);
    }
    Ok(Some(folder.join(SOUL_FILE)))
}

/// Rewrites the files of an agent whose role or archetype changed, where they still have flock's text for the old one.
/// Returns the files that a person changed and that stay although flock's text for them is now another.
///
/// # Errors
///
/// Returns an error if a file can't be written.
pub fn follow(
    folder: &Path,
    before: &AgentIdentity<'_>,
    now: &AgentIdentity<'_>,
) -> Result<Vec<PathBuf>, IdentityError> {
    // If the folder is missing, all files are created when the agent next gets ready.
    let Ok(root) = Root::open(folder) else { return Ok(Vec::new()) };
    let mut kept = Vec::new();
    for name in FILES {
        let (old, new) = (before.text(name), now.text(name));
        let Ok(found) = root.read(Path::new(name), MAX_COPIED_BYTES) else { continue };
        if old == new || found == new.as_bytes() || found.trim_ascii().is_empty() {
            continue;
        }
        if found == old.as_bytes() {
            let fail = |source| IdentityError::File { path: folder.to_owned(), source };
            root.write(Path::new(name), new.as_bytes(), Some(0o644), None).map_err(fail)?;
        } else {
            kept.push(folder.join(name));
        }
    }
    Ok(kept)
}

/// The most bytes of a file that are copied from a workspace.
const MAX_COPIED_BYTES: u64 = 1 << 20;

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
    fn a_hint_names_what_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let failed = |code| IdentityError::Folder {
            path: dir.path().join("agents/coder/identity"),
            source: std::io::Error::from_raw_os_error(code),
        };
        for (code, command) in [(nix::libc::ENOSPC, "df -h"), (nix::libc::EACCES, "ls -ld")] {
            assert_eq!(failed(code).hint(), Some(format!("{command} {}", dir.path().display())));
        }
    }

    fn coder(folder: &Path, workspace: &Path) {
        made(folder, workspace, None);
    }

    fn made(folder: &Path, workspace: &Path, archetype: Option<&str>) {
        let id = "coder".parse().unwrap();
        let who = AgentIdentity { id: &id, role: Role::Worker, archetype, archetypes: folder };
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
    fn an_archetype_becomes_the_soul_and_a_missing_one_is_ignored() {
        let dir = tempfile::tempdir().unwrap();
        for (archetype, soul) in [("qa", "# QA"), ("gone", "Calm"), ("../qa", "Calm")] {
            let folder = dir.path().join(archetype.replace('/', "-"));
            made(&folder, &dir.path().join("workspace"), Some(archetype));
            assert!(std::fs::read_to_string(folder.join("SOUL.md")).unwrap().contains(soul), "{archetype}");
        }
    }

    #[test]
    fn a_default_soul_follows_the_archetype_and_an_edited_one_stays() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, workspace) = (dir.path().join("identity"), dir.path().join("workspace"));
        let id = "coder".parse().unwrap();
        let who = |archetype| AgentIdentity { id: &id, role: Role::Worker, archetype, archetypes: &folder };
        let soul = || std::fs::read_to_string(folder.join("SOUL.md")).unwrap();
        assert_eq!(rewrite_soul(&folder, &who(Some("qa"))).unwrap(), None, "nothing is there yet");
        made(&folder, &workspace, None);
        for (archetype, has) in [("qa", "# QA"), ("ideation", "# Ideation"), ("qa", "# QA")] {
            assert_eq!(rewrite_soul(&folder, &who(Some(archetype))).unwrap(), None);
            assert!(soul().contains(has), "{archetype}: {}", soul());
        }
        assert_eq!(rewrite_soul(&folder, &who(None)).unwrap(), None);
        assert!(soul().contains("# QA"), "nobody asked for another");
        std::fs::write(folder.join("SOUL.md"), "kind").unwrap();
        assert_eq!(rewrite_soul(&folder, &who(Some("qa"))).unwrap(), Some(folder.join("SOUL.md")));
        assert_eq!(soul(), "kind");
    }

    #[test]
    fn files_follow_a_role_and_an_archetype_unless_a_person_changed_them() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, workspace) = (dir.path().join("identity"), dir.path().join("workspace"));
        let id = "coder".parse().unwrap();
        let who = |role, archetype| AgentIdentity { id: &id, role, archetype, archetypes: &folder };
        let text = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
        let (worker, qa) = (who(Role::Worker, None), who(Role::Worker, Some("qa")));
        assert_eq!(follow(&folder, &worker, &qa).unwrap(), Vec::<PathBuf>::new(), "nothing is there yet");
        write(&folder, &workspace, &worker).unwrap();
        assert_eq!(follow(&folder, &worker, &qa).unwrap(), Vec::<PathBuf>::new());
        assert!(text("SOUL.md").contains("# QA") && text("IDENTITY.md").contains("Archetype: qa"));
        // A person may put another archetype's text there on purpose.
        std::fs::write(folder.join("SOUL.md"), archetype::find(&folder, "ideation").unwrap()).unwrap();
        std::fs::write(folder.join("TOOLS.md"), "mine").unwrap();
        let admin = who(Role::Sysadmin, Some("code-reviewer"));
        let kept = follow(&folder, &qa, &admin).unwrap();
        assert_eq!(kept, [folder.join("SOUL.md"), folder.join("TOOLS.md")]);
        assert!(text("SOUL.md").contains("# Ideation") && text("TOOLS.md") == "mine");
        assert!(text("IDENTITY.md").contains("Role: sysadmin"));
        assert_eq!(follow(&folder, &admin, &admin).unwrap(), Vec::<PathBuf>::new(), "nothing changed");
    }

    #[test]
    fn an_ignored_workspace_file_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, workspace) = (dir.path().join("identity"), dir.path().join("workspace"));
        coder(&folder, &workspace);
        for name in FILES {
            std::fs::write(workspace.join(name), placeholder(name)).unwrap();
        }
        std::fs::write(workspace.join("TOOLS.md"), "").unwrap();
        std::fs::copy(folder.join("USER.md"), workspace.join("USER.md")).unwrap();
        assert_eq!(unread(&folder, &workspace), []);
        std::fs::write(workspace.join("AGENTS.md"), "Answer in verse.").unwrap();
        let found = UnreadFile { found: workspace.join("AGENTS.md"), read: folder.join("AGENTS.md") };
        assert_eq!(unread(&folder, &workspace), [found]);
    }

    #[test]
    fn identity_files_of_an_older_workspace_are_copied_once_and_not_through_links() {
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
        // From now on the agent may have written to the workspace.
        std::fs::remove_file(folder.join("SOUL.md")).unwrap();
        coder(&folder, &workspace);
        assert_ne!(std::fs::read_to_string(folder.join("SOUL.md")).unwrap(), "kind");
    }
}
