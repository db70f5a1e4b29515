//! The `projects` block: the owner's git repositories that agents work on.

use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::view::{Problem, View};
use super::{ConfigError, agents, parse::PLUGIN};
use crate::home::Home;
use crate::id::{AgentId, ProjectName};

/// The most commands that check a project.
const MAX_CHECKS: usize = 20;
/// The longest command, in bytes.
const MAX_COMMAND: usize = 4_096;
/// The time that a check may take unless the project sets another, in minutes.
const CHECK_MINUTES: u64 = 10;

/// A repository of the owner with the agents that work on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Project {
    pub name: ProjectName,
    /// The owner's repository: an absolute path or a URL.
    pub repo: String,
    /// The branch that work is joined on, in the owner's repository and in flock's.
    pub branch: String,
    /// The agents that have a clone.
    pub agents: Vec<AgentId>,
    /// The command that prepares a tree for its checks, as in `npm ci`.
    pub setup: Option<String>,
    /// Hosts that the preparation may reach, `HOST[:PORT]` as written. The checks themselves have no network.
    pub setup_egress: Vec<String>,
    /// The commands that a tree has to pass, in their order.
    pub checks: Vec<String>,
    /// The files that a tree has to have.
    pub files: Vec<String>,
    /// The party that reviews a change before it is merged.
    pub review: Review,
    /// The longest time that one command may take.
    pub check_time: Duration,
}

/// The party that reviews a change before it is merged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Review {
    /// Nobody: the checks decide.
    #[default]
    None,
    /// Another agent of the project.
    Agent,
    /// A person.
    Person,
}

impl Review {
    /// Returns the word in the configuration.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Agent => "agent",
            Self::Person => "person",
        }
    }
}

impl Project {
    /// Returns a project of this name, without agents and checks.
    #[must_use]
    pub fn new(name: ProjectName, repo: String, branch: String) -> Self {
        Self {
            name,
            repo,
            branch,
            agents: Vec::new(),
            setup: None,
            setup_egress: Vec::new(),
            checks: Vec::new(),
            files: Vec::new(),
            review: Review::None,
            check_time: Duration::from_secs(CHECK_MINUTES * 60),
        }
    }

    /// Returns `true` if the agent has a clone of the project.
    #[must_use]
    pub fn has_agent(&self, agent: &AgentId) -> bool {
        self.agents.contains(agent)
    }
}

/// Reads `{<name>: {repo, branch, agents, setup, setupEgress, checks, files, review, checkMinutes}}`.
pub(super) fn projects(view: &View<'_>) -> Result<Vec<Project>, Problem> {
    let mut projects =
        view.entries()?.iter().map(|(name, entry)| project(name, entry)).collect::<Result<Vec<_>, _>>()?;
    projects.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(projects)
}

fn project(name: &str, view: &View<'_>) -> Result<Project, Problem> {
    view.only(&[
        "repo",
        "branch",
        "agents",
        "setup",
        "setupEgress",
        "checks",
        "files",
        "review",
        "checkMinutes",
    ])?;
    let name: ProjectName = name.parse().map_err(|error| view.problem(&format!("is not usable: {error}")))?;
    let repo = view.get("repo")?;
    let location = repo.required_text()?;
    if !is_location(location) {
        return Err(repo.problem(LOCATION_RULE));
    }
    let branch = view.get("branch")?.text_if(is_branch, BRANCH_RULE)?;
    let checks = commands(&view.get("checks")?)?;
    let files = view.get("files")?;
    let setup = view.get("setup")?;
    Ok(Project {
        agents: view.get("agents")?.items()?.iter().map(View::parsed).collect::<Result<_, _>>()?,
        setup: setup.text_if(is_command, COMMAND_RULE)?,
        setup_egress: view.get("setupEgress")?.texts()?,
        checks,
        files: match files.texts()? {
            paths if paths.len() <= MAX_CHECKS && paths.iter().all(|path| is_file(path)) => paths,
            _ => return Err(files.problem("must hold at most 20 paths below the project's folder")),
        },
        review: view.get("review")?.word::<Review>("none, agent or person")?.unwrap_or_default(),
        check_time: Duration::from_secs(
            view.get("checkMinutes")?.within::<u64>(1..=240, "a number of minutes")?.unwrap_or(CHECK_MINUTES)
                * 60,
        ),
        ..Project::new(name, location.to_owned(), branch.unwrap_or_else(|| "main".to_owned()))
    })
}

const LOCATION_RULE: &str = "must be an absolute path or a URL of a git repository";
const BRANCH_RULE: &str = "must be the name of a branch that does not begin with \"flock/\"";
const COMMAND_RULE: &str = "must be a command of one line, of at most 4096 bytes";

fn commands(view: &View<'_>) -> Result<Vec<String>, Problem> {
    let commands = view.texts()?;
    if commands.len() > MAX_CHECKS {
        return Err(view.problem(&format!("must hold at most {MAX_CHECKS} commands")));
    }
    match commands.iter().all(|command| is_command(command)) {
        true => Ok(commands),
        false => Err(view.problem("must hold commands of one line each, of at most 4096 bytes")),
    }
}

fn is_command(text: &str) -> bool {
    !text.trim().is_empty() && text.len() <= MAX_COMMAND && !text.contains(['\0', '\n', '\r'])
}

fn is_file(path: &str) -> bool {
    let path = Path::new(path);
    path.components().all(|part| matches!(part, std::path::Component::Normal(_)))
}

/// Returns `true` if the text can say where a repository is: an absolute path, `https://…`, `ssh://…` or `git@host:…`.
#[must_use]
pub fn is_location(text: &str) -> bool {
    // What begins with a dash could be taken for an option by a program.
    let is_clean = !text.starts_with('-') && !text.contains(|c: char| c.is_control());
    is_clean && (Path::new(text).is_absolute() || text.contains("://") || text.contains('@'))
}

/// Returns `true` if work can be joined on a branch of this name. Names below `flock/` belong to the agents.
#[must_use]
pub fn is_branch(name: &str) -> bool {
    git2::Reference::is_valid_name(&format!("refs/heads/{name}"))
        && !name.starts_with("flock/")
        && name != "flock"
        && !name.starts_with('-')
}

/// Adds a project to the configuration. Returns `false` if there is one of its name already.
///
/// # Errors
///
/// Returns an error if the configuration can't be read or written, or if a value is not valid.
pub(crate) fn add(home: &Home, project: &Project) -> Result<bool, ConfigError> {
    super::edit(home, |document| {
        let entry = entry(project);
        let block = block(document)?;
        if block.contains_key(project.name.as_str()) {
            return Ok(false);
        }
        block.insert(project.name.to_string(), entry);
        Ok(true)
    })
}

fn entry(project: &Project) -> Value {
    let mut entry = json!({"repo": project.repo, "branch": project.branch, "agents": project.agents});
    // What has its default is left out, so that the file shows what was chosen.
    if let Some(setup) = &project.setup {
        entry["setup"] = json!(setup);
    }
    for (key, list) in
        [("setupEgress", &project.setup_egress), ("checks", &project.checks), ("files", &project.files)]
    {
        if !list.is_empty() {
            entry[key] = json!(list);
        }
    }
    if project.review != Review::None {
        entry["review"] = json!(project.review);
    }
    let minutes = project.check_time.as_secs() / 60;
    if minutes != CHECK_MINUTES {
        entry["checkMinutes"] = json!(minutes);
    }
    entry
}

/// Gives an agent a clone of the project, or takes it away. Returns `true` if that changed anything.
///
/// # Errors
///
/// Returns an error if the configuration can't be read or written.
pub(crate) fn set_assigned(
    home: &Home,
    name: &ProjectName,
    agent: &AgentId,
    is_assigned: bool,
) -> Result<bool, ConfigError> {
    super::edit(home, |document| {
        let Some(project) = block(document)?.get_mut(name.as_str()) else { return Ok(false) };
        let list = agents::list(project, &["agents"])?;
        let before = list.len();
        list.retain(|id| *id != agent.as_str());
        let was_assigned = list.len() != before;
        if is_assigned {
            list.push(json!(agent));
        }
        Ok(was_assigned != is_assigned)
    })
}

/// Removes a project from the configuration. Returns `false` if there was none of this name.
///
/// # Errors
///
/// Returns an error if the configuration can't be read or written.
pub(crate) fn remove(home: &Home, name: &ProjectName) -> Result<bool, ConfigError> {
    super::edit(home, |document| Ok(block(document)?.shift_remove(name.as_str()).is_some()))
}

/// Replaces an agent's id in the lists of all projects, or removes it from them.
pub(super) fn replace_agent(document: &mut Value, old: &AgentId, new: Option<&AgentId>) {
    let projects = document.pointer_mut(&format!("/{}/projects", PLUGIN.join("/")));
    for project in projects.and_then(Value::as_object_mut).into_iter().flat_map(Map::values_mut) {
        let Some(list) = project.get_mut("agents").and_then(Value::as_array_mut) else { continue };
        match new {
            Some(new) => {
                for id in list.iter_mut().filter(|id| **id == old.as_str()) {
                    *id = json!(new);
                }
            }
            None => list.retain(|id| *id != old.as_str()),
        }
    }
}

/// Adds an agent to the lists of all projects that have another one.
pub(super) fn fork_agent(document: &mut Value, from: &AgentId, to: &AgentId) {
    let projects = document.pointer_mut(&format!("/{}/projects", PLUGIN.join("/")));
    for project in projects.and_then(Value::as_object_mut).into_iter().flat_map(Map::values_mut) {
        let Some(list) = project.get_mut("agents").and_then(Value::as_array_mut) else { continue };
        if list.iter().any(|id| *id == from.as_str()) && !list.iter().any(|id| *id == to.as_str()) {
            list.push(json!(to));
        }
    }
}

fn block(document: &mut Value) -> Result<&mut Map<String, Value>, ConfigError> {
    let at = format!("{}.projects", PLUGIN.join("."));
    let refused = || ConfigError::Refused { at, message: "is not an object".to_owned() };
    let projects = &mut document["plugins"]["entries"]["flock"]["config"]["projects"];
    if projects.is_null() {
        *projects = json!({});
    }
    projects.as_object_mut().ok_or_else(refused)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::agents::NewAgent;
    use crate::config::{Role, parse, read, starter};
    use crate::home::atomic;

    fn home() -> (tempfile::TempDir, Home) {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path().canonicalize().unwrap(), None);
        home.make_folders().unwrap();
        let document = starter::document(&home, None, "token", 3779);
        atomic::write(&home.config(), document.to_string().as_bytes(), 0o600).unwrap();
        (dir, home)
    }

    fn sample() -> Project {
        Project::new("lib".parse().unwrap(), "/srv/lib".into(), "main".into())
    }

    #[test]
    fn a_project_is_read_as_it_was_added() {
        let (_dir, home) = home();
        let project = Project {
            agents: vec!["ann".parse().unwrap()],
            setup: Some("pip install -r requirements.txt".into()),
            setup_egress: vec!["pypi.org".into()],
            checks: vec!["python3 -m unittest".into()],
            files: vec!["README.md".into()],
            review: Review::Person,
            check_time: Duration::from_secs(120),
            ..sample()
        };
        assert!(add(&home, &project).unwrap());
        assert!(!add(&home, &sample()).unwrap(), "the first one stays");
        assert_eq!(read(&home).unwrap().projects, [project]);
        assert!(remove(&home, &sample().name).unwrap() && !remove(&home, &sample().name).unwrap());
        assert!(read(&home).unwrap().projects.is_empty());
    }

    #[test]
    fn an_agent_is_assigned_once() {
        let (_dir, home) = home();
        add(&home, &sample()).unwrap();
        let [name, ann] = ["lib", "ann"];
        let set = |is| set_assigned(&home, &name.parse().unwrap(), &ann.parse().unwrap(), is).unwrap();
        assert!(set(true) && !set(true));
        assert_eq!(read(&home).unwrap().projects[0].agents, ["ann".parse().unwrap()]);
        assert!(set(false) && !set(false));
        assert!(!set_assigned(&home, &"none".parse().unwrap(), &ann.parse().unwrap(), true).unwrap());
    }

    #[test]
    fn a_renamed_agent_keeps_its_projects_and_a_removed_one_leaves_them() {
        let (_dir, home) = home();
        let mut document = starter::document(&home, None, "token", 3779);
        agents::add(&mut document, &home, &NewAgent::new("ann".parse().unwrap(), Role::Worker)).unwrap();
        let listed = json!({"lib": {"repo": "/srv/lib", "agents": ["ann", "bob"]}});
        document["plugins"]["entries"]["flock"]["config"]["projects"] = listed;
        agents::rename(&mut document, &home, &"ann".parse().unwrap(), &"eve".parse().unwrap()).unwrap();
        let agents_of = |document: &Value| parse::config(document, &home).unwrap().projects[0].agents.clone();
        assert_eq!(agents_of(&document), ["eve".parse().unwrap(), "bob".parse().unwrap()]);
        agents::remove(&mut document, &"eve".parse().unwrap()).unwrap();
        assert_eq!(agents_of(&document), ["bob".parse().unwrap()]);
    }

    #[test]
    fn what_can_not_be_a_project_is_refused_with_its_key() {
        let (_dir, home) = home();
        let refused = |name: &str, entry: Value| {
            let mut document = starter::document(&home, None, "token", 3779);
            document["plugins"]["entries"]["flock"]["config"]["projects"] = json!({name: entry});
            let problem = parse::config(&document, &home).unwrap_err();
            format!("{} {}", problem.at, problem.message)
        };
        for (name, entry, message) in [
            ("a/b", json!({"repo": "/srv/lib"}), "is not usable"),
            ("lib", json!({}), "projects.lib.repo is missing"),
            ("lib", json!({"repo": "lib"}), LOCATION_RULE),
            ("lib", json!({"repo": "--upload-pack=x://"}), LOCATION_RULE),
            ("lib", json!({"repo": "/l", "branch": "flock/ann/x"}), BRANCH_RULE),
            ("lib", json!({"repo": "/l", "branch": "a..b"}), BRANCH_RULE),
            ("lib", json!({"repo": "/l", "checks": ["a\nb"]}), "commands of one line"),
            ("lib", json!({"repo": "/l", "checks": vec!["true"; 21]}), "at most 20 commands"),
            ("lib", json!({"repo": "/l", "setup": " "}), COMMAND_RULE),
            ("lib", json!({"repo": "/l", "files": ["../x"]}), "20 paths below"),
            ("lib", json!({"repo": "/l", "files": ["/etc/passwd"]}), "20 paths below"),
            ("lib", json!({"repo": "/l", "review": "two"}), "none, agent or person"),
            ("lib", json!({"repo": "/l", "checkMinutes": 0}), "from 1 to 240"),
            ("lib", json!({"repo": "/l", "check": ["true"]}), "did you mean checks?"),
        ] {
            let said = refused(name, entry.clone());
            assert!(said.contains(message), "{entry}: {said}");
        }
    }
}
