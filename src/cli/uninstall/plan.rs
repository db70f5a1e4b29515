//! The plan of an uninstall, decided from the facts and the request. It has no side effects.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use super::facts::{EngineFacts, EngineObjects, HomeEntry, HomeFacts, OpenClawAgents, RemoteWorkspace};
use crate::error::Kind;
use crate::ui::Failure;

/// The options of the uninstall.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct UninstallRequest {
    /// Removes only OpenClaw.
    pub openclaw: bool,
    /// Also deletes what people and agents made.
    pub purge: bool,
    /// Removes OpenClaw even if agents run on it.
    pub force: bool,
}

/// The steps, in the order in which they are done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum UninstallStep {
    /// Stops a service and removes its file.
    Service(PathBuf),
    /// Stops everything that runs, and keeps anything from starting until the end.
    Stop {
        /// `true` if something was seen to run.
        running: bool,
    },
    /// Stops OpenClaw: removes the link to it and lets the supervisor end it.
    StopOpenClaw,
    /// Removes the objects in the engine.
    Engine {
        /// The objects that were seen.
        found: EngineObjects,
        /// `true` for all objects of the home, `false` for OpenClaw's sandboxes only.
        all: bool,
    },
    /// Removes OpenClaw's files and the folders that this leaves empty.
    OpenClaw(Vec<PathBuf>),
    /// Removes these entries of the home with everything in them.
    Files(Vec<PathBuf>),
    /// Removes these folders if they are empty.
    Empty(Vec<PathBuf>),
    /// Removes the home's folder if it is empty.
    Home,
}

impl UninstallStep {
    /// Returns `true` if the step must not be done while a process of the home runs, which would undo it or lose its
    /// data.
    #[must_use]
    pub(crate) const fn needs_stopped_home(&self) -> bool {
        matches!(self, Self::Engine { .. } | Self::OpenClaw(_) | Self::Files(_) | Self::Home)
    }
}

/// Something related to flock that stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Leftover {
    /// Its path, or a short name for it.
    pub what: String,
    /// The reason for which it stays.
    pub why: String,
    /// The command that removes it, if there is one.
    pub mend: Option<String>,
}

impl Leftover {
    fn new(what: &dyn Display, why: &str, mend: Option<String>) -> Self {
        Self { what: what.to_string(), why: why.to_owned(), mend }
    }
}

/// The steps, what is kept on purpose, and what is left to the person.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct UninstallPlan {
    /// The steps, in order.
    pub steps: Vec<UninstallStep>,
    /// Entries of the home that people and agents made, each with a description.
    pub kept: Vec<(PathBuf, &'static str)>,
    /// Things that flock does not remove.
    pub left: Vec<Leftover>,
    /// Things that may remain because they could not be seen. With any of these the uninstall counts as unfinished.
    pub unseen: Vec<Leftover>,
}

impl UninstallPlan {
    /// Returns `true` if there is nothing to do.
    #[must_use]
    pub(crate) fn is_idle(&self) -> bool {
        self.steps.iter().all(|step| matches!(step, UninstallStep::Stop { running: false }))
    }
}

/// Folders that flock can make again.
const DISPOSABLE: [&str; 3] = ["logs", "package-tools", "run"];

/// Entries that people and agents made, in the order of their removal.
///
/// The last one proves that the folder is flock's, so that an uninstall that is killed before the end can be continued.
const USER_DATA: [(&str, &str); 19] = [
    ("workspaces", "files of the agents"),
    ("mcp", "files of the MCP servers"),
    ("agents", "transcripts and identities of the agents"),
    ("projects", "repositories with the branches of agents"),
    ("vaults", "shared knowledge"),
    ("skills", "skills"),
    ("archetypes", "archetypes of your own"),
    ("locales", "tool descriptions of your own"),
    ("scripts", "written conversations"),
    ("backups", "earlier configurations"),
    ("generations", "earlier states of the home"),
    ("secrets", "keys"),
    ("nix-pin.json", "the pinned package set"),
    ("files", "the link to the files of the agents, which stay where they are"),
    ("flock-files", "the mark of the files that gateways share"),
    ("config.json", "the configuration"),
    ("store.json", "the address of the server that keeps the database"),
    ("version", "the number of the home's format"),
    ("data", "channels, messages, tasks, usage and audit"),
];

/// Entries that belong to OpenClaw, which are collected separately.
const OPENCLAW_ENTRIES: [&str; 4] = ["gateways", "openclaw", "extensions", ".new-openclaw"];

/// Decides what an uninstall does.
///
/// # Errors
///
/// Returns an error if agents need what is to be removed.
pub(crate) fn plan(
    home: &Path,
    facts: &HomeFacts,
    request: UninstallRequest,
) -> Result<UninstallPlan, Failure> {
    if request.openclaw { bundle(home, facts, request) } else { Ok(plan_everything(home, facts, request)) }
}

fn bundle(home: &Path, facts: &HomeFacts, request: UninstallRequest) -> Result<UninstallPlan, Failure> {
    let mut plan = UninstallPlan::default();
    if facts.there && !facts.proven {
        plan.left.push(unproven_leftover(home));
        return Ok(plan);
    }
    let sandboxes = facts.engine.objects().sandboxes;
    let purges_state = request.purge && !facts.openclaw_state.is_empty();
    // State without any program files can be left from an earlier uninstall without `--purge`.
    if facts.openclaw.is_empty() && !purges_state && sandboxes.is_empty() {
        keep_openclaw_state(&mut plan, facts);
        return Ok(plan);
    }
    if !request.force && !facts.openclaw.is_empty() {
        check_unneeded(facts)?;
    }
    // OpenClaw is stopped before its files and sandboxes go, or it would make new ones.
    plan.steps.push(UninstallStep::StopOpenClaw);
    let found = EngineObjects { sandboxes, ..EngineObjects::default() };
    push_engine_step(&mut plan, home, facts, UninstallStep::Engine { found, all: false });
    push_openclaw_files(&mut plan, facts, request.purge);
    Ok(plan)
}

/// Returns an error if an agent needs OpenClaw.
fn check_unneeded(facts: &HomeFacts) -> Result<(), Failure> {
    // Only the first agent is named in the hint. The next call names the next one.
    match &facts.on_openclaw {
        OpenClawAgents::Agents(agents) => {
            let Some(first) = agents.first() else { return Ok(()) };
            let all = agents.join(", ");
            let (noun, verb) = if agents.len() == 1 { ("agent", "runs") } else { ("agents", "run") };
            let text = format!("the {noun} {all} {verb} on OpenClaw; --force removes it all the same");
            let hint = format!(
                "flock config set 'plugins.entries.flock.config.gatewayAgents[{first}].runtime' native"
            );
            Err(Failure::new(Kind::Failed, text).hint(hint))
        }
        // A running gateway uses the last valid configuration, by which agents may still need OpenClaw.
        OpenClawAgents::Unknown(why) if facts.running => {
            let text =
                format!("flock can't tell if agents run on OpenClaw: {why}; --force removes it all the same");
            Err(Failure::new(Kind::Failed, text).hint("flock config validate"))
        }
        OpenClawAgents::Unknown(_) => Ok(()),
    }
}

fn plan_everything(home: &Path, facts: &HomeFacts, request: UninstallRequest) -> UninstallPlan {
    let mut plan = UninstallPlan::default();
    // The service goes first, because a service manager would restart what the next step stops.
    plan.steps.extend(facts.services.iter().cloned().map(UninstallStep::Service));
    if facts.running || (facts.proven && facts.has("run")) {
        plan.steps.push(UninstallStep::Stop { running: facts.running });
    }
    let found = facts.engine.objects();
    push_engine_step(&mut plan, home, facts, UninstallStep::Engine { found, all: true });
    if facts.proven {
        push_openclaw_files(&mut plan, facts, request.purge);
        push_home_files(&mut plan, facts, request.purge);
        if !facts.has("data") {
            move_versions_last(&mut plan.steps);
        }
    } else if facts.there {
        plan_unproven(&mut plan, home, &facts.entries);
    }
    // A workspace outside the home was chosen by a person and may hold anything.
    let workspace = |path: &PathBuf| {
        Leftover::new(&path.display(), "the workspace of an agent, in a folder of yours", None)
    };
    let completion = |path: &PathBuf| {
        let mend = format!("rm {}", path.display());
        Leftover::new(&path.display(), "a completion script, which you put there", Some(mend))
    };
    plan.left.extend(facts.workspaces.iter().map(workspace));
    plan.left.extend(facts.remote_workspaces.iter().map(|RemoteWorkspace { agent, mark, cluster }| {
        // The engines are not asked.
        const WHOSE: &str = "; if this home is a copy of another one, it is that one's";
        let what = format!("the workspace of {agent}");
        let (why, mend) = match cluster {
            Some(address) => {
                (format!("a volume of the cluster {}{WHOSE}", mark.engine), address.removal_of(&mark.volume))
            }
            None => (
                format!("a volume of the engine {}, on another machine{WHOSE}", mark.engine),
                format!("docker volume rm {}, on the machine of {}", mark.volume, mark.engine),
            ),
        };
        Leftover::new(&what, &why, Some(mend))
    }));
    plan.left.extend(facts.completions.iter().map(completion));
    if let Some((path, mend)) = &facts.program {
        let why = "flock itself, which flock did not install";
        plan.left.push(Leftover::new(&path.display(), why, Some(mend.clone())));
    }
    plan
}

fn push_engine_step(plan: &mut UninstallPlan, home: &Path, facts: &HomeFacts, step: UninstallStep) {
    let empty = matches!(&step, UninstallStep::Engine { found, .. } if *found == EngineObjects::default());
    // A running gateway may make one more container before it is stopped.
    if !empty || (facts.running && matches!(facts.engine, EngineFacts::Found(_))) {
        plan.steps.push(step);
    }
    let EngineFacts::Silent { reason, suspect } = &facts.engine else { return };
    let left = Leftover {
        what: "containers, volumes and images".to_owned(),
        why: if *suspect {
            format!("failed to find what this home has in Docker: {reason}")
        } else {
            "there is no Docker here; if the Docker that this home used comes back, this command removes the rest"
                .to_owned()
        },
        mend: Some(format!("flock --home {} uninstall", home.display())),
    };
    if *suspect {
        plan.unseen.push(left);
    } else if facts.there {
        plan.left.push(left);
    }
}

fn keep_openclaw_state(plan: &mut UninstallPlan, facts: &HomeFacts) {
    let what = |path: &Path| match path.file_name().and_then(|name| name.to_str()) {
        Some("state") => "OpenClaw's own state, with its agents' conversations",
        Some(name) if name.starts_with("state-of-") => "OpenClaw's state as another version left it",
        _ => "the version of OpenClaw's state",
    };
    plan.kept.extend(facts.openclaw_state.iter().map(|path| (path.clone(), what(path))));
}

fn push_openclaw_files(plan: &mut UninstallPlan, facts: &HomeFacts, purge: bool) {
    let mut files = facts.openclaw.clone();
    if purge {
        files.splice(0..0, facts.openclaw_state.iter().cloned());
    } else {
        keep_openclaw_state(plan, facts);
    }
    if !files.is_empty() {
        plan.steps.push(UninstallStep::OpenClaw(files));
    }
}

fn push_home_files(plan: &mut UninstallPlan, facts: &HomeFacts, purge: bool) {
    let silent = matches!(facts.engine, EngineFacts::Silent { suspect: true, .. });
    let drafts = facts.entries.iter().filter(|entry| entry.draft).map(|entry| PathBuf::from(&entry.name));
    let mut own: Vec<PathBuf> = drafts.collect();
    // Until the engine was asked, the entry `run` is the reminder that it still has to be.
    let goes = |name: &&str| facts.has(name) && !(silent && *name == "run");
    own.extend(DISPOSABLE.into_iter().filter(goes).map(PathBuf::from));
    // The database in it is an older copy of the one in `data`, so it goes although that one may stay.
    own.extend(facts.own_updates.clone());
    if !own.is_empty() {
        plan.steps.push(UninstallStep::Files(own));
    }
    if plan.kept.is_empty() && (facts.has("gateways") || facts.has("extensions")) {
        // These folders may only go if OpenClaw's state does not stay in them.
        plan.steps.push(UninstallStep::Empty(OPENCLAW_FOLDERS.map(PathBuf::from).to_vec()));
    }
    let there = USER_DATA.iter().filter(|(name, _)| facts.has(name));
    if purge {
        let names: Vec<PathBuf> = there.map(|(name, _)| PathBuf::from(name)).collect();
        if !names.is_empty() {
            plan.steps.push(UninstallStep::Files(names));
        }
        plan.steps.push(UninstallStep::Home);
    } else {
        // Empty folders are not worth mentioning as kept.
        let is_empty = |name: &str| facts.entries.iter().any(|entry| entry.name == name && entry.empty);
        let full = there.filter(|(name, _)| !is_empty(name));
        plan.kept.extend(full.map(|(name, what)| (PathBuf::from(name), *what)));
    }
    plan.left.extend(facts.entries.iter().filter_map(|entry| leftover_of(entry, purge)));
}

/// Moves the removal of OpenClaw's versions to the end.
///
/// If the home's id is gone, these versions may be the only proof that the folder is flock's. An uninstall that is
/// killed after removing them, but before the logs, could not be continued.
fn move_versions_last(steps: &mut Vec<UninstallStep>) {
    let Some(at) = steps.iter().position(|step| matches!(step, UninstallStep::OpenClaw(_))) else { return };
    let versions = steps.remove(at);
    // The versions go after the last step that removes files, or stay where they were.
    let after =
        steps.iter().rposition(|step| matches!(step, UninstallStep::Files(_))).map_or(at, |files| files + 1);
    steps.insert(after.max(at), versions);
}

fn is_known(name: &str) -> bool {
    let data = USER_DATA.iter().map(|(name, _)| *name);
    data.chain(DISPOSABLE).chain(OPENCLAW_ENTRIES).any(|known| known == name)
}

/// Returns what a person is told about an entry that is not flock's, or that is a link to something that is not.
fn leftover_of(entry: &HomeEntry, purge: bool) -> Option<Leftover> {
    let name = entry.name.to_str().unwrap_or_default();
    let is_bundle_link = ["openclaw", ".new-openclaw"].contains(&name);
    if entry.draft || (is_bundle_link && entry.link.is_some()) {
        return None;
    }
    if !is_known(name) || is_bundle_link {
        return Some(Leftover::new(&entry.name.display(), "in the home, but not flock's", None));
    }
    let goes = purge || DISPOSABLE.contains(&name) || OPENCLAW_ENTRIES.contains(&name);
    let target = entry.link.as_ref().filter(|_| goes)?;
    let why = format!("the link {name} led there; its content is yours");
    Some(Leftover::new(&target.display(), &why, None))
}

/// Plans for a folder that flock can't be proved to have made: only empty entries are removed.
///
/// An `init` that was killed at its beginning leaves such a folder.
fn plan_unproven(plan: &mut UninstallPlan, home: &Path, entries: &[HomeEntry]) {
    // A name that flock never uses belongs to somebody else, even if the folder is empty.
    let goes = |entry: &&HomeEntry| entry.empty && entry.name.to_str().is_some_and(is_known);
    let empty: Vec<PathBuf> = entries.iter().filter(goes).map(|entry| PathBuf::from(&entry.name)).collect();
    let all = empty.len() == entries.len();
    if !empty.is_empty() {
        plan.steps.push(UninstallStep::Empty(empty));
    }
    if all {
        plan.steps.push(UninstallStep::Home);
    } else {
        plan.left.push(unproven_leftover(home));
    }
}

fn unproven_leftover(home: &Path) -> Leftover {
    Leftover::new(&home.display(), "nothing in it proves that flock made it, so its content stays", None)
}

/// Folders that are made for OpenClaw. Each stands before the folder that contains it.
pub(crate) const OPENCLAW_FOLDERS: [&str; 5] =
    ["gateways/openclaw/state", "gateways/openclaw", "gateways", "extensions/hooks", "extensions"];

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
