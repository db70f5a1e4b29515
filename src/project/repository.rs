//! A project's bare repository on disk: its creation, its references, the rights of its files, and its repair.
//!
//! Every change of a reference goes through [`ProjectRepository::update`], under a lock that ends with its process. So a
//! `*.lock` file that is found under the lock is left over from a process that was killed, and is removed. A change of
//! several references is first written to a journal, and whoever opens the repository next completes it.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use git2::{Config, ErrorCode, ObjectType, Oid, Repository, RepositoryInitOptions};
use serde::{Deserialize, Serialize};

use super::ProjectError;
use super::reference::{BRANCHES, OWNER};
use crate::home::{atomic, lock::Lock};

/// A project's bare repository. It is opened for one piece of work and is not shared between threads.
pub struct ProjectRepository {
    folder: PathBuf,
    git: Repository,
}

/// A change of one reference, which is made only if the reference still is at `old`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefChange {
    /// The full name, as in `refs/heads/main`.
    pub name: String,
    /// The commit before the change. `None` if there must be no such reference.
    pub old: Option<Oid>,
    /// The commit after the change. `None` removes the reference.
    pub new: Option<Oid>,
}

/// A line of the journal.
#[derive(Serialize, Deserialize)]
struct JournalEntry {
    name: String,
    /// 40 hex digits, or `None` if the reference is removed.
    new: Option<String>,
}

impl ProjectRepository {
    /// Creates an empty repository at `folder`, whose `HEAD` is `branch`, or opens the one that is there. Nothing is left
    /// half made.
    ///
    /// # Errors
    ///
    /// Returns an error if the folder can't be written.
    pub fn create(folder: &Path, branch: &str) -> Result<Self, ProjectError> {
        if folder.join("HEAD").exists() {
            return Self::open(folder);
        }
        let above = folder.parent().unwrap_or(folder);
        fs_err::create_dir_all(above).map_err(ProjectError::io("make the folder", above))?;
        let lock = Lock::acquire(&folder.with_extension("creating"), LOCK_PATIENCE)?;
        if folder.join("HEAD").exists() {
            return Self::open(folder);
        }
        let draft = folder.with_extension("new");
        remove_folder(&draft)?;
        let failed = ProjectError::git("make the repository", &draft);
        let mut options = RepositoryInitOptions::new();
        // Without a template of the user's, which could bring hooks.
        options.bare(true).external_template(false).no_reinit(true).mkpath(true);
        options.initial_head(&format!("{BRANCHES}{branch}"));
        Repository::init_opts(&draft, &options).map_err(failed)?;
        atomic::write(&draft.join("config"), CONFIGURATION.as_bytes(), 0o600)?;
        open_up(&draft.join("objects"))?;
        fs_err::rename(&draft, folder).map_err(ProjectError::io("rename", &draft))?;
        drop(lock);
        let _ = fs_err::remove_file(folder.with_extension("creating"));
        Self::open(folder)
    }

    /// Opens the repository at `folder`, and completes a change of references that was interrupted.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no repository, or if it can't be read.
    pub fn open(folder: &Path) -> Result<Self, ProjectError> {
        let failed = ProjectError::git("open", folder);
        let git = Repository::open_bare(folder).map_err(&failed)?;
        // Only the repository's own file counts. The settings of the machine and of its users do not.
        let config = Config::open(&folder.join("config")).map_err(&failed)?;
        git.set_config(&config).map_err(&failed)?;
        let opened = Self { folder: folder.to_owned(), git };
        if opened.journal().exists() {
            drop(opened.lock()?);
        }
        Ok(opened)
    }

    /// Returns the folder of the repository.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the folder of its objects, which sandboxes mount.
    #[must_use]
    pub fn objects(&self) -> PathBuf {
        self.folder.join("objects")
    }

    /// Returns libgit2's handle of the repository.
    #[must_use]
    pub const fn git(&self) -> &Repository {
        &self.git
    }

    /// Returns the commit that a reference points to, or `None` if there is no such reference.
    ///
    /// # Errors
    ///
    /// Returns an error if the reference can't be read.
    pub fn target(&self, name: &str) -> Result<Option<Oid>, ProjectError> {
        match self.git.refname_to_id(name) {
            Ok(id) => Ok(Some(id)),
            Err(error) if matches!(error.code(), ErrorCode::NotFound | ErrorCode::InvalidSpec) => Ok(None),
            Err(error) => Err(ProjectError::git("read the branches of", &self.folder)(error)),
        }
    }

    /// Returns the commit of a branch, as in `main` or `flock/ann/work`.
    ///
    /// # Errors
    ///
    /// Returns an error if the branch can't be read.
    pub fn branch(&self, name: &str) -> Result<Option<Oid>, ProjectError> {
        self.target(&format!("{BRANCHES}{name}"))
    }

    /// Returns the commit of the owner's branch when it was last fetched.
    ///
    /// # Errors
    ///
    /// Returns an error if the reference can't be read.
    pub fn owner(&self) -> Result<Option<Oid>, ProjectError> {
        self.target(OWNER)
    }

    /// Returns the names and commits of all references below `prefix`, sorted by name.
    ///
    /// # Errors
    ///
    /// Returns an error if the references can't be read.
    pub fn references(&self, prefix: &str) -> Result<Vec<(String, Oid)>, ProjectError> {
        let failed = ProjectError::git("read the branches of", &self.folder);
        let mut found = Vec::new();
        for reference in self.git.references_glob(&format!("{prefix}*")).map_err(&failed)? {
            // A file that is no reference is skipped: the others still count.
            let Ok(reference) = reference else { continue };
            if let (Ok(name), Some(target)) = (reference.name(), reference.target()) {
                found.push((name.to_owned(), target));
            }
        }
        found.sort();
        Ok(found)
    }

    /// Reads the id of a commit: a branch's name, or 4 to 40 hex digits.
    ///
    /// # Errors
    ///
    /// Returns [`ProjectError::NoCommit`] if there is no such commit.
    pub fn find(&self, name: &str) -> Result<Oid, ProjectError> {
        let missing = || ProjectError::NoCommit(name.to_owned());
        if let Some(commit) = self.branch(name)? {
            return Ok(commit);
        }
        let is_hex = (4..=40).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_hex {
            return Err(missing());
        }
        let object = self.git.find_object_by_prefix(name, Some(ObjectType::Commit)).map_err(|_| missing())?;
        Ok(object.id())
    }

    /// Returns the commit with this id.
    ///
    /// # Errors
    ///
    /// Returns [`ProjectError::NoCommit`] if there is no such commit.
    pub(crate) fn commit(&self, id: Oid) -> Result<git2::Commit<'_>, ProjectError> {
        self.git.find_commit(id).map_err(|_| ProjectError::NoCommit(id.to_string()))
    }

    /// Returns `true` if `commit` is `ancestor` or comes after it.
    ///
    /// # Errors
    ///
    /// Returns an error if the history can't be read.
    pub fn contains(&self, commit: Oid, ancestor: Oid) -> Result<bool, ProjectError> {
        let failed = ProjectError::git("read the history of", &self.folder);
        Ok(commit == ancestor || self.git.graph_descendant_of(commit, ancestor).map_err(failed)?)
    }

    /// Makes all of these changes, or none if one of the references is not where the change expects it. A process that is
    /// killed meanwhile leaves the references before or after all changes, once the repository is opened again.
    ///
    /// # Errors
    ///
    /// Returns [`ProjectError::Moved`] if a reference has moved, and an error if one can't be written.
    pub fn update(&self, changes: &[RefChange]) -> Result<(), ProjectError> {
        let _lock = self.lock()?;
        for change in changes {
            let found = self.target(&change.name)?;
            if found != change.old {
                let shown = |id: Option<Oid>| id.map_or_else(|| "nothing".to_owned(), |id| id.to_string());
                return Err(ProjectError::Moved {
                    name: change.name.clone(),
                    expected: shown(change.old),
                    found: shown(found),
                });
            }
        }
        let entry = |change: &RefChange| JournalEntry {
            name: change.name.clone(),
            new: change.new.map(|id| id.to_string()),
        };
        let entries: Vec<JournalEntry> = changes.iter().map(entry).collect();
        // A single reference is changed by one rename, so it needs no journal.
        if entries.len() > 1 {
            let text = serde_json::to_vec(&entries).unwrap_or_default();
            atomic::write(&self.journal(), &text, 0o600)?;
        }
        self.apply(&entries)?;
        self.remove_journal()
    }

    fn apply(&self, entries: &[JournalEntry]) -> Result<(), ProjectError> {
        let failed = ProjectError::git("write a branch of", &self.folder);
        for JournalEntry { name, new } in entries {
            match new.as_deref().map(Oid::from_str).transpose().map_err(&failed)? {
                Some(new) => drop(self.git.reference(name, new, true, "flock").map_err(&failed)?),
                None => match self.git.find_reference(name) {
                    Ok(mut reference) => reference.delete().map_err(&failed)?,
                    Err(error) if error.code() == ErrorCode::NotFound => {}
                    Err(error) => return Err(failed(error)),
                },
            }
        }
        Ok(())
    }

    /// Takes the lock for changes of references, after repairing what a killed process left.
    fn lock(&self) -> Result<Lock, ProjectError> {
        let lock = Lock::acquire(&self.folder.join("flock.lock"), LOCK_PATIENCE)?;
        // Under the lock no other process writes references, so these belong to nobody.
        remove_stale_locks(&self.folder.join("refs"));
        for name in ["HEAD.lock", "packed-refs.lock", "config.lock"] {
            let _ = fs_err::remove_file(self.folder.join(name));
        }
        if let Some(text) = atomic::read(&self.journal(), MAX_JOURNAL)? {
            // A journal is renamed into place when it is whole. One that can't be read is not one of flock's.
            if let Ok(entries) = serde_json::from_slice::<Vec<JournalEntry>>(&text) {
                self.apply(&entries)?;
            }
            self.remove_journal()?;
        }
        Ok(lock)
    }

    fn journal(&self) -> PathBuf {
        self.folder.join("flock-journal.json")
    }

    fn remove_journal(&self) -> Result<(), ProjectError> {
        let path = self.journal();
        match fs_err::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(ProjectError::io("remove", &path)(error))
            }
            _ => Ok(()),
        }
    }

    /// Lets the users of the sandboxes read all objects. To be called after objects were written and before a reference
    /// leads to them, because flock's own files are private by its umask.
    ///
    /// # Errors
    ///
    /// Returns an error if the rights can't be changed.
    pub fn open_up(&self) -> Result<(), ProjectError> {
        open_up(&self.objects())
    }

    /// Completes an interrupted change, and removes the files that killed processes left. To be called when a gateway
    /// starts.
    ///
    /// # Errors
    ///
    /// Returns an error if the repository can't be written.
    pub fn repair(&self) -> Result<(), ProjectError> {
        drop(self.lock()?);
        super::incoming::remove_abandoned(&self.folder);
        // Packs and objects that a fetch or a merge was writing. Younger ones may still be in use.
        let objects = self.objects();
        let folders = std::iter::once(objects.join("pack")).chain(subfolders(&objects));
        for folder in folders {
            for (path, name) in entries(&folder) {
                // A pack without its index was being moved.
                let is_lone = name.ends_with(".pack") && !path.with_extension("idx").exists();
                let is_draft = name.starts_with("pack_git2_") || name.starts_with("tmp_");
                if (is_draft || is_lone) && is_older_than(&path, ABANDONED_AFTER) {
                    let _ = fs_err::remove_file(&path);
                }
            }
        }
        self.open_up()
    }
}

/// Gives everybody the right to read a folder of objects. The folders above it keep everybody but flock out; a sandbox
/// gets this folder alone, read-only.
fn open_up(objects: &Path) -> Result<(), ProjectError> {
    set_mode(objects, FOLDER_MODE)?;
    for folder in subfolders(objects) {
        set_mode(&folder, FOLDER_MODE)?;
        for (path, _) in entries(&folder) {
            if path.is_file() {
                set_mode(&path, FILE_MODE)?;
            }
        }
    }
    Ok(())
}

/// Sets the mode if it differs. A file that is gone was a draft, and needs none.
pub(crate) fn set_mode(path: &Path, mode: u32) -> Result<(), ProjectError> {
    let Ok(found) = fs_err::symlink_metadata(path) else { return Ok(()) };
    if found.permissions().mode() & 0o7777 == mode {
        return Ok(());
    }
    match fs_err::set_permissions(path, std::fs::Permissions::from_mode(mode)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(ProjectError::io("set the rights of", path)(error))
        }
        _ => Ok(()),
    }
}

/// Removes a folder of flock's own with its content, if it is there.
pub(crate) fn remove_folder(path: &Path) -> Result<(), ProjectError> {
    match fs_err::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(ProjectError::io("remove", path)(error))
        }
        _ => Ok(()),
    }
}

fn remove_stale_locks(folder: &Path) {
    for (path, name) in entries(folder) {
        let Ok(found) = fs_err::symlink_metadata(&path) else { continue };
        if found.is_dir() {
            remove_stale_locks(&path);
        } else if name.ends_with(".lock") {
            let _ = fs_err::remove_file(&path);
        }
    }
}

fn entries(folder: &Path) -> Vec<(PathBuf, String)> {
    let Ok(found) = fs_err::read_dir(folder) else { return Vec::new() };
    let entry = |entry: std::io::Result<fs_err::DirEntry>| {
        let entry = entry.ok()?;
        Some((entry.path(), entry.file_name().into_string().ok()?))
    };
    found.filter_map(entry).collect()
}

fn subfolders(folder: &Path) -> Vec<PathBuf> {
    entries(folder).into_iter().map(|(path, _)| path).filter(|path| path.is_dir()).collect()
}

fn is_older_than(path: &Path, age: Duration) -> bool {
    let modified = fs_err::metadata(path).and_then(|found| found.modified());
    modified.is_ok_and(|at| SystemTime::now().duration_since(at).is_ok_and(|passed| passed > age))
}

/// Rights of the folders of objects.
const FOLDER_MODE: u32 = 0o755;
/// Rights of objects and packs. Nobody writes to one again.
pub(crate) const FILE_MODE: u32 = 0o444;
/// Longest time to wait for another change of the same repository.
const LOCK_PATIENCE: Duration = Duration::from_secs(60);
/// Age after which a draft of a pack belongs to a process that is gone.
const ABANDONED_AFTER: Duration = Duration::from_secs(24 * 3600);
/// Limit on the size of the journal.
const MAX_JOURNAL: u64 = 1 << 20;

/// The whole configuration of a project's repository. Objects and references are synced, because a push is acknowledged
/// only when it can't be lost any more.
const CONFIGURATION: &str = "[core]
\trepositoryformatversion = 0
\tbare = true
\tfilemode = true
\tfsyncObjectFiles = true
\tlogAllRefUpdates = false
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project::testing::Sample;

    #[test]
    fn references_move_only_from_where_they_were_expected() {
        let sample = Sample::new();
        let repository = &sample.repository;
        let (one, two) = (sample.commit(&[], &[("a", "1")]), sample.commit(&[], &[("a", "2")]));
        let change = |name: &str, old, new| RefChange { name: name.to_owned(), old, new };
        repository.update(&[change("refs/heads/main", None, Some(one))]).unwrap();
        let moved = repository.update(&[
            change("refs/heads/flock/ann/x", None, Some(two)),
            change("refs/heads/main", Some(two), Some(one)),
        ]);
        assert!(matches!(moved, Err(ProjectError::Moved { .. })));
        assert_eq!(repository.branch("flock/ann/x").unwrap(), None, "all or nothing");
        repository
            .update(&[
                change("refs/heads/flock/ann/x", None, Some(two)),
                change("refs/heads/main", Some(one), Some(two)),
            ])
            .unwrap();
        assert_eq!(repository.find("main").unwrap(), two);
        assert_eq!(repository.find(&two.to_string()[..8]).unwrap(), two);
        repository.update(&[change("refs/heads/flock/ann/x", Some(two), None)]).unwrap();
        assert_eq!(repository.references(BRANCHES).unwrap(), [("refs/heads/main".to_owned(), two)]);
        for bad in ["none", "", "refs/heads/main^{", "00000000", "main~1"] {
            assert!(repository.find(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_interrupted_change_is_completed_and_stale_files_go() {
        let sample = Sample::new();
        let one = sample.commit(&[], &[("a", "1")]);
        sample.set("main", one);
        let two = sample.commit(&[one], &[("a", "2")]);
        let folder = sample.repository.folder();
        // A process was killed after the journal was written, and in the middle of a reference.
        let journal = serde_json::json!([
            {"name": "refs/heads/main", "new": two.to_string()},
            {"name": "refs/heads/flock/ann/x", "new": two.to_string()},
            {"name": "refs/heads/gone", "new": null},
        ]);
        std::fs::write(folder.join("flock-journal.json"), journal.to_string()).unwrap();
        std::fs::write(folder.join("refs/heads/main.lock"), "half").unwrap();
        let opened = ProjectRepository::open(folder).unwrap();
        assert_eq!(opened.branch("main").unwrap(), Some(two));
        assert_eq!(opened.branch("flock/ann/x").unwrap(), Some(two));
        assert!(!folder.join("flock-journal.json").exists() && !folder.join("refs/heads/main.lock").exists());
    }

    #[test]
    fn objects_can_be_read_by_others_and_the_rest_can_not() {
        let sample = Sample::new();
        let one = sample.commit(&[], &[("a", "1")]);
        let folder = sample.repository.folder();
        let hex = one.to_string();
        let object = folder.join("objects").join(&hex[..2]).join(&hex[2..]);
        std::fs::set_permissions(&object, std::fs::Permissions::from_mode(0o400)).unwrap();
        sample.repository.repair().unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&object), 0o444);
        assert_eq!((mode(object.parent().unwrap()), mode(&folder.join("objects"))), (0o755, 0o755));
        assert_eq!(mode(&folder.join("config")), 0o600);
        assert!(!folder.join("hooks").join("pre-receive").exists());
    }

    #[test]
    fn settings_of_the_machine_do_not_count() {
        let sample = Sample::new();
        let again = ProjectRepository::create(sample.repository.folder(), "main").unwrap();
        let config = again.git().config().unwrap();
        assert!(config.get_bool("core.fsyncObjectFiles").unwrap());
        let mut levels = Vec::new();
        config.entries(None).unwrap().for_each(|entry| levels.push(entry.level())).unwrap();
        assert!(levels.iter().all(|level| *level == git2::ConfigLevel::Local), "{levels:?}");
    }
}
