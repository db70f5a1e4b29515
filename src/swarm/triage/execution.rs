//! How an approved command runs on the host: in an empty folder of its own, with a small environment, and only while
//! what it names and agents can write is what it was when it was asked for. All of it is part of what is approved.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::named::{self, Named};
use crate::clean::spelled;
use crate::config::Config;
use crate::env;
use crate::error::chain;
use crate::home::beneath::real;
use crate::home::fingerprint::{self, Fingerprint};
use crate::home::{Home, canonical};

/// All that a command gets of the environment: no key of a provider, nothing that loads code.
const PASSED: [&str; 7] = ["PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ"];
/// The most paths in a command that agents can write.
const MAX_FILES: usize = 32;
/// The most folders that relative words of a command are looked up in.
const MAX_BASES: usize = 16;
/// The reason given for a request of an older flock.
pub const OUTDATED: &str = "not run: it was asked for under an older flock, which did not say in which folder and with \
                            which environment it runs; ask again";

/// The folder, the environment and the files of a command on the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Execution {
    /// The folder that it runs in. It is made empty for this one command and removed after it.
    pub cwd: String,
    /// All of its environment.
    pub env: BTreeMap<String, String>,
    /// What the command names and agents can write.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<Bound>,
}

/// A path that agents can write, as it was when the command was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bound {
    /// Absolute, with all links followed up to the folder that agents write.
    pub path: String,
    /// What it was.
    pub kind: BoundKind,
    /// The digest of its content; of a folder, of all in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// The file's inode, time of change and mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stamp: Option<String>,
}

/// What a bound path was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BoundKind {
    /// Nothing.
    Absent,
    /// A file.
    File,
    /// A folder.
    Folder,
}

impl Bound {
    fn new(path: &Path, found: Fingerprint) -> Self {
        let (kind, sha256, stamp) = match found {
            Fingerprint::Absent => (BoundKind::Absent, None, None),
            Fingerprint::File { sha256, stamp } => (BoundKind::File, Some(sha256), Some(stamp)),
            Fingerprint::Folder { sha256 } => (BoundKind::Folder, Some(sha256), None),
        };
        Self { path: path.to_string_lossy().into_owned(), kind, sha256, stamp }
    }

    /// In one line, for a person.
    #[must_use]
    pub fn describe(&self) -> String {
        let path = spelled(&self.path);
        match (self.kind, &self.sha256) {
            (BoundKind::Absent, _) => format!("{path} (not there; an agent can make it)"),
            (BoundKind::File, Some(sha256)) => format!("{path} (a file, sha256 {sha256})"),
            (BoundKind::Folder, Some(sha256)) => format!("{path} (a folder, {sha256} over all in it)"),
            (_, None) => path,
        }
    }
}

impl Execution {
    /// The execution of the request `id` in this home, of a command that names nothing.
    #[must_use]
    pub fn new(home: &Home, id: &str) -> Self {
        Self { cwd: folder(home, id), env: environment(&BTreeSet::new()), files: Vec::new() }
    }

    /// The execution of a command, and what a person has to know of it besides. Looks at the disk.
    ///
    /// # Errors
    ///
    /// For the model: what of the command can't be bound to what it is now.
    pub fn of(home: &Home, config: &Config, id: &str, command: &str) -> Result<(Self, Vec<String>), String> {
        let roots = writable(home, config);
        let mut execution = Self { env: environment(&roots), ..Self::new(home, id) };
        let named = named::read(command, Path::new(&execution.cwd), &execution.env).ok_or_else(|| {
            format!("`command` names more than {} paths; write it shorter", named::MAX_PATHS)
        })?;
        let places = places(&named, &roots);
        if places.written.len() > MAX_FILES {
            return Err(format!("`command` names more than {MAX_FILES} paths that agents can write"));
        }
        for (root, rest) in &places.written {
            let path = join(root, rest);
            let found = fingerprint::take(root, rest).map_err(|error| {
                format!(
                    "the command names {}, which agents can write, and what is there can't be bound to the approval \
                     ({}); name single files, without links and `..`",
                    spelled(&path.to_string_lossy()),
                    spelled(&chain(&error))
                )
            })?;
            execution.files.push(Bound::new(&path, found));
        }
        Ok((execution, remarks(&named, &places)))
    }

    /// Gives it the folder of another request.
    pub fn rename(&mut self, home: &Home, id: &str) {
        self.cwd = folder(home, id);
    }

    /// The name of its folder, if it is one that this home gives to commands.
    ///
    /// # Errors
    ///
    /// Why it does not run, for the model.
    pub fn name(&self, home: &Home) -> Result<&str, String> {
        let name = Path::new(&self.cwd).file_name().and_then(|name| name.to_str());
        name.filter(|name| folder(home, name) == self.cwd)
            .ok_or_else(|| "not run: it was asked for in another home; ask again".to_owned())
    }

    /// Compares what agents can write with what it was when the command was asked for. Gives what has changed.
    #[must_use]
    pub fn changed(&self, home: &Home, config: &Config) -> Vec<String> {
        let roots = writable(home, config);
        let is_same = |bound: &Bound| {
            let path = Path::new(&bound.path);
            let root = roots.iter().find(|root| path.starts_with(root));
            let found = root.and_then(|root| {
                let rest = path.strip_prefix(root).ok()?;
                fingerprint::take(root, rest).ok()
            });
            found.is_some_and(|found| Bound::new(path, found) == *bound)
        };
        self.files.iter().filter(|bound| !is_same(bound)).map(|bound| spelled(&bound.path)).collect()
    }
}

fn folder(home: &Home, id: &str) -> String {
    home.commands().join(id).to_string_lossy().into_owned()
}

/// The environment of a command. Programs are not looked for where agents write, nor in the folder it runs in.
fn environment(roots: &BTreeSet<PathBuf>) -> BTreeMap<String, String> {
    let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    let mut env: BTreeMap<String, String> =
        env::inherited().filter_map(text).filter(|(name, _)| PASSED.contains(&name.as_str())).collect();
    if let Some(path) = env.get_mut("PATH") {
        let is_safe = |folder: &&str| {
            let real = canonical(Path::new(folder));
            folder.starts_with('/') && !roots.iter().any(|root| real.starts_with(root))
        };
        *path = path.split(':').filter(is_safe).collect::<Vec<_>>().join(":");
    }
    env
}

/// The folders that agents write, with links followed.
fn writable(home: &Home, config: &Config) -> BTreeSet<PathBuf> {
    let mut folders = vec![
        home.workspaces(),
        home.vaults(),
        home.skills(),
        // Transcripts and what programs that run agents' turns keep.
        home.root().join("agents"),
        home.openclaw_state(),
    ];
    for agent in &config.agents {
        folders.push(agent.workspace.clone());
        for bind in &agent.docker.binds {
            let mut parts = bind.split(':');
            let (source, mode) = (parts.next().unwrap_or_default(), parts.nth(1));
            if source.starts_with('/') && mode != Some("ro") {
                folders.push(source.into());
            }
        }
    }
    folders.iter().map(|folder| canonical(folder)).collect()
}

/// Where the paths of a command lead.
#[derive(Debug, Default)]
struct Places {
    /// Into folders that agents write: the folder, and the path below it.
    written: BTreeSet<(PathBuf, PathBuf)>,
    /// To folders that hold such folders.
    above: BTreeSet<PathBuf>,
}

fn places(named: &Named, roots: &BTreeSet<PathBuf>) -> Places {
    let mut places = Places::default();
    for path in &named.absolute {
        if let Some(found) = within(path, roots) {
            places.written.insert(found);
            continue;
        }
        let at = real(path);
        if roots.iter().any(|root| root.starts_with(&at)) {
            places.above.insert(at);
        }
    }
    // `cd FOLDER && sh workspaces/coder/x`: a relative word may be meant below any folder that is named.
    for base in places.above.iter().take(MAX_BASES) {
        for word in &named.relative {
            let path = named::normal(&base.join(word));
            if roots.iter().any(|root| path.starts_with(root)) {
                places.written.extend(within(&path, roots));
            }
        }
    }
    // A folder that is bound with all in it needs none of its parts.
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

/// The folder that agents write in which a path leads first, and the rest of the path. Each part of it is followed by
/// itself: a link in such a folder, wherever it leads, is the agents' own.
fn within(path: &Path, roots: &BTreeSet<PathBuf>) -> Option<(PathBuf, PathBuf)> {
    // The innermost one: a workspace may be in a folder that is one itself.
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
            // Nothing is below it that could lead elsewhere.
            return split(&parts.fold(front, |path, part| path.join(part)));
        }
    }
    None
}

/// A path below a folder; the folder itself has no slash at its end.
fn join(root: &Path, rest: &Path) -> PathBuf {
    if rest.as_os_str().is_empty() { root.to_owned() } else { root.join(rest) }
}

/// What a person has to know beside the command itself.
fn remarks(named: &Named, places: &Places) -> Vec<String> {
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
