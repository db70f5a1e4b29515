//! The objects of a project's repository in the sandboxes of its agents, read-only, and the clone that shares them.
//!
//! This is the one bind whose source is in the home and not the agent's own. Therefore the type can express nothing else:
//! it is made from a project of the configuration, and its path follows from the project's name. The objects belong to
//! all agents of the project anyway. The references, the configuration and everything else of the repository are beside
//! that folder and are not mounted.

use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::Duration;

use crate::config::Project;
use crate::home::Home;
use crate::id::{AgentId, ProjectName};
use crate::sandbox::spec::{MountSource, MountSpec, WORKSPACE_TARGET};
use crate::sandbox::{Command, egress};

/// Folder of the sandbox that holds the objects of its agent's projects.
pub(crate) const PROJECTS_TARGET: &str = "/projects";

/// The mount of a project's objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProjectMount {
    name: ProjectName,
    /// The branch that work is joined on.
    branch: String,
    repository: PathBuf,
    /// The inode of the folder of objects. It changes when the project is removed and added again, and a bind mount would
    /// keep showing the old folder.
    inode: u64,
}

impl ProjectMount {
    /// Returns the mount of a project, or `None` before the owner's branch was fetched for the first time.
    #[must_use]
    pub fn new(home: &Home, project: &Project) -> Option<Self> {
        let repository = home.project_repository(&project.name);
        let inode = fs_err::symlink_metadata(repository.join("objects")).ok().filter(|it| it.is_dir())?.ino();
        // A reference is a file of its own, because flock never packs them.
        let is_begun = repository.join("refs/heads").join(&project.branch).is_file();
        is_begun.then(|| Self {
            name: project.name.clone(),
            branch: project.branch.clone(),
            repository,
            inode,
        })
    }

    /// Returns the value that changes when the mounted folder is replaced.
    #[must_use]
    pub const fn seen(&self) -> (u64, i64) {
        (self.inode, 0)
    }

    /// Converts it into a mount. It is never writable.
    #[must_use]
    pub fn mount(&self) -> MountSpec {
        MountSpec {
            target: self.target(),
            source: MountSource::Path(self.repository.join("objects")),
            writable: false,
        }
    }

    fn target(&self) -> String {
        format!("{PROJECTS_TARGET}/{}/objects", self.name)
    }

    /// Returns the command that makes the agent's clone in its workspace, if it has none. It runs in the sandbox, as the
    /// agent: flock runs no git in a workspace.
    ///
    /// Returns `None` if the branch can't be read.
    #[must_use]
    pub fn clone_command(&self, agent: &AgentId) -> Option<Command> {
        let repository = git2::Repository::open_bare(&self.repository).ok()?;
        let commit = |branch: &str| {
            repository.refname_to_id(&format!("refs/heads/{branch}")).map(|id| id.to_string()).ok()
        };
        let tip = commit(&self.branch)?;
        let work = format!("flock/{agent}/work");
        // An agent that was assigned before goes on with its branch.
        let start = commit(&work).unwrap_or_else(|| tip.clone());
        let variable = |name: &str, value: String| (name.to_owned(), value);
        Some(Command {
            command: CLONE.to_owned(),
            env: vec![
                variable("FLOCK_AGENT", agent.to_string()),
                variable("FLOCK_TARGET", format!("{WORKSPACE_TARGET}/{}", self.name)),
                variable("FLOCK_DRAFT", format!("{WORKSPACE_TARGET}/.{}.clone", self.name)),
                variable("FLOCK_OBJECTS", self.target()),
                variable("FLOCK_URL", url(&self.name)),
                variable("FLOCK_BRANCH", self.branch.clone()),
                variable("FLOCK_TIP", tip),
                variable("FLOCK_WORK", work),
                variable("FLOCK_START", start),
                // Neither the image's settings nor those in the workspace change what the clone becomes.
                variable("GIT_CONFIG_GLOBAL", "/dev/null".to_owned()),
                variable("GIT_CONFIG_NOSYSTEM", "1".to_owned()),
                variable("GIT_TERMINAL_PROMPT", "0".to_owned()),
            ],
            timeout: Some(CLONE_TIMEOUT),
            keep: 4 << 10,
            ..Command::default()
        })
    }

    /// Returns the name of the project.
    #[must_use]
    pub const fn name(&self) -> &ProjectName {
        &self.name
    }
}

/// Returns the address of a project's repository in the sandboxes.
#[must_use]
pub fn url(project: &ProjectName) -> String {
    format!("http://127.0.0.1:{}/git/{project}", egress::PROXY_PORT)
}

/// Makes a clone without copying an object. A clone that was copied with the workspace of another agent, or whose agent was
/// renamed, gets the agent's name, and its branches become the agent's: it may push no others. An existing file, folder or link of its name is left alone. The clone appears
/// under its name when it is complete, so an interrupted one is made anew.
const CLONE: &str = r#"
set -eu
if [ -d "$FLOCK_TARGET/.git" ] && [ ! -L "$FLOCK_TARGET" ] && [ ! -L "$FLOCK_TARGET/.git" ]; then
  cd "$FLOCK_TARGET"
  mail="$(git config --local user.email || true)"
  was="${mail%@flock.invalid}"
  if [ "$was@flock.invalid" = "$mail" ] && [ -n "$was" ] && [ "$was" != "$FLOCK_AGENT" ]; then
    git for-each-ref --format='%(refname:lstrip=4)' "refs/heads/flock/$was/" | while IFS= read -r name; do
      git branch -m "flock/$was/$name" "flock/$FLOCK_AGENT/$name" || true
    done
    git config user.name "$FLOCK_AGENT"
    git config user.email "$FLOCK_AGENT@flock.invalid"
  fi
  exit 0
fi
if [ -e "$FLOCK_TARGET" ] || [ -L "$FLOCK_TARGET" ]; then exit 0; fi
rm -rf "$FLOCK_DRAFT"
git init -q --template= "$FLOCK_DRAFT"
cd "$FLOCK_DRAFT"
mkdir -p .git/objects/info .git/info
printf '%s\n' "$FLOCK_OBJECTS" > .git/objects/info/alternates
git config user.name "$FLOCK_AGENT"
git config user.email "$FLOCK_AGENT@flock.invalid"
git config push.default current
git config pull.rebase false
git remote add origin "$FLOCK_URL"
git update-ref "refs/remotes/origin/$FLOCK_BRANCH" "$FLOCK_TIP"
git symbolic-ref refs/remotes/origin/HEAD "refs/remotes/origin/$FLOCK_BRANCH"
git checkout -q --no-track -b "$FLOCK_WORK" "$FLOCK_START"
git config "branch.$FLOCK_WORK.remote" origin
git config "branch.$FLOCK_WORK.merge" "refs/heads/$FLOCK_BRANCH"
cd /
mv -T "$FLOCK_DRAFT" "$FLOCK_TARGET"
"#;

/// Time limit for a clone. It only writes the files of one commit.
const CLONE_TIMEOUT: Duration = Duration::from_secs(300);

#[cfg(test)]
mod tests {
    use super::*;

    fn project(home: &Home) -> Project {
        let name: ProjectName = "lib".parse().unwrap();
        let repository = home.project_repository(&name);
        std::fs::create_dir_all(repository.parent().unwrap()).unwrap();
        git2::Repository::init_bare(&repository).unwrap();
        Project::new(name, "/srv/lib".to_owned(), "main".to_owned())
    }

    #[test]
    fn a_mount_follows_from_the_project_and_is_never_writable() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().join("home"), None);
        let project = project(&home);
        assert_eq!(ProjectMount::new(&home, &project), None, "nothing was fetched yet");
        let repository = home.project_repository(&project.name);
        std::fs::create_dir_all(repository.join("refs/heads")).unwrap();
        std::fs::write(repository.join("refs/heads/main"), format!("{}\n", "1".repeat(40))).unwrap();
        let mount = ProjectMount::new(&home, &project).unwrap();
        let MountSpec { target, source, writable } = mount.mount();
        assert_eq!((target.as_str(), writable), ("/projects/lib/objects", false));
        assert_eq!(source, MountSource::Path(home.projects().join("lib.git/objects")));
        assert_eq!(url(mount.name()), "http://127.0.0.1:3128/git/lib");
        let command = mount.clone_command(&"ann".parse().unwrap()).unwrap();
        let value = |name: &str| &command.env.iter().find(|(known, _)| known == name).unwrap().1;
        assert_eq!(value("FLOCK_WORK"), "flock/ann/work");
        assert_eq!((value("FLOCK_TIP"), value("FLOCK_START")), (&"1".repeat(40), &"1".repeat(40)));
        // A repository that was made anew is another mount.
        std::fs::rename(repository.join("objects"), repository.join("before")).unwrap();
        std::fs::create_dir(repository.join("objects")).unwrap();
        assert_ne!(ProjectMount::new(&home, &project).unwrap().seen(), mount.seen());
        // A link in its place is none of flock's.
        std::fs::remove_dir(repository.join("objects")).unwrap();
        std::os::unix::fs::symlink("/etc", repository.join("objects")).unwrap();
        assert_eq!(ProjectMount::new(&home, &project), None);
    }
}
