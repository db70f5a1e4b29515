//! The folders of a home that a program's turns use: one for the program's conversations, one for the files of a turn,
//! and empty entries that cover files which the program must not find.

use std::collections::HashMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use sha2::{Digest as _, Sha256};

use super::interface::{HiddenEntry, Program, TurnFile};
use super::locate;
use crate::config::Agent;
use crate::home::Home;
use crate::id::{AgentId, SessionKey, hex};
use crate::sandbox::program_mounts::{PROGRAMS_TARGET, ProgramMount, ProgramMounts};
use crate::sync::lock;

/// Returns the folder of a program's conversations with an agent. It has a folder for each session.
#[must_use]
pub fn state(home: &Home, agent: &AgentId, program: &dyn Program) -> PathBuf {
    states(home, agent).join(program.folder())
}

/// Returns the folder that has a folder for each program that an agent had.
#[must_use]
pub fn states(home: &Home, agent: &AgentId) -> PathBuf {
    home.agent(agent).join("programs")
}

/// Returns the folder name of a session. Each session has its own folder, so the program of one finds nothing of
/// another.
#[must_use]
pub fn name_of(session: &SessionKey) -> String {
    // A digest, because a session's key may hold characters that are awkward in a path, and is up to 200 bytes long.
    hex(&Sha256::digest(session.as_str().as_bytes())[..16])
}

/// Returns the folder for the files of an agent's turns. It has a folder for each session.
#[must_use]
pub fn turns(home: &Home, agent: &AgentId) -> PathBuf {
    home.agent(agent).join("turns")
}

fn cover_source(home: &Home, agent: &AgentId, covered: &HiddenEntry) -> PathBuf {
    home.agent(agent).join("empty").join(if covered.is_folder { "folder" } else { "file" })
}

/// Returns the mounts that an agent's sandbox needs for the program that runs its turns. Empty if no program does, or
/// if it runs on the host. `None` if the program is not completely installed.
#[must_use]
pub fn fittings(home: &Home, agent: &Agent) -> Option<Vec<ProgramMount>> {
    let Some(program) = super::named(&agent.runtime).filter(|_| !agent.runs_on_host()) else {
        return Some(Vec::new());
    };
    let files = locate::find(&*program).ok()?;
    let parts = files.mounts.iter().filter(|(_, target)| target.starts_with(PROGRAMS_TARGET));
    let parts = parts.map(|(source, target)| ProgramMount::part(source, target.clone()));
    let mut found = parts.collect::<Option<Vec<ProgramMount>>>()?;
    found.push(ProgramMount::State(state(home, &agent.id, &*program)));
    found.push(ProgramMount::Turn(turns(home, &agent.id)));
    found.extend(program.facts().covered.iter().map(|covered| ProgramMount::Cover {
        source: cover_source(home, &agent.id, covered),
        name: covered.name.to_owned(),
        is_folder: covered.is_folder,
    }));
    Some(found)
}

/// Returns a function that gives the mounts of every agent of a home. A program that is incomplete, for example during
/// an update, keeps its last known mounts. Removing them would mean a new sandbox, which would end the jobs in it.
#[must_use]
pub fn mount_resolver(home: &Home) -> ProgramMounts {
    let home = home.clone();
    remember_mounts(move |agent| fittings(&home, agent))
}

fn remember_mounts(
    look: impl Fn(&Agent) -> Option<Vec<ProgramMount>> + Send + Sync + 'static,
) -> ProgramMounts {
    let seen: Mutex<HashMap<AgentId, (String, Vec<ProgramMount>)>> = Mutex::default();
    Arc::new(move |agent| {
        let found = look(agent);
        let mut seen = lock(&seen);
        match found {
            Some(found) => {
                seen.insert(agent.id.clone(), (agent.runtime.clone(), found.clone()));
                found
            }
            // Only the mounts of the same program may stay.
            None => match seen.get(&agent.id) {
                Some((runtime, found)) if *runtime == agent.runtime => found.clone(),
                _ => Vec::new(),
            },
        }
    })
}

/// The folder with the files of one turn. Dropping it removes the folder.
#[derive(Debug)]
pub struct TurnFolder(PathBuf);

impl TurnFolder {
    /// Makes the folder, empty. All turns of a session use the same name, because the path is in the text for the
    /// model, and a provider's prompt cache works only while the beginning of a conversation is unchanged. A session
    /// has one turn at a time. `first` says that no turn of the agent runs. Then the remains of earlier turns are
    /// removed.
    ///
    /// # Errors
    ///
    /// Returns the path and the reason.
    pub fn make(home: &Home, session: &SessionKey, first: bool) -> Result<Self, String> {
        let turns = turns(home, session.agent());
        if first {
            // Remains of an earlier process. A failure to remove them must not fail the turn. The folder itself stays,
            // because it is mounted.
            for left in fs_err::read_dir(&turns).into_iter().flatten().flatten() {
                drop(fs_err::remove_dir_all(left.path()));
            }
        }
        let folder = turns.join(name_of(session));
        drop(fs_err::remove_dir_all(&folder));
        let made = fs_err::create_dir_all(&turns)
            .and_then(|()| fs_err::create_dir(&folder))
            .and_then(|()| make_readable(&folder, 0o755));
        made.map(|()| Self(folder)).map_err(|error| error.to_string())
    }

    /// Writes the files of an invocation.
    ///
    /// # Errors
    ///
    /// Returns the path and the reason.
    pub fn write(&self, files: &[TurnFile]) -> Result<(), String> {
        for file in files {
            let path = self.0.join(&file.name);
            let written = fs_err::write(&path, &file.content).and_then(|()| make_readable(&path, 0o644));
            written.map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}

impl Drop for TurnFolder {
    fn drop(&mut self) {
        drop(fs_err::remove_dir_all(&self.0));
    }
}

/// Makes a path readable for a sandbox's user, whatever the umask of this process. The home itself keeps other users
/// out.
fn make_readable(path: &Path, mode: u32) -> std::io::Result<()> {
    fs_err::set_permissions(path, std::fs::Permissions::from_mode(mode))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::super::interface::TurnFile;
    use super::*;

    #[test]
    fn turn_folders_are_stable_for_a_session_and_removed_on_drop() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().join("home"), None);
        let session = |key: &str| -> SessionKey { key.parse().unwrap() };
        let (ann, bob) = (session("agent:coder:flock:main:ann"), session("agent:coder:flock:main:bob"));
        let turn = TurnFolder::make(&home, &ann, true).unwrap();
        let file = TurnFile { name: "system.md".to_owned(), content: "be good".to_owned() };
        turn.write(&[file]).unwrap();
        assert_eq!(fs_err::read_to_string(turn.0.join("system.md")).unwrap(), "be good");
        let path = turn.0.clone();
        let turns = path.parent().unwrap().metadata().unwrap().ino();
        let second = TurnFolder::make(&home, &bob, false).unwrap();
        assert_ne!(second.0, path);
        assert!(path.exists(), "another session's files stay");
        assert_eq!(turns, path.parent().unwrap().metadata().unwrap().ino(), "it is mounted");
        drop((turn, second));
        assert!(!path.exists());
        // Nothing is left of a turn whose process was killed.
        fs_err::create_dir_all(path.join("left")).unwrap();
        let turn = TurnFolder::make(&home, &ann, false).unwrap();
        assert!(turn.0 == path && turn.0.read_dir().unwrap().next().is_none());
        let other = session("agent:tester:flock:main:ann");
        let left = self::turns(&home, other.agent()).join("left");
        fs_err::create_dir_all(&left).unwrap();
        drop(TurnFolder::make(&home, &other, true).unwrap());
        assert!(!left.exists(), "what an earlier process left is removed");
    }

    #[test]
    fn a_missing_program_keeps_its_last_mounts() {
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
        let look = remember_mounts(move |agent| match agent.runtime.as_str() {
            "native" => Some(Vec::new()),
            _ => Some(vec![ProgramMount::part(&place, "/opt/flock/x".to_owned())?]),
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
        // Another runtime does not get the mounts of the former one.
        agent.runtime = "codex".to_owned();
        assert_eq!(look(&agent), []);
        agent.runtime = "native".to_owned();
        assert_eq!(look(&agent), []);
    }
}
