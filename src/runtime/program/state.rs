//! A program's folder for one session of an agent. The agent can write to it, as to its workspace. A turn can begin
//! whatever lies there, even in the place of the folder itself: obstacles are moved to a folder that no agent can
//! reach, and are removed there.

use std::collections::HashSet;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use uuid::Uuid;

use super::folders;
use super::interface::{Program, StateFile};
use crate::error::chain;
use crate::home::Home;
use crate::home::beneath::{BeneathError, FileKind, Owner, Root};
use crate::home::remove_tree;
use crate::id::{AgentId, SessionKey};
use crate::sandbox::workspace;

fn named((path, error): (PathBuf, std::io::Error)) -> String {
    format!("{}: {error}", path.display())
}

/// Most entries of a folder that are listed at once.
const LIST_BATCH: usize = 2000;
/// Most folders of a program that one sweep examines.
const MAX_FOLDERS: usize = 100_000;

/// A program's folder for one session of an agent.
#[derive(Clone, Debug)]
pub struct StateFolder {
    /// The folder above, which is mounted into the sandbox.
    shared: PathBuf,
    name: String,
    /// Path of the folder's old contents while a new conversation begins.
    aside: PathBuf,
    gone: PathBuf,
    /// The agent's identity folder. It tells as which user the agent's programs run.
    identity: PathBuf,
}

impl StateFolder {
    /// Returns the folder of this session.
    #[must_use]
    pub fn of(home: &Home, program: &dyn Program, session: &SessionKey) -> Self {
        let (agent, name) = (session.agent(), folders::name_of(session));
        Self {
            shared: folders::state(home, agent, program),
            aside: aside(home, agent).join(format!("{}-{name}", program.folder())),
            gone: gone(home, agent),
            identity: home.identity(agent),
            name,
        }
    }

    /// Returns the path on the host.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.shared.join(&self.name)
    }

    /// Returns the name in the folder above.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Creates the folder if it does not exist, owned by the user of the program.
    ///
    /// # Errors
    ///
    /// Returns the path and the reason.
    pub fn ready(&self) -> Result<(), String> {
        let owner = self.owner()?;
        workspace::writable(&self.shared, owner).map_err(named)?;
        let name = Path::new(&self.name);
        let root = Root::open(&self.shared).map_err(|error| self.named(&error))?;
        // The path is opened without following links, because the agent may have put a link there.
        match root.stat(name) {
            Ok(found) if found.kind == FileKind::Folder => return Ok(()),
            Ok(_) => self.put_away(name).map_err(|error| self.named(&error))?,
            Err(BeneathError::NotFound { .. }) => {}
            Err(error) => return Err(self.named(&error)),
        }
        root.create_dir_all(name, owner).map_err(|error| self.named(&error))
    }

    /// Creates an empty folder for a new conversation. The old contents are set aside.
    ///
    /// # Errors
    ///
    /// Returns the path and the reason.
    pub fn anew(&self) -> Result<StateBackup, String> {
        workspace::writable(&self.shared, self.owner()?).map_err(named)?;
        // Contents that a killed process set aside earlier are dropped, to make room for these.
        let moved = prepared(&self.gone)
            .and_then(|()| move_to_trash(&self.aside, &self.gone))
            .and_then(|()| self.aside.parent().map_or(Ok(()), prepared))
            .and_then(|()| remove_tree::put_away(&self.shared, Path::new(&self.name), &self.aside));
        let was = moved.map_err(|error| format!("{}: {error}", self.path().display()))?;
        let replaced = StateBackup { state: self.clone(), holds: was };
        self.ready()?;
        Ok(replaced)
    }

    /// Writes or removes the files that steer the program. With `kept`, as in
    /// [`Invocation::kept`](super::interface::Invocation::kept), everything else is removed.
    ///
    /// # Errors
    ///
    /// Returns the path and the reason.
    pub fn write(&self, files: &[StateFile], kept: Option<&[&str]>) -> Result<(), String> {
        if files.is_empty() && kept.is_none() {
            return Ok(());
        }
        let root = Root::open(&self.path()).map_err(|error| self.named(&error))?;
        if let Some(kept) = kept {
            let written = files.iter().filter(|file| file.content.is_some());
            let kept: Vec<&Path> =
                kept.iter().map(Path::new).chain(written.map(|file| Path::new(&file.path))).collect();
            // First everything else is removed, so that nothing can be in the way of the files.
            self.keep(&root, Path::new(""), &kept).map_err(|error| self.named(&error))?;
        }
        let owner = self.owner()?;
        files.iter().try_for_each(|file| self.put(&root, file, owner)).map_err(|error| self.named(&error))
    }

    /// Makes files of the user's folder appear in this one, as links. Whatever is in their place is removed. Missing
    /// files are skipped.
    ///
    /// # Errors
    ///
    /// Returns the path and the reason.
    pub fn link(&self, user: &Path, files: &[&str]) -> Result<(), String> {
        let there = files.iter().map(Path::new).filter(|file| user.join(file).is_file());
        let there: Vec<&Path> = there.collect();
        if there.is_empty() {
            return Ok(());
        }
        let root = Root::open(&self.path()).map_err(|error| self.named(&error))?;
        let owner = self.owner()?;
        there.into_iter().try_for_each(|file| {
            let nothing = StateFile { path: file.display().to_string(), content: None };
            let above = file.parent().filter(|above| !above.as_os_str().is_empty());
            self.put(&root, &nothing, owner)
                .and_then(|()| above.map_or(Ok(()), |above| root.create_dir_all(above, owner)))
                .and_then(|()| root.link(file, &user.join(file)))
                .map_err(|error| self.named(&error))
        })
    }

    /// Returns a file that the program wrote, if it exists and is at most `most` bytes long.
    #[must_use]
    pub fn read(&self, file: &str, most: u64) -> Option<String> {
        let bytes = Root::open(&self.path()).ok()?.read(Path::new(file), most).ok()?;
        String::from_utf8(bytes).ok()
    }

    /// Returns the user as which the program runs.
    fn owner(&self) -> Result<Option<Owner>, String> {
        workspace::owner(&self.identity).map_err(named)
    }

    fn put(&self, root: &Root, file: &StateFile, owner: Option<Owner>) -> Result<(), BeneathError> {
        let path = Path::new(&file.path);
        // The agent may have put anything there: a folder, a link, a pipe. Something else in the place of a folder
        // would keep all of the agent's turns from beginning.
        for above in path.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty()) {
            if root.stat(above).is_ok_and(|found| found.kind != FileKind::Folder) {
                root.remove(above)?;
            }
        }
        match (root.stat(path), &file.content) {
            (Err(BeneathError::NotFound { .. }), None) => return Ok(()),
            (Err(BeneathError::NotFound { .. }), Some(_)) => {}
            (Ok(found), Some(_)) if found.kind == FileKind::File => {}
            // A large folder is only moved away here, so the time does not depend on its contents.
            (Ok(_), _) => self.clear(root, path)?,
            (Err(error), _) => return Err(error),
        }
        let Some(content) = &file.content else { return Ok(()) };
        if let Some(above) = path.parent().filter(|above| !above.as_os_str().is_empty()) {
            root.create_dir_all(above, owner)?;
        }
        root.write(path, content.as_bytes(), Some(0o600), owner)
    }

    /// Removes all entries of a folder that are not kept and do not lead to a kept entry.
    fn keep(&self, root: &Root, folder: &Path, kept: &[&Path]) -> Result<(), BeneathError> {
        loop {
            let (entries, more) = root.list(folder, LIST_BATCH)?;
            let mut cleared = false;
            for entry in entries.iter().filter(|entry| !kept.contains(&entry.path.as_path())) {
                let leads = kept.iter().any(|kept| kept.starts_with(&entry.path));
                if leads && root.stat(&entry.path)?.kind == FileKind::Folder {
                    self.keep(root, &entry.path, kept)?;
                } else {
                    self.clear(root, &entry.path)?;
                    cleared = true;
                }
            }
            // The listing is limited, so it is repeated while entries are removed, however many the agent has created.
            if !more || !cleared {
                return Ok(());
            }
        }
    }

    /// Removes an entry of any kind.
    fn clear(&self, root: &Root, path: &Path) -> Result<(), BeneathError> {
        match root.stat(path)?.kind {
            FileKind::Folder => self.put_away(&Path::new(&self.name).join(path)),
            _ => root.remove(path),
        }
    }

    /// Moves an entry to the folder for removal.
    fn put_away(&self, path: &Path) -> Result<(), BeneathError> {
        let moved = prepared(&self.gone).and_then(|()| {
            remove_tree::put_away(&self.shared, path, &self.gone.join(Uuid::new_v4().to_string()))
        });
        moved.map(drop).map_err(|source| BeneathError::Io { verb: "move", path: path.to_owned(), source })
    }

    fn named(&self, error: &BeneathError) -> String {
        format!("{}: {}", self.path().display(), chain(error))
    }
}

/// The contents of a folder before it was emptied. Dropping this puts them back, unless the new conversation has begun:
/// a conversation that could not begin is no reason to lose the old one.
#[derive(Debug)]
pub struct StateBackup {
    state: StateFolder,
    holds: bool,
}

impl StateBackup {
    /// Gives up the old contents.
    pub fn discard(mut self) {
        self.holds = false;
        log_error(move_to_trash(&self.state.aside, &self.state.gone));
    }
}

impl Drop for StateBackup {
    fn drop(&mut self) {
        if self.holds {
            let StateFolder { shared, name, aside, gone, .. } = &self.state;
            let new = gone.join(Uuid::new_v4().to_string());
            let moved = remove_tree::put_away(shared, Path::new(name), &new);
            log_error(moved.and_then(|_| fs_err::rename(aside, shared.join(name))));
        }
    }
}

/// Removes what was put away for an agent. The work is done outside the turn's time.
pub fn tidy(home: &Home, agent: &AgentId) {
    let gone = gone(home, agent);
    if gone.read_dir().is_ok_and(|mut found| found.next().is_some()) {
        tokio::task::spawn_blocking(move || remove_contents(&gone));
    }
}

/// Removes the folders of sessions that no longer exist. `known` returns an agent's sessions. With `first`, no turn has
/// begun in this process yet, and contents that a killed process set aside are removed too.
pub fn sweep(home: &Home, first: bool, mut known: impl FnMut(&AgentId) -> Option<Vec<SessionKey>>) {
    let agents = fs_err::read_dir(home.agents()).into_iter().flatten().flatten();
    for agent in agents.filter_map(|entry| entry.file_name().to_str()?.parse::<AgentId>().ok()) {
        let gone = gone(home, &agent);
        // Listed before the sessions are read. The folder of a session that begins meanwhile is not in this list.
        let programs = fs_err::read_dir(folders::states(home, &agent)).into_iter().flatten().flatten();
        let found: Vec<(PathBuf, PathBuf)> = programs
            .map(|program| program.path())
            .filter_map(|shared| {
                let (found, _) =
                    Root::open(&shared).and_then(|root| root.list(Path::new(""), MAX_FOLDERS)).ok()?;
                Some(found.into_iter().map(move |entry| (shared.clone(), entry.path)))
            })
            .flatten()
            .collect();
        // If the sessions are not known, no folder is removed.
        if let Some(sessions) = (!found.is_empty()).then(|| known(&agent)).flatten() {
            let names: HashSet<PathBuf> =
                sessions.iter().map(|session| folders::name_of(session).into()).collect();
            for (shared, left) in found.into_iter().filter(|(_, name)| !names.contains(name)) {
                let to = gone.join(Uuid::new_v4().to_string());
                log_error(
                    prepared(&gone).and_then(|()| remove_tree::put_away(&shared, &left, &to).map(drop)),
                );
            }
        }
        if first {
            let left = fs_err::read_dir(aside(home, &agent)).into_iter().flatten().flatten();
            left.for_each(|entry| {
                log_error(prepared(&gone).and_then(|()| move_to_trash(&entry.path(), &gone)));
            });
        }
        remove_contents(&gone);
    }
}

/// Returns the folder for an agent's old contents while a new conversation begins.
fn aside(home: &Home, agent: &AgentId) -> PathBuf {
    home.agent(agent).join("aside")
}

/// Returns the folder for contents that will be removed.
fn gone(home: &Home, agent: &AgentId) -> PathBuf {
    home.agent(agent).join("gone")
}

/// Moves a folder of flock's to the folder for removal, if it exists.
fn move_to_trash(path: &Path, gone: &Path) -> std::io::Result<()> {
    match fs_err::rename(path, gone.join(Uuid::new_v4().to_string())) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        moved => moved,
    }
}

/// Creates a folder that only flock can open.
fn prepared(folder: &Path) -> std::io::Result<()> {
    fs_err::create_dir_all(folder)?;
    fs_err::set_permissions(folder, std::fs::Permissions::from_mode(0o700))
}

/// Empties the folder for removal. What cannot be removed stays for the next time.
fn remove_contents(gone: &Path) {
    for entry in fs_err::read_dir(gone).into_iter().flatten().flatten() {
        if let Err((stuck, _)) = remove_tree::clear(gone, Path::new(&entry.file_name())) {
            tracing::warn!(path = %stuck.path.display(), error = %stuck.error, "something of a program's could not be removed");
        }
    }
}

fn log_error(moved: std::io::Result<()>) {
    if let Err(error) = moved {
        tracing::warn!(%error, "something of a program's could not be moved");
    }
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
