//! The facts about an installed flock, collected without changing anything.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::super::completions::{Shell, script};
use super::super::{Failure, service, team};
use crate::config::{self, ClusterAddress, Config, ConfigError};
use crate::home::elsewhere::{self, Mark};
use crate::home::lock::Lock;
use crate::home::{Home, HomeError, atomic, instance, version};
use crate::id::AgentId;
use crate::install::versions;
use crate::openclaw::{self, sandboxes, uninstall};
use crate::sandbox::engine::Engine;
use crate::sandbox::image;
use crate::sandbox::kubernetes::relocation;
use crate::sandbox::{SandboxError, containers, volumes};
use crate::supervise::launch;
use crate::supervise::pid_file;
use crate::supervise::unit::NAMES;

/// The collected facts.
#[derive(Clone, Debug, Default)]
pub(crate) struct HomeFacts {
    /// `true` if the home's folder exists.
    pub there: bool,
    /// `true` if its contents prove that flock made it.
    pub proven: bool,
    /// The entries of the folder.
    pub entries: Vec<HomeEntry>,
    /// `true` if a process of the home runs.
    pub running: bool,
    /// The unit files of its services.
    pub services: Vec<PathBuf>,
    /// The home's objects in the container engine.
    pub engine: EngineFacts,
    /// OpenClaw's files below the home.
    pub openclaw: Vec<PathBuf>,
    /// OpenClaw's own state and copies of it, below the home.
    pub openclaw_state: Vec<PathBuf>,
    /// The folder of flock's own updates, below the home, if there is one.
    pub own_updates: Option<PathBuf>,
    pub on_openclaw: OpenClawAgents,
    /// Workspaces outside the home.
    pub workspaces: Vec<PathBuf>,
    pub remote_workspaces: Vec<RemoteWorkspace>,
    /// flock's own program, and the command that removes it.
    pub program: Option<(PathBuf, String)>,
    /// Completion scripts of flock that a person installed.
    pub completions: Vec<PathBuf>,
}

/// A workspace on another machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RemoteWorkspace {
    pub agent: AgentId,
    /// The engine and the volume.
    pub mark: Mark,
    /// The address of the engine, if it is a cluster.
    pub cluster: Option<ClusterAddress>,
}

/// An entry of the home's folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HomeEntry {
    pub name: OsString,
    /// The target, if it is a symbolic link.
    pub link: Option<PathBuf>,
    /// `true` if it is a folder without any file in it.
    pub empty: bool,
    /// `true` if it is a draft that a killed writer left.
    pub draft: bool,
}

impl HomeFacts {
    /// Returns `true` if the home has an entry of this name.
    #[must_use]
    pub(crate) fn has(&self, name: &str) -> bool {
        self.entries.iter().any(|entry| entry.name == name)
    }
}

/// The agents that run on OpenClaw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OpenClawAgents {
    /// The ids of the agents.
    Agents(Vec<String>),
    /// The configuration can't be read, for this reason.
    Unknown(String),
}

impl Default for OpenClawAgents {
    fn default() -> Self {
        Self::Agents(Vec::new())
    }
}

/// The home's objects in the container engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EngineFacts {
    /// The engine answered.
    Found(EngineObjects),
    /// The engine can't be asked.
    Silent {
        reason: String,
        /// `true` if there may be objects. An engine that is not installed and was never used has none.
        suspect: bool,
    },
}

impl EngineFacts {
    /// Returns the objects that were seen.
    pub(crate) fn objects(&self) -> EngineObjects {
        match self {
            Self::Found(objects) => objects.clone(),
            Self::Silent { .. } => EngineObjects::default(),
        }
    }
}

impl Default for EngineFacts {
    fn default() -> Self {
        Self::Found(EngineObjects::default())
    }
}

/// The names of the home's objects in the engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct EngineObjects {
    /// Containers of agents and of the package store.
    pub containers: Vec<String>,
    /// Containers of OpenClaw's sandboxes.
    pub sandboxes: Vec<String>,
    pub volumes: Vec<String>,
    pub networks: Vec<String>,
    pub images: Vec<String>,
    /// Objects in Kubernetes clusters, each with the name of the cluster.
    pub cluster: Vec<String>,
}

/// Collects the facts.
///
/// # Errors
///
/// Returns an error if a newer flock made the home, or if its folder can't be read.
pub(crate) async fn gather(home: &Home) -> Result<HomeFacts, Failure> {
    // An unreadable format number is no error here: an uninstall also has to handle damaged homes.
    if let Err(error @ HomeError::Newer { .. }) = version::check_writable(home) {
        return Err(error.into());
    }
    let entries = entries(home.root())?;
    let there = entries.is_some();
    let config = config::read(home);
    let (on_openclaw, workspaces) = match &config {
        Ok(config) => {
            let on_openclaw = openclaw::agents(config).map(|agent| agent.id.to_string()).collect();
            let elsewhere = |path: &&PathBuf| !path.starts_with(home.root()) && path.exists();
            let workspaces = config.agents.iter().map(|agent| &agent.workspace).filter(elsewhere);
            (OpenClawAgents::Agents(on_openclaw), workspaces.cloned().collect())
        }
        // Without a configuration there are no agents. That is different from a configuration that can't be read.
        Err(ConfigError::Home(HomeError::NotInitialised { .. })) => Default::default(),
        Err(error) => (OpenClawAgents::Unknown(crate::error::chain(error)), Vec::new()),
    };
    Ok(HomeFacts {
        there,
        proven: there && is_proven(home),
        entries: entries.unwrap_or_default(),
        running: runs(home),
        services: service::installed(home)?.into_iter().map(|service| service.path).collect(),
        engine: engine_facts(home).await,
        openclaw: uninstall::found(home),
        openclaw_state: uninstall::state(home),
        own_updates: own_updates(home),
        on_openclaw,
        workspaces,
        // Those of a home that joined others belong to the home that has the files.
        remote_workspaces: match home.files() == home.root() {
            // As far as they can be read. No volume goes with a mark.
            true => remote_workspaces(home, config.as_ref().ok()),
            false => Vec::new(),
        },
        program: launch::program().ok().map(|path| (path.clone(), uninstall_command(&path))),
        completions: completions(),
    })
}

fn remote_workspaces(home: &Home, config: Option<&Config>) -> Vec<RemoteWorkspace> {
    let marks = elsewhere::marks(&home.workspaces()).unwrap_or_default();
    let engines = config.map(|config| config.engines.as_slice()).unwrap_or_default();
    let place = |(agent, mark): (AgentId, Mark)| {
        let engine = engines.iter().find(|engine| engine.name == mark.engine);
        let cluster = engine.and_then(|engine| Some(engine.as_cluster()?.0));
        RemoteWorkspace { agent, mark, cluster }
    };
    marks.into_iter().map(place).collect()
}

/// Returns the entries of the home's folder, or `None` if it does not exist.
fn entries(root: &Path) -> Result<Option<Vec<HomeEntry>>, Failure> {
    let unreadable = |source| HomeError::Io { verb: "read", path: root.to_owned(), source };
    let listed = match std::fs::read_dir(root) {
        Ok(listed) => listed,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(error).into()),
    };
    let mut entries = Vec::new();
    for entry in listed {
        let path = entry.map_err(unreadable)?.path();
        entries.push(HomeEntry {
            name: path.file_name().unwrap_or_default().to_owned(),
            // A link is recorded with its target, so that the person learns where it led.
            link: std::fs::read_link(&path).ok(),
            empty: is_empty(&path, LEVELS),
            draft: is_draft(&path),
        });
    }
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(Some(entries))
}

/// Returns `true` for a folder that holds nothing except empty folders, which `init` makes, and drafts of killed
/// writers.
fn is_empty(path: &Path, depth: usize) -> bool {
    let Ok(mut entries) = std::fs::read_dir(path) else { return false };
    !path.is_symlink()
        && entries.all(|entry| {
            entry.is_ok_and(|entry| {
                is_draft(&entry.path()) || (depth > 0 && is_empty(&entry.path(), depth - 1))
            })
        })
}

/// Returns `true` for a file that a killed writer left.
pub(crate) fn is_draft(path: &Path) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(atomic::is_draft)
        && path.symlink_metadata().is_ok_and(|found| found.is_file())
}

/// Number of levels of empty folders that are examined. flock never makes more.
pub(crate) const LEVELS: usize = 4;

/// Returns `true` if flock made the contents of the folder.
///
/// A wrong `--home` must not delete a folder that happens to contain a `data` or `logs`. A user's home folder never
/// belongs to flock alone.
fn is_proven(home: &Home) -> bool {
    if dirs::home_dir().is_some_and(|own| own == home.root()) {
        return false;
    }
    // Any one of these is enough: an earlier uninstall may have removed the other two.
    instance::read(home).is_ok_and(|id| id.parse::<uuid::Uuid>().is_ok())
        || config::file::read_document(home)
            .is_ok_and(|(_, document)| document.pointer("/plugins/entries/flock").is_some())
        || versions::list(home).is_ok_and(|list| !list.is_empty())
}

/// Returns the folder with the previous flock, what an update built, and the database as it was before that update.
fn own_updates(home: &Home) -> Option<PathBuf> {
    let folder = home.program();
    // What lies behind a link is not in the home.
    let is_here = folder.is_dir() && folder.ancestors().take(2).all(|folder| !folder.is_symlink());
    folder.strip_prefix(home.root()).ok().filter(|_| is_here).map(Path::to_owned)
}

fn runs(home: &Home) -> bool {
    // A gateway without a supervisor does not hold the supervisor's lock. One that was started by hand has no PID file.
    [home.supervisor_lock(), home.gateway_lock()].iter().any(|lock| Lock::is_held(lock).unwrap_or(false))
        || NAMES.iter().any(|name| pid_file::read(&home.pid_file(name)).is_some())
}

async fn engine_facts(home: &Home) -> EngineFacts {
    let engine = Engine::from_env();
    match belongings(&engine, home).await {
        Ok(mut found) => {
            for other in team::other_engines(home) {
                // One that does not answer is reported when its things are to be removed.
                if other.ping().await.is_ok()
                    && let Ok(more) = belongings(&other, home).await
                {
                    found.containers.extend(more.containers);
                    found.volumes.extend(more.volumes);
                    found.networks.extend(more.networks);
                    found.images.extend(more.images);
                }
            }
            for placed in team::clusters(home) {
                // Nor is one of these waited for.
                if placed.client.ping().await.is_ok()
                    && let Ok(more) = relocation::belongings(&placed, home).await
                {
                    found.cluster.extend(more.into_iter().map(|name| format!("{}: {name}", placed.name)));
                }
            }
            EngineFacts::Found(found)
        }
        Err(error) => {
            // The helper programs are for sandboxes only, so they show that an engine was used.
            let used = std::fs::read_dir(home.helpers()).is_ok_and(|mut helpers| helpers.next().is_some());
            let installed = engine.socket().is_none_or(Path::exists);
            EngineFacts::Silent { reason: crate::error::chain(&error), suspect: used || installed }
        }
    }
}

/// Returns the home's objects in an engine.
///
/// # Errors
///
/// Returns an error if the engine does not answer or refuses.
pub(crate) async fn belongings(engine: &Engine, home: &Home) -> Result<EngineObjects, SandboxError> {
    let containers = containers::list(engine, home).await?;
    Ok(EngineObjects {
        containers: containers.into_iter().map(|container| container.name).collect(),
        sandboxes: sandboxes::list(engine, home).await?,
        volumes: volumes::list(engine, home).await?,
        networks: volumes::networks(engine, home).await?,
        images: image::tags(engine, home).await?,
        cluster: Vec::new(),
    })
}

/// Returns the command that removes flock's own program. It is cargo's if cargo installed it.
fn uninstall_command(program: &Path) -> String {
    let root = program.parent().filter(|folder| folder.ends_with("bin")).and_then(Path::parent);
    let by_cargo = root.is_some_and(|root| {
        // Cargo lists its installed packages in this file, each in a line of its own.
        let list = atomic::read(&root.join(".crates.toml"), 16 << 20).ok().flatten().unwrap_or_default();
        String::from_utf8_lossy(&list).contains("\n\"flock ")
    });
    match root {
        Some(root) if by_cargo && root.ends_with(".cargo") => "cargo uninstall flock".to_owned(),
        Some(root) if by_cargo => format!("cargo uninstall --root {} flock", root.display()),
        _ => format!("rm {}", program.display()),
    }
}

/// Returns scripts of `flock completions` in the places that its help names. flock itself never puts them there.
fn completions() -> Vec<PathBuf> {
    let Some(user) = dirs::home_dir() else { return Vec::new() };
    let places = [
        // These are the places that the help of `flock completions` names.
        (Shell::Bash, ".local/share/bash-completion/completions/flock"),
        (Shell::Zsh, ".zfunc/_flock"),
        (Shell::Fish, ".config/fish/completions/flock.fish"),
    ];
    let ours = |(shell, path): (Shell, &str)| {
        let path = user.join(path);
        let text = atomic::read(&path, 4 << 20).ok()??;
        // A script of an older flock differs, but has the same beginning.
        let head = |text: &[u8]| text.iter().take(64).copied().collect::<Vec<u8>>();
        (head(&text) == head(script(shell).as_bytes())).then_some(path)
    };
    places.into_iter().filter_map(ours).collect()
}
