//! What of a home a program's turns use: the folder where it keeps its conversations, a folder for each turn, and
//! something empty to lie over what it is not to find.

use std::collections::HashMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::program::{Covered, Invocation, Program};
use super::{Found, locate};
use crate::config::Agent;
use crate::home::Home;
use crate::home::beneath::{BeneathError, Kind, Root};
use crate::id::{AgentId, TurnId};
use crate::sandbox::fitting::{Fitting, Fittings, PROGRAMS_TARGET};
use crate::sandbox::workspace;

/// How deep a folder may be that is taken out of a program's state.
const MOST_DEPTH: usize = 8;
/// The most entries that are taken out of it at once.
const MOST_ENTRIES: usize = 2000;

/// Where a program keeps its conversations with an agent.
#[must_use]
pub fn state(home: &Home, agent: &AgentId, program: &dyn Program) -> PathBuf {
    home.agent(agent).join("programs").join(program.name())
}

/// Where the turns of an agent have their files.
#[must_use]
pub fn turns(home: &Home, agent: &AgentId) -> PathBuf {
    home.agent(agent).join("turns")
}

fn empty(home: &Home, agent: &AgentId, covered: &Covered) -> PathBuf {
    home.agent(agent).join("empty").join(if covered.is_folder { "folder" } else { "file" })
}

/// What the sandbox of an agent needs for the program that runs its turns; nothing where none does, or on the host. `None`
/// where the program is not all there.
#[must_use]
pub fn fittings(home: &Home, agent: &Agent) -> Option<Vec<Fitting>> {
    let Some(program) = super::named(&agent.runtime).filter(|_| !agent.runs_on_host()) else {
        return Some(Vec::new());
    };
    let Found { parts, .. } = locate::find(program).ok()?;
    let parts = parts.mounts.iter().filter(|(_, target)| target.starts_with(PROGRAMS_TARGET));
    let parts = parts.map(|(source, target)| Fitting::part(source, target.clone()));
    let mut found = parts.collect::<Option<Vec<Fitting>>>()?;
    found.push(Fitting::State(state(home, &agent.id, program)));
    found.push(Fitting::Turn(turns(home, &agent.id)));
    found.extend(program.covered().iter().map(|covered| Fitting::Cover {
        source: empty(home, &agent.id, covered),
        name: covered.name.to_owned(),
        is_folder: covered.is_folder,
    }));
    Some(found)
}

/// Makes the folder that a program keeps its conversations in, for whom it runs as.
///
/// # Errors
///
/// The path, and why.
pub fn prepare_state(state: &Path) -> Result<(), String> {
    if state.is_dir() {
        return Ok(());
    }
    fs_err::create_dir_all(state).map_err(|error| error.to_string())?;
    workspace::own(state).map_err(|(path, error)| format!("{}: {error}", path.display()))
}

/// A file that a program wrote into its folder, if it is there and not longer than this.
#[must_use]
pub fn read_state(state: &Path, file: &str, most: u64) -> Option<String> {
    let bytes = Root::open(state).ok()?.read(Path::new(file), most).ok()?;
    String::from_utf8(bytes).ok()
}

/// The same for all agents of a home, as the sandboxes want it. A program that is not all there takes nothing from a sandbox
/// that has it, which would cost the jobs in it: while it is updated, it is what it was when it was last seen.
#[must_use]
pub fn fittings_of(home: &Home) -> Fittings {
    let home = home.clone();
    last_seen(move |agent| fittings(&home, agent))
}

fn last_seen(look: impl Fn(&Agent) -> Option<Vec<Fitting>> + Send + Sync + 'static) -> Fittings {
    let seen: Mutex<HashMap<AgentId, (String, Vec<Fitting>)>> = Mutex::default();
    Arc::new(move |agent| {
        let found = look(agent);
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        match found {
            Some(found) => {
                seen.insert(agent.id.clone(), (agent.runtime.clone(), found.clone()));
                found
            }
            None => match seen.get(&agent.id) {
                Some((runtime, found)) if *runtime == agent.runtime => found.clone(),
                _ => Vec::new(),
            },
        }
    })
}

/// The files of one turn; they are removed with this.
#[derive(Debug)]
pub struct TurnFolder(PathBuf);

impl TurnFolder {
    /// Makes it, empty. What turns before it left is removed when `first` says that none runs.
    ///
    /// # Errors
    ///
    /// The path, and why.
    pub fn make(home: &Home, agent: &AgentId, turn: TurnId, first: bool) -> Result<Self, String> {
        let turns = turns(home, agent);
        if first {
            // What an earlier process left; it is not worth failing a turn for. The folder itself stays: it is mounted.
            for left in fs_err::read_dir(&turns).into_iter().flatten().flatten() {
                drop(fs_err::remove_dir_all(left.path()));
            }
        }
        let folder = turns.join(turn.to_string());
        let made = fs_err::create_dir_all(&folder).and_then(|()| readable(&folder, 0o755));
        made.map(|()| Self(folder)).map_err(|error| error.to_string())
    }

    /// Where it is on the host.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Writes the files of an invocation, here and in the program's state.
    ///
    /// # Errors
    ///
    /// The path, and why.
    pub fn write(&self, invocation: &Invocation, state: Option<&Path>) -> Result<(), String> {
        for file in &invocation.files {
            let path = self.0.join(&file.name);
            let written = fs_err::write(&path, &file.content).and_then(|()| readable(&path, 0o644));
            written.map_err(|error| error.to_string())?;
        }
        let is_concerned = !invocation.state.is_empty() || invocation.kept.is_some();
        let Some(state) = state.filter(|_| is_concerned) else { return Ok(()) };
        let named = |error: BeneathError| format!("{}: {}", state.display(), crate::error::chain(&error));
        let root = Root::open(state).map_err(named)?;
        let owner = workspace::owner();
        if let Some(kept) = invocation.kept {
            let written = invocation.state.iter().filter(|file| file.content.is_some());
            let kept: Vec<&Path> =
                kept.iter().map(Path::new).chain(written.map(|file| Path::new(&file.path))).collect();
            keep(&root, Path::new(""), &kept).map_err(named)?;
        }
        for file in &invocation.state {
            let path = Path::new(&file.path);
            // The agent may have put anything there: a folder, a link, a pipe. What is no folder where one is to be
            // would keep all of its turns from beginning.
            for above in path.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty()) {
                if root.stat(above).is_ok_and(|found| found.kind != Kind::Folder) {
                    root.remove(above).map_err(named)?;
                }
            }
            match (root.stat(path), &file.content) {
                (Err(BeneathError::NotFound { .. }), None) => continue,
                (Ok(found), Some(_)) if found.kind == Kind::File => {}
                (Ok(_), _) => clear(&root, path, 0).map_err(named)?,
                (Err(BeneathError::NotFound { .. }), Some(_)) => {}
                (Err(error), _) => return Err(named(error)),
            }
            if let Some(content) = &file.content {
                if let Some(above) = path.parent().filter(|above| !above.as_os_str().is_empty()) {
                    root.create_dir_all(above, owner).map_err(named)?;
                }
                root.write(path, content.as_bytes(), Some(0o600), owner).map_err(named)?;
            }
        }
        Ok(())
    }
}

impl Drop for TurnFolder {
    fn drop(&mut self) {
        drop(fs_err::remove_dir_all(&self.0));
    }
}

/// Lets a sandbox's user read it, whatever this process makes files with. The home keeps all others out.
fn readable(path: &Path, mode: u32) -> std::io::Result<()> {
    fs_err::set_permissions(path, std::fs::Permissions::from_mode(mode))
}

/// Takes out of a folder all that is not kept, and leads to nothing that is.
fn keep(root: &Root, folder: &Path, kept: &[&Path]) -> Result<(), BeneathError> {
    loop {
        let (entries, more) = root.list(folder, MOST_ENTRIES)?;
        let mut cleared = false;
        for entry in entries.iter().filter(|entry| !kept.contains(&entry.path.as_path())) {
            let leads = kept.iter().any(|kept| kept.starts_with(&entry.path));
            if leads && root.stat(&entry.path)?.kind == Kind::Folder {
                keep(root, &entry.path, kept)?;
            } else {
                clear(root, &entry.path, 0)?;
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
fn clear(root: &Root, path: &Path, depth: usize) -> Result<(), BeneathError> {
    if root.stat(path)?.kind != Kind::Folder {
        return root.remove(path);
    }
    let (entries, more) = root.list(path, MOST_ENTRIES)?;
    if more || depth >= MOST_DEPTH {
        let source = std::io::Error::other("it holds too much to be taken out");
        return Err(BeneathError::Io { verb: "clear", path: path.to_owned(), source });
    }
    for entry in entries {
        clear(root, &entry.path, depth + 1)?;
    }
    root.remove_folder(path)
}

#[cfg(test)]
mod tests {
    use super::super::program::{StateFile, TurnFile};
    use super::*;

    #[test]
    fn what_an_agent_planted_among_a_programs_settings_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().join("home"), None);
        let agent: AgentId = "coder".parse().unwrap();
        let state = folder.path().join("state");
        fs_err::create_dir_all(state.join("as-folder/deep")).unwrap();
        fs_err::create_dir_all(state.join("commands/deep")).unwrap();
        fs_err::write(state.join("commands/deep/x"), "x").unwrap();
        fs_err::write(state.join("old"), "the agent's").unwrap();
        let outside = folder.path().join("outside");
        fs_err::write(&outside, "the host's").unwrap();
        fs_err::os::unix::fs::symlink(&outside, state.join("link")).unwrap();
        let file = |path: &str, content: Option<&str>| StateFile {
            path: path.to_owned(),
            content: content.map(str::to_owned),
        };
        let invocation = Invocation {
            files: vec![TurnFile { name: "system.md".to_owned(), content: "be good".to_owned() }],
            state: vec![
                file("as-folder", Some("flock's")),
                file("commands", None),
                file("not-there", None),
                file("not/there", None),
                file("old", Some("flock's")),
                file("link", Some("flock's")),
                file("new/deep", Some("flock's")),
            ],
            ..Invocation::default()
        };
        let turn = TurnFolder::make(&home, &agent, TurnId::new(), true).unwrap();
        turn.write(&invocation, Some(&state)).unwrap();
        assert_eq!(fs_err::read_to_string(turn.path().join("system.md")).unwrap(), "be good");
        for name in ["as-folder", "old", "link", "new/deep"] {
            assert_eq!(fs_err::read_to_string(state.join(name)).unwrap(), "flock's", "{name}");
        }
        assert!(!state.join("commands").exists());
        assert_eq!(fs_err::read_to_string(&outside).unwrap(), "the host's");
        let path = turn.path().to_owned();
        let turns = std::os::unix::fs::MetadataExt::ino(&path.parent().unwrap().metadata().unwrap());
        let other: AgentId = "tester".parse().unwrap();
        let left = self::turns(&home, &other).join("left");
        fs_err::create_dir_all(&left).unwrap();
        drop(TurnFolder::make(&home, &other, TurnId::new(), true).unwrap());
        assert!(!left.exists(), "what an earlier process left is removed");
        let second = TurnFolder::make(&home, &agent, TurnId::new(), false).unwrap();
        assert!(path.exists(), "another turn's files stay");
        let now = std::os::unix::fs::MetadataExt::ino(&path.parent().unwrap().metadata().unwrap());
        assert_eq!(turns, now, "it is mounted");
        drop((turn, second));
        assert!(!path.exists());
    }

    #[test]
    fn where_it_is_known_what_a_program_goes_on_with_nothing_else_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().join("home"), None);
        let (state, outside) = (folder.path().join("state"), folder.path().join("outside"));
        for kept in ["projects/deep", "in/chats", "in/other", "wrong"] {
            fs_err::create_dir_all(state.join(kept)).unwrap();
        }
        fs_err::create_dir_all(&outside).unwrap();
        for file in ["projects/deep/x", "in/chats/x", "in/other/x", "in/y", ".claude.json", "in/set", "..new"]
        {
            fs_err::write(state.join(file), "there").unwrap();
        }
        fs_err::write(outside.join("chats"), "the host's").unwrap();
        fs_err::os::unix::fs::symlink(&outside, state.join("link")).unwrap();
        for many in 0..MOST_ENTRIES + 10 {
            fs_err::write(state.join(format!("many-{many}")), "").unwrap();
        }
        let file = StateFile { path: "in/set".to_owned(), content: Some("flock's".to_owned()) };
        let invocation = Invocation {
            state: vec![file],
            kept: Some(&["projects", "in/chats", "link/chats", "not/there"]),
            ..Invocation::default()
        };
        let turn = TurnFolder::make(&home, &"coder".parse().unwrap(), TurnId::new(), true).unwrap();
        turn.write(&invocation, Some(&state)).unwrap();
        let names = |folder: &Path| {
            let entries = fs_err::read_dir(folder).unwrap();
            let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            names
        };
        assert_eq!(names(&state), ["in", "projects"]);
        assert_eq!(names(&state.join("in")), ["chats", "set"]);
        assert_eq!(fs_err::read_to_string(state.join("in/set")).unwrap(), "flock's");
        assert!(state.join("projects/deep/x").exists() && state.join("in/chats/x").exists());
        assert!(outside.join("chats").exists(), "what a link leads to stays");
    }

    #[test]
    fn a_program_that_is_not_there_for_a_moment_is_what_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().join("home"), None);
        let own = serde_json::json!({"gatewayAgents": [{"id": "coder", "role": "worker", "runtime": "claude"}],
            "gateway": {"port": 1}});
        let document = serde_json::json!({
            "gateway": {"auth": {"token": "0123456789abcdef0123456789abcdef"}},
            "agents": {"list": [{"id": "coder", "workspace": folder.path().join("work")}]},
            "plugins": {"entries": {"flock": {"config": own}}},
        });
        let mut agent = crate::config::parse::config(&document, &home).unwrap().agents[0].clone();
        let program = folder.path().join("program");
        let place = program.clone();
        let look = last_seen(move |agent| match agent.runtime.as_str() {
            "native" => Some(Vec::new()),
            _ => Some(vec![Fitting::part(&place, "/opt/flock/x".to_owned())?]),
        });
        assert_eq!(look(&agent), [], "it was never seen");
        fs_err::write(&program, "1").unwrap();
        let first = look(&agent);
        assert_eq!(first.len(), 1);
        fs_err::rename(&program, folder.path().join("old")).unwrap();
        assert_eq!(look(&agent), first);
        fs_err::write(&program, "2").unwrap();
        let second = look(&agent);
        assert_ne!(second, first, "another file");
        fs_err::remove_file(&program).unwrap();
        assert_eq!(look(&agent), second);
        // Another runtime is another matter.
        agent.runtime = "codex".to_owned();
        assert_eq!(look(&agent), []);
        agent.runtime = "native".to_owned();
        assert_eq!(look(&agent), []);
    }

    #[test]
    fn a_link_in_the_place_of_a_folder_leads_nowhere() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().join("home"), None);
        let (state, outside) = (folder.path().join("state"), folder.path().join("outside"));
        fs_err::create_dir_all(&state).unwrap();
        fs_err::create_dir_all(&outside).unwrap();
        fs_err::os::unix::fs::symlink(&outside, state.join("settings")).unwrap();
        let file = StateFile { path: "settings/x".to_owned(), content: Some("flock's".to_owned()) };
        let invocation = Invocation { state: vec![file], ..Invocation::default() };
        let turn = TurnFolder::make(&home, &"coder".parse().unwrap(), TurnId::new(), true).unwrap();
        turn.write(&invocation, Some(&state)).unwrap();
        assert!(outside.read_dir().unwrap().next().is_none());
        assert_eq!(fs_err::read_to_string(state.join("settings/x")).unwrap(), "flock's");
    }
}
