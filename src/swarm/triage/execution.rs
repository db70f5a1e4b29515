//! The conditions under which an approved command runs on the host: in an empty folder, with a small environment, and
//! only while the files that it names and agents can write are unchanged since the request. All of this is part of what
//! a person approves.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::command_paths::{self, CommandPaths};
use crate::clean::spelled;
use crate::config::Config;
use crate::env;
use crate::error::chain;
use crate::home::beneath::real;
use crate::home::fingerprint::{self, Fingerprint};
use crate::home::{Home, canonical};

/// The only environment variables that a command gets. They include no provider key and nothing that loads code.
const PASSED_VARIABLES: [&str; 7] = ["PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ"];
/// Maximum number of paths in a command that agents can write.
const MAX_FILES: usize = 32;
/// Maximum number of folders in which relative words of a command are looked up.
const MAX_BASES: usize = 16;
/// The reason for refusing a request of an older version of flock.
pub(crate) const OUTDATED_REASON: &str = "not run: it was asked for under an older flock, which did not record its folder and \
                            environment; ask again";

/// The folder, the environment and the bound files of a command on the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Execution {
    /// The working folder. It is created empty for this command and removed afterwards.
    pub cwd: String,
    /// The complete environment.
    pub env: BTreeMap<String, String>,
    /// The paths that the command names and agents can write.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) files: Vec<BoundFile>,
}

/// A path that agents can write, in its state at the time of the request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BoundFile {
    /// An absolute path. Symbolic links are resolved up to the folder that agents write.
    pub path: String,
    pub kind: BoundFileKind,
    /// Digest of the content. For a folder, of everything in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// The file's inode, change time and mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stamp: Option<String>,
}

/// The type of a bound path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum BoundFileKind {
    /// Nothing exists at the path.
    Absent,
    File,
    Folder,
}

impl BoundFile {
    fn new(path: &Path, found: Fingerprint) -> Self {
        let (kind, sha256, stamp) = match found {
            Fingerprint::Absent => (BoundFileKind::Absent, None, None),
            Fingerprint::File { sha256, stamp } => (BoundFileKind::File, Some(sha256), Some(stamp)),
            Fingerprint::Folder { sha256 } => (BoundFileKind::Folder, Some(sha256), None),
        };
        Self { path: path.to_string_lossy().into_owned(), kind, sha256, stamp }
    }

    /// Describes the path on one line for a person.
    #[must_use]
    pub(crate) fn describe(&self) -> String {
        let path = spelled(&self.path);
        match (self.kind, &self.sha256) {
            (BoundFileKind::Absent, _) => format!("{path} (not there; an agent can make it)"),
            (BoundFileKind::File, Some(sha256)) => format!("{path} (a file, sha256 {sha256})"),
            (BoundFileKind::Folder, Some(sha256)) => format!("{path} (a folder, {sha256} over all in it)"),
            (_, None) => path,
        }
    }
}

impl Execution {
    /// Creates the execution of the request `id` in this home, for a command that names no files.
    #[must_use]
    pub fn new(home: &Home, id: &str) -> Self {
        Self { cwd: folder(home, id), env: environment(&BTreeSet::new()), files: Vec::new() }
    }

    /// Creates the execution of a command, with remarks that a person needs for the decision. Reads the disk.
    ///
    /// # Errors
    ///
    /// Returns a text for the model if a path in the command can't be bound to its current state, or if there are too
    /// many paths.
    pub(crate) fn of(
        home: &Home,
        config: &Config,
        id: &str,
        command: &str,
    ) -> Result<(Self, Vec<String>), String> {
        let roots = writable_folders(home, config);
        let mut execution = Self { env: environment(&roots), ..Self::new(home, id) };
        // Read with the environment in which the command will run, so that `~` and `$HOME` mean the same.
        let named =
            command_paths::read(command, Path::new(&execution.cwd), &execution.env).ok_or_else(|| {
                format!("`command` names more than {} paths; write it shorter", command_paths::MAX_PATHS)
            })?;
        let places = places(&named, &roots);
        if places.written.len() > MAX_FILES {
            return Err(format!("`command` names more than {MAX_FILES} paths that agents can write"));
        }
        for (root, rest) in &places.written {
            let path = join(root, rest);
            let found = fingerprint::take(root, rest).map_err(|error| {
                format!(
                    "the command names {}, which agents can write, and its content can't be bound to the approval \
                     ({}); name single files, without links and `..`",
                    spelled(&path.to_string_lossy()),
                    spelled(&chain(&error))
                )
            })?;
            execution.files.push(BoundFile::new(&path, found));
        }
        Ok((execution, remarks(&named, &places)))
    }

    /// Changes the folder to that of another request.
    pub(crate) fn rename(&mut self, home: &Home, id: &str) {
        self.cwd = folder(home, id);
    }

    /// Returns the name of the working folder, if it is one that this home uses for commands.
    ///
    /// # Errors
    ///
    /// Returns a text for the model if the folder belongs to another home.
    pub(crate) fn name(&self, home: &Home) -> Result<&str, String> {
        let name = Path::new(&self.cwd).file_name().and_then(|name| name.to_str());
        name.filter(|name| folder(home, name) == self.cwd)
            .ok_or_else(|| "not run: it was asked for in another home; ask again".to_owned())
    }

    /// Returns the bound paths whose state differs from that at the time of the request.
    #[must_use]
    pub(crate) fn changed(&self, home: &Home, config: &Config) -> Vec<String> {
        let roots = writable_folders(home, config);
        let is_same = |bound: &BoundFile| {
            let path = Path::new(&bound.path);
            let root = roots.iter().find(|root| path.starts_with(root));
            // A path that no longer lies in a folder of agents, or can't be read, counts as changed.
            let found = root.and_then(|root| {
                let rest = path.strip_prefix(root).ok()?;
                fingerprint::take(root, rest).ok()
            });
            found.is_some_and(|found| BoundFile::new(path, found) == *bound)
        };
        self.files.iter().filter(|bound| !is_same(bound)).map(|bound| spelled(&bound.path)).collect()
    }
}

fn folder(home: &Home, id: &str) -> String {
    home.commands().join(id).to_string_lossy().into_owned()
}

/// Returns the environment of a command. Folders in which agents can write, and relative ones, are removed from `PATH`,
/// so that no program from there runs by its name.
fn environment(roots: &BTreeSet<PathBuf>) -> BTreeMap<String, String> {
    let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        // The body of a request is JSON, which can't hold other values.
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    let mut env: BTreeMap<String, String> = env::inherited()
        .filter_map(text)
        .filter(|(name, _)| PASSED_VARIABLES.contains(&name.as_str()))
        .collect();
    if let Some(path) = env.get_mut("PATH") {
        let is_safe = |folder: &&str| {
            let real = canonical(Path::new(folder));
            // A relative folder in `PATH` would depend on the folder in which the command runs.
            folder.starts_with('/') && !roots.iter().any(|root| real.starts_with(root))
        };
        *path = path.split(':').filter(is_safe).collect::<Vec<_>>().join(":");
    }
    env
}

/// Returns the folders in which agents can write, with symbolic links resolved.
fn writable_folders(home: &Home, config: &Config) -> BTreeSet<PathBuf> {
    let mut folders = vec![
        home.workspaces(),
        // The folders of MCP servers, which are no more trusted than agents.
        home.mcp_files(),
        home.vaults(),
        home.skills(),
        // Transcripts, and state of the programs that run agents' turns.
        home.agents(),
        home.openclaw_state(),
    ];
    for agent in &config.agents {
        folders.push(agent.workspace.clone());
        for bind in &agent.docker.binds {
            let mut parts = bind.split(':');
            let (source, mode) = (parts.next().unwrap_or_default(), parts.nth(1));
            // Another source is a volume, which has no path on the host.
            if source.starts_with('/') && mode != Some("ro") {
                folders.push(source.into());
            }
        }
    }
    folders.iter().map(|folder| canonical(folder)).collect()
}

/// The places to which the paths of a command lead.
#[derive(Debug, Default)]
struct BoundPaths {
    /// Paths in folders that agents write: the folder, and the rest of the path.
    written: BTreeSet<(PathBuf, PathBuf)>,
    /// Paths to folders that contain such folders.
    above: BTreeSet<PathBuf>,
}

fn places(named: &CommandPaths, roots: &BTreeSet<PathBuf>) -> BoundPaths {
    let mut places = BoundPaths::default();
    for path in &named.absolute {
        if let Some(found) = split_at_root(path, roots) {
            places.written.insert(found);
            continue;
        }
        let at = real(path);
        if roots.iter().any(|root| root.starts_with(&at)) {
            places.above.insert(at);
        }
    }
    // For `cd FOLDER && sh workspaces/coder/x`: a relative word may be meant below any folder that the command names.
    for base in places.above.iter().take(MAX_BASES) {
        for word in &named.relative {
            let path = command_paths::normalize(&base.join(word));
            if roots.iter().any(|root| path.starts_with(root)) {
                places.written.extend(split_at_root(&path, roots));
            }
        }
    }
    // A bound folder includes everything in it, so paths below it need no entry.
    let all = places.written.clone();
    places.written.retain(|(root, rest)| {
        !all.iter().any(|(other, above)| {
            other == root && rest != above && rest.starts_with(above) && is_folder(root, above)
        })
    });
    places
}

fn is_folder(root: &Path, rest: &Path) -> bool {
    join(root, rest).is_dir()
}

/// Returns the first folder of agents into which a path leads, and the rest of the path. Components are resolved one by
/// one, because a symbolic link inside such a folder belongs to the agents, wherever it leads.
fn split_at_root(path: &Path, roots: &BTreeSet<PathBuf>) -> Option<(PathBuf, PathBuf)> {
    // Take the innermost folder: one workspace may lie inside another one's folder.
    let split = |path: &Path| {
        let root =
            roots.iter().filter(|root| path.starts_with(root)).max_by_key(|root| root.as_os_str().len())?;
        Some((root.clone(), path.strip_prefix(root).ok()?.to_owned()))
    };
    let mut front = PathBuf::new();
    let mut parts = path.components();
    while let Some(part) = parts.next() {
        front.push(part);
        let is_there = front.exists();
        if is_there {
            front = real(&front);
        }
        if let Some((root, rest)) = split(&front) {
            return Some((root, parts.fold(rest, |rest, part| rest.join(part))));
        }
        if !is_there {
            // Nothing exists below this point that could lead elsewhere.
            return split(&parts.fold(front, |path, part| path.join(part)));
        }
    }
    None
}

/// Joins a folder and a relative path. The folder itself gets no trailing slash.
fn join(root: &Path, rest: &Path) -> PathBuf {
    if rest.as_os_str().is_empty() { root.to_owned() } else { root.join(rest) }
}

/// Returns what a person has to know in addition to the command itself.
fn remarks(named: &CommandPaths, places: &BoundPaths) -> Vec<String> {
    let mut remarks = Vec::new();
    if !places.written.is_empty() {
        let paths: Vec<String> =
            places.written.iter().map(|(root, rest)| spelled(&join(root, rest).to_string_lossy())).collect();
        remarks.push(format!(
            "it names what an agent can write ({}); it runs only while that is what it is now",
            paths.join(", ")
        ));
    }
    if !places.above.is_empty() {
        let paths: Vec<String> = places.above.iter().map(|path| spelled(&path.to_string_lossy())).collect();
        remarks.push(format!("below {} there are folders that agents write", paths.join(", ")));
    }
    // The check is on the text only, so the person must know what it can't see.
    if named.is_dynamic {
        remarks.push(
            "parts of it are only known when it runs, so it may use other files than it names".to_owned(),
        );
    }
    remarks
}

#[cfg(test)]
#[path = "execution_tests.rs"]
mod tests;
