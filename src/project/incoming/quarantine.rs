//! The folder in which a received pack is kept until it has been checked.

use std::io::{BufReader, Read, Write as _};
use std::path::{Path, PathBuf};

use git2::{Indexer, Odb, Oid};

use super::{Failure, PushLimits, Rejected, pack_scan};
use crate::home::lock::Lock;
use crate::project::repository::{FILE_MODE, remove_folder, set_mode};
use crate::project::{ProjectError, ProjectRepository};

/// A folder for one pack. It is removed when this is dropped.
pub(super) struct Quarantine {
    folder: PathBuf,
    lock_file: PathBuf,
    _lock: Lock,
}

impl Quarantine {
    /// Makes a folder below the repository, which no git looks into.
    ///
    /// # Errors
    ///
    /// Returns an error if it can't be made.
    pub fn new(repository: &Path) -> Result<Self, ProjectError> {
        let above = above(repository);
        fs_err::create_dir_all(&above).map_err(ProjectError::io("make the folder", &above))?;
        let folder = above.join(uuid::Uuid::now_v7().to_string());
        let lock_file = folder.with_extension("lock");
        // The lock says that the folder is in use. It is taken first, so that a sweep never sees the folder without it.
        let lock = Lock::try_acquire(&lock_file)?;
        let made = Self { folder, lock_file, _lock: lock };
        let pack = made.packs();
        fs_err::create_dir_all(&pack).map_err(ProjectError::io("make the folder", &pack))?;
        Ok(made)
    }

    fn received(&self) -> PathBuf {
        self.folder.join("received")
    }

    /// Returns the folder that has the form of a repository's objects.
    fn odb_folder(&self) -> PathBuf {
        self.folder.join("objects")
    }

    fn packs(&self) -> PathBuf {
        self.odb_folder().join("pack")
    }

    /// Writes the pack as it arrives.
    ///
    /// # Errors
    ///
    /// Returns the reason if the pack is too long or breaks off, and an error if it can't be written.
    pub fn receive(&self, pack: &mut dyn Read, limits: &PushLimits) -> Result<(), Failure> {
        let path = self.received();
        let failed = ProjectError::io("write", &path);
        let mut file = fs_err::File::create(&path).map_err(&failed)?;
        let mut buffer = vec![0; 64 << 10];
        let mut total = 0u64;
        loop {
            let count = match pack.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(count) => count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(Rejected::new(format!("the pack breaks off: {error}")).into()),
            };
            total += count as u64;
            if total > limits.pack {
                let most = limits.pack >> 20;
                return Err(
                    Rejected::new(format!("the pack has more than {most} MiB; push less at a time")).into()
                );
            }
            file.write_all(&buffer[..count]).map_err(&failed)?;
        }
    }

    /// Measures the pack, and returns the number of its objects.
    ///
    /// # Errors
    ///
    /// Returns the reason if a limit is exceeded or the pack is damaged, and an error if it can't be read.
    pub fn count(&self, repository: &ProjectRepository, limits: &PushLimits) -> Result<u32, Failure> {
        let path = self.received();
        let file = fs_err::File::open(&path).map_err(ProjectError::io("read", &path))?;
        let size = file.metadata().map_err(ProjectError::io("read", &path))?.len();
        let stored: u64 = pack_sizes(&repository.objects().join("pack"));
        if stored.saturating_add(size) > limits.repository {
            let most = limits.repository >> 30;
            return Err(
                Rejected::new(format!("the project's repository would have more than {most} GiB")).into()
            );
        }
        let odb =
            repository.git().odb().map_err(ProjectError::git("read the objects of", repository.folder()))?;
        Ok(pack_scan::scan(&mut BufReader::new(file), limits, &|id| odb.exists(id))?)
    }

    /// Has libgit2 unpack and index the pack.
    ///
    /// # Errors
    ///
    /// Returns the reason if the pack is damaged or takes too long, and an error if it can't be read.
    pub fn index(&self, repository: &ProjectRepository, limits: &PushLimits) -> Result<(), Failure> {
        let path = self.received();
        let odb =
            repository.git().odb().map_err(ProjectError::git("read the objects of", repository.folder()))?;
        let failed = |error: &git2::Error| match limits.check_time() {
            Err(late) => late,
            Ok(()) => Rejected::new(format!("the pack can't be unpacked: {}", error.message())),
        };
        let mut indexer =
            Indexer::new(Some(&odb), &self.packs(), FILE_MODE, true).map_err(|error| failed(&error))?;
        indexer.progress(|_| !limits.is_over());
        let mut file = fs_err::File::open(&path).map_err(ProjectError::io("read", &path))?;
        let mut buffer = vec![0; 64 << 10];
        loop {
            let count = file.read(&mut buffer).map_err(ProjectError::io("read", &path))?;
            if count == 0 {
                break;
            }
            indexer.write_all(&buffer[..count]).map_err(|error| match limits.check_time() {
                Err(late) => late,
                Ok(()) => Rejected::new(format!("the pack can't be unpacked: {error}")),
            })?;
        }
        indexer.commit().map_err(|error| failed(&error))?;
        // It is not needed any more, and may be large.
        let _ = fs_err::remove_file(&path);
        Ok(())
    }

    /// Returns the ids of the objects in the pack, and lets `checking` see them.
    ///
    /// # Errors
    ///
    /// Returns an error if they can't be read.
    pub fn objects(&self, checking: &ProjectRepository) -> Result<Vec<Oid>, ProjectError> {
        let folder = self.odb_folder();
        let failed = ProjectError::git("read", &folder);
        let text = folder.to_string_lossy();
        let odb = Odb::new().map_err(&failed)?;
        odb.add_disk_alternate(&text).map_err(&failed)?;
        let mut found = Vec::new();
        odb.foreach(|id| {
            found.push(*id);
            true
        })
        .map_err(&failed)?;
        checking.git().odb().and_then(|odb| odb.add_disk_alternate(&text)).map_err(&failed)?;
        Ok(found)
    }

    /// Moves the pack to the repository's objects. The index comes last, because it makes the pack visible.
    ///
    /// # Errors
    ///
    /// Returns an error if it can't be moved.
    pub fn publish(&self, repository: &ProjectRepository) -> Result<(), ProjectError> {
        let (from, to) = (self.packs(), repository.objects().join("pack"));
        fs_err::create_dir_all(&to).map_err(ProjectError::io("make the folder", &to))?;
        let entries = fs_err::read_dir(&from).map_err(ProjectError::io("read", &from))?;
        let mut names: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.file_name())).collect();
        names.sort_by_key(|name| Path::new(name).extension().is_none_or(|end| end != "pack"));
        for name in names {
            let (from, to) = (from.join(&name), to.join(&name));
            // Readable before it is visible: a sandbox may look at any moment.
            set_mode(&from, FILE_MODE)?;
            sync(&from)?;
            fs_err::rename(&from, &to).map_err(ProjectError::io("move", &from))?;
        }
        sync(&to)?;
        repository.open_up()
    }
}

impl Drop for Quarantine {
    fn drop(&mut self) {
        if let Err(error) = remove_folder(&self.folder) {
            tracing::warn!(error = %crate::error::chain(&error), "a refused pack could not be removed");
        }
        let _ = fs_err::remove_file(&self.lock_file);
    }
}

fn sync(path: &Path) -> Result<(), ProjectError> {
    let synced = fs_err::File::open(path).and_then(|file| file.sync_all());
    synced.map_err(ProjectError::io("write", path))
}

fn pack_sizes(folder: &Path) -> u64 {
    let Ok(entries) = fs_err::read_dir(folder) else { return 0 };
    entries.filter_map(|entry| Some(entry.ok()?.metadata().ok()?.len())).sum()
}

fn above(repository: &Path) -> PathBuf {
    repository.join("incoming")
}

/// Removes the folders of pushes whose process is gone.
pub(in crate::project) fn remove_abandoned(repository: &Path) {
    let above = above(repository);
    let Ok(entries) = fs_err::read_dir(&above) else { return };
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        let lock_file = path.with_extension("lock");
        // A held lock is that of a push that is going on.
        let Ok(_lock) = Lock::try_acquire(&lock_file) else { continue };
        if path != lock_file {
            let _ = remove_folder(&path);
        }
        let _ = fs_err::remove_file(&lock_file);
    }
}
