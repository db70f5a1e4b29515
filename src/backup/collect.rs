//! Writes everything that a backup has of a home into an archive, in an order in which nothing refers to what is missing.
//!
//! While it does so, the gateway goes on. The order follows from the order in which flock itself writes:
//!
//! 1. The database is copied first, in one moment. A transcript has a record before the database refers to it, and a
//!    repository has a commit before the database names it. So what is read later has everything that the copy refers to,
//!    and perhaps more, as after a crash.
//! 2. Of an agent's checkpoints, the list is read before the contents that it names, and both before the transcripts,
//!    because a checkpoint names a place in them.
//! 3. Of a project, the references are read before the objects that they lead to, under the lock of the references.
//! 4. Workspaces are last. They change at any time.
//!
//! What was removed meanwhile is noticed at the end, and the backup is begun again.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use super::content::{ArchiveSink, Measure};
use super::error::BackupError;
use super::manifest::{Named, Part, RawPath};
use super::selection::{self, DATABASE};
use super::walk::{FoundFile, Walk, WalkSink};
use super::writer::{ArchiveWriter, FileFacts};
use crate::generation::kept_out::{keep_out, put_back};
use crate::home::lock::Lock;
use crate::home::{Home, atomic, elsewhere, regular};
use crate::store::snapshot::{self, DatabaseFacts};

/// Number of copies of the database that are made if the configuration changes at the same moment.
const COPIES: usize = 5;
/// Number of times that contents of checkpoints are looked for again after old checkpoints were removed.
const ROUNDS: usize = 20;
/// Longest time to wait for a change of a project's references.
const LOCK_TIMEOUT: Duration = Duration::from_secs(60);
/// Largest file in bytes that is read at the moment of the copy.
const MAX_SMALL: u64 = 64 << 20;

/// The folders that are written in an order of their own, after everything else.
const LAST: [&str; 3] = ["agents", "projects", "workspaces"];

/// The state of a home at one moment: the copy of the database, and the small files that have to agree with it.
pub(super) struct Moment {
    /// Unix milliseconds.
    pub(super) at: i64,
    pub(super) facts: Option<DatabaseFacts>,
    /// The content of the files, by their paths below the home.
    files: BTreeMap<PathBuf, Vec<u8>>,
    /// The folders of agents, projects, workspaces and so on.
    owned: Vec<PathBuf>,
    /// The settings and files with keys that are left out.
    pub(super) enter_again: Vec<String>,
}

impl Moment {
    /// Copies the database into the folder of `scratch`, and reads the small files.
    ///
    /// # Errors
    ///
    /// Returns [`BackupError::Restless`] if the configuration changed during each copy, and another error if something
    /// can't be read or copied.
    pub(super) fn take(home: &Home, scratch: &Home, without: &[Part]) -> Result<Self, BackupError> {
        let mut before = small_files(home)?;
        for _ in 0..COPIES {
            for name in DATABASE {
                drop(fs_err::remove_file(scratch.data().join(name)));
            }
            let at = crate::clock::unix_ms();
            let facts = snapshot::take(home, scratch)?;
            let files = small_files(home)?;
            // An operation on an agent changes both the configuration and the database.
            if files != before {
                before = files;
                continue;
            }
            let mut moment = Self { at, facts, files, owned: owned(home)?, enter_again: Vec::new() };
            if without.contains(&Part::Secrets) {
                moment.leave_out_secrets(home)?;
            }
            return Ok(moment);
        }
        Err(BackupError::Restless { what: "its configuration is being changed".to_owned() })
    }

    /// Takes the keys out of the configuration, and names what has to be entered again.
    fn leave_out_secrets(&mut self, home: &Home) -> Result<(), BackupError> {
        let path = Path::new("config.json");
        if let Some(text) = self.files.get_mut(path) {
            let text_of = |error: serde_json::Error| BackupError::read(&home.config())(error.into());
            let mut document: Value = serde_json::from_slice(text).map_err(text_of)?;
            document = keep_out(&document);
            self.enter_again = put_back(&mut document, &Value::Null);
            *text = serde_json::to_vec_pretty(&document).map_err(text_of)?;
        }
        // A new token is made when the home is restored.
        self.enter_again.retain(|path| path != "gateway.auth.token");
        let mut names: Vec<String> = crate::home::scratch::names(&home.secrets());
        names.retain(|name| !atomic::is_draft(name));
        names.sort();
        self.enter_again.extend(names.into_iter().map(|name| format!("secrets/{name}")));
        Ok(())
    }

    /// Writes everything of the home into the archive.
    ///
    /// # Errors
    ///
    /// Returns [`BackupError::Restless`] if something was removed meanwhile that the copy of the database refers to, and
    /// another error if something can't be read or written.
    pub(super) fn write(
        &self,
        (home, scratch): (&Home, &Home),
        without: &[Part],
        (writer, left_out): (&mut ArchiveWriter<'_>, &mut Named),
    ) -> Result<(), BackupError> {
        let linked = HashMap::new();
        let mut collect = Collect { home, without, writer: &mut *writer, left_out, linked };
        for (path, bytes) in &self.files {
            // Files in folders come with them.
            if path.iter().count() == 1 {
                collect.small(path, bytes)?;
            }
        }
        collect.data(&self.files, scratch)?;
        for top in tops(home)? {
            // The database in the archive is a file, wherever that of the home is.
            let is_other = top == Path::new("data") || home.root().join(&top) == home.store_location();
            let is_later = is_other || LAST.iter().any(|name| Path::new(name) == top);
            if !is_later && !self.files.contains_key(&top) {
                collect.tree(&top)?;
            }
        }
        collect.agents()?;
        collect.projects()?;
        collect.workspaces()?;
        self.check_nothing_is_gone(home, writer)
    }

    /// Looks for what was removed while the archive was written.
    fn check_nothing_is_gone(&self, home: &Home, writer: &ArchiveWriter<'_>) -> Result<(), BackupError> {
        let gone = self.owned.iter().find(|path| home.root().join(path).symlink_metadata().is_err());
        if let Some(path) = gone {
            return Err(BackupError::Restless { what: format!("{} was removed", path.display()) });
        }
        let taken: HashSet<&[u8]> = writer.entries().iter().map(|entry| entry.path.0.as_slice()).collect();
        let path = |agent: &str, file: &str| format!("agents/{agent}/sessions/{file}.jsonl");
        let all = self.facts.iter().flat_map(|facts| &facts.transcripts);
        let missing: Vec<&(String, String)> =
            all.filter(|(agent, file)| !taken.contains(path(agent, file).as_bytes())).collect();
        if missing.is_empty() {
            return Ok(());
        }
        // A session that has had no turn yet has no transcript. One that is not in the database any more was deleted.
        let now = snapshot::transcripts(home)?;
        match missing.into_iter().find(|session| !now.contains(session)) {
            Some((agent, file)) => {
                Err(BackupError::Restless { what: format!("{} was removed", path(agent, file)) })
            }
            None => Ok(()),
        }
    }
}

/// The small files that belong to the same moment as the database: the configuration, and operations on agents that have
/// begun. Whoever finds such an operation completes it.
fn small_files(home: &Home) -> Result<BTreeMap<PathBuf, Vec<u8>>, BackupError> {
    let mut files = BTreeMap::new();
    let mut paths = vec![home.config(), home.team_fork()];
    paths.extend(crate::home::scratch::names(&home.pending()).iter().map(|name| home.pending().join(name)));
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if atomic::is_draft(&name) {
            continue;
        }
        let Ok(below) = path.strip_prefix(home.root()) else { continue };
        if let Some(bytes) = atomic::read(&path, MAX_SMALL)? {
            files.insert(below.to_owned(), bytes);
        }
    }
    Ok(files)
}

/// Returns what is at the top of a home, sorted.
fn tops(home: &Home) -> Result<Vec<PathBuf>, BackupError> {
    let read = BackupError::read(home.root());
    let mut found = Vec::new();
    for entry in fs_err::read_dir(home.root()).map_err(&read)? {
        found.push(PathBuf::from(entry.map_err(&read)?.file_name()));
    }
    found.sort();
    Ok(found)
}

/// Returns the folders that belong to one agent, project, server, vault or skill each.
fn owned(home: &Home) -> Result<Vec<PathBuf>, BackupError> {
    let mut found = Vec::new();
    for top in ["agents", "projects", "workspaces", "mcp", "vaults", "skills"] {
        let folder = home.root().join(top);
        let entries = match fs_err::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(BackupError::read(&folder)(error)),
        };
        for entry in entries {
            let entry = entry.map_err(BackupError::read(&folder))?;
            let path = Path::new(top).join(entry.file_name());
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_folder && selection::is_wanted(&path, &[]) {
                found.push(path);
            }
        }
    }
    Ok(found)
}

/// Adds up the bytes of everything that a backup has of a home, without the copy of the database.
///
/// # Errors
///
/// Returns an error if a folder can't be read.
pub(super) fn measure(home: &Home, without: &[Part]) -> Result<u64, BackupError> {
    let mut measure = Measure::default();
    let mut left_out = Named::default();
    let is_wanted = |path: &Path| selection::is_wanted(path, without);
    let mut walk =
        Walk { root: home.root(), is_wanted: &is_wanted, left_out: &mut left_out, sink: &mut measure };
    for top in tops(home)? {
        if top == Path::new("workspaces") {
            for name in crate::home::scratch::names(&home.workspaces()) {
                walk.tree(&top.join(name))?;
            }
        } else {
            walk.tree(&top)?;
        }
    }
    Ok(measure.bytes)
}

/// An archive to which the parts of a home are added.
struct Collect<'c, 'w> {
    home: &'c Home,
    without: &'c [Part],
    writer: &'c mut ArchiveWriter<'w>,
    left_out: &'c mut Named,
    /// The first name of each file that has several.
    linked: HashMap<(u64, u64), RawPath>,
}

/// Writes only what was not written before.
struct Once<'o, 's, 'w> {
    sink: ArchiveSink<'s, 'w>,
    taken: &'o mut HashSet<PathBuf>,
}

impl WalkSink for Once<'_, '_, '_> {
    fn folder(&mut self, path: &Path, mode: u32) -> Result<(), BackupError> {
        if self.taken.insert(path.to_owned()) { self.sink.folder(path, mode) } else { Ok(()) }
    }

    fn link(&mut self, path: &Path, target: Vec<u8>) -> Result<(), BackupError> {
        if self.taken.insert(path.to_owned()) { self.sink.link(path, target) } else { Ok(()) }
    }

    fn file(&mut self, file: &FoundFile<'_>) -> Result<Option<&'static str>, BackupError> {
        if self.taken.insert(file.path.to_owned()) { self.sink.file(file) } else { Ok(None) }
    }
}

impl Collect<'_, '_> {
    /// Adds what is at a path of the home, without the paths for which `is_other` is `true`.
    fn tree_without(&mut self, top: &Path, is_other: &dyn Fn(&Path) -> bool) -> Result<(), BackupError> {
        let without = self.without;
        let is_wanted = |path: &Path| selection::is_wanted(path, without) && !is_other(path);
        let mut sink = ArchiveSink { writer: &mut *self.writer, linked: &mut self.linked };
        let sink: &mut dyn WalkSink = &mut sink;
        Walk { root: self.home.root(), is_wanted: &is_wanted, left_out: &mut *self.left_out, sink }.tree(top)
    }

    fn tree(&mut self, top: &Path) -> Result<(), BackupError> {
        self.tree_without(top, &|_| false)
    }

    /// Adds a small file whose content was read before.
    fn small(&mut self, path: &Path, bytes: &[u8]) -> Result<(), BackupError> {
        let modified = super::reader::seconds(crate::clock::unix_ms());
        self.writer.bytes(path, FileFacts { mode: 0o600, modified }, bytes, false)
    }

    /// Adds the folder of the database, with the copy in the place of the database itself.
    fn data(&mut self, files: &BTreeMap<PathBuf, Vec<u8>>, scratch: &Home) -> Result<(), BackupError> {
        let home = self.home;
        // A restored home must not take the original's second place for its own.
        let is_other = |path: &Path| files.contains_key(path) || home.root().join(path) == home.blob_record();
        self.tree_without(Path::new("data"), &is_other)?;
        let data = Path::new("data");
        for (path, bytes) in files.iter().filter(|(path, _)| path.starts_with(data)) {
            self.small(path, bytes)?;
        }
        for name in DATABASE {
            let path = scratch.data().join(name);
            let file = match regular::open(&path) {
                Ok(file) => file,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(error) => return Err(BackupError::read(&path)(error)),
            };
            let size = file.metadata().map_err(BackupError::read(&path))?.len();
            let modified = super::reader::seconds(crate::clock::unix_ms());
            let facts = FileFacts { mode: 0o600, modified };
            self.writer.stream(&data.join(name), facts, (&file, size, None), || Ok(false))?;
        }
        Ok(())
    }

    fn agents(&mut self) -> Result<(), BackupError> {
        let agents = Path::new("agents");
        self.tree_without(agents, &|path| path != agents)?;
        for agent in self.paths(agents)? {
            let checkpoints = agent.join("checkpoints");
            self.tree_without(&agent, &|path| path != agent)?;
            self.checkpoints(&checkpoints)?;
            for path in self.paths(&agent)?.into_iter().filter(|path| *path != checkpoints) {
                self.tree(&path)?;
            }
        }
        Ok(())
    }

    /// Adds an agent's checkpoints.
    ///
    /// Old checkpoints may be removed meanwhile: first from the list, which becomes another file, then their contents.
    /// Then the list is read again, and the contents that are new. Nothing waits for this, and this waits for nothing.
    fn checkpoints(&mut self, folder: &Path) -> Result<(), BackupError> {
        let full = self.home.root().join(folder);
        if !full.is_dir() || !selection::is_wanted(folder, self.without) {
            return Ok(());
        }
        self.tree_without(folder, &|path| path != folder)?;
        let mut taken = HashSet::new();
        for _ in 0..ROUNDS {
            let list = records(&full.join(RECORDS))?;
            let rewind = atomic::read(&full.join("rewind.json"), MAX_SMALL)?;
            let without = self.without;
            let is_wanted = |path: &Path| selection::is_wanted(path, without);
            let sink = ArchiveSink { writer: &mut *self.writer, linked: &mut self.linked };
            let mut once = Once { sink, taken: &mut taken };
            Walk {
                root: self.home.root(),
                is_wanted: &is_wanted,
                left_out: &mut *self.left_out,
                sink: &mut once,
            }
            .tree(&folder.join("objects"))?;
            // The open file keeps its number from being given to another one.
            let now = inode(&full.join(RECORDS))?;
            if now != list.as_ref().map(|(file, _)| file_number(file)).transpose()? {
                continue;
            }
            if let Some((_, bytes)) = list {
                let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
                self.small(&folder.join(RECORDS), &bytes[..end])?;
            }
            if let Some(bytes) = rewind {
                self.small(&folder.join("rewind.json"), &bytes)?;
            }
            return Ok(());
        }
        let what = format!("old checkpoints are being removed from {}", full.display());
        Err(BackupError::Restless { what })
    }

    fn projects(&mut self) -> Result<(), BackupError> {
        let projects = Path::new("projects");
        self.tree_without(projects, &|path| path != projects)?;
        for project in self.paths(projects)? {
            let objects = project.join("objects");
            let full = self.home.root().join(&project);
            if full.is_dir() && selection::is_wanted(&project, self.without) {
                let _references = Lock::acquire(&full.join("flock.lock"), LOCK_TIMEOUT)?;
                self.tree_without(&project, &|path| path == objects)?;
            } else {
                self.tree(&project)?;
            }
            self.tree(&objects)?;
        }
        Ok(())
    }

    fn workspaces(&mut self) -> Result<(), BackupError> {
        let workspaces = Path::new("workspaces");
        self.tree_without(workspaces, &|path| path != workspaces)?;
        // Each is a tree of its own: its owner may have put it elsewhere, and a link there is not the agent's.
        for workspace in self.paths(workspaces)? {
            // Only its mark is here. The agent's checkpoints have its files.
            if let Some(engine) = elsewhere::engine_of(&self.home.root().join(&workspace)) {
                let why = format!("it is on the engine {engine}, on another machine");
                self.left_out.add(&workspace, &why);
            }
            self.tree(&workspace)?;
        }
        Ok(())
    }

    /// Returns the paths of what is in a folder of the home, sorted. None if it is no folder.
    fn paths(&self, folder: &Path) -> Result<Vec<PathBuf>, BackupError> {
        let full = self.home.root().join(folder);
        let read = BackupError::read(&full);
        let entries = match fs_err::read_dir(&full) {
            Ok(entries) => entries,
            Err(error) if is_no_folder(&error) => return Ok(Vec::new()),
            Err(error) => return Err(read(error)),
        };
        let mut paths = Vec::new();
        for entry in entries {
            paths.push(folder.join(entry.map_err(&read)?.file_name()));
        }
        paths.sort();
        Ok(paths)
    }
}

fn is_no_folder(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory)
}

/// The name of the list of an agent's checkpoints.
const RECORDS: &str = "records.jsonl";

/// Opens and reads the list of an agent's checkpoints, if there is one.
fn records(path: &Path) -> Result<Option<(File, Vec<u8>)>, BackupError> {
    let read = BackupError::read(path);
    let file = match regular::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(read(error)),
    };
    let mut bytes = Vec::new();
    (&file).take(MAX_SMALL).read_to_end(&mut bytes).map_err(read)?;
    Ok(Some((file, bytes)))
}

fn file_number(file: &File) -> Result<u64, BackupError> {
    Ok(file.metadata().map_err(BackupError::read(Path::new(RECORDS)))?.ino())
}

/// Returns the number of the file that has this path. `None` if there is none.
fn inode(path: &Path) -> Result<Option<u64>, BackupError> {
    match fs_err::symlink_metadata(path) {
        Ok(found) => Ok(Some(found.ino())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(BackupError::read(path)(error)),
    }
}
