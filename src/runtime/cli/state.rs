//! A program's folder for one session of an agent. It is the agent's as its workspace is: whatever lies there, also in the
//! place of the folder itself, a turn can begin, because what is in the way is moved to where no agent comes and removed
//! from there.

use std::collections::HashSet;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use uuid::Uuid;

use super::PROGRAMS;
use super::folders;
use super::program::{Program, StateFile};
use crate::error::chain;
use crate::home::Home;
use crate::home::beneath::{BeneathError, Kind, Owner, Root};
use crate::home::clear;
use crate::id::{AgentId, SessionKey};
use crate::sandbox::workspace;

fn named((path, error): (PathBuf, std::io::Error)) -> String {
    format!("{}: {error}", path.display())
}

/// The most entries of a folder that are listed at once.
const MOST_AT_ONCE: usize = 2000;
/// The most folders of a program that are looked at in one sweep.
const MOST: usize = 100_000;

/// A program's folder for one session of an agent.
#[derive(Clone, Debug)]
pub struct State {
    /// The folder above, which a sandbox has.
    shared: PathBuf,
    name: String,
    /// Where it is while another takes its place.
    aside: PathBuf,
    gone: PathBuf,
    /// The agent's, by which its user is known.
    identity: PathBuf,
}

impl State {
    /// The one of this session.
    #[must_use]
    pub fn of(home: &Home, program: &dyn Program, session: &SessionKey) -> Self {
        let (agent, name) = (session.agent(), folders::name_of(session));
        Self {
            shared: folders::state(home, agent, program),
            aside: aside(home, agent).join(format!("{}-{name}", program.name())),
            gone: gone(home, agent),
            identity: home.identity(agent),
            name,
        }
    }

    /// Where it is on the host.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.shared.join(&self.name)
    }

    /// Its name in the folder above.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Makes it, for whom its program runs as, where it is not there.
    ///
    /// # Errors
    ///
    /// The path, and why.
    pub fn ready(&self) -> Result<(), String> {
        let owner = self.owner()?;
        workspace::writable(&self.shared, owner).map_err(named)?;
        let name = Path::new(&self.name);
        let root = Root::open(&self.shared).map_err(|error| self.named(&error))?;
        match root.stat(name) {
            Ok(found) if found.kind == Kind::Folder => return Ok(()),
            Ok(_) => self.put_away(name).map_err(|error| self.named(&error))?,
            Err(BeneathError::NotFound { .. }) => {}
            Err(error) => return Err(self.named(&error)),
        }
        root.create_dir_all(name, owner).map_err(|error| self.named(&error))
    }

    /// Makes it anew, with nothing in it, for a conversation that begins.
    ///
    /// # Errors
    ///
    /// The path, and why.
    pub fn anew(&self) -> Result<Replaced, String> {
        workspace::writable(&self.shared, self.owner()?).map_err(named)?;
        let moved = prepared(&self.gone)
            .and_then(|()| away(&self.aside, &self.gone))
            .and_then(|()| self.aside.parent().map_or(Ok(()), prepared))
            .and_then(|()| clear::put_away(&self.shared, Path::new(&self.name), &self.aside));
        let was = moved.map_err(|error| format!("{}: {error}", self.path().display()))?;
        let replaced = Replaced { state: self.clone(), holds: was };
        self.ready()?;
        Ok(replaced)
    }

    /// Writes or removes the files in it that steer the program; with `kept`, as in
    /// [`Invocation::kept`](super::Invocation::kept), nothing else is left than that.
    ///
    /// # Errors
    ///
    /// The path, and why.
    pub fn write(&self, files: &[StateFile], kept: Option<&[&str]>) -> Result<(), String> {
        if files.is_empty() && kept.is_none() {
            return Ok(());
        }
        let root = Root::open(&self.path()).map_err(|error| self.named(&error))?;
        if let Some(kept) = kept {
            let written = files.iter().filter(|file| file.content.is_some());
            let kept: Vec<&Path> =
                kept.iter().map(Path::new).chain(written.map(|file| Path::new(&file.path))).collect();
            self.keep(&root, Path::new(""), &kept).map_err(|error| self.named(&error))?;
        }
        let owner = self.owner()?;
        files.iter().try_for_each(|file| self.put(&root, file, owner)).map_err(|error| self.named(&error))
    }

    /// Has files of its user's folder found in it, where they are there: by links, in the place of whatever is there.
    ///
    /// # Errors
    ///
    /// The path, and why.
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

    /// A file that the program wrote into it, if it is there and not longer than this.
    #[must_use]
    pub fn read(&self, file: &str, most: u64) -> Option<String> {
        let bytes = Root::open(&self.path()).ok()?.read(Path::new(file), most).ok()?;
        String::from_utf8(bytes).ok()
    }

    /// Who its program runs as.
    fn owner(&self) -> Result<Option<Owner>, String> {
        workspace::owner(&self.identity).map_err(named)
    }

    fn put(&self, root: &Root, file: &StateFile, owner: Option<Owner>) -> Result<(), BeneathError> {
        let path = Path::new(&file.path);
        // The agent may have put anything there: a folder, a link, a pipe. What is no folder where one is to be
        // would keep all of its turns from beginning.
        for above in path.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty()) {
            if root.stat(above).is_ok_and(|found| found.kind != Kind::Folder) {
                root.remove(above)?;
            }
        }
        match (root.stat(path), &file.content) {
            (Err(BeneathError::NotFound { .. }), None) => return Ok(()),
            (Err(BeneathError::NotFound { .. }), Some(_)) => {}
            (Ok(found), Some(_)) if found.kind == Kind::File => {}
            // However much it holds.
            (Ok(_), _) => self.clear(root, path)?,
            (Err(error), _) => return Err(error),
        }
        let Some(content) = &file.content else { return Ok(()) };
        if let Some(above) = path.parent().filter(|above| !above.as_os_str().is_empty()) {
            root.create_dir_all(above, owner)?;
        }
        root.write(path, content.as_bytes(), Some(0o600), owner)
    }

    /// Takes out of a folder all that is not kept, and leads to nothing that is.
    fn keep(&self, root: &Root, folder: &Path, kept: &[&Path]) -> Result<(), BeneathError> {
        loop {
            let (entries, more) = root.list(folder, MOST_AT_ONCE)?;
            let mut cleared = false;
            for entry in entries.iter().filter(|entry| !kept.contains(&entry.path.as_path())) {
                let leads = kept.iter().any(|kept| kept.starts_with(&entry.path));
                if leads && root.stat(&entry.path)?.kind == Kind::Folder {
                    self.keep(root, &entry.path, kept)?;
                } else {
                    self.clear(root, &entry.path)?;
                    cleared = true;
                }
            }
            // However many the agent has put there.
            if !more || !cleared {
                return Ok(());
            }
        }
    }

    /// Takes out what is there, whatever it is.
    fn clear(&self, root: &Root, path: &Path) -> Result<(), BeneathError> {
        match root.stat(path)?.kind {
            Kind::Folder => self.put_away(&Path::new(&self.name).join(path)),
            _ => root.remove(path),
        }
    }

    /// Moves what is there to where it is removed.
    fn put_away(&self, path: &Path) -> Result<(), BeneathError> {
        let moved = prepared(&self.gone)
            .and_then(|()| clear::put_away(&self.shared, path, &self.gone.join(Uuid::new_v4().to_string())));
        moved.map(drop).map_err(|source| BeneathError::Io { verb: "move", path: path.to_owned(), source })
    }

    fn named(&self, error: &BeneathError) -> String {
        format!("{}: {}", self.path().display(), chain(error))
    }
}

/// What a folder held before it was made anew. It comes back when this is dropped, unless the conversation that begins
/// there has begun: one that could not is no reason to lose the one before.
#[derive(Debug)]
pub struct Replaced {
    state: State,
    holds: bool,
}

impl Replaced {
    /// It is not needed any more.
    pub fn let_go(mut self) {
        self.holds = false;
        log(away(&self.state.aside, &self.state.gone));
    }
}

impl Drop for Replaced {
    fn drop(&mut self) {
        if self.holds {
            let State { shared, name, aside, gone, .. } = &self.state;
            let new = gone.join(Uuid::new_v4().to_string());
            let moved = clear::put_away(shared, Path::new(name), &new);
            log(moved.and_then(|_| fs_err::rename(aside, shared.join(name))));
        }
    }
}

/// Removes what was put away of an agent's; not in the turn's own time.
pub fn tidy(home: &Home, agent: &AgentId) {
    let gone = gone(home, agent);
    if gone.read_dir().is_ok_and(|mut found| found.next().is_some()) {
        tokio::task::spawn_blocking(move || empty(&gone));
    }
}

/// Removes what programs keep of sessions that are none any more, by the names that `known` gives for an agent's
/// sessions. With `first` no turn has begun yet in this process, and what one that was killed has put aside goes too.
pub fn sweep(home: &Home, first: bool, mut known: impl FnMut(&AgentId) -> Option<Vec<SessionKey>>) {
    let agents = fs_err::read_dir(home.root().join("agents")).into_iter().flatten().flatten();
    for agent in agents.filter_map(|entry| entry.file_name().to_str()?.parse::<AgentId>().ok()) {
        let gone = gone(home, &agent);
        // Before the sessions: one that begins meanwhile is not among these.
        let found: Vec<(PathBuf, PathBuf)> = PROGRAMS
            .iter()
            .map(|program| folders::state(home, &agent, *program))
            .filter_map(|shared| {
                let (found, _) = Root::open(&shared).and_then(|root| root.list(Path::new(""), MOST)).ok()?;
                Some(found.into_iter().map(move |entry| (shared.clone(), entry.path)))
            })
            .flatten()
            .collect();
        if let Some(sessions) = (!found.is_empty()).then(|| known(&agent)).flatten() {
            let names: HashSet<PathBuf> =
                sessions.iter().map(|session| folders::name_of(session).into()).collect();
            for (shared, left) in found.into_iter().filter(|(_, name)| !names.contains(name)) {
                let to = gone.join(Uuid::new_v4().to_string());
                log(prepared(&gone).and_then(|()| clear::put_away(&shared, &left, &to).map(drop)));
            }
        }
        if first {
            let left = fs_err::read_dir(aside(home, &agent)).into_iter().flatten().flatten();
            left.for_each(|entry| log(prepared(&gone).and_then(|()| away(&entry.path(), &gone))));
        }
        empty(&gone);
    }
}

/// Where an agent's folders are while another is in their place.
fn aside(home: &Home, agent: &AgentId) -> PathBuf {
    home.agent(agent).join("aside")
}

/// Where those are of which nothing is wanted any more.
fn gone(home: &Home, agent: &AgentId) -> PathBuf {
    home.agent(agent).join("gone")
}

/// Moves a folder of flock's to those that are removed, if it is there.
fn away(path: &Path, gone: &Path) -> std::io::Result<()> {
    match fs_err::rename(path, gone.join(Uuid::new_v4().to_string())) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        moved => moved,
    }
}

/// Makes a folder that is for flock alone.
fn prepared(folder: &Path) -> std::io::Result<()> {
    fs_err::create_dir_all(folder)?;
    fs_err::set_permissions(folder, std::fs::Permissions::from_mode(0o700))
}

/// Whatever fails stays for the next time.
fn empty(gone: &Path) {
    for entry in fs_err::read_dir(gone).into_iter().flatten().flatten() {
        if let Err((stuck, _)) = clear::clear(gone, Path::new(&entry.file_name())) {
            tracing::warn!(path = %stuck.path.display(), error = %stuck.error, "something of a program's could not be removed");
        }
    }
}

fn log(moved: std::io::Result<()>) {
    if let Err(error) = moved {
        tracing::warn!(%error, "something of a program's could not be moved");
    }
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
