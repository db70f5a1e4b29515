//! The skills of the home: which ones are imported, whether their content is still the one that a person agreed to, and
//! their changes, each in one step.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::content::SkillContent;
use super::error::ImportError;
use super::folder;
use super::record::{MAX_RECORD, RECORD_FILE, SkillRecord};
use crate::fault_point::{self, FaultPoint};
use crate::home::beneath::{BeneathError, Root};
use crate::home::lock::Lock;
use crate::home::remove_tree::clear;
use crate::home::{Home, scratch, user_dirs};
use crate::id::FolderName;

/// The folder in which a skill is prepared, and to which a replaced one is moved. Its name is hidden, so it is no skill.
const STAGING: &str = ".flock-staging";
/// The longest wait for another process that changes skills.
const PATIENCE: Duration = Duration::from_secs(2);

/// The state of a skill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SkillState {
    /// A person wrote it here.
    Own,
    /// It was imported, and is what was agreed to.
    Intact,
    /// It was imported, and was changed since.
    Changed { reason: String },
    /// Its record can't be read.
    Unknown { reason: String },
}

impl SkillState {
    /// Returns the word for people and programs.
    #[must_use]
    pub(crate) const fn as_str(&self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::Intact => "intact",
            Self::Changed { .. } => "changed",
            Self::Unknown { .. } => "unknown",
        }
    }

    /// Returns what is not in order.
    #[must_use]
    pub(crate) fn reason(&self) -> Option<&str> {
        match self {
            Self::Own | Self::Intact => None,
            Self::Changed { reason } | Self::Unknown { reason } => Some(reason),
        }
    }
}

/// A skill of the home.
#[derive(Debug)]
pub(crate) struct InstalledSkill {
    pub(crate) name: FolderName,
    /// `None` if it was not imported, or if the record can't be read.
    pub(crate) record: Option<SkillRecord>,
    /// Its files, if they can be read.
    pub(crate) content: Option<SkillContent>,
    pub(crate) state: SkillState,
}

impl InstalledSkill {
    /// Returns the record of an imported skill.
    ///
    /// # Errors
    ///
    /// Returns an error if the skill was not imported, or if its record can't be read.
    pub(crate) fn require_record(&self) -> Result<&SkillRecord, ImportError> {
        let name = self.name.clone();
        match (&self.record, &self.state) {
            (Some(record), _) => Ok(record),
            (None, SkillState::Unknown { reason }) => {
                Err(ImportError::Record { name, reason: reason.clone() })
            }
            (None, _) => Err(ImportError::NotImported { name }),
        }
    }
}

/// Returns all skills of a home, by their names.
#[must_use]
pub(crate) fn all(home: &Home) -> Vec<InstalledSkill> {
    let names = user_dirs::names(&home.skills());
    names.into_iter().filter_map(|name| find(home, &name).ok()).collect()
}

/// Looks at one skill.
///
/// # Errors
///
/// Returns an error if there is no such skill, or if the folder of skills can't be opened.
pub(crate) fn find(home: &Home, name: &FolderName) -> Result<InstalledSkill, ImportError> {
    let root = match open(home) {
        Err(ImportError::Files { source: BeneathError::NotFound { .. }, .. }) => {
            return Err(ImportError::Unknown { name: name.clone() });
        }
        opened => opened?,
    };
    // A link or a file is no skill, as for agents.
    if !user_dirs::names(&home.skills()).contains(name) {
        return Err(ImportError::Unknown { name: name.clone() });
    }
    let folder = Path::new(name.as_str());
    let read = folder::read(&root, folder, name.as_str());
    let (record, state) = match read_record(&root, folder) {
        Ok(None) => (None, SkillState::Own),
        Ok(Some(record)) => {
            let state = compare(&record, &read);
            (Some(record), state)
        }
        Err(reason) => (None, SkillState::Unknown { reason }),
    };
    Ok(InstalledSkill { name: name.clone(), record, content: read.ok(), state })
}

fn compare(record: &SkillRecord, read: &Result<SkillContent, ImportError>) -> SkillState {
    match read {
        Ok(content) if content.hash() == record.hash => SkillState::Intact,
        Ok(content) => {
            let reason = format!("its hash is {} and not {}", content.hash(), record.hash);
            SkillState::Changed { reason }
        }
        Err(ImportError::Unfit { path, reason, .. }) => {
            SkillState::Changed { reason: format!("{path:?} {reason}") }
        }
        Err(error) => SkillState::Changed { reason: crate::error::chain(error) },
    }
}

/// Returns the record in a skill's folder, or `None` if there is none.
fn read_record(root: &Root, folder: &Path) -> Result<Option<SkillRecord>, String> {
    let bytes = match root.read(&folder.join(RECORD_FILE), MAX_RECORD) {
        Ok(bytes) => bytes,
        Err(BeneathError::NotFound { .. }) => return Ok(None),
        Err(error) => return Err(crate::error::chain(&error)),
    };
    serde_json::from_slice(&bytes).map(Some).map_err(|error| error.to_string())
}

fn open(home: &Home) -> Result<Root, ImportError> {
    user_dirs::open(&home.skills()).map_err(failed(&home.skills()))
}

fn failed(folder: &Path) -> impl Fn(BeneathError) -> ImportError {
    let folder: PathBuf = folder.to_owned();
    move |source| ImportError::Files { folder: folder.clone(), source }
}

/// The right to change the skills of a home. One process has it at a time.
#[derive(Debug)]
pub(crate) struct SkillChanges {
    folder: PathBuf,
    root: Root,
    _lock: Lock,
}

impl SkillChanges {
    /// Takes the right, and removes what a killed process left.
    ///
    /// # Errors
    ///
    /// Returns an error if another process has it, or if the folder of skills can't be opened.
    pub(crate) fn begin(home: &Home) -> Result<Self, ImportError> {
        let lock = Lock::acquire(&home.skills_lock(), PATIENCE)?;
        if !home.skills().exists() {
            home.make_folders()?;
        }
        let changes = Self { folder: home.skills(), root: open(home)?, _lock: lock };
        // Under the lock nobody else uses these.
        changes.clear_staging()?;
        scratch::sweep(&home.skill_fetches(), &scratch::names(&home.skill_fetches()));
        Ok(changes)
    }

    /// Adds a skill with its record.
    ///
    /// # Errors
    ///
    /// Returns an error if something has the name, or if the files can't be written. Then nothing was changed.
    pub(crate) fn add(
        &self,
        name: &FolderName,
        content: &SkillContent,
        record: &SkillRecord,
    ) -> Result<(), ImportError> {
        self.stage(content, record)?;
        if !self.root.rename(Path::new(STAGING), Path::new(name.as_str())).map_err(self.failed())? {
            self.clear_staging()?;
            let is_imported = !matches!(read_record(&self.root, Path::new(name.as_str())), Ok(None));
            return Err(ImportError::Exists { name: name.clone(), is_imported });
        }
        self.finish()
    }

    /// Replaces a skill and its record in one step.
    ///
    /// # Errors
    ///
    /// Returns an error if the files can't be written or the skill is gone. Then nothing was changed.
    pub(crate) fn replace(
        &self,
        name: &FolderName,
        content: &SkillContent,
        record: &SkillRecord,
    ) -> Result<(), ImportError> {
        self.stage(content, record)?;
        let replaced = self.root.exchange(Path::new(STAGING), Path::new(name.as_str()));
        if replaced.is_err() {
            let _ = self.clear_staging();
        }
        replaced.map_err(self.failed())?;
        self.finish()
    }

    /// Removes a skill with all its files.
    ///
    /// # Errors
    ///
    /// Returns an error if it is not there or can't be removed.
    pub(crate) fn remove(&self, name: &FolderName) -> Result<(), ImportError> {
        // Agents see all of it or nothing, because the folder loses its name first.
        self.root.rename(Path::new(name.as_str()), Path::new(STAGING)).map_err(self.failed())?;
        self.finish()
    }

    /// Forgets where a skill came from. Its files stay.
    ///
    /// # Errors
    ///
    /// Returns an error if the record can't be removed.
    pub(crate) fn forget(&self, name: &FolderName) -> Result<(), ImportError> {
        let folder = Path::new(name.as_str());
        self.root.remove(&folder.join(RECORD_FILE)).map_err(self.failed())?;
        self.root.sync_folder(folder).map_err(self.failed())
    }

    /// Writes all files of a skill into the staging folder, and waits until they are on the disk.
    fn stage(&self, content: &SkillContent, record: &SkillRecord) -> Result<(), ImportError> {
        self.clear_staging()?;
        let written = self.write_staging(content, record);
        if written.is_err() {
            // The first error is the one to report, and the next change removes the folder as well.
            let _ = self.clear_staging();
        }
        written?;
        fault_point::reach(FaultPoint::SkillStaged);
        Ok(())
    }

    fn write_staging(&self, content: &SkillContent, record: &SkillRecord) -> Result<(), ImportError> {
        let fail = self.failed();
        let staging = Path::new(STAGING);
        self.root.create_dir(staging, None).map_err(&fail)?;
        let mut folders = std::collections::BTreeSet::from([staging.to_owned()]);
        for (path, file) in content.files() {
            let path = staging.join(path);
            let above = path.parent().unwrap_or(staging);
            if !folders.contains(above) {
                self.root.create_dir_all(above, None).map_err(&fail)?;
                // The folders between are new as well.
                folders.extend(above.ancestors().take_while(|one| *one != Path::new("")).map(Path::to_owned));
            }
            let mode = if file.is_executable { 0o700 } else { 0o600 };
            self.write(&path, &file.bytes, mode)?;
        }
        let mut text = serde_json::to_vec_pretty(record).map_err(|error| {
            ImportError::Home(crate::home::HomeError::io("describe", &self.folder)(error.into()))
        })?;
        text.push(b'\n');
        self.write(&staging.join(RECORD_FILE), &text, 0o600)?;
        folders.iter().try_for_each(|folder| self.root.sync_folder(folder).map_err(&fail))
    }

    fn write(&self, path: &Path, bytes: &[u8], mode: u32) -> Result<(), ImportError> {
        let fail = self.failed();
        let mut file = self.root.create_file(path, None).map_err(&fail)?;
        let io = |source| fail(BeneathError::Io { verb: "write", path: path.to_owned(), source });
        file.write_all(bytes).map_err(io)?;
        self.root.set_mode(path, mode).map_err(&fail)?;
        file.sync_all().map_err(io)
    }

    /// Makes a change last, and removes what it replaced.
    fn finish(&self) -> Result<(), ImportError> {
        self.root.sync_folder(Path::new("")).map_err(self.failed())?;
        fault_point::reach(FaultPoint::SkillPlaced);
        self.clear_staging()
    }

    fn clear_staging(&self) -> Result<(), ImportError> {
        clear(&self.folder, Path::new(STAGING))
            .map_err(|(stuck, _)| ImportError::Left { path: stuck.path, source: stuck.error })
    }

    fn failed(&self) -> impl Fn(BeneathError) -> ImportError {
        failed(&self.folder)
    }
}
