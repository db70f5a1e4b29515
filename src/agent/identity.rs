//! Who an agent is: five files that its owner edits, in a folder of the home that no sandbox has. They are
//! made before its first container, which mounts them read-only over `/workspace`.

use std::path::{Path, PathBuf};

use super::prompt::archetype;
use crate::config::Role;
use crate::error::{self, Explain};
use crate::home::beneath::{BeneathError, Kind, Root};
use crate::home::existing;
use crate::id::AgentId;
use crate::sandbox::workspace::placeholder;

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
        let path = existing(path);
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

    /// The text that flock gives one of the files.
    fn text(&self, name: &str) -> String {
        let soul = (name == SOUL).then(|| self.soul()).flatten();
        soul.unwrap_or_else(|| {
            template(name, self.role)
                .replace("{id}", self.id.as_str())
                .replace("{role}", self.role.as_str())
                .replace("{archetype}", self.archetype.unwrap_or("none"))
        })
    }
}

/// The file that an archetype becomes.
const SOUL: &str = "SOUL.md";

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
        let taken = old.as_ref().and_then(|old| old.read(path, TAKEN).ok());
        let taken = taken.filter(|text| !text.is_empty() && *text != placeholder(name).into_bytes());
        let text = taken.unwrap_or_else(|| who.text(name).into_bytes());
        root.write(path, &text, Some(0o644), None).map_err(fail)?;
    }
    Ok(())
}

/// A file in a workspace that an owner may take for one that says who the agent is, and the one that does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unread {
    /// The file that is not read.
    pub found: PathBuf,
    /// The file that is read in its place.
    pub read: PathBuf,
}

/// The files of a workspace that have a text of their own which is not read. The agent may have written it.
#[must_use]
pub fn unread(folder: &Path, workspace: &Path) -> Vec<Unread> {
    let (Ok(folder_root), Ok(workspace_root)) = (Root::open(folder), Root::open(workspace)) else {
        return Vec::new();
    };
    let is_own = |name: &&str| {
        let path = Path::new(name);
        let Ok(text) = workspace_root.read(path, TAKEN) else { return false };
        !text.trim_ascii().is_empty()
            && text != placeholder(name).as_bytes()
            && folder_root.read(path, TAKEN).is_ok_and(|known| known != text)
    };
    let names = FILES.into_iter().filter(is_own);
    names.map(|name| Unread { found: workspace.join(name), read: folder.join(name) }).collect()
}

/// Gives an agent that is added the soul of its archetype where the folder still has one of flock's own texts, of an
/// earlier agent of its name. Returns the file where a person's own text stays instead.
///
/// # Errors
///
/// If the file can't be written.
pub fn renew_soul(folder: &Path, who: &Who<'_>) -> Result<Option<PathBuf>, IdentityError> {
    let (Some(soul), Ok(root)) = (who.soul(), Root::open(folder)) else { return Ok(None) };
    let Ok(text) = root.read(Path::new(SOUL), TAKEN) else { return Ok(None) };
    let text = String::from_utf8_lossy(&text);
    if text.trim().is_empty() || text == soul {
        return Ok(None);
    }
    let is_flocks = |name: &String| archetype::find(who.archetypes, name).is_ok_and(|known| known == text);
    if text == template(SOUL, who.role) || archetype::names(who.archetypes).iter().any(is_flocks) {
        let fail = |source| IdentityError::File { path: folder.to_owned(), source };
        root.write(Path::new(SOUL), soul.as_bytes(), Some(0o644), None).map_err(fail)?;
        return Ok(None);
    }
    Ok(Some(folder.join(SOUL)))
}

/// Rewrites the files of an agent that has another role or archetype now, where they still are what flock wrote for the
/// old one. Returns those that a person changed, which stay although they would be different now.
///
/// # Errors
///
/// If a file can't be written.
pub fn follow(folder: &Path, before: &Who<'_>, now: &Who<'_>) -> Result<Vec<PathBuf>, IdentityError> {
    // Without the folder all files are made when the agent is next made ready.
    let Ok(root) = Root::open(folder) else { return Ok(Vec::new()) };
    let mut kept = Vec::new();
    for name in FILES {
        let (old, new) = (before.text(name), now.text(name));
        let Ok(found) = root.read(Path::new(name), TAKEN) else { continue };
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
    fn a_soul_of_flocks_own_follows_the_archetype_and_a_persons_stays() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, workspace) = (dir.path().join("identity"), dir.path().join("workspace"));
        let id = "coder".parse().unwrap();
        let who = |archetype| Who { id: &id, role: Role::Worker, archetype, archetypes: &folder };
        let soul = || std::fs::read_to_string(folder.join("SOUL.md")).unwrap();
        assert_eq!(renew_soul(&folder, &who(Some("qa"))).unwrap(), None, "nothing is there yet");
        made(&folder, &workspace, None);
        for (archetype, has) in [("qa", "# QA"), ("ideation", "# Ideation"), ("qa", "# QA")] {
            assert_eq!(renew_soul(&folder, &who(Some(archetype))).unwrap(), None);
            assert!(soul().contains(has), "{archetype}: {}", soul());
        }
        assert_eq!(renew_soul(&folder, &who(None)).unwrap(), None);
        assert!(soul().contains("# QA"), "nobody asked for another");
        std::fs::write(folder.join("SOUL.md"), "kind").unwrap();
        assert_eq!(renew_soul(&folder, &who(Some("qa"))).unwrap(), Some(folder.join("SOUL.md")));
        assert_eq!(soul(), "kind");
    }

    #[test]
    fn files_follow_a_role_and_an_archetype_unless_a_person_changed_them() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, workspace) = (dir.path().join("identity"), dir.path().join("workspace"));
        let id = "coder".parse().unwrap();
        let who = |role, archetype| Who { id: &id, role, archetype, archetypes: &folder };
        let text = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
        let (worker, qa) = (who(Role::Worker, None), who(Role::Worker, Some("qa")));
        assert_eq!(follow(&folder, &worker, &qa).unwrap(), Vec::<PathBuf>::new(), "nothing is there yet");
        write(&folder, &workspace, &worker).unwrap();
        assert_eq!(follow(&folder, &worker, &qa).unwrap(), Vec::<PathBuf>::new());
        assert!(text("SOUL.md").contains("# QA") && text("IDENTITY.md").contains("Archetype: qa"));
        // Another archetype's text that a person put there is a person's choice.
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
    fn a_file_that_is_not_read_is_found() {
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
        let found = Unread { found: workspace.join("AGENTS.md"), read: folder.join("AGENTS.md") };
        assert_eq!(unread(&folder, &workspace), [found]);
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
